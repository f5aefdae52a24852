"""Tables and their columns, as PostgreSQL's system catalogs have them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headwater.cdc.model.tables import Finding, SourceColumn, SourceTable, TableName
from headwater.cdc.postgres.column_types import read_types
from headwater.cdc.postgres.server import PostgresServer
from headwater.cdc.postgres.table_storage import PARTITION_TREE, read_storage
from headwater.cdc.postgres.types import TypeMapping, lake_type, parse_source_type
from headwater.cdc.source.reads import Tables
from headwater.storage.errors import Conflict, Unsupported

__all__ = [
    "ColumnDefinition",
    "TableDefinition",
    "check_definition",
    "dropped_columns",
    "filled_columns",
    "partly_logged",
    "quoted",
    "quoted_table",
    "read_definitions",
    "read_tables",
]

# Views are not tables, and partitions are followed as the table that they are parts of.
_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,
  c.relreplident::text, coalesce(obj_description(c.oid, 'pg_class'), ''),
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
  row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' {wanted}
ORDER BY n.nspname, c.relname
"""
_NAMED = "AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::name[], %s::name[]))"
_NUMBERED = "AND c.oid = ANY(%s::oid[])"
# To write an expression with columns waits for locks of their table; a default has none.
_COLUMNS = """
SELECT a.attrelid::bigint, a.attnum::int, a.attname::text, a.atttypid::bigint, a.atttypmod,
  a.attnotnull, CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, 0) END,
  coalesce(col_description(a.attrelid, a.attnum), ''),
  a.attgenerated::text, a.attidentity::text, l.collname::text
FROM pg_attribute a
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
# An index that is checked at the end of a transaction does not identify rows in the log.
_KEYS = """
SELECT i.indrelid::bigint, i.indisprimary, i.indisreplident, i.indimmediate,
  ARRAY(SELECT k::int FROM unnest(i.indkey) WITH ORDINALITY AS u(k, n)
        WHERE n <= i.indnkeyatts ORDER BY n)
FROM pg_index i WHERE i.indrelid = ANY(%s::oid[]) AND (i.indisprimary OR i.indisreplident)
"""
_PARTITIONS = f"""
SELECT root.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,
  c.relreplident::text
FROM unnest(%s::oid[]) AS root(oid), LATERAL {PARTITION_TREE}
  JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.isleaf ORDER BY 2, 3
"""
# A default that was given to rows which were there, also where it is not the default any more.
_FILLED = f"""
SELECT DISTINCT a.attname::text
FROM (SELECT %s::oid) AS root (oid), LATERAL {PARTITION_TREE}
  JOIN pg_attribute a ON a.attrelid = t.oid
WHERE a.atthasmissing AND NOT a.attisdropped
"""
_DROPPED = "SELECT attnum::int FROM pg_attribute WHERE attrelid = %s AND attisdropped"
# Partitions have a replica identity of their own.
_PARTLY_LOGGED = f"""
SELECT n.nspname::text, c.relname::text, bool_or(coalesce(t.level > 0, false))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN LATERAL (SELECT c.oid) AS root
  LEFT JOIN LATERAL {PARTITION_TREE} ON t.isleaf
  JOIN pg_class part ON part.oid = coalesce(t.oid, c.oid)
WHERE part.relreplident <> 'f' AND (n.nspname, c.relname) IN
  (SELECT * FROM unnest(%s::name[], %s::name[]))
