"""Generated queries give over tables of the catalog what Spark gives over the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as hs
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake, connect
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root

pytestmark = [pytest.mark.spark, pytest.mark.modes]

TABLES = ("keyed", "plain", "evolved")


@pytest.fixture(scope="module")
def twins(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkLake]:
    """Tables of the lake, and temporary views ``twin_…`` of the same rows."""
    lake = connect(spark, tmp_path_factory.mktemp("twins"))
    lake.catalog.create_database("db")
    source = spark.range(0, 60).selectExpr(
        "id AS k",
        "CASE WHEN id % 5 = 4 THEN NULL ELSE CAST(id % 5 AS INT) END AS g",
        "CASE WHEN id % 7 = 0 THEN double('NaN') WHEN id % 7 = 1 THEN NULL ELSE id - 30.5D END f",
        "CAST(id * 1.25 AS DECIMAL(8, 2)) AS d",
        "TIMESTAMP'2026-01-01 00:00:00Z' + make_interval(0, 0, 0, 0, CAST(id AS INT)) AS t",
        "CASE WHEN id % 6 = 5 THEN NULL ELSE concat(char(97 + id % 4), id) END AS s",
        "id % 3 = 0 AS b",
        "named_struct('x', id, 'y', array(id, id + 1)) AS m",
    )
    newer = source.where("k % 4 = 1").withColumn("s", source.k.cast("string"))
    lake.create_table("db.keyed", source.schema, primary_keys=["k"], options={"bucket": "2"})
    lake.write(source, "db.keyed")
    lake.write(newer, "db.keyed")
    keyed = source.where("k % 4 <> 1").union(newer)
    lake.create_table("db.plain", source.schema, partition_keys=["g"])
    halves = source.where("k < 30"), source.where("k >= 30")
    for half in halves:
        lake.write(half.coalesce(1), "db.plain")
    lake.create_table("db.evolved", source.drop("s", "m").schema)
    lake.write(halves[0].drop("s", "m").coalesce(1), "db.evolved")
    lake.catalog.table("db.evolved").alter(*added_columns())
    lake.write(halves[1].drop("m").coalesce(1), "db.evolved")
    names = ["k", "g", "f", "d", "t", "b"]
    evolved = (
        halves[0]
        .selectExpr(*names, "CAST(NULL AS STRING) AS s")
        .union(halves[1].select(*names, "s"))
    )
    for name, frame in zip(TABLES, (keyed, source, evolved), strict=True):
        spark.createDataFrame(frame.collect(), frame.schema).createOrReplaceTempView(f"twin_{name}")
    lake.sql("USE db")
    yield lake
    for name in TABLES:
        spark.catalog.dropTempView(f"twin_{name}")


def added_columns() -> list[AddColumn]:
    return [AddColumn(("s",), AtomicType(Root.VARCHAR, length=MAX_LENGTH))]


LITERALS = {
    "k": ["3", "29", "30.5", "-1", "100", "CAST(7 AS SMALLINT)"],
    "g": ["0", "3", "2L", "NULL"],
    "f": ["0", "-5.5D", "double('NaN')", "29.5", "NULL"],
    "d": ["10", "12.50", "12.505", "7.25BD"],
    "t": ["'2026-01-02 05:00:00'", "TIMESTAMP'2026-01-01 12:00:00'", "DATE'2026-01-02'"],
    "s": ["'a'", "'b29'", "''", "'c\\'d'", "NULL"],
}
BOOLEANS = (
    "b", "NOT b", "s LIKE 'a%'", "s LIKE '%1'", "s NOT LIKE 'b%'", "g IS NULL", "s IS NOT NULL",
    "length(s) > 2", "k % 2 = 0", "coalesce(g, 9) > 2", "b <=> TRUE",
)  # fmt: skip


@hs.composite
def comparisons(draw: hs.DrawFn) -> str:
    column = draw(hs.sampled_from(list(LITERALS)))
    literals = hs.sampled_from(LITERALS[column])
    operator = draw(hs.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>", "IN", "NOT IN"]))
    if operator.endswith("IN"):
        return f"{column} {operator} ({', '.join(draw(hs.lists(literals, min_size=1)))})"
    left, right = column, draw(literals)
    return f"{right} {operator} {left}" if draw(hs.booleans()) else f"{left} {operator} {right}"


CONDITIONS = hs.recursive(
    comparisons() | hs.sampled_from(BOOLEANS),
    lambda inner: hs.one_of(
        hs.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        hs.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=5,
)
NAMES = hs.sampled_from(TABLES)
# {0}, {1} are tables, {a}, {b} conditions over their columns.
SHAPES = (
    "SELECT * FROM {0} WHERE {a}",
    "SELECT count(*) FROM {0} WHERE {a}",
    "SELECT g, count(*), sum(d), max(s) FROM {0} WHERE {a} GROUP BY g HAVING count(*) > 1",
    "SELECT x.k, y.s FROM (SELECT * FROM {0} WHERE {a}) x JOIN {1} y ON x.k = y.k + 1",
    "SELECT x.k, y.s FROM {0} x LEFT JOIN (SELECT * FROM {1} WHERE {b}) y ON x.g = y.g AND y.k < 9",
    "SELECT x.k, y.k FROM {0} x FULL JOIN {1} y ON x.k = y.k * 2 WHERE x.g > 1 OR y.g IS NULL",
    "SELECT k FROM {0} WHERE {a} AND k IN (SELECT k FROM {1} WHERE {b})",
    "SELECT k FROM {0} o WHERE EXISTS (SELECT 1 FROM {1} WHERE k = o.k + 1 AND {b}) OR g = 1",
    "SELECT k FROM {0} WHERE {a} AND k NOT IN (SELECT k FROM {1} WHERE {b})",
    "SELECT k, (SELECT max(d) FROM {1} i WHERE i.g = o.g AND i.k < 40) FROM {0} o WHERE {a}",
    "SELECT k, rank() OVER (PARTITION BY g ORDER BY d DESC, k) FROM {0} WHERE {a}",
    "SELECT * FROM (SELECT k, s, row_number() OVER (PARTITION BY g ORDER BY k) AS n FROM {0}) "
    "WHERE n < 3 AND k > 8",
    "SELECT k, s FROM {0} WHERE {a} UNION SELECT k, s FROM {1} WHERE {b}",
    "SELECT g, b FROM {0} WHERE {a} EXCEPT SELECT g, b FROM {1} WHERE {b}",
    "SELECT k FROM {0} WHERE {a} INTERSECT ALL SELECT k FROM {1}",
    "WITH c AS (SELECT * FROM {0} WHERE {a}) SELECT x.k, y.d FROM c x JOIN c y USING (k) "
    "WHERE y.g < 3",
    "WITH c AS (SELECT g, sum(k) AS n FROM {0} WHERE {a} GROUP BY g) SELECT * FROM c "
    "UNION ALL SELECT g, n + 1 FROM c WHERE g > 1",
    "WITH c AS (SELECT * FROM {0} WHERE {a}) SELECT k, 1 FROM c WHERE k < 9 "
    "UNION ALL SELECT k, 2 FROM c WHERE k > 40",
    "SELECT k, e FROM {0} LATERAL VIEW explode(array(g, 7)) AS e WHERE {a}",
    "SELECT k, l.n FROM {0} o, LATERAL (SELECT count(*) AS n FROM {1} i WHERE i.g = o.g) l "
    "WHERE {a}",
    "SELECT count(DISTINCT g), count(DISTINCT s), avg(d) FROM {0} WHERE {a}",
    "SELECT g, b, sum(k) FROM {0} WHERE {a} GROUP BY ROLLUP (g, b)",
    "SELECT k FROM {0} WHERE k > (SELECT avg(k) FROM {1} WHERE {b})",
    "SELECT DISTINCT k, d FROM {0} WHERE {a} ORDER BY k LIMIT 7",
    "FROM {0} |> WHERE {a} |> AGGREGATE count(*) AS n GROUP BY g",
)  # fmt: skip


def answer(frame: DataFrame) -> tuple[list[str], list[str]]:
    """A frame's columns, and its rows as text: NaN is no value's equal."""
    return frame.columns, [repr(row) for row in rows(frame)]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Of two uses, each needs rows that the other does not.
@example(next(shape for shape in SHAPES if "k > 40" in shape), "plain", "plain", "b", "b")
# A file whose numbers are all below, but for NaN, which is above.
@example("SELECT * FROM {0} WHERE {a}", "evolved", "plain", "NOT (0 > f)", "b")
@given(hs.sampled_from(SHAPES), NAMES, NAMES, CONDITIONS, CONDITIONS)
def test_a_query_over_the_lake_is_spark_over_the_same_rows(
    twins: SparkLake, shape: str, first: str, second: str, a: str, b: str
) -> None:
    text = shape.format(first, second, a=a, b=b)
    plain = shape.format(f"twin_{first}", f"twin_{second}", a=a, b=b)
    assert answer(twins.sql(text)) == answer(twins.spark.sql(plain))
    assert len(twins.last_query) == shape.count("{0}") + shape.count("{1}")
