"""Queries over tables of the catalog: what names mean, and what may follow them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def first(lake: SparkLake, text: str) -> object:
    """The only value of a query's only row."""
    [row] = lake.sql(text).collect()
    return row[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT count(*) FROM orders", 30),
        ("SELECT count(*) FROM `db`.orders -- all", 30),
        ("SELECT orders.name FROM orders WHERE id = 3", "new"),
        ("SELECT db.orders.name FROM db.orders WHERE db.orders.id = 4", "n4"),
        ("FROM orders SELECT max(id)", 29),
        ("WITH orders AS (SELECT 1 AS x) SELECT x FROM orders", 1),
        ("WITH orders AS (SELECT count(*) AS x FROM orders) SELECT x FROM orders", 30),
        ("SELECT count(*) FROM (WITH items AS (SELECT 1) SELECT * FROM items) JOIN items", 20),
        ("SELECT count(*) FROM orders a JOIN orders b ON a.id = b.id", 30),
        ("SELECT db.orders.name FROM orders JOIN other.orders WHERE 1 = 0 UNION SELECT 'x'", "x"),
        ("SELECT sum(o.price) FROM db.orders JOIN other.orders AS o USING (id)", 1.5),
        ("SELECT count(db.orders.name) FROM db.orders JOIN other.orders USING (id)", 2),
        ("SELECT count(*) FROM orders WHERE id IN (SELECT order_id FROM items)", 10),
        ("SELECT count(*) FROM (SELECT *, __paimon_row_index r FROM items) WHERE r < 5", 10),
        ("SELECT max(struct(__paimon_row_index, *)).price FROM items", 28.5),
        ("SELECT count(DISTINCT __PAIMON_FILE_PATH) FROM items WHERE __paimon_bucket >= 0", 2),
        ("SELECT o.__paimon_partition.part FROM orders o JOIN items i ON o.id = i.id "
         "WHERE i.__paimon_row_index = 3 AND i.price > 15 AND o.__paimon_bucket = 0", "1"),
        ("SELECT __paimon_row_index FROM items VERSION AS OF 1 WHERE id = 4", 4),
        ("SELECT b FROM (SELECT __paimon_bucket AS b FROM orders) LIMIT 1", 0),
        ("SELECT count(*) FROM items i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = i.id "
         "AND i.__paimon_row_index = 5 AND o.__paimon_bucket = 0)", 2),
        ("SELECT count(DISTINCT *) FROM (SELECT count(DISTINCT *) AS n, max(__paimon_row_index) "
         "FROM items)", 1),
        ("WITH w AS (SELECT *, __paimon_bucket FROM items) SELECT count(w.__paimon_bucket) FROM w "
         "JOIN items ON w.id = db.items.__paimon_row_index WHERE w.id = 3", 2),
        ("SELECT (SELECT max(price) FROM items i WHERE i.order_id = o.id) FROM orders o "
         "WHERE o.id = 9", 28.5),
        ("SELECT right(input_file_name(), 8) FROM items LIMIT 1", ".parquet"),
        ("SELECT max('input_file_name()') FROM orders", "input_file_name()"),
        ("SELECT count(*) FROM items LATERAL VIEW explode(array(1, 2)) AS n", 40),
        ("SELECT count(*) FROM orders TABLESAMPLE (100 PERCENT)", 30),
        ("SELECT count(*) FROM orders JOIN range(2)", 60),
        ("SELECT id FROM orders EXCEPT SELECT id FROM orders WHERE id > 0", 0),
        ("SELECT '{not} a place' FROM items WHERE id = 1", "{not} a place"),
        ("SELECT count(*) FROM paimon_incremental_query('orders', 1, 2)", 10),
        ("SELECT name FROM orders VERSION AS OF 1 WHERE id = 3", "n3"),
        ("SELECT name FROM orders VERSION AS OF 'first' o WHERE o.id = 3", "n3"),
        ("SELECT name FROM orders FOR SYSTEM_VERSION AS OF '1' WHERE id = 3", "n3"),
        ("SELECT name FROM orders TIMESTAMP AS OF now() + INTERVAL 1 HOUR o WHERE id = 3", "new"),
        ("SELECT name FROM orders TIMESTAMP AS OF '2200-01-01' WHERE id = 3", "new"),
        ("SELECT name FROM orders TIMESTAMP AS OF (SELECT now()) WHERE id = 3", "new"),
        ("SELECT name FROM orders TIMESTAMP AS OF 7258118400 WHERE id = 3", "new"),
        ("SELECT name FROM orders WITH ('scan.snapshot-id' = '1') WHERE id = 3", "n3"),
        ("SELECT name FROM orders /*+ OPTIONS('scan.tag-name'='first') */ o WHERE id = 3", "n3"),
        ("SELECT count_if(name = 'new') FROM orders /*+ OPTIONS('scan.tag-name'='first') */", 0),
        ("SELECT a.name || b.name FROM orders VERSION AS OF 1 a JOIN orders b USING (id) "
         "WHERE id = 3", "n3new"),
        ("SELECT count(*) FROM `orders$snapshots`", 2),
        ("SELECT count(db.orders$snapshots.snapshot_id) FROM db.orders$snapshots", 2),
        ("SELECT count(*) FROM db.`orders$files`", 4),
        ("SELECT count(*) FROM `orders$files` VERSION AS OF 'first'", 3),
        ("SELECT count(*) FROM orders$files TIMESTAMP AS OF '2200-01-01'", 4),
        ("SELECT count(*) FROM orders$manifests WITH ('scan.snapshot-id' = '1')", 1),
        ("SELECT max(name) FROM `orders$audit_log` VERSION AS OF 1 WHERE id = 3", "n3"),
        ("SELECT max(rowkind || name) FROM paimon_incremental_query('`orders$audit_log`', 1, 2) "
         "WHERE id = 3", "+Inew"),
        ("SELECT count(DISTINCT rowkind) FROM `orders$audit_log` WHERE id < 9", 1),
        ("SELECT count(*) FROM sys.tables WHERE database_name = 'db'", 2),
        ("SELECT max(label) FROM named WHERE number = 3", "new"),
        ("SELECT sum(n.number) FROM nested n", 10),
        ("SELECT orders.id FROM db.orders WHERE orders.id IN (SELECT orders.id - 1 FROM db.orders) "
         "ORDER BY orders.id DESC LIMIT 1", 28),
        ("SELECT count(*) FROM db.orders WHERE orders.id IN (SELECT orders.id FROM other.orders)",
         2),
        ("SELECT id n, (SELECT /*+ BROADCAST(items) */ max(id) FROM items) FROM orders "
         "WHERE id = 29", 29),
        ("WITH orders(v) AS (SELECT parse_json('{\"a\": 5}')) SELECT CAST(v:a AS INT) FROM orders",
         5),
        ("WITH RECURSIVE items(id) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL "
         "SELECT id + 1 FROM items WHERE id < 3) SELECT count(*) FROM items", 3),
        ("SELECT nested.number FROM other.orders JOIN db.nested ON nested.number = id + 1 "
         "WHERE id = 1", 2),
    ],
)  # fmt: skip
def test_a_query_reads_the_tables_it_names(shop: SparkLake, text: str, expected: object) -> None:
    assert first(shop, text) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FROM nowhere", NotFound, "db.nowhere"),
        ("SELECT * FROM db.nowhere", NotFound, "db.nowhere"),
        ("SELECT * FROM no.place", NotFound, "no"),
        ("SELECT nothing FROM orders", AnalysisException, "nothing"),
        ("SELECT * FROM orders VERSION AS OF 9", NotFound, "9"),
        ("SELECT * FROM orders VERSION AS OF 'never'", NotFound, "never"),
        ("SELECT * FROM orders TIMESTAMP AS OF '2001-01-01'", NotFound, "snapshot"),
        ("SELECT * FROM orders TIMESTAMP AS OF NULL", Invalid, "NULL"),
        (
            "SELECT * FROM orders TIMESTAMP AS OF (SELECT max(id) FROM orders)",
            Unsupported,
            "not read from tables of the catalog",
        ),
        (
            "SELECT * FROM orders TIMESTAMP AS OF 'then'",
            Invalid,
            "OF 'then': that is not a timestamp",
        ),
        ("SELECT * FROM orders VERSION AS OF -1", Invalid, "VERSION AS OF -"),
        ("SELECT * FROM orders WITH ('no.such' = '1')", Invalid, "no.such"),
        ("SELECT * FROM orders /*+ OPTIONS('team.owner' = 'a') */", Invalid, "'team.owner' is not"),
        ("SELECT /*+ OPTIONS('scan.snapshot-id'='1') */ * FROM orders", Invalid, "OPTIONS"),
        ("SELECT * FROM `orders$snapshots` VERSION AS OF 1", Unsupported, "at any time"),
        ("SELECT * FROM sys.tables VERSION AS OF 1", Unsupported, "warehouse as it is"),
        ("SELECT * FROM `orders$none` VERSION AS OF 1", NotFound, "no system table 'none'"),
        ("SELECT * FROM `orders$files` VERSION AS OF 9", NotFound, "snapshot 9"),
        ("SELECT * FROM paimon_incremental_query('orders$files', 1, 2)", Unsupported, "changed"),
        ("SELECT * FROM named VERSION AS OF 1", Unsupported, "view"),
        ("SELECT * FROM vector_search('items', 'price', array(1.0F), 5)", Unsupported, "a global"),
        ("SELECT * FROM orders o JOIN full_text_search('items', 'a') i", Unsupported, "a global"),
        ("SELECT __paimon_bucket FROM orders, items", Invalid, "any of orders, items"),
        ("SELECT __paimon_bucket FROM items NATURAL JOIN orders", Invalid, "any of items, orders"),
        ("SELECT i.__paimon_bucket FROM items i NATURAL JOIN orders", Invalid, "NATURAL"),
        ("SELECT *, __paimon_bucket FROM orders PIVOT (max(name) FOR id IN (1))", Invalid, "PIVOT"),
        ("FROM items |> WHERE __paimon_bucket = 0", Invalid, "'|>'"),
        ("SELECT * EXCEPT (id), __paimon_bucket FROM orders", Invalid, "name the columns"),
        ("SELECT *, o.__paimon_bucket, i.__paimon_bucket FROM orders o, items i", Invalid, "'\\*'"),
        ("SELECT __paimon_file_path FROM orders", Unsupported, "stand in one file each"),
        ("SELECT id FROM orders WHERE INPUT_FILE_NAME () = ''", Unsupported, "__paimon_file_path"),
        (
            "SELECT __paimon_bucket FROM paimon_incremental_query('orders', 1, 2)",
            AnalysisException,
            "__paimon_bucket",
        ),
        ("SELECT * FROM circle", Invalid, "db.circle -> db.back -> db.circle"),
        ("SELECT * FROM paimon_incremental_query('orders', 1)", Invalid, "start and end"),
        ("SELECT * FROM paimon_incremental_query('nowhere', 1, 2)", NotFound, "nowhere"),
    ],
)
def test_what_a_query_asks_in_vain_is_refused_by_name(
    shop: SparkLake, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        shop.sql(text)


def test_a_star_means_the_tables_own_columns(shop: SparkLake) -> None:
    own = ["id", "order_id", "price", "day"]
    frame = shop.sql("SELECT i.*, __paimon_row_index, * FROM items AS i WHERE id = 11")
    assert frame.columns == [*own, "__paimon_row_index", *own]
    assert [row[4] for row in frame.collect()] == [1]
    joined = "SELECT *, o.__paimon_bucket FROM orders o JOIN items i USING (id)"
    assert shop.sql(joined).columns == [
        "id", "name", "part", "order_id", "price", "day", "__paimon_bucket"
    ]  # fmt: skip
    plan = first(shop, "EXPLAIN SELECT *, __paimon_file_path FROM items WHERE id = 11")
    assert "files: 1 of 2" in str(plan)
    hidden = "SELECT id FROM (SELECT *, __paimon_file_path FROM items)"
    assert "(2 by Spark's Parquet scan" in str(first(shop, "EXPLAIN " + hidden))


def test_temporary_views_go_before_tables_and_leave_none_behind(
    spark: SparkSession, shop: SparkLake
) -> None:
    before = spark.catalog.listTables()
    spark.range(7).createOrReplaceTempView("orders")
    try:
        assert first(shop, "SELECT count(*) FROM orders") == 7
        assert first(shop, "SELECT count(*) FROM db.orders JOIN orders USING (id)") == 7
    finally:
        spark.catalog.dropTempView("orders")
    frame = shop.sql("SELECT id, name FROM orders WHERE id < 4")
    assert spark.catalog.listTables() == before
    assert rows(frame.where("id > 2").select("name")) == [("new",)]
    assert frame.count() == 4


def test_settings_of_the_session_are_options_of_tables(
    spark: SparkSession, shop: SparkLake
) -> None:
    text = "SELECT name FROM orders WHERE id = 3"
    key = "spark.paimon.*.db.orders.scan.snapshot-id"
    spark.conf.set(key, "1")
    try:
        assert first(shop, text) == "n3"
        assert first(shop, "SELECT count(*) FROM items") == 20
    finally:
        spark.conf.unset(key)
    assert first(shop, text) == "new"
    spark.conf.set("spark.paimon.no-such-key", "1")
    try:
        with pytest.raises(Invalid, match="no-such-key"):
            shop.sql(text)
    finally:
        spark.conf.unset("spark.paimon.no-such-key")


def test_a_frame_keeps_the_snapshot_it_was_made_of(shop: SparkLake, spark: SparkSession) -> None:
    before = shop.sql("SELECT count(*) AS n FROM other.orders")
    shop.write(spark.sql("SELECT 9L id, 9L order_id, 1D price, current_date() day"), "other.orders")
    try:
        assert rows(before) == [(2,)]
        assert first(shop, "SELECT count(*) FROM other.orders") == 3
    finally:
        shop.delete("other.orders", "id = 9")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT nope FROM db.items", "`nope` cannot be resolved. Did you mean"),
        ("SELECT i.nope FROM db.items i", "`i`.`id`"),
        ("SELECT order_id, id FROM db.items GROUP BY id", "order_id"),
        ("SELECT * FROM db.items i WHERE", "SELECT * FROM db.items i WHERE\n"),
        ("SELECT * FROM db.items a JOIN db.items b USING (nope)", "nope"),
        ("UPDATE db.items SET id = nope", "`nope` cannot be resolved. Did you mean"),
        ("DELETE FROM db.items WHERE upper(nope) = 'X'", "`nope` cannot be resolved"),
    ],
)
def test_errors_show_the_users_words(shop: SparkLake, text: str, shown: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        shop.sql(text)
    message = str(raised.value)
    assert shown in message
    assert "_pyspark_" not in message
    assert "headwater_" not in message


def test_errors_of_rows_show_the_tables_name(shop: SparkLake) -> None:
    """They come when the frame is run, and none of its names is left in the session."""
    failing = shop.sql("SELECT CAST(name AS INT) FROM db.orders")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT") as raised:
        failing.collect()
    assert "_pyspark_" not in str(raised.value)
    names = [each.name for each in shop.spark.catalog.listTables()]
    assert [name for name in names if "orders" in name] == []


def test_queries_of_one_table_at_once(shop: SparkLake) -> None:
    text = "SELECT count(*) FROM db.orders a JOIN db.orders b USING (id)"
    with ThreadPoolExecutor(4) as threads:
        counts = threads.map(lambda _: first(shop, text), range(8))
        assert list(counts) == [30] * 8
