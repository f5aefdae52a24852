"""Publications, which choose the tables and the changes that a server sends."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from time import monotonic, sleep
from typing import Any, LiteralString

from psycopg import Connection, errors
from psycopg.sql import SQL, Composable, Composed, Identifier

from headwater.cdc.model.tables import Finding, TableName
from headwater.cdc.postgres.catalog import quoted, quoted_table
from headwater.cdc.postgres.table_storage import PARTITION_TREE
from headwater.storage.errors import Conflict, Forbidden

__all__ = [
    "EarlierWriters",
    "create_publication",
    "has_all_tables",
    "has_publication",
    "publication_findings",
    "publish_tables",
]

# A root's rows are sent as its own, whichever of its partitions has them.
_OPTIONS = SQL("WITH (publish_via_partition_root = true)")
_OPERATIONS = ("insert", "update", "delete", "truncate")
# Servers older than 18 do not publish generated columns, and do not have the last of these columns.
_FIND: LiteralString = (
    "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, "
    "coalesce(to_jsonb(p) ->> 'pubgencols', 'n') <> 'n' FROM pg_publication p WHERE pubname = %s"
)
_HAS_ALL: LiteralString = "SELECT puballtables FROM pg_publication WHERE pubname = %s"
# Besides partitions. The view of these tables would wait for their locks.
_TABLES: LiteralString = """
    SELECT n.nspname, c.relname
    FROM pg_publication p CROSS JOIN pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
        LEFT JOIN pg_publication_namespace s ON s.pnpubid = p.oid AND s.pnnspid = n.oid
    WHERE p.pubname = %s AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
        AND NOT c.relispartition
        AND (p.puballtables OR r.oid IS NOT NULL OR s.oid IS NOT NULL)
        -- Servers from 19 on have tables that are left out.
        AND NOT coalesce((to_jsonb(r) ->> 'prexcept')::boolean, false)
"""
# A filter or a list of columns of a partition or of a root counts for rows of the others, too.
_FILTERED: LiteralString = f"""
    SELECT n.nspname, c.relname, r.prqual IS NOT NULL, r.prattrs IS NOT NULL
    FROM pg_publication_rel r
    JOIN pg_publication p ON p.oid = r.prpubid
    JOIN LATERAL (
        SELECT r.prrelid AS oid
        UNION SELECT relid FROM pg_partition_ancestors(r.prrelid)
        UNION SELECT t.oid FROM (SELECT r.prrelid) AS root (oid), LATERAL {PARTITION_TREE}
    ) related ON true
    JOIN pg_class c ON c.oid = related.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
"""
# Who has changed a table keeps it locked until the end of its transaction.
_WRITERS: LiteralString = f"""
    SELECT DISTINCT parts.schema, parts.name, l.virtualtransaction FROM pg_locks l
    JOIN (
        SELECT wanted.schema, wanted.name, t.oid
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN unnest(%s::text[], %s::text[]) AS wanted (schema, name)
            ON wanted.schema = n.nspname AND wanted.name = c.relname
        CROSS JOIN LATERAL (SELECT c.oid) AS root CROSS JOIN LATERAL {PARTITION_TREE}
    ) parts ON parts.oid = l.relation
    WHERE l.locktype = 'relation' AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
            'AccessExclusiveLock')
"""
_WAKE_SECONDS = 0.05
_SHORT_WAIT: LiteralString = "SET lock_timeout = '200ms'"
# Once a table was locked, so that many of them do not add up.
_NEXT_WAIT: LiteralString = "SET lock_timeout = '10ms'"
# After its deadlock_timeout the server ends an autovacuum that a session waits for.
_AUTOVACUUM_WAIT: LiteralString = """
    SELECT set_config('lock_timeout', (setting::bigint + 500)::text, false)
    FROM pg_settings WHERE name = 'deadlock_timeout'
"""
_NO_LIMIT: LiteralString = "SET lock_timeout = 0"
# Its workers have no user, which also those see who may not see its type.
_AUTOVACUUM: LiteralString = """
    SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE l.locktype = 'relation' AND l.granted AND l.mode = 'ShareUpdateExclusiveLock'
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND n.nspname = %s AND c.relname = %s AND a.usesysid IS NULL
"""
_LOCKED = "another session has locked it, so that it cannot be published (see pg_locks)"
# Most transactions are short.
_WRITERS_SECONDS = 1.0
_PARTITIONED: LiteralString = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'p'
"""
_GENERATED: LiteralString = """
    SELECT DISTINCT n.nspname, c.relname FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE a.attgenerated = 's' AND NOT a.attisdropped
"""


def has_publication(connection: Connection[Any], name: str) -> bool:
    """Whether a publication exists."""
    return connection.execute(_FIND, [name]).fetchone() is not None


def has_all_tables(connection: Connection[Any], name: str) -> bool:
    """Whether a publication has each table from its creation on."""
    return connection.execute(_HAS_ALL, [name]).fetchone() == (True,)


