"""Where tables have their rows: what shows that rows changed without the log.

Three statements change what a table has, and the log says nothing of it:

- ``ALTER TABLE … ALTER COLUMN … TYPE … USING`` writes all rows again. If the type stays, nothing
  else shows it: the table gets another file, as with ``VACUUM FULL`` or ``TRUNCATE``, and the
  column's row in the catalog is another one, which these leave as it is.
- ``ATTACH PARTITION`` brings the rows that the partition has. One that was made as a partition had
  none, and the log has those that came later: its columns are as they were made, and not changed
  by the statement that attached it.
- ``DETACH PARTITION`` and ``DROP TABLE`` take rows away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from headwater.cdc.model.tables import Storage, StoredPart
from headwater.cdc.postgres.server import PostgresServer

__all__ = ["read_storage", "unlogged_change", "with_partitions"]

_PARTS = """
SELECT r.oid::bigint, c.oid::bigint, c.relfilenode::bigint,
  t.level = 1 AND EXISTS (
    SELECT FROM pg_attribute made JOIN pg_attribute a ON a.attrelid = made.attrelid
    WHERE made.attrelid = c.oid AND made.attname = 'ctid' AND a.attnum > 0
      AND a.xmin = made.xmin AND a.cmin = made.cmin)
FROM unnest(%s::oid[]) AS r(oid),
  LATERAL (SELECT relid::oid, level FROM pg_partition_tree(r.oid) WHERE isleaf
           UNION ALL SELECT oid, 0 FROM pg_class WHERE oid = r.oid AND relkind = 'r') t
  JOIN pg_class c ON c.oid = t.relid
ORDER BY 1, 2
"""
_ALTERED = """
SELECT attrelid::bigint, md5(string_agg(xmin::text, ',' ORDER BY attnum))
FROM pg_attribute WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 GROUP BY attrelid
"""


def read_storage(server: PostgresServer, oids: Collection[int]) -> Mapping[int, Storage]:
    """Read where tables have their rows.

    Args:
        server: The server.
        oids: The tables' numbers; partitioned ones have their rows in their partitions.

    Raises:
        Unavailable: The server does not answer.
    """
    if not oids:
        return {}
    parts: dict[int, list[StoredPart]] = {}
    for table, part, file, is_made_empty in server.rows(_PARTS, [list(oids)]):
        stored = StoredPart(cast(int, part), cast(int, file), bool(is_made_empty))
        parts.setdefault(cast(int, table), []).append(stored)
    return {
        cast(int, table): Storage(str(altered), tuple(parts.get(cast(int, table), ())))
        for table, altered in server.rows(_ALTERED, [list(oids)])
    }


def with_partitions(storage: Storage, partitions: Collection[int]) -> Storage:
    """Where a table has its rows, with partitions of which the log has rows.

    They may be gone when the table is asked for next, and with them these rows.
    """
    known = {part.id for part in storage.parts}
    seen = [StoredPart(number, 0, True) for number in partitions if number not in known]
    return Storage(storage.altered, (*storage.parts, *seen))


def unlogged_change(before: Storage | None, after: Storage | None) -> str | None:
    """Why a table may have other rows than the log says; None if it cannot."""
    if before is None or after is None:
        return None
    old = {part.id: part for part in before.parts}
    new = {part.id: part for part in after.parts}
    if old.keys() - new.keys():
        return "a partition was detached or dropped"
    # Those of which the log has rows may have had others when they were attached.
    known = {number: part for number, part in old.items() if part.file}
    if not all(part.is_made_empty for number, part in new.items() if number not in known):
        return "a partition was attached"
    is_moved = any(part.file != new[number].file for number, part in known.items())
    if is_moved and before.altered != after.altered:
        return "its rows were written again with other values"
    return None