GROUP BY 1, 2 ORDER BY 1, 2
"""
_PARTITIONED, _FOREIGN = "p", "f"
_UNLOGGED = "u"
_DEFAULT, _FULL, _INDEX = "d", "f", "i"
_LEAVE_OUT = "or leave it out with --exclude"
# From this major version on generated columns may not be a part of a published replica identity.
_GENERATED_IDENTITY_VERSION = 18


@dataclass(frozen=True)
class ColumnDefinition:
    """A column.

    Attributes:
        number: ``attnum``, which it keeps when it is renamed, and no other column ever gets.
        name: Its name.
        type_oid, modifier: ``atttypid`` and ``atttypmod``.
        source_type: Its type as `types.parse_source_type` reads it, where domains are resolved.
        is_nullable: Whether it takes NULL.
        default: The expression of its default; None for NULL, and for a generated column.
        comment: Its comment; empty for none.
        is_generated: Whether the server computes it from other columns; the log does not have it.
        is_identity: Whether it is an identity column.
        collation: The name of its collation; None for types without one.
    """

    number: int
    name: str
    type_oid: int
    modifier: int
    source_type: str
    is_nullable: bool
    default: str | None
    comment: str
    is_generated: bool
    is_identity: bool
    collation: str | None


@dataclass(frozen=True)
class Partition:
    """A partition with rows.

    Attributes:
        name: Its name.
        kind, persistence, replica_identity: As of `TableDefinition`.
    """

    name: TableName
    kind: str
    persistence: str
    replica_identity: str


@dataclass(frozen=True)
class TableDefinition:
    """A table.

    Attributes:
        oid: ``pg_class.oid``, which it keeps when it is renamed.
        name: Its schema and name.
        kind: ``relkind``: ``r`` for a table, ``p`` for one with partitions, ``f`` for a foreign
            one.
        persistence: ``relpersistence``: ``p``, or ``u`` for an unlogged table.
        replica_identity: ``relreplident``: ``d`` for the primary key, ``f`` for all columns, ``i``
            for an index, ``n`` for nothing.
        comment: Its comment; empty for none.
        can_select: Whether the user may read it.
        hides_rows: Whether row level security applies to the user.
        columns: Its columns, in their order.
        primary_key: The numbers of the key's columns, in the key's order; empty without a key.
        is_deferrable: Whether the key is checked at the end of a transaction.
        identity_key: The numbers of the columns of the index that is its replica identity.
        partitions: The partitions that have its rows, those of partitions too.
    """

    oid: int
    name: TableName
    kind: str
    persistence: str
    replica_identity: str
    comment: str
    can_select: bool
    hides_rows: bool
    columns: Sequence[ColumnDefinition] = ()
    primary_key: Sequence[int] = ()
    is_deferrable: bool = False
    identity_key: Sequence[int] | None = None
    partitions: Sequence[Partition] = ()

    @property
    def is_partitioned(self) -> bool:
        """Whether its rows are in partitions."""
        return self.kind == _PARTITIONED


def quoted(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: TableName) -> str:
    """A table's name in double quotes, with its schema."""
    return f"{quoted(name.database)}.{quoted(name.table)}"


def read_tables(
    server: PostgresServer,
    wanted: Collection[TableName | int] | None = None,
    *,
    mapping: Collection[TypeMapping] = (),
    without_key: bool = False,
    publication: str | None = None,
) -> Tables:
    """Read the tables that a user sees, without views, partitions and the server's own.

    Args:
        server: The server.
        wanted: The tables to read, by their names or by their OIDs; None reads all.
        mapping: Choices of types in the lake.
        without_key: Whether tables without a primary key can be followed.
        publication: The publication by which they are followed; None if it has them not yet.

    Raises:
        Unavailable: The server does not answer.
    """
    followed: list[SourceTable] = []
    findings: list[Finding] = []
    notes: list[Finding] = []
    for table in read_definitions(server, wanted):
        problems = [*_problems(table, server.address.user, without_key=without_key)]
        if server.version >= _GENERATED_IDENTITY_VERSION:
            problems += _generated_identities(table)
        columns: list[SourceColumn] = []
        for column in table.columns:
            if column.is_generated:
                notes.append(_generated(table, column))
                continue
            try:
                columns.append(_source_column(column, mapping))
            except Unsupported as error:
                problem, _, remedy = error.message.partition("; ")
                problems.append(
                    Finding(f"column {table.name}.{column.name}", problem, remedy, table.name)
                )
        findings += problems
        if not problems:
            names = {column.number: column.name for column in table.columns}
            key = tuple(names[number] for number in table.primary_key)
            followed.append(SourceTable(table.name, tuple(columns), key, table.comment, table.oid))
    storages = read_storage(server, [table.name for table in followed], publication)
    stored = [
        replace(table, storage=storages[table.name].to_json()) if table.name in storages else table
        for table in followed
    ]
    names_followed = {table.name for table in followed}
    return Tables(stored, findings, [note for note in notes if note.table in names_followed])


