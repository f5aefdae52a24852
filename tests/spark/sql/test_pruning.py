"""The columns, files and rows that a query has no need of are not read."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import plan, rows, scanned_columns

from headwater.spark import SparkLake
from headwater.spark.source.table_read import TableRead

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def reads(lake: SparkLake, text: str) -> list[TableRead]:
    lake.sql(text)
    return list(lake.last_query)


@pytest.mark.parametrize(
    ("text", "columns", "files", "whole"),
    [
        # Partitions, of which '0' has two files to merge.
        ("SELECT name FROM orders WHERE part = '1'", ["name,part"], [1], [4]),
        ("SELECT name FROM orders WHERE part IN ('1', '2') AND id > 100", ["id,name,part"], [0],
         [4]),
        ("SELECT count(*) FROM orders WHERE part <> '0'", ["part"], [2], [4]),
        ("SELECT * FROM orders WHERE part LIKE '0%'", ["id,name,part"], [2], [4]),
        # Statistics of an append table's files.
        ("SELECT price FROM items WHERE id = 3", ["id,price"], [1], [2]),
        ("SELECT price FROM items WHERE day >= '2026-01-15'", ["price,day"], [1], [2]),
        ("SELECT id FROM items WHERE price < 14 AND upper(order_id) <> 'X'", ["id,order_id,price"],
         [1], [2]),
        ("SELECT id FROM items WHERE price < 14 OR upper(order_id) = 'X'", ["id,order_id,price"],
         [2], [2]),
        ("SELECT id FROM items WHERE id IN (1,2,3,4,5,6,7,8,9,-1,-2,-3)", ["id"], [1], [2]),
        ("SELECT id FROM items WHERE NOT (id < 15 OR id IS NULL)", ["id"], [1], [2]),
        ("SELECT 1 FROM items WHERE 1 = 0", ["id"], [0], [2]),
        # What metadata columns say of partitions.
        ("SELECT id FROM orders WHERE __paimon_partition.part = '1'", ["id,__paimon_partition"],
         [1], [4]),
        ("SELECT * FROM orders o WHERE o.__paimon_partition.part IN ('1', '2') "
         "AND upper(name) = 'X'", ["id,name,part,__paimon_partition"], [2], [4]),
        ("SELECT id FROM orders WHERE __paimon_partition.part = '1' OR __paimon_bucket = 0",
         ["id,__paimon_partition,__paimon_bucket"], [4], [4]),
        ("SELECT id FROM orders WHERE __paimon_bucket > 0", ["id,__paimon_bucket"], [0], [4]),
        # Each occurrence for itself.
        ("SELECT a.id FROM items a JOIN items b ON a.id = b.order_id WHERE a.id < 3 AND b.id > 12",
         ["id", "id,order_id"], [1, 1], [2, 2]),
        ("SELECT id FROM items WHERE id < 3 UNION ALL SELECT order_id FROM items WHERE id > 15",
         ["id", "id,order_id"], [1, 1], [2, 2]),
        ("SELECT name FROM orders WHERE part = '2' AND id IN (SELECT order_id FROM items "
         "WHERE day < '2026-01-03')", ["id,name,part", "order_id,day"], [1, 1], [4, 2]),
        ("SELECT name, (SELECT max(price) FROM items i WHERE i.order_id = o.id AND i.id > 11) "
         "FROM orders o", ["id,order_id,price", "id,name"], [1, 4], [2, 4]),
        ("SELECT n FROM orders LATERAL VIEW explode(array(id)) AS n WHERE part = '1'",
         ["id,part"], [1], [4]),
        # A name of WITH that is used twice needs the rows of both uses.
        ("WITH c AS (SELECT * FROM items WHERE id <> 4) "
         "SELECT a.id FROM c a JOIN c b USING (id) WHERE a.id < 3", ["id"], [1], [2]),
        ("WITH c AS (SELECT * FROM items) SELECT id FROM c WHERE id < 3 "
         "UNION ALL SELECT id FROM c WHERE price > 27", ["id,price"], [2], [2]),
        # Views and moments.
        ("SELECT number FROM nested WHERE number > 40", ["id"], [0], [4]),
        ("SELECT name FROM orders VERSION AS OF 1 WHERE part = '0'", ["name,part"], [1], [3]),
        # The current time is another one when the frame is run.
        ("SELECT id FROM items WHERE id < 3 AND day < current_date() - 5000", ["id,day"], [1], [2]),
        ("SELECT id FROM items WHERE day > current_date()", ["id,day"], [2], [2]),
        ("SELECT id FROM items WHERE id < 3 AND day < current_date", ["id,day"], [2], [2]),
        # What decides the number of rows stays.
        ("SELECT count(*) FROM (SELECT id FROM items ORDER BY id LIMIT 5) WHERE id > 10",
         ["id"], [2], [2]),
        ("SELECT max(id) OVER (PARTITION BY order_id) AS m, id FROM items WHERE order_id = 3",
         ["id,order_id"], [2], [2]),
    ],
)  # fmt: skip
def test_each_place_reads_its_own_columns_and_files(
    shop: SparkLake, text: str, columns: list[str], files: list[int], whole: list[int]
) -> None:
    found = reads(shop, text)
    assert [",".join(each.columns) for each in found] == columns
    assert [each.files for each in found] == files
    assert [each.files_of_table for each in found] == whole


def test_conditions_on_buckets_leave_out_their_files(spark: SparkSession, lake: SparkLake) -> None:
    source = spark.range(0, 40).selectExpr("id", "CAST(id % 2 AS STRING) AS part")
    lake.create_table(
        "db.t",
        source.schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "3"},
    )
    lake.write(source, "db.t")
    places = lake.table("db.t", ["id", "part", "__paimon_bucket"]).collect()
    assert {row["__paimon_bucket"] for row in places} == {0, 1, 2}
    for where, files in (
        ("__paimon_bucket = 1", 2),
        ("__paimon_bucket IN (0, 2) AND __paimon_partition.part = '1'", 2),
        ("__paimon_bucket <> 1 AND id > 3", 4),
        ("__paimon_bucket % 2 = 0", 6),
        ("NOT (__paimon_bucket >= 1)", 2),
        ("__paimon_bucket = 1 AND part = '0' OR __paimon_bucket = 2 AND part = '1'", 4),
        ("__paimon_bucket = 5", 0),
        ("__paimon_bucket IS NULL", 0),
    ):
        found = lake.sql(f"SELECT id FROM db.t WHERE {where}")
        assert lake.last_query[0].files == files, where
        # As Spark filters what it read.
        metadata = ["__paimon_bucket", "__paimon_partition"]
        whole = lake.table("db.t", ["id", "part", *metadata])
        assert rows(found) == rows(whole.where(where).select("id")), where
    lake.sql("SELECT id FROM db.t WHERE __paimon_bucket = 1 AND part = '0'")
    condition = lake.last_query[0].where
    assert condition is not None
    assert condition.endswith("AND ((NOT `__paimon_bucket` IS NULL) AND (`__paimon_bucket` = 1))")


def test_timestamps_are_compared_in_the_zone_of_the_session(
    spark: SparkSession, lake: SparkLake
) -> None:
    table = spark.sql("SELECT TIMESTAMP'2026-01-01 00:00:00Z' AS at, 1 AS n").schema
    lake.create_table("db.moments", table)
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        # The clocks go back at 01:00 UTC: 02:30 is then twice, one hour apart.
        for number, at in enumerate(("2026-01-01 00:30", "2026-10-25 00:30", "2026-10-25 01:30")):
            frame = spark.sql(f"SELECT TIMESTAMP'{at}:00Z' AS at, {number} AS n")
            lake.write(frame, "db.moments")
        for text, expected, files in (
            ("at = '2026-01-01 01:30:00'", [0], 1),
            ("at < '2026-01-01 01:30:00.001'", [0], 1),
            ("at >= '2026-10-25 02:30:00' AND n > 0", None, 2),
            ("at > '2026-01-01 00:30:00Z'", [1, 2], 2),
        ):
            frame = lake.sql(f"SELECT n FROM db.moments WHERE {text}")
            plain = lake.table("db.moments").where(text).select("n")
            assert rows(frame) == rows(plain)
            assert expected is None or [row[0] for row in rows(frame)] == expected
            assert lake.last_query[0].files == files
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_text_that_looks_like_a_timestamp_stays_as_it_is(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (s STRING)")
    for value in ("TIMESTAMP ", "x"):
        lake.sql(f"INSERT INTO db.t VALUES ('{value}')")
    assert rows(lake.sql("SELECT s FROM db.t WHERE s IN ('TIMESTAMP ', 'x')")) == [
        ("TIMESTAMP ",),
        ("x",),
    ]
    assert [read.files for read in lake.last_query] == [2]


def test_a_condition_holds_in_both_readers(spark: SparkSession, lake: SparkLake) -> None:
    source = spark.sql(
        "SELECT id, CAST(id / 2 AS DECIMAL(6, 1)) AS d, DATE'2026-01-01' + CAST(id AS INT) AS day, "
        "TIMESTAMP'2026-01-01 00:00:00Z' + make_interval(0, 0, 0, CAST(id AS INT)) AS at, "
        "concat('a''b', id) AS s, id * 1.5D AS f FROM range(20)"
    )
    lake.create_table("db.t", source.schema, primary_keys=["id"], options={"bucket": "2"})
    lake.write(source, "db.t")
    lake.write(source.where("id = 3"), "db.t")
    assert "FileScan parquet" in plan(lake.table("db.t", where="id > 1"))
    for where in (
        "d > 3.05", "day = '2026-01-04'", "at >= TIMESTAMP'2026-01-05 00:00:00Z'", "s = 'a\\'b7'",
        "s LIKE 'a%' AND f < 4.5", "id IN (1, 3, 5) OR f > 27", "NOT (id < 15)",
    ):  # fmt: skip
        assert rows(lake.table("db.t", ["s"], where)) == rows(source.where(where).select("s"))


def test_sparks_own_scan_still_pushes_its_filters(shop: SparkLake) -> None:
    frame = shop.sql("SELECT price FROM items WHERE id > 12")
    assert scanned_columns(frame) == {"id", "price"}
    [read] = shop.last_query
    assert (read.files, read.native_files, read.row_count) == (1, 1, 10)
    assert read.where is not None
    assert "12" in read.where
    frame = shop.sql("SELECT name FROM orders WHERE id > 2")
    [read] = shop.last_query
    assert (read.files, read.native_files) == (4, 2)
    assert rows(frame) == rows(shop.table("db.orders", ["name"], "id > 2"))
