"""Each INSERT into a table with an ``upsert-key`` is a merge."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake, connect
from headwater.storage.errors import Invalid, Unsupported

pytestmark = pytest.mark.spark

Row = tuple[int | None, int | None, int | None, str | None]
"""The columns k, s, t and v."""


def _sql(new: list[Row]) -> str:
    def literal(value: object) -> str:
        if value is None:
            return "NULL"
        return f"'{value}'" if isinstance(value, str) else str(value)

    return ", ".join(f"({', '.join(map(literal, row))})" for row in new)


@pytest.mark.modes
def test_new_rows_take_the_place_of_those_with_the_same_key(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (k INT, a INT, b STRING) TBLPROPERTIES ('upsert-key' = 'k')")
    lake.sql("INSERT INTO t VALUES (1, 1, 'c1'), (NULL, 2, 'c2'), (3, 3, 'c3')")
    done = lake.sql("INSERT INTO t (b, k) VALUES ('c22', NULL), ('c11', 1), ('c4', 4)")
    (counts,) = done.collect()
    assert counts.asDict() == {
        "num_affected_rows": 3,
        "num_updated_rows": 2,
        "num_inserted_rows": 1,
    }
    lake.write(lake.spark.sql("SELECT 5 AS k, 5 AS a, 'c5' AS b"), "db.t")
    assert rows(lake.table("db.t")) == [
        (1, None, "c11"),
        (3, 3, "c3"),
        (4, None, "c4"),
        (5, 5, "c5"),
        (None, None, "c22"),
    ]
    before = lake.catalog.table("db.t").latest_snapshot()
    with pytest.raises(Invalid, match="make the source's rows distinct"):
        lake.sql("INSERT INTO t VALUES (3, 1, 'x'), (3, 2, 'y')")
    assert lake.catalog.table("db.t").latest_snapshot() == before
    lake.sql("INSERT INTO t VALUES (6, 1, 'x'), (6, 2, 'y')")
    assert lake.table("db.t").where("k = 6").count() == 2
    lake.sql("INSERT OVERWRITE t VALUES (7, 1, 'x'), (7, 2, 'y')")
    assert [row[0] for row in rows(lake.table("db.t"))] == [7, 7]


@pytest.mark.modes
def test_what_only_adds_rows_is_refused_by_name(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('upsert-key' = 'k')")
    new = lake.spark.sql("SELECT 1 AS k, 'a' AS v")
    table = lake.catalog.table("db.t")
    with pytest.raises(Unsupported, match="upsert-key=k, by which new rows take the place"):
        table.write(new.toArrow())
    with pytest.raises(Exception, match="upsert-key=k, by which new rows take the place"):
        new.write.format("headwater").mode("append").save("db.t")
    kinds = new.selectExpr("*", "'-D' AS _ROW_KIND")
    with pytest.raises(Invalid, match="rows have no kinds"):
        lake.write(kinds, "db.t")
    with pytest.raises(Invalid, match="new rows lack k of 'upsert-key'"):
        lake.write(new.drop("k"), "db.t")
    for options, message in {
        "'upsert-key' = 'x'": "upsert-key column 'x' does not exist",
        "'upsert-key' = 'k', 'primary-key' = 'k'": "'upsert-key' .k. is for tables without",
    }.items():
        with pytest.raises(Invalid, match=message):
            lake.sql(f"CREATE TABLE u (k INT, v STRING) TBLPROPERTIES ({options})")
    assert table.refresh().latest_snapshot() is None
    table.merge(new.toArrow(), on=["k"], when_matched="update")
    assert rows(lake.table("db.t")) == [(1, "a")]


def _upserted(model: list[Row], new: list[Row], *, sequenced: bool) -> list[Row]:
    """The rows after an INSERT, as ``RewriteUpsertTable.scala`` has it merge."""
    if sequenced:
        best: dict[int | None, Row] = {}
        for row in sorted(new, key=_age, reverse=True):
            best.setdefault(row[0], row)
        new = list(best.values())
    by_key = {row[0]: row for row in new}
    present = {row[0] for row in model}

    def updated(row: Row) -> Row:
        other = by_key.get(row[0], row)
        if not sequenced:
            return other
        ages = zip(row[1:3], other[1:3], strict=True)
        newer = all(old is not None and age is not None and old <= age for old, age in ages)
        return other if newer else row

    return [updated(row) for row in model] + [row for row in new if row[0] not in present]


def _age(row: Row) -> tuple[int, int]:
    """Nulls are the least."""
    first, second = ((-1 if age is None else age) for age in row[1:3])
    return first, second


NUMBERS = hs.sampled_from([None, 0, 1, 2])
VALUES = hs.sampled_from([None, "a", "b"])


@pytest.mark.modes
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(hs.booleans(), hs.booleans(), hs.data())
def test_inserts_leave_the_rows_of_a_list(
    upserting: tuple[SparkLake, count[int]], sequenced: bool, marked: bool, data: hs.DataObject
) -> None:
    lake, numbers = upserting
    name = f"db.t{next(numbers)}"
    options = ["'upsert-key' = 'k'"]
    if sequenced:
        options.append("'sequence.field' = 's,t'")
    if marked:
        options.append("'deletion-vectors.enabled' = 'true'")
    lake.sql(
        f"CREATE TABLE {name} (k INT, s INT, t INT, v STRING) TBLPROPERTIES ({', '.join(options)})"
    )
    # With ties of the greatest any of them counts.
    unique = (lambda row: row[:3]) if sequenced else (lambda row: row[0])
    inserts = hs.lists(
        hs.tuples(NUMBERS, NUMBERS, NUMBERS, VALUES), min_size=1, max_size=5, unique_by=unique
    )
    model: list[Row] = []
    for _ in range(3):
        new = data.draw(inserts)
        lake.sql(f"INSERT INTO {name} VALUES {_sql(new)}")
        model = _upserted(model, new, sequenced=sequenced)
        assert rows(lake.table(name)) == sorted(model, key=repr)


@pytest.fixture(scope="module")
def upserting(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SparkLake, count[int]]:
    """A lake, and numbers for its tables."""
    lake = connect(spark, tmp_path_factory.mktemp("upserting"))
    lake.sql("CREATE DATABASE db")
    return lake, count()
