"""Tables of a database as they were read last: those are read again that may have changed.

Each row of the catalogs has the transaction that wrote it (``xmin``), and its place (``ctid``). A
row that is changed is written again, elsewhere, by another transaction; what ``VACUUM`` and
``ANALYZE`` write over does not define a table. So the server sums up both of all rows that define
one, and a table with the same sum is what it was. The number of a transaction returns after four
billion others: then the same row would have to return to the same place, too, between two looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.server import PostgresServer
from headwater.cdc.postgres.table_storage import TYPE_PARTS
from headwater.cdc.postgres.types import TypeMapping
from headwater.cdc.source.reads import Tables

__all__ = ["KnownTables"]

# By the OID of the table, which has the rows of its partitions.
_TABLES: LiteralString = """
WITH relations AS MATERIALIZED (
  SELECT c.oid, n.nspname, c.relname,
    CASE WHEN c.relispartition THEN coalesce(pg_partition_root(c.oid)::oid, c.oid) ELSE c.oid END
      AS root,
    hash_record_extended(ROW(c.ctid, c.xmin, n.ctid, n.xmin, row_security_active(c.oid),
      has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT')), c.oid::bigint)
      AS hash
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
), parts (root, hash) AS (
  SELECT root, hash FROM relations
  UNION ALL
  SELECT r.root, hash_record_extended(ROW(a.attnum, a.ctid, a.xmin), r.oid::bigint)
  FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid WHERE a.attnum > 0
  UNION ALL
  SELECT r.root, hash_record_extended(ROW(d.adnum, d.ctid, d.xmin), -r.oid::bigint)
  FROM relations r JOIN pg_attrdef d ON d.adrelid = r.oid
  UNION ALL
  SELECT r.root, hash_record_extended(ROW(i.ctid, i.xmin), i.indexrelid::bigint)
  FROM relations r JOIN pg_index i ON i.indrelid = r.oid
  UNION ALL
  SELECT r.root, hash_record_extended(ROW(i.ctid, i.xmin), -r.oid::bigint)
  FROM relations r JOIN pg_inherits i ON i.inhrelid = r.oid
  UNION ALL
  SELECT r.root, hash_record_extended(ROW(d.objsubid, d.ctid, d.xmin, d.tableoid), r.oid::bigint)
  FROM relations r JOIN pg_description d ON d.objoid = r.oid AND d.classoid = 'pg_class'::regclass
  UNION ALL
  SELECT r.root, hash_record_extended(ROW(p.oid, p.xmin, e.oid, e.xmin, s.oid, s.xmin),
    r.oid::bigint)
  FROM relations r JOIN pg_class c ON c.oid = r.oid JOIN pg_publication p ON p.pubname = %s
    LEFT JOIN pg_publication_rel e ON e.prpubid = p.oid AND e.prrelid = r.oid
    LEFT JOIN pg_publication_namespace s ON s.pnpubid = p.oid AND s.pnnspid = c.relnamespace
)
SELECT r.oid::bigint, r.nspname::text, r.relname::text, p.hash, p.count
FROM (SELECT root, bit_xor(hash) AS hash, count(*) AS count FROM parts GROUP BY root) p
  JOIN relations r ON r.oid = p.root
"""
# Types that columns have, and those of which their values are made.
_TYPES: LiteralString = f"""
WITH RECURSIVE columns (type) AS MATERIALIZED (
  SELECT DISTINCT atttypid FROM pg_attribute WHERE attnum > 0 AND attrelid >= 16384
), used (oid) AS (
  SELECT type FROM columns
  UNION
  SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid, LATERAL {TYPE_PARTS} AS part (oid)
)
SELECT t.oid::bigint, hash_record_extended(ROW(t.ctid, t.xmin, n.ctid, n.xmin,
  (SELECT bit_xor(hash_record_extended(ROW(e.ctid, e.xmin), e.oid::bigint))
    FROM pg_enum e WHERE e.enumtypid = t.oid),
  (SELECT bit_xor(hash_record_extended(ROW(a.ctid, a.xmin), a.attnum))
    FROM pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0)), 0)
FROM used JOIN pg_type t ON t.oid = used.oid JOIN pg_namespace n ON n.oid = t.typnamespace
"""
# Collations, and the server's starts, which `read_storage` needs.
_SERVER: LiteralString = """
SELECT count(*), bit_xor(hash_record_extended(ROW(ctid, xmin), oid::bigint)),
  pg_postmaster_start_time()::text, (SELECT stats_reset FROM pg_stat_wal)::text
FROM pg_collation
"""

_Version = tuple[object, ...]


@dataclass(frozen=True)
class _Known:
    """What was read of a table.

    Attributes:
        version: Of the rows of the catalogs that define it.
        table: The table; None if it cannot be followed.
        findings: Why not.
        notes: What the lake does not have of it.
    """

    version: _Version
    table: SourceTable | None
    findings: Sequence[Finding]
    notes: Sequence[Finding]


class KnownTables:
    """All tables that a user sees, each read again when it has changed.

    Args:
        server: The server; it has no transaction open.
        publication: The publication by which the tables are followed.
        mapping: Choices of types in the lake.
        without_key: Whether tables without a primary key can be followed.
    """

    def __init__(
        self,
        server: PostgresServer,
        publication: str,
        *,
        mapping: Collection[TypeMapping] = (),
        without_key: bool = False,
    ) -> None:
        self._server, self._publication = server, publication
        self._mapping, self._without_key = mapping, without_key
        self._shared: _Version = ()
        self._types: Mapping[int, object] = {}
        self._tables: dict[int, _Known] = {}

    def read(self) -> Tables:
        """The tables as they are, see `read_tables`.

        Raises:
            Unavailable: The server does not answer.
        """
        with self._server.unchanging():
            (shared,) = self._server.rows(_SERVER)
            types = {int(str(oid)): version for oid, version in self._server.rows(_TYPES)}
            names: dict[TableName, int] = {}
            versions: dict[int, _Version] = {}
            for oid, schema, table, *version in self._server.rows(_TABLES, [self._publication]):
                number = int(str(oid))
                names[TableName(str(schema), str(table))] = number
                versions[number] = tuple(version)
            known = self._tables
            if shared != self._shared or any(
                types.get(oid, version) != version for oid, version in self._types.items()
            ):
                known = {}
            kept = {
                oid: table for oid, table in known.items() if versions.get(oid) == table.version
            }
            self._tables = kept | self._read(versions, names, versions.keys() - kept.keys())
            self._shared, self._types = shared, types
        tables = [self._tables[names[name]] for name in sorted(names)]
        return Tables(
            [known.table for known in tables if known.table is not None],
            [finding for known in tables for finding in known.findings],
            [note for known in tables for note in known.notes],
        )

    def _read(
        self,
        versions: Mapping[int, _Version],
        names: Mapping[TableName, int],
        wanted: Collection[int],
    ) -> dict[int, _Known]:
        if not wanted:
            return {}
        tables = read_tables(
            self._server,
            None if len(wanted) == len(versions) else wanted,
            mapping=self._mapping,
            without_key=self._without_key,
            publication=self._publication,
        )
        followed = {table.id: table for table in tables.followed}
        findings, notes = (_by_table(found, names) for found in (tables.findings, tables.notes))
        return {
            oid: _Known(versions[oid], followed.get(oid), findings.get(oid, ()), notes.get(oid, ()))
            for oid in wanted
        }


def _by_table(
    findings: Sequence[Finding], names: Mapping[TableName, int]
) -> Mapping[int, Sequence[Finding]]:
    grouped: dict[int, list[Finding]] = {}
    for finding in findings:
        assert finding.table is not None
        grouped.setdefault(names[finding.table], []).append(finding)
    return grouped