def check_definition(server: PostgresServer, table: SourceTable) -> TableDefinition:
    """Check that a table has the columns and the key that are known.

    Args:
        server: A connection whose transaction has a lock on the table.
        table: The table as it is known. Columns and tables with a number are compared by it, too.

    Returns:
        The table as it is.

    Raises:
        Conflict: It is not there, or another one.
    """
    for definition in read_definitions(server, {table.name}):
        columns = {column.number: column for column in definition.columns}
        actual = [
            (column.name, column.source_type, number)
            for number, column in columns.items()
            if not column.is_generated
        ]
        expected = [
            (column.name, column.source_type, number if column.id is None else column.id)
            for column, (_, _, number) in zip(table.columns, actual, strict=False)
        ]
        key = [columns[number].name for number in definition.primary_key]
        is_same = len(actual) == len(table.columns) and expected == actual
        if is_same and key == [*table.primary_key] and table.id in (None, definition.oid):
            return definition
    raise Conflict(f"table {table.name} of the source has other columns meanwhile; read it again")


def filled_columns(server: PostgresServer, table: SourceTable) -> Collection[str]:
    """The columns whose default rows have that were there before the column, without being stored.

    A table that has been rewritten since, into another file, has stored them.

    Args:
        server: The server.
        table: The table as it is, with its number.

    Raises:
        Unavailable: The server does not answer.
    """
    rows = server.rows(_FILLED, [table.id])
    return {str(name) for (name,) in rows}


def dropped_columns(server: PostgresServer, table: SourceTable) -> Collection[int]:
    """The numbers of columns that a table, which has its number, does not have any more.

    Raises:
        Unavailable: The server does not answer.
    """
    return {int(str(number)) for (number,) in server.rows(_DROPPED, [table.id])}


def read_definitions(
    server: PostgresServer, wanted: Collection[TableName | int] | None = None
) -> Sequence[TableDefinition]:
    """Read what the system catalogs have of tables, also of those that cannot be followed.

    Args:
        server: The server.
        wanted: The tables to read, by their names or by their OIDs; None reads all.

    Raises:
        Unavailable: The server does not answer.
    """
    condition, values = "", list[object]()
    if wanted is not None:
        names = [name for name in wanted if isinstance(name, TableName)]
        numbers = [number for number in wanted if isinstance(number, int)]
        condition = _NUMBERED if numbers else _NAMED
        named = [[name.database for name in names], [name.table for name in names]]
        values = [numbers] if numbers else [*named]
    tables = [_table(row) for row in server.rows(_TABLES.format(wanted=condition), values)]
    oids = [table.oid for table in tables]
    columns = _columns(server, oids)
    indexes = _by_first(server.rows(_KEYS, [oids]))
    roots = [table.oid for table in tables if table.is_partitioned]
    partitions = _by_first(server.rows(_PARTITIONS, [roots]) if roots else ())
    return [
        replace(
            _with_keys(table, indexes.get(table.oid, ())),
            columns=columns.get(table.oid, ()),
            partitions=tuple(map(_partition, partitions.get(table.oid, ()))),
        )
        for table in tables
    ]


def partly_logged(server: PostgresServer, tables: Collection[TableName]) -> list[Finding]:
    """Those of some tables whose log lacks rows as they were before updates and deletes."""
    names = [table.database for table in tables], [table.table for table in tables]
    findings = []
    for schema, table, has_partitions in server.rows(_PARTLY_LOGGED, names):
        name = TableName(str(schema), str(table))
        remedy = f"ALTER TABLE {quoted_table(name)} REPLICA IDENTITY FULL"
        remedy += ", and that of its partitions" if has_partitions else ""
        problem = "the log lacks its rows as they were before updates and deletes"
        findings.append(Finding(f"table {name}", problem, remedy, name))
    return findings


# Rows of the catalogs ---------------------------------------------------------------------------


