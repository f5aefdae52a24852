"""The kinds of tables that Headwater's Spark and Paimon's change in turns, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["COLUMNS", "KINDS", "PAIMON_SPARK", "Kind"]

PAIMON_SPARK = "2.0.0"
"""The release of Paimon's JAR for Spark."""

COLUMNS = "k BIGINT, day STRING, v INT, name STRING, price DECIMAL(10, 2), at TIMESTAMP"
ROWS = (
    "SELECT id AS k, concat('2026-01-0', 1 + id % 3) AS day, CAST({v} AS INT) AS v, "
    "IF(id % 5 = 0, NULL, concat('{word}-', id)) AS name, "
    "CAST(id / 4 AS DECIMAL(10, 2)) AS price, "
    "TIMESTAMP '2026-01-01 00:00:00.123456' + make_interval(0, 0, 0, 0, CAST(id AS INT)) AS at "
    "FROM range({first}, {end})"
)


def rows(first: int, end: int, word: str, v: str = "id * 10") -> str:
    return ROWS.format(first=first, end=end, word=word, v=v)


INSERT = f"INSERT INTO {{t}} {rows(0, 30, 'first')}"
UPSERT = f"INSERT INTO {{t}} {rows(20, 45, 'second', 'id * 10 + 1')}"
CHANGES = (
    INSERT,
    UPSERT,
    "UPDATE {t} SET v = v + 1000, name = concat('u-', k) WHERE k % 3 = 0",
    "DELETE FROM {t} WHERE k BETWEEN 5 AND 9 OR name = 'second-22'",
    f"""MERGE INTO {{t}} AS t USING ({rows(35, 55, "merged", "-id")}) AS s
        ON t.k = s.k AND t.day = s.day
        WHEN MATCHED AND s.k % 4 = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.v, name = s.name
        WHEN NOT MATCHED AND s.k % 7 <> 0 THEN INSERT *""",
    "UPDATE {t} SET name = 'twice' WHERE k IN (SELECT max(k) FROM {t})",
    "CALL sys.compact(table => '{t}')",
    f"INSERT INTO {{t}} {rows(10, 15, 'third', 'NULL')}",
    "DELETE FROM {t} WHERE day = '2026-01-02' AND k > 30",
    "ALTER TABLE {t} ADD COLUMNS (extra STRING AFTER v)",
    "UPDATE {t} SET extra = concat('x', k) WHERE v < 0",
    "ALTER TABLE {t} RENAME COLUMN name TO label",
    "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT",
    "INSERT INTO {t} VALUES (100, '2026-01-09', 5000000000, 'e', 'l', 1.5, NULL)",
    "INSERT OVERWRITE {t} PARTITION (day = '2026-01-01') "
    "SELECT id, id, 'o', 'over', 0.25, NULL FROM range(200, 204)",
    "ALTER TABLE {t} DROP COLUMNS (extra)",
    "DELETE FROM {t} WHERE label LIKE 'first%'",
    "ALTER TABLE {t} DROP PARTITION (day = '2026-01-03')",
    "CALL sys.compact(table => '{t}')",
)
MERGED = (
    INSERT,
    UPSERT,
    f"INSERT INTO {{t}} {rows(0, 12, 'third', 'NULL')}",
    "CALL sys.compact(table => '{t}')",
    f"INSERT INTO {{t}} {rows(8, 33, 'fourth', 'id * 2')}",
    "ALTER TABLE {t} ADD COLUMNS (extra STRING)",
    f"INSERT INTO {{t}} SELECT *, concat('e', k) FROM ({rows(30, 36, 'fifth')})",
    "INSERT OVERWRITE {t} PARTITION (day = '2026-01-01') "
    "SELECT id, id, 'over', 0.25, NULL, NULL FROM range(200, 204)",
    "CALL sys.compact(table => '{t}')",
)
KEYED = {"primary-key": "day,k", "bucket": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    Attributes:
        title: Its name in the documentation.
        properties: Its properties.
        script: The statements, of which each is one step.
    """

    title: str
    properties: Mapping[str, str]
    script: tuple[str, ...] = CHANGES


KINDS = {
    "keyed": Kind("primary-key table", KEYED),
    "input": Kind("with changelog producer input", {**KEYED, "changelog-producer": "input"}),
    "lookup": Kind("with changelog producer lookup", {**KEYED, "changelog-producer": "lookup"}),
    "full-compaction": Kind(
        "with changelog producer full-compaction",
        {**KEYED, "changelog-producer": "full-compaction"},
    ),
    "vectors": Kind("with deletion vectors", {**KEYED, **VECTORS}),
    "dynamic": Kind("with dynamic buckets", {"primary-key": "day,k", "bucket": "-1"}),
    "partial-update": Kind("partial-update", {**KEYED, "merge-engine": "partial-update"}, MERGED),
    "aggregation": Kind(
        "aggregation",
        {
            **KEYED,
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.name.aggregate-function": "last_non_null_value",
            "changelog-producer": "lookup",
        },
        MERGED,
    ),
    "first-row": Kind(
        "first-row", {**KEYED, "merge-engine": "first-row", "changelog-producer": "lookup"}, MERGED
    ),
    "append": Kind("append table", {"bucket": "-1"}),
    "append-buckets": Kind("append table with buckets", {"bucket": "2", "bucket-key": "k"}),
    "append-vectors": Kind("append table with deletion vectors", VECTORS),
    "append-vectors-64": Kind(
        "append table with 64-bit deletion vectors",
        {**VECTORS, "deletion-vectors.bitmap64": "true"},
    ),
}