def create_publication(
    connection: Connection[Any], name: str, tables: Sequence[TableName] | None
) -> None:
    """Create a publication of all changes of tables.

    It must be there before the slot by which it is read. The source rejects updates and deletes of
    published tables that have no replica identity, such as those without a primary key.

    Args:
        connection: A connection to the database.
        name: Its name.
        tables: The tables; None is all of the database, also those that are created later.

    Raises:
        Conflict: There is a publication of that name, or a table is not there or not fit for one.
        Forbidden: The user lacks a privilege: only superusers publish all tables, and others those
            that they own.
    """
    what: Composable = SQL("FOR ALL TABLES")
    if tables is not None:
        # Tables are added to a publication of none.
        what = SQL("FOR {}").format(_table_list(tables)) if tables else SQL("")
    statement = SQL("CREATE PUBLICATION {} {} {}").format(Identifier(name), what, _OPTIONS)
    _run(connection, name, "create", statement)


def publish_tables(
    connection: Connection[Any],
    name: str,
    tables: Collection[TableName],
    awaited_workers: set[tuple[TableName, int]],
) -> tuple[Sequence[TableName], Mapping[TableName, str]]:
    """Add tables to a publication that lacks them.

    What a transaction changed before is not in the log, also if it is committed afterwards; see
    `EarlierWriters`.

    Args:
        connection: A connection to the database that commits each statement.
        name: The publication.
        tables: The tables.
        awaited_workers: Workers of autovacuum that did not end for a table, which are not awaited
            again; it is extended.

    Returns:
        The tables that were added, and those that are locked, each with what has locked it.

    Raises:
        Conflict, Forbidden: As `create_publication`.
    """
    published = _published(connection, name)
    added: list[TableName] = []
    locked: dict[TableName, str] = {}
    try:
        for table in sorted(table for table in tables if table not in published):
            connection.execute(_NEXT_WAIT if locked else _SHORT_WAIT)
            is_added = _is_added(connection, name, table)
            worker = _autovacuum(connection, table) if is_added is None else None
            if worker is not None and (table, worker) not in awaited_workers:
                connection.execute(_AUTOVACUUM_WAIT)
                is_added = _is_added(connection, name, table)
            if is_added:
                added.append(table)
            elif is_added is None:
                locked[table] = _LOCKED if worker is None else _vacuumed(worker)
                awaited_workers |= set() if worker is None else {(table, worker)}
    finally:
        if not connection.broken:
            connection.execute(_NO_LIMIT)
    return added, locked


def _autovacuum(connection: Connection[Any], table: TableName) -> int | None:
    """The process of the autovacuum that has a table locked, if there is one."""
    row = connection.execute(_AUTOVACUUM, [table.database, table.table]).fetchone()
    return None if row is None else int(row[0])


def _vacuumed(worker: int) -> str:
    return (
        f"autovacuum has locked it (process {worker}, see pg_stat_progress_vacuum), and has not "
        "ended for others, as one that prevents a wraparound; it is published afterwards"
    )


def _is_added(connection: Connection[Any], name: str, table: TableName) -> bool | None:
    """Add a table to a publication; whether that was possible, None if it is locked.

    By now it may be gone, or its name be that of a table that the publication has: then its
    definition is another one, too.
    """
    statement = SQL("ALTER PUBLICATION {} ADD {}").format(Identifier(name), _table_list([table]))
    try:
        _run(connection, name, "change", statement)
    except Conflict as error:
        if isinstance(error.__cause__, errors.DuplicateObject | errors.UndefinedTable):
            return False
        raise
    except errors.LockNotAvailable:
        return None
    return True


