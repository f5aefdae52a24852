"""How a server stores tables, which tells of changes of rows that are not in its log.

The log has no rows that a statement rewrites as a whole, as ``ALTER COLUMN … TYPE`` does, also
where the type stays, nor what is changed while a table is unlogged, which a publication that does
not name the table allows. It has no rows of partitions that are attached to a table, detached or
dropped, and with ``publish_via_partition_root`` no truncation of single partitions. It has none
where a type's values get other texts, as with ``ALTER TYPE … RENAME VALUE``. What is changed
while a publication does not have a table is never sent, also when it has the table again later.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import LiteralString

from headwater.cdc.model.tables import TableName
from headwater.cdc.postgres.server import PostgresServer

__all__ = ["PARTITION_TREE", "TYPE_PARTS", "StoredPart", "TableStorage", "read_storage"]

# A table `root` and its partitions, how far below they are, and whether they have rows. Unlike
# pg_partition_tree, it waits for no locks.
PARTITION_TREE: LiteralString = """(
    WITH RECURSIVE tree (oid, level) AS (
        SELECT root.oid, 0
        UNION ALL
        SELECT i.inhrelid, tree.level + 1
        FROM tree JOIN pg_class parent ON parent.oid = tree.oid AND parent.relkind = 'p'
            JOIN pg_inherits i ON i.inhparent = tree.oid AND NOT i.inhdetachpending
    )
    SELECT tree.oid, tree.level, part.relkind <> 'p'
    FROM tree JOIN pg_class part ON part.oid = tree.oid
) AS t (oid, level, isleaf)"""

# Types of which values of a type `t` are made: those of an array, a domain, a range, a composite.
TYPE_PARTS: LiteralString = """(
    SELECT t.typbasetype UNION ALL SELECT t.typelem
    UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
    UNION ALL SELECT a.atttypid FROM pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
)"""

# A partition that was created as one had no rows: its columns are as the statement made them that
# made its system columns. To attach a table writes its columns again. A server that recovers from a
# crash forgets which statement of a transaction made what, and resets its statistics.
_QUERY: LiteralString = f"""
    SELECT n.nspname, c.relname, c.oid::bigint, part.oid::bigint,
        coalesce(pg_relation_filenode(part.oid), 0)::bigint,
        (SELECT string_agg(a.attnum || ':' || a.xmin, ',' ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = part.oid AND a.attnum > 0),
        NOT (part.level = 1 AND EXISTS (
            SELECT FROM pg_attribute made JOIN pg_attribute a ON a.attrelid = made.attrelid
            WHERE made.attrelid = part.oid AND made.attname = 'ctid' AND a.attnum > 0
                AND a.xmin = made.xmin AND a.cmin = made.cmin
        )),
        CASE WHEN c.relkind = 'p' THEN (
            SELECT concat(pg_postmaster_start_time(), ' ', stats_reset) FROM pg_stat_wal
        ) ELSE '' END, (
            SELECT concat_ws(' ', p.oid || ':' || p.xmin, 'table ' || r.oid || ':' || r.xmin,
                'schema ' || s.oid || ':' || s.xmin)
            FROM pg_publication p
            LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
            LEFT JOIN pg_publication_namespace s ON s.pnpubid = p.oid AND s.pnnspid = n.oid
            WHERE p.pubname = %s
        )
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN unnest(%s::text[], %s::text[]) AS wanted (schema, name)
        ON wanted.schema = n.nspname AND wanted.name = c.relname
    LEFT JOIN LATERAL (
        SELECT c.oid, 0 AS level WHERE c.relkind <> 'p'
        UNION ALL
        SELECT t.oid, t.level FROM (SELECT c.oid WHERE c.relkind = 'p') AS root,
            LATERAL {PARTITION_TREE}
        WHERE t.isleaf OR t.level = 0
    ) part ON true
"""
# Of each table: the labels of its enums, and the attributes of its composites.
_TEXTS: LiteralString = f"""
    WITH RECURSIVE used (relation, type) AS (
        SELECT a.attrelid, a.atttypid FROM pg_attribute a
        WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
        UNION
        SELECT used.relation, part.type FROM used JOIN pg_type t ON t.oid = used.type,
            LATERAL {TYPE_PARTS} AS part (type)
        WHERE part.type <> 0
    )
    SELECT used.relation::bigint, e.oid::bigint, hashtextextended(e.enumlabel::text, 0)
    FROM used JOIN pg_enum e ON e.enumtypid = used.type
    UNION ALL
    SELECT used.relation::bigint, t.oid::bigint, hashtextextended(
        string_agg(concat_ws(':', a.attnum, a.atttypid, a.atttypmod), ',' ORDER BY a.attnum), 0)
    FROM used JOIN pg_type t ON t.oid = used.type AND t.typtype = 'c'
        JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY 1, 2
"""
# What the query writes of a table that the publication names.
_NAMED = "table"


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A table's rows as they are stored, or those of one of its partitions.

    Attributes:
        file: The number of its file: another one after each rewrite, and after a truncation. 0 if
            it is not known, or it is a partitioned table, which has none.
        columns: The transactions that have defined its columns.
        is_attached: Whether it may have had rows before it was a part of the table.
    """

    file: int
    columns: str
    is_attached: bool

    @property
    def numbers(self) -> list[int]:
        """The numbers of its columns, also of dropped ones."""
        return [int(column.partition(":")[0]) for column in self.columns.split(",") if column]


@dataclass(frozen=True, slots=True)
class TableStorage:
    """How a table is stored.

    Attributes:
        oid: The table's OID.
        parts: The table, and its partitions, by their OIDs.
        started: When the server was started, or recovered, as it writes it; empty for a table
            without partitions.
        published: The rows of the catalogs by which a publication has the table, with the
            transactions that wrote them: others once it was taken out and put back. None if no
            publication was asked for.
        texts: How the values of its types are written: a number of each label of an enum, and of
            each composite's attributes, by their OIDs.
    """

    oid: int
    parts: Mapping[int, StoredPart]
    started: str = ""
    published: str | None = None
    texts: Mapping[int, int] = field(default_factory=dict)

    def silent_change(self, after: TableStorage) -> str | None:
        """Why the table's rows may have changed without the log's knowledge; None if not.

        The log has a change of the table's OID, and truncations and changed columns of the table
        itself. ``VACUUM FULL`` and ``CLUSTER`` of a partition are not told from a truncation; nor
        are they, or a truncation, from ``SET UNLOGGED`` and ``SET LOGGED`` where a publication has
        all tables, or those of a schema.

        Args:
            after: How the table is stored later.
        """
        if self.oid != after.oid:
            return None
        if any(after.texts.get(oid, text) != text for oid, text in self.texts.items()):
            return "values of a type are written otherwise"
        if self.parts.keys() - after.parts.keys():
            return "partitions were detached or dropped"
        for oid, part in after.parts.items():
            before = self.parts.get(oid)
            if not part.file:
                continue
            if before is None or not before.file:
                if part.is_attached or (oid != self.oid and self.started != after.started):
                    return "partitions were attached"
                # A table's first file has its number.
                if part.file != oid:
                    return "a partition was truncated or rewritten"
            elif part.file != before.file:
                if part.columns != before.columns:
                    return "a statement has rewritten its rows"
                if oid != self.oid:
                    return "a partition was truncated or rewritten"
                if after.published is not None and not after.is_named_in_publication:
                    return "it has another file, and may have been unlogged for a while"
        return None

    @property
    def is_named_in_publication(self) -> bool:
        """Whether a publication names the table, instead of its schema or all tables."""
        rows = [] if self.published is None else self.published.split(" ")
        return _NAMED in rows

    def with_partitions(self, partitions: Collection[int]) -> TableStorage:
        """How the table is stored, with partitions of which the log has rows.

        They may be gone when the table is asked for next, and with them these rows.

        Args:
            partitions: Their OIDs.
        """
        seen = {oid: StoredPart(0, "", is_attached=False) for oid in partitions}
        return replace(self, parts={**seen, **self.parts})

    def is_published_otherwise(self, after: TableStorage) -> bool:
        """Whether a publication may have left out changes of the table in between.

        Args:
            after: How the table is stored and published later.
        """
        return None not in (self.published, after.published) and self.published != after.published

    def to_json(self) -> str:
        """How the table is stored, as JSON to be recorded."""
        parts = [[oid, *astuple(part)] for oid, part in sorted(self.parts.items())]
        texts = sorted(self.texts.items())
        return json.dumps([self.oid, parts, self.started, self.published, texts])

    @staticmethod
    def from_json(text: str) -> TableStorage:
        """Read what `to_json` has written."""
        oid, parts, started, *more = json.loads(text)
        published, texts = more or (None, ())
        stored = {number: StoredPart(*part) for number, *part in parts}
        return TableStorage(oid, stored, started, published, dict(texts))


def read_storage(
    server: PostgresServer, tables: Collection[TableName], publication: str | None = None
) -> Mapping[TableName, TableStorage]:
    """How some tables are stored, and what a publication has of them.

    Args:
        server: The server.
        tables: The tables; those that are not there are left out.
        publication: The publication; None asks for none.
    """
    if not tables:
        return {}
    schemas, names = [name.database for name in tables], [name.table for name in tables]
    parts: dict[TableName, dict[int, StoredPart]] = {}
    storages: dict[TableName, TableStorage] = {}
    for schema, name, oid, part, file, columns, is_attached, started, published in server.rows(
        _QUERY, [publication, schemas, names]
    ):
        table = TableName(str(schema), str(name))
        stored = parts.setdefault(table, {})
        if part is not None:
            stored[int(str(part))] = StoredPart(int(str(file)), str(columns), bool(is_attached))
        storages[table] = TableStorage(
            int(str(oid)), stored, str(started), None if published is None else str(published)
        )
    texts: dict[int, dict[int, int]] = {}
    numbers = [storage.oid for storage in storages.values()]
    for relation, oid, text in server.rows(_TEXTS, [numbers]):
        texts.setdefault(int(str(relation)), {})[int(str(oid))] = int(str(text))
    return {
        table: replace(storage, texts=texts.get(storage.oid, {}))
        for table, storage in storages.items()
    }