class _Index(NamedTuple):
    is_primary: bool
    is_identity: bool
    is_immediate: bool
    columns: Sequence[int]


def _table(row: Sequence[object]) -> TableDefinition:
    oid, schema, name, kind, persistence, identity, comment, can_select, hides_rows = row
    return TableDefinition(
        int(str(oid)),
        TableName(str(schema), str(name)),
        str(kind),
        str(persistence),
        str(identity),
        str(comment),
        bool(can_select),
        bool(hides_rows),
    )


def _partition(row: Sequence[object]) -> Partition:
    schema, name, *rest = map(str, row)
    return Partition(TableName(schema, name), *rest)


def _with_keys(table: TableDefinition, rows: Sequence[Sequence[object]]) -> TableDefinition:
    for index in (_Index(*row) for row in rows):  # type: ignore[arg-type]
        if index.is_primary:
            table = replace(
                table, primary_key=tuple(index.columns), is_deferrable=not index.is_immediate
            )
        if index.is_identity:
            table = replace(table, identity_key=tuple(index.columns))
    return table


def _columns(
    server: PostgresServer, oids: Sequence[int]
) -> Mapping[int, Sequence[ColumnDefinition]]:
    tables = _by_first(server.rows(_COLUMNS, [list(oids)]))
    rows = [row for table in tables.values() for row in table]
    numbers = {(int(str(row[2])), int(str(row[3]))) for row in rows}
    types = read_types(server, numbers)
    if numbers - types.keys():
        raise Conflict(
            f"the source at {server.address} dropped types while tables were read; read them again"
        )
    return {oid: tuple(_column(row, types) for row in table) for oid, table in tables.items()}


def _column(row: Sequence[object], types: Mapping[tuple[int, int], str]) -> ColumnDefinition:
    number, name, type_, modifier, not_null, default, comment, generated, identity, collation = row
    type_oid, type_modifier = int(str(type_)), int(str(modifier))
    return ColumnDefinition(
        number=int(str(number)),
        name=str(name),
        type_oid=type_oid,
        modifier=type_modifier,
        source_type=types[type_oid, type_modifier],
        is_nullable=not not_null,
        default=None if default is None else str(default),
        comment=str(comment),
        is_generated=bool(generated),
        is_identity=bool(identity),
        collation=None if collation is None else str(collation),
    )


def _by_first(rows: Sequence[Sequence[object]]) -> dict[int, list[Sequence[object]]]:
    grouped: dict[int, list[Sequence[object]]] = {}
    for first, *rest in rows:
        grouped.setdefault(int(str(first)), []).append(rest)
    return grouped


def _source_column(column: ColumnDefinition, mapping: Collection[TypeMapping]) -> SourceColumn:
    source = parse_source_type(column.source_type)
    return SourceColumn(
        name=column.name,
        source_type=column.source_type,
        type=lake_type(source, nullable=column.is_nullable, mapping=mapping),
        default=column.default,
        comment=column.comment,
        collation=column.collation,
        id=column.number,
    )


# Why a table cannot be followed -------------------------------------------------------------------


def _problems(table: TableDefinition, user: str, *, without_key: bool) -> Iterator[Finding]:
    subject, name = f"table {table.name}", quoted_table(table.name)

    def finding(problem: str, remedy: str) -> Finding:
        return Finding(subject, problem, remedy, table.name)

    if table.kind == _FOREIGN:
        remedy = "leave it out with --exclude, and follow it at its own server"
        yield finding("it is a foreign table, which has no log", remedy)
        return
    if table.persistence == _UNLOGGED:
        yield finding(
            "it is unlogged: its changes are not in the log",
            f"ALTER TABLE {name} SET LOGGED, {_LEAVE_OUT}",
        )
    if not table.can_select:
        yield finding(
            f"user '{user}' may not read it",
            f'GRANT USAGE ON SCHEMA {quoted(table.name.database)} TO "{user}" and GRANT SELECT ON '
            f'{name} TO "{user}"',
        )
    if table.hides_rows:
        yield finding(
            f"row level security hides rows from user '{user}', and the log has all of them",
            f'ALTER ROLE "{user}" BYPASSRLS, {_LEAVE_OUT}',
        )
    yield from _key_problems(table, name, without_key=without_key)
    for partition in table.partitions:
        yield from _partition_problems(table, partition)