class EarlierWriters:
    """Transactions that changed tables before a publication is known to have them.

    What they changed is not in the log, also if it is committed afterwards. Rows that are read when
    they have ended have it. Those that change a table later are not waited for.

    Args:
        connection: A connection to the database that commits each statement.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        # How each table was published when they were listed, and those that have not ended.
        self._tables: dict[TableName, tuple[object, set[object]]] = {}

    def remaining(
        self, tables: Mapping[TableName, object], seconds: float = _WRITERS_SECONDS
    ) -> Mapping[TableName, str]:
        """Wait for them where they are listed for the first time, and not for long.

        Args:
            tables: The tables that wait, each with how it is published. One that is published
                otherwise than before may have been without a publication for a while.
            seconds: How long to wait at most.

        Returns:
            The tables that were changed by transactions which have not ended, each with what it
            waits for. The others are forgotten.
        """
        running = self._running(tables)
        known = {
            name: entry
            for name, entry in self._tables.items()
            if name in tables and tables[name] == entry[0]
        }
        new = {name: (tables[name], running.get(name, set())) for name in tables.keys() - known}
        self._tables = {**known, **new}
        deadline = monotonic() + seconds
        while True:
            for name, (_, writers) in [*self._tables.items()]:
                writers &= running.get(name, set())
                if not writers:
                    del self._tables[name]
            if not new.keys() & self._tables.keys() or monotonic() >= deadline:
                break
            sleep(_WAKE_SECONDS)
            running = self._running(self._tables)
        return {
            name: f"{len(writers)} transactions that have changed {name} before it was published "
            "have not ended, and the log lacks these changes; end them (pg_stat_activity, "
            "pg_prepared_xacts), or wait for them"
            for name, (_, writers) in self._tables.items()
        }

    def _running(self, tables: Collection[TableName]) -> Mapping[TableName, set[object]]:
        """The transactions that run and have changed tables."""
        names = [table.database for table in tables], [table.table for table in tables]
        running: dict[TableName, set[object]] = {}
        for schema, table, writer in self._connection.execute(_WRITERS, names):
            running.setdefault(TableName(schema, table), set()).add(writer)
        return running


def publication_findings(
    connection: Connection[Any], name: str, tables: Collection[TableName]
) -> list[Finding]:
    """What keeps changes of tables out of a publication.

    Args:
        connection: A connection to the database.
        name: The publication.
        tables: The tables that are followed, partitioned ones by their root.
    """
    subject = f"publication {name}"
    row = connection.execute(_FIND, [name]).fetchone()
    if row is None:
        options = "WITH (publish_via_partition_root)"
        remedy = f"CREATE PUBLICATION {quoted(name)} FOR ALL TABLES {options}"
        return [Finding(subject, "it does not exist", remedy)]
    *published, via_root, sends_generated = row
    findings: list[Finding] = []
    missing = [word for word, is_sent in zip(_OPERATIONS, published, strict=True) if not is_sent]
    if missing:
        problem = f"it leaves out operations: {', '.join(missing)}"
        remedy = f"ALTER PUBLICATION {quoted(name)} SET (publish = '{', '.join(_OPERATIONS)}')"
        findings.append(Finding(subject, problem, remedy))
    filtered = {
        TableName(schema, table): "a row filter" if has_filter else "a list of columns"
        for schema, table, has_filter, _ in connection.execute(_FILTERED, [name])
    }
    partitioned = {TableName(*names) for names in connection.execute(_PARTITIONED)}
    sent = _published(connection, name)
    # Without this option partitions are sent in place of their root.
    as_partitions = set() if via_root else partitioned.intersection(tables)
    for table in sorted(tables):
        is_sent = table in sent or table in as_partitions
        findings += _table_findings(name, table, filtered.get(table), is_sent=is_sent)
    for table in sorted(as_partitions):
        problem = f"it sends rows of the partitioned table {table} as those of its partitions"
        remedy = f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true)"
        findings.append(Finding(subject, problem, remedy, table))
    generated = connection.execute(_GENERATED).fetchall() if sends_generated else ()
    for table in sorted({TableName(*names) for names in generated}.intersection(tables)):
        problem = f"it sends generated columns of {table} (publish_generated_columns = stored), "
        problem += "which the lake does not have"
        remedy = f"ALTER PUBLICATION {quoted(name)} SET (publish_generated_columns = none)"
        findings.append(Finding(subject, problem, remedy, table))
    return findings


def _table_findings(
    name: str, table: TableName, restriction: str | None, *, is_sent: bool
) -> Iterator[Finding]:
    subject, sql_name = f"publication {name}", quoted_table(table)
    if restriction is not None:
        yield Finding(
            subject,
            f"it has {restriction} for {table}",
            f"ALTER PUBLICATION {quoted(name)} DROP TABLE {sql_name}, and add it without",
            table,
        )
    if not is_sent:
        yield Finding(
            subject,
            f"it does not have the table {table}",
            f"ALTER PUBLICATION {quoted(name)} ADD TABLE {sql_name}",
            table,
        )


def _published(connection: Connection[Any], name: str) -> set[TableName]:
    return {TableName(*names) for names in connection.execute(_TABLES, [name])}


def _table_list(tables: Collection[TableName]) -> Composed:
    names = SQL(", ").join(Identifier(table.database, table.table) for table in tables)
    return SQL("TABLE {}").format(names)


def _run(connection: Connection[Any], name: str, verb: str, statement: Composed) -> None:
    try:
        connection.execute(statement)
    except errors.InsufficientPrivilege as error:
        raise Forbidden(
            f"cannot {verb} publication '{name}': {error.diag.message_primary}; let an "
            "administrator do it, and name it as the publication to use"
        ) from error
    except (
        errors.DuplicateObject,
        errors.UndefinedTable,
        errors.InvalidParameterValue,
        errors.ObjectNotInPrerequisiteState,
    ) as error:
        raise Conflict(
            f"cannot {verb} publication '{name}': {error.diag.message_primary}; choose other "
            "tables, or name another publication"
        ) from error
