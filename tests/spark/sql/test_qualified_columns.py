"""Columns that say their table's database, or its warehouse too, in statements that change rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, Unsupported

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(lake: SparkLake) -> SparkLake:
    """``db.t`` and ``db.u`` with two rows each, of which one key is in both, and ``other.t``."""
    lake.catalog.create_database("other")
    schema = pa.schema([("id", pa.int32()), ("v", pa.int32())])
    for name, ids in (("db.t", [1, 2]), ("db.u", [1, 3]), ("other.t", [2, 4])):
        lake.catalog.create_table(name, schema).write(
            pa.table({"id": ids, "v": [10 * number for number in ids]}, schema)
        )
    lake.sql("USE db")
    return lake


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE db.t SET v = db.t.v + 1 WHERE db.t.id = 1", [(1, 11), (2, 20)]),
        ("UPDATE t SET main.db.t.v = main.db.t.v + t.v WHERE DB.T.ID = 1", [(1, 20), (2, 20)]),
        ("DELETE FROM t WHERE EXISTS (SELECT 1 FROM db.u WHERE db.u.id = db.t.id)", [(2, 20)]),
        ("DELETE FROM main.db.t WHERE main.db.t.id IN (SELECT db.u.id FROM u)", [(2, 20)]),
        ("DELETE FROM db.t AS x WHERE x.id = (SELECT min(t.id) FROM other.t)", [(1, 10)]),
        (
            "MERGE INTO db.t USING db.u ON db.t.id = db.u.id "
            "WHEN MATCHED THEN UPDATE SET db.t.v = db.t.v + db.u.v "
            "WHEN NOT MATCHED THEN INSERT (db.t.id, v) VALUES (db.u.id, db.u.v)",
            [(1, 20), (2, 20), (3, 30)],
        ),
        (
            "MERGE INTO t USING other.t ON db.t.id = other.t.id "
            "WHEN MATCHED THEN UPDATE SET t.v = other.t.v + db.t.v WHEN NOT MATCHED THEN INSERT *",
            [(1, 10), (2, 40), (4, 40)],
        ),
        (
            "DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM other.t WHERE other.t.id = db.t.id)",
            [(1, 10)],
        ),
        (
            "UPDATE t SET v = (SELECT max(t.v) FROM other.t WHERE other.t.id = db.t.id)",
            [(1, None), (2, 20)],
        ),
        ("INSERT INTO db.t REPLACE WHERE db.t.id = 1 SELECT 1, 9", [(1, 9), (2, 20)]),
        ("INSERT INTO t REPLACE WHERE t.v > 10 SELECT 5, 50", [(1, 10), (5, 50)]),
    ],
)
def test_columns_are_of_the_tables_that_they_name(
    tables: SparkLake, statement: str, expected: list[tuple[int, int | None]]
) -> None:
    tables.sql(statement)
    rows = tables.sql("SELECT id, v FROM db.t ORDER BY id").collect()
    assert [tuple(row) for row in rows] == expected


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            "MERGE INTO t USING other.t ON t.id = 1 WHEN MATCHED THEN DELETE",
            Invalid,
            "column t.id may be of the table or of the source, both called 't'",
        ),
        (
            "DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM u AS t WHERE t.id = db.t.id)",
            Unsupported,
            "column db.t.id in a subquery is not supported here",
        ),
        (
            "INSERT INTO t REPLACE WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id) SELECT 1, 1",
            Unsupported,
            "column t.id in a subquery is not supported here",
        ),
        ("DELETE FROM t /*+ OPTIONS('a' = 'b') WHERE id = 1", Invalid, "a hint is not closed"),
        ("UPDATE t SET v = sum(v) OVER () WHERE id = 1", Unsupported, r"'sum\(v\) OVER \(\)'"),
        (
            "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET v = 1 + "
            "count(*) OVER (PARTITION BY t.id)",
            Unsupported,
            "window functions are not supported in the expressions of UPDATE",
        ),
    ],
)
def test_what_is_not_certain_changes_nothing(
    tables: SparkLake, statement: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tables.sql(statement)
    assert tables.sql("SELECT sum(v) FROM t").collect()[0][0] == 30


def test_queries_do_not_mix_up_tables_of_one_name(tables: SparkLake) -> None:
    for query, expected in {
        "SELECT t.id FROM db.t WHERE EXISTS (SELECT 1 FROM other.t WHERE other.t.id = db.t.id)": [
            2
        ],
        "SELECT id FROM db.t WHERE EXISTS (SELECT 1 FROM other.t AS t WHERE t.id = db.t.id)": [2],
        "WITH t AS (TABLE u) SELECT db.t.id FROM db.t WHERE EXISTS "
        "(SELECT 1 FROM t WHERE t.id = db.t.id)": [1],
        "SELECT t.* FROM db.t WHERE db.t.id IN (SELECT t.id FROM other.t)": [2],
    }.items():
        assert [row[0] for row in tables.sql(query).collect()] == expected, query


def test_a_window_function_of_a_subquery_is_computed(tables: SparkLake) -> None:
    tables.sql("UPDATE t SET v = (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY id) r FROM u))")
    assert [row[0] for row in tables.sql("SELECT v FROM t").collect()] == [2, 2]