def _key_problems(table: TableDefinition, name: str, *, without_key: bool) -> Iterator[Finding]:
    subject, full = f"table {table.name}", f"ALTER TABLE {name} REPLICA IDENTITY FULL"
    identity = table.replica_identity
    problem, remedy = "", f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
    generated = {column.number for column in table.columns if column.is_generated}
    if not table.primary_key:
        if not without_key:
            problem = "it has no primary key"
            remedy = "add a primary key, follow it with --tables-without-key append"
        elif identity != _FULL:
            problem = "it has no primary key, and the log does not have its deleted rows"
            remedy = f"add a primary key, {full}"
    elif generated.intersection(table.primary_key):
        problem = "a column of its primary key is generated, and not in the log"
        remedy = "change its primary key"
    elif identity == _INDEX:
        if table.identity_key is None or set(table.identity_key) != set(table.primary_key):
            problem = "its replica identity is an index other than its primary key"
    elif identity not in (_DEFAULT, _FULL):
        problem = "its replica identity is NOTHING: the log does not have its deleted rows"
    elif identity == _DEFAULT and table.is_deferrable:
        problem = "its primary key is deferrable, and so does not identify rows in the log"
        remedy = f"make the key not deferrable, {full}"
    if problem:
        yield Finding(subject, problem, f"{remedy}, {_LEAVE_OUT}", table.name)


def _generated_identities(table: TableDefinition) -> Iterator[Finding]:
    """Generated columns that keep rows from being changed, or deleted, once they are published."""
    generated = next((column.name for column in table.columns if column.is_generated), None)
    parts = table.partitions
    identities = [(part.name, part.replica_identity) for part in parts if part.kind != _FOREIGN]
    if not table.is_partitioned:
        identities = [(table.name, table.replica_identity)]
    for name, identity in identities if generated is not None else ():
        if identity != _FULL:
            continue
        whose = "its replica identity"
        if name != table.name:
            whose = f"the replica identity of its partition {name}"
        problem = f"{whose} is FULL, and column {generated} is generated: PostgreSQL 18 rejects "
        problem += "updates and deletes of such a table once it is published"
        remedy = f"ALTER TABLE {quoted_table(name)} REPLICA IDENTITY DEFAULT"
        if not table.primary_key:
            remedy = f"add a primary key and {remedy}"
        yield Finding(f"table {table.name}", problem, f"{remedy}, {_LEAVE_OUT}", table.name)


def _partition_problems(table: TableDefinition, partition: Partition) -> Iterator[Finding]:
    subject, name = f"table {table.name}", quoted_table(partition.name)
    if partition.kind == _FOREIGN:
        problem = f"its partition {partition.name} is a foreign table, which has no log"
        yield Finding(subject, problem, "leave it out with --exclude", table.name)
    if partition.persistence == _UNLOGGED:
        problem = f"its partition {partition.name} is unlogged: its changes are not in the log"
        remedy = f"ALTER TABLE {name} SET LOGGED, {_LEAVE_OUT}"
        yield Finding(subject, problem, remedy, table.name)
    allowed = (_DEFAULT, _FULL) if table.primary_key else (_FULL,)
    if partition.kind != _FOREIGN and partition.replica_identity not in allowed:
        identity = "DEFAULT" if table.primary_key else "FULL"
        problem = f"the replica identity of its partition {partition.name} is not {identity}"
        remedy = f"ALTER TABLE {name} REPLICA IDENTITY {identity}, {_LEAVE_OUT}"
        yield Finding(subject, problem, remedy, table.name)


def _generated(table: TableDefinition, column: ColumnDefinition) -> Finding:
    return Finding(
        f"column {table.name}.{column.name}",
        "it is generated, and not in the log: the lake does not have it",
        "compute it in the lake",
        table.name,
        is_note=True,
    )
