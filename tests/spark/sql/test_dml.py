"""INSERT, UPDATE, DELETE and MERGE as SQL."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from tests.spark.conftest import Rows, rows, stored

from headwater.spark import SparkLake
from headwater.spark.errors import own_errors
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark

MODES = pytest.mark.modes
KEYED = {"primary_keys": ["p", "id"], "options": {"bucket": "1"}}


def make(lake: SparkLake, name: str = "t", *, keyed: bool = True) -> None:
    schema = lake.spark.createDataFrame([], "id INT, v STRING, n DECIMAL(5, 2), p STRING").schema
    keys = ["p", "id"] if keyed else []
    options = {"bucket": "1"} if keyed else {}
    lake.create_table(
        f"db.{name}", schema, primary_keys=keys, partition_keys=["p"], options=options
    )
    lake.sql("USE db")


def answer(lake: SparkLake, text: str) -> dict[str, int]:
    """The only row of a statement's answer."""
    (row,) = lake.sql(text).collect()
    return dict(row.asDict())


def content(lake: SparkLake, name: str = "t") -> Rows:
    return stored(lake, f"db.{name}")


def test_inserted_rows_are_matched_to_columns(lake: SparkLake) -> None:
    make(lake)
    assert answer(lake, "INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, NULL, 2.5, 'y')") == {
        "num_affected_rows": 2,
        "num_inserted_rows": 2,
    }
    lake.sql(
        "WITH c AS (SELECT 3 AS k) INSERT INTO TABLE db.t PARTITION (p = 'x') (id) SELECT k FROM c"
    )
    lake.sql("INSERT INTO t BY NAME SELECT 'z' AS P, 4 AS id")
    assert [row[0] for row in content(lake)] == [1, 2, 3, 4]
    refused = {
        "INSERT INTO t VALUES (1, 'a')": "too few columns: 2",
        "INSERT INTO t (id, p) SELECT 1, 'x', 3": "too many columns: 3",
        "INSERT INTO t (id, p) VALUES ('one', 'x')": "column 'id': .* string .* stored as int",
        "INSERT INTO t PARTITION (v = 'x') VALUES (1)": "'v' is not a partition column",
        "INSERT INTO t (id, id) VALUES (1, 2)": "named twice",
        "INSERT INTO t": "the statement ends where a query",
    }
    for text, message in refused.items():
        with pytest.raises(Invalid, match=message):
            lake.sql(text)
    with pytest.raises(NotFound, match="no column 'w'"):
        lake.sql("INSERT INTO t BY NAME SELECT 1 AS w")
    assert len(content(lake)) == 4


@MODES
def test_values_that_overflow_are_refused_and_defaults_are_filled_in(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.d (id INT, v STRING DEFAULT 'new', n INT DEFAULT 7)")
    lake.sql("USE db")
    lake.sql("INSERT INTO d VALUES (1, DEFAULT, 2), (2, 'DEFAULT', DEFAULT)")
    lake.sql("INSERT INTO d (id) VALUES (3)")
    lake.sql("UPDATE d SET n = DEFAULT WHERE id = 1")
    assert content(lake, "d") == [(1, "new", 7), (2, "DEFAULT", 7), (3, "new", 7)]
    for ansi in ("true", "false"):
        lake.spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            with pytest.raises(Exception, match=r"(?i)overflow"):
                lake.sql("INSERT INTO d (id) SELECT 3000000000 + id FROM d")
        finally:
            lake.spark.conf.unset("spark.sql.ansi.enabled")


@MODES
def test_an_overwrite_replaces_what_its_mode_says(lake: SparkLake) -> None:
    make(lake, keyed=False)
    values = "VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y')"
    lake.sql(f"INSERT INTO t {values}")
    lake.sql("INSERT OVERWRITE t PARTITION (p = 'x') (id) VALUES (3)")
    assert [(row[0], row[3]) for row in content(lake)] == [(2, "y"), (3, "x")]
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql("INSERT OVERWRITE TABLE t VALUES (4, 'd', 1, 'x')")
        # A partition that is named is replaced by no rows, too.
        lake.sql("INSERT INTO t VALUES (5, 'e', 1, 'z')")
        lake.sql("INSERT OVERWRITE t PARTITION (p = 'z') SELECT id, v, n FROM t WHERE false")
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert [row[0] for row in content(lake)] == [2, 4]
    lake.sql("INSERT OVERWRITE t SELECT id + 1, v, n, p FROM t WHERE id = 4")
    assert content(lake)[0][0] == 5
    answered = answer(lake, "INSERT INTO t REPLACE WHERE id >= 5 VALUES (6, 'f', 1, 'x')")
    assert answered == {"num_affected_rows": 2, "num_deleted_rows": 1, "num_inserted_rows": 1}
    with pytest.raises(Invalid, match="do not fulfil the condition id >= 5"):
        lake.sql("INSERT INTO t REPLACE WHERE id >= 5 VALUES (1, 'f', 1, 'x')")
    assert [row[0] for row in content(lake)] == [6]


@pytest.mark.parametrize("keyed", [True, pytest.param(False, marks=MODES)])
def test_statements_change_the_rows_that_they_name(lake: SparkLake, keyed: bool) -> None:
    make(lake, keyed=keyed)
    lake.catalog.table("db.t").write(
        [{"id": id, "v": "v", "n": Decimal(id), "p": "x" if id < 3 else "y"} for id in range(6)]
    )
    updated = answer(
        lake,
        "UPDATE t AS u SET u.v = CASE WHEN u.id = 1 THEN 'one' ELSE concat(v, '+') END, "
        "n = n + 0.5 "
        "WHERE u.id < 5 AND EXISTS (SELECT 1 FROM db.t s WHERE s.id = u.id + 4)",
    )
    assert updated == {"num_affected_rows": 2}
    deleted = answer(lake, "DELETE FROM db.t WHERE id IN (SELECT max(id) - 1 FROM t)")
    assert deleted == {"num_affected_rows": 1}
    assert [(row[0], row[1], str(row[2])) for row in content(lake)] == [
        (0, "v+", "0.50"),
        (1, "one", "1.50"),
        (2, "v", "2.00"),
        (3, "v", "3.00"),
        (5, "v", "5.00"),
    ]
    merged = answer(
        lake,
        """MERGE INTO db.t USING (SELECT id + 1 AS id, 'm' AS v, n, p FROM t WHERE id < 3) AS s
        ON t.id = s.id AND t.p = s.p AND CASE WHEN t.id = 9 THEN false ELSE true END
        WHEN MATCHED AND t.v = 'one' THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = CASE WHEN s.v = 'm' THEN s.v END, t.n = DEFAULT
        WHEN NOT MATCHED BY TARGET AND s.id = 3 THEN INSERT (id, p, v) VALUES (id * 10, p, 'new')
        WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN UPDATE SET v = 'left'""",
    )
    assert merged == {
        "num_affected_rows": 4,
        "num_updated_rows": 2,
        "num_deleted_rows": 1,
        "num_inserted_rows": 1,
    }
    assert [row[:2] for row in content(lake)] == [
        (0, "v+"), (2, "m"), (3, "v"), (30, "new"), (5, "left")
    ]  # fmt: skip
    assert not lake.spark.catalog.listTables("default")


def test_statements_that_cannot_be_read_change_nothing(lake: SparkLake) -> None:
    make(lake)
    refused = {
        "UPDATE t WHERE id = 1": "where SET is expected",
        "UPDATE t SET v = 'a', v = 'b'": "no other value of 'v'",
        "UPDATE t SET id = 2": "part of the primary key",
        "DELETE FROM t WHERE": "a condition",
        "MERGE INTO t USING t AS s ON t.id = s.id": "WHEN",
        "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN INSERT *": "UPDATE",
        "MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE": "both called 't'",
        "MERGE INTO t USING t AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)":
            "names 1 columns and has 2 values",
    }  # fmt: skip
    for text, message in refused.items():
        with pytest.raises(Invalid, match=message):
            lake.sql(text)
    assert lake.catalog.table("db.t").latest_snapshot() is None


@MODES
@pytest.mark.parametrize("keyed", [True, False])
def test_files_are_left_out_by_conditions_with_an_alias_and_by_columns(
    lake: SparkLake, folder: Path, keyed: bool
) -> None:
    make(lake, keyed=keyed)
    lake.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'x'), (3, 'c', 1, 'y')")
    (gone,) = folder.rglob("p=y/**/data-*")
    gone.unlink()
    updated = answer(lake, "UPDATE t u SET u.v = 'n' WHERE u.p = 'x' AND upper(u.v) = 'A'")
    assert updated == {"num_affected_rows": 1}
    source = "(SELECT 1 AS id, 'x' AS p)"
    for on in ("t.p = 'x' AND t.id + 0 = s.id", "t.id + 0 = s.id AND s.p = t.p AND s.p = 'x'"):
        merged = answer(
            lake, f"MERGE INTO t USING {source} s ON {on} WHEN MATCHED THEN UPDATE SET v = 'm'"
        )
        assert merged["num_updated_rows"] == 1
    same = (sf.col("target.p") == sf.col("source.p")) & (sf.col("source.id") == sf.col("target.id"))
    merge = lake.merge("db.t", lake.spark.sql(f"SELECT * FROM {source}"), same)
    assert merge.when_matched_update({"n": sf.lit(2)}).execute().updated == 1
    assert lake.update("db.t", {"v": "'o'"}, sf.col("p") == "x").updated == 2
    deleted = answer(lake, "DELETE FROM t AS u WHERE u.p = 'x' AND u.id BETWEEN 2 AND 5")
    assert deleted == {"num_affected_rows": 1}
    left = lake.sql("SELECT id, v, CAST(n AS STRING) FROM t WHERE p = 'x'")
    assert rows(left) == [(1, "o", "2.00")]


@MODES
def test_places_choose_rows_of_sources_and_not_of_the_changed_table(lake: SparkLake) -> None:
    make(lake, keyed=False)
    lake.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'x')")
    for text in (
        "DELETE FROM t WHERE __paimon_row_index = 0",
        "UPDATE t AS u SET n = 2 WHERE u.__paimon_partition.p = 'x'",
        "DELETE FROM t WHERE id IN (SELECT id FROM t s WHERE s.id = t.__paimon_row_index)",
        "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = __paimon_bucket",
    ):
        with pytest.raises(Unsupported, match="is not known of rows that are changed"):
            lake.sql(text)
    deleted = answer(
        lake, "DELETE FROM t WHERE id IN (SELECT id FROM t s WHERE s.__paimon_row_index = 0)"
    )
    assert deleted == {"num_affected_rows": 1}
    lake.sql(
        "MERGE INTO t USING (SELECT *, __paimon_bucket FROM t) s ON t.id = s.id "
        "WHEN MATCHED AND s.__paimon_bucket = 0 THEN UPDATE SET n = s.__paimon_bucket"
    )
    assert content(lake) == [(2, "b", 0, "x")]


@MODES
def test_rows_of_one_source_are_inserted_into_several_tables(lake: SparkLake) -> None:
    make(lake, keyed=False)
    make(lake, "u", keyed=False)
    lake.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y')")
    frame = lake.sql(
        "FROM (SELECT * FROM t WHERE id > 0) s INSERT INTO t (id, p) SELECT id + 10, s.p "
        "WHERE s.id = 1 INSERT OVERWRITE TABLE db.u PARTITION (p = 'z') SELECT s.id, v, n"
    )
    assert [row["num_inserted_rows"] for row in frame.collect()] == [1, 2]
    assert [row[0] for row in content(lake)] == [1, 11, 2]
    assert [(row[0], row[3]) for row in content(lake, "u")] == [(1, "z"), (2, "z")]
    with pytest.raises(NotFound, match="nowhere"):
        lake.sql("FROM t INSERT INTO u SELECT * INSERT INTO nowhere SELECT *")
    assert len(content(lake, "u")) == 2
    lake.sql("WITH c AS (SELECT 7 AS id) FROM c INSERT INTO u (id, p) SELECT id, 'w'")
    assert [row[0] for row in content(lake, "u")] == [1, 2, 7]


def test_values_of_nested_types_go_by_place_and_have_defaults(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql(
        "CREATE TABLE n (id INT, s STRUCT<c1: INT, c2: STRING> DEFAULT STRUCT(42, 'x'), "
        "l ARRAY<STRING> DEFAULT ARRAY('a', 'b'), m MAP<STRING, STRUCT<v: INT>> "
        "DEFAULT MAP('k', STRUCT(1)))"
    )
    lake.sql("INSERT INTO n (id) VALUES (1)")
    lake.sql("INSERT INTO n VALUES (2, struct(7L, 'y'), DEFAULT, map('j', struct(2)))")
    lake.write(lake.spark.sql("SELECT 3 AS id, CAST(NULL AS ARRAY<STRING>) AS l"), "db.n")
    lake.sql("MERGE INTO n USING (SELECT 4 AS id) s ON false WHEN NOT MATCHED THEN INSERT (id) "
             "VALUES (s.id)")  # fmt: skip
    lake.sql("ALTER TABLE n ALTER COLUMN l SET DEFAULT ARRAY('c')")
    lake.sql("UPDATE n SET l = DEFAULT WHERE id = 1")
    read = lake.sql("SELECT id, s.c1, s.c2, l, m['k'].v, m['j'].v FROM n")
    assert rows(read) == [
        (1, 42, "x", ["c"], 1, None),
        (2, 7, "y", ["a", "b"], None, 2),
        (3, 42, "x", ["a", "b"], 1, None),
        (4, 42, "x", ["a", "b"], 1, None),
    ]
    for text in ("struct(1)", "struct('one', 'y')"):
        with pytest.raises(Invalid, match="column 's"):
            lake.sql(f"INSERT INTO n (id, s) VALUES (5, {text})")


def test_inserts_by_name_add_columns_if_the_session_says_so(lake: SparkLake) -> None:
    make(lake, keyed=False)
    text = "INSERT INTO t BY NAME SELECT 'z' AS p, 4 AS id, named_struct('a', 1) AS more"
    with pytest.raises(NotFound, match="no column 'more'"):
        lake.sql(text)
    lake.sql("SET spark.paimon.write.merge-schema=true")
    try:
        lake.sql(text)
        lake.sql("INSERT INTO t BY NAME SELECT 5 AS id, named_struct('b', 2) AS more")
        with pytest.raises(Invalid, match="too many columns"):
            lake.sql("INSERT INTO t SELECT 1, 'a', 1, 'x', named_struct('a', 1), 2")
    finally:
        lake.sql("RESET spark.paimon.write.merge-schema")
    assert rows(lake.sql("SELECT id, p, more.a, more.b FROM t")) == [
        (4, "z", 1, None),
        (5, None, None, 2),
    ]


@pytest.mark.modes
def test_partitions_are_named_by_the_session_s_time_zone(lake: SparkLake) -> None:
    """Wherever a timestamp says which partition is replaced, dropped or written to."""
    lake.sql("USE db")
    conf = lake.spark.conf
    before = str(conf.get("spark.sql.session.timeZone"))
    conf.set("spark.sql.session.timeZone", "America/New_York")
    at = "TIMESTAMP'2026-01-01 {}:00:00'"
    try:
        lake.sql("CREATE TABLE t (id INT, at TIMESTAMP) PARTITIONED BY (at)")
        # UTC takes 12:00 for the second one's 17:00.
        lake.sql(f"INSERT INTO t VALUES (1, {at.format(12)}), (2, {at.format(17)})")
        new = lake.spark.sql(f"SELECT 3 AS id, {at.format(17)} AS at")
        lake.write(new, "db.t", "overwrite", replace_where="At = '2026-01-01 17:00:00'")
        assert rows(lake.sql("SELECT id FROM t")) == [(1,), (3,)]
        lake.sql(f"INSERT OVERWRITE t PARTITION (at = {at.format(17)}) SELECT 4")
        lake.write(new.drop("at"), "db.t", "overwrite", partition={"at": "2026-01-01 12:00:00"})
        assert rows(lake.sql("SELECT id, hour(at) FROM t")) == [(3, 12), (4, 17)]
        assert rows(lake.sql("SHOW PARTITIONS t PARTITION (at = '2026-01-01 17:00:00')")) == [
            ("at=2026-01-01 17%3A00%3A00",)
        ]
        for option, value, problem in (
            ("replaceWhere", "at = '2026-01-01 17:00:00'", "give them as in"),
            ("partition", '{"at": "2026-01-01 17:00:00"}', "give it as in"),
        ):
            writer = new.write.format("headwater").mode("overwrite").option(option, value)
            with pytest.raises(Unsupported, match=problem), own_errors():
                writer.save("db.t")
        writer = new.write.format("headwater").mode("overwrite")
        writer.option("replaceWhere", "at = '2026-01-01 22:00:00Z'").save("db.t")
        assert rows(lake.sql("SELECT id, hour(at) FROM t")) == [(3, 12), (3, 17)]
        lake.sql("ALTER TABLE t DROP PARTITION (at = '2026-01-01 12:00:00')")
        assert rows(lake.sql("SELECT id, hour(at) FROM t")) == [(3, 17)]
        lake.sql("TRUNCATE TABLE t PARTITION (at = '2026-01-01 17:00:00')")
        assert rows(lake.sql("SELECT id FROM t")) == []
    finally:
        conf.set("spark.sql.session.timeZone", before)


@pytest.mark.modes
def test_dates_and_local_times_are_those_that_are_said(lake: SparkLake) -> None:
    """In any session's time zone, and of any year."""
    lake.sql("USE db")
    conf = lake.spark.conf
    before = str(conf.get("spark.sql.session.timeZone"))
    conf.set("spark.sql.session.timeZone", "America/New_York")
    at, day = "2026-01-01 12:00:00", "DATE'0007-03-01'"
    try:
        lake.sql(
            f"CREATE TABLE t (id INT, day DATE, seen TIMESTAMP_NTZ DEFAULT '{at}', "
            "at TIMESTAMP_NTZ) PARTITIONED BY (at)"
        )
        lake.sql(f"INSERT INTO t PARTITION (at = TIMESTAMP_NTZ'{at}') (id, day) VALUES (1, {day})")
        new = lake.spark.sql(f"SELECT 2 AS id, {day} AS day, TIMESTAMP_NTZ'{at}' AS seen")
        lake.write(new, "db.t", "overwrite", partition={"at": "2026-01-02 12:00:00"})
        lake.sql(
            f"MERGE INTO t USING (SELECT 3 AS id, {day} AS day, TIMESTAMP_NTZ'{at}' AS at) s "
            "ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, day, at) VALUES (s.id, s.day, s.at)"
        )
        read = lake.sql("SELECT id, day(at), hour(at), hour(seen), year(day) FROM t")
        assert rows(read) == [(1, 1, 12, 12, 7), (2, 2, 12, 12, 7), (3, 1, 12, 12, 7)]
        lake.sql("CREATE TABLE d (id INT, day DATE) PARTITIONED BY (day)")
        lake.sql(f"INSERT INTO d VALUES (1, {day}), (2, DATE'2026-01-01')")
        assert rows(lake.sql("SELECT id, year(day) FROM d WHERE id > 0")) == [(1, 7), (2, 2026)]
    finally:
        conf.set("spark.sql.session.timeZone", before)


@pytest.mark.modes
@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_a_delete_reads_its_condition_as_a_query_does(lake: SparkLake, engine: str) -> None:
    """By the session's time zone, in any case, and with Spark's casts."""
    lake.sql("USE db")
    conf = lake.spark.conf
    before = str(conf.get("spark.sql.session.timeZone"))
    conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lake.sql(
            "CREATE TABLE t (id INT, at TIMESTAMP, day DATE) TBLPROPERTIES "
            f"('primary-key' = 'id', 'bucket' = '1', 'merge-engine' = '{engine}')"
        )
        lake.sql(
            "INSERT INTO t VALUES "
            "(1, TIMESTAMP'2026-01-01 10:00:00', DATE'2026-01-01'), "
            "(2, TIMESTAMP'2026-01-01 12:00:00', DATE'2026-01-02'), "
            "(3, TIMESTAMP'2026-01-01 18:00:00', DATE'2026-01-03'), (4, NULL, NULL)"
        )
        lake.sql("DELETE FROM t WHERE AT < TIMESTAMP'2026-01-01 11:00:00'")
        lake.delete("db.t", "At > '2026-01-01 17:59:59' OR ID IN (SELECT 5)")
        assert rows(lake.sql("SELECT id FROM t")) == [(2,), (4,)]
        lake.delete("db.t", "day = '2026-01-02 12:00:00'")
        assert rows(lake.sql("SELECT id FROM t")) == [(4,)]
    finally:
        conf.set("spark.sql.session.timeZone", before)


@pytest.mark.modes
def test_fields_whose_names_have_dots_are_assigned(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (id INT, `a.b` STRUCT<`c.d`: INT, `e``f`: STRUCT<g: INT>>, a INT)")
    lake.sql("INSERT INTO t VALUES (1, struct(5, struct(6)), 7)")
    lake.sql("UPDATE t SET `A.b`.`c.D` = `a.b`.`c.d` + 1, t.`a.b`.`e``f`.G = 8 WHERE id = 1")
    assert rows(lake.table("db.t")) == [(1, (6, (8,)), 7)]
    lake.sql(
        "MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k "
        "WHEN MATCHED THEN UPDATE SET t.`a.b`.`c.d` = s.k, a = 2"
    )
    lake.update("db.t", {"`a.b`.`e``f`": "named_struct('g', 3)"})
    assert rows(lake.table("db.t")) == [(1, (1, (3,)), 2)]
    with pytest.raises(Invalid, match=r"'a\.b' has no field 'c'"):
        lake.sql("UPDATE t SET `a.b`.c = 1")


@pytest.mark.modes
def test_a_deleting_clause_adds_no_column(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, n INT)")
    lake.sql("INSERT INTO db.t VALUES (1, 1), (2, 2)")
    lake.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO db.t USING (SELECT 1 AS id, 9 AS n, 5 AS x) s "
        "ON t.id = s.id WHEN MATCHED AND s.n < 0 THEN UPDATE SET n = s.n WHEN MATCHED THEN DELETE"
    )
    assert lake.table("db.t").columns == ["id", "n"]
    assert rows(lake.table("db.t")) == [(2, 2)]


@MODES
def test_times_of_day_are_read_and_written(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE w (id INT, c TIME(3))")
    lake.sql("INSERT INTO w VALUES (1, TIME'01:02:03.123'), (2, NULL), (3, TIME'23:59:59')")
    lake.sql("UPDATE w SET c = TIME'00:00:00.5' WHERE c > TIME'12:00:00'")
    read = lake.sql("SELECT id, string(c) FROM w ORDER BY id").collect()
    assert [tuple(row) for row in read] == [(1, "01:02:03.123"), (2, None), (3, "00:00:00.5")]
    with pytest.raises(PySparkException, match="0001 has more digits than time"):
        lake.sql("INSERT INTO w VALUES (4, TIME'01:02:03.0001')")
    lake.write(lake.spark.sql("SELECT 5 AS id, TIME'05:00:00' AS c"), "db.w")
    assert lake.sql("SELECT count(*) FROM w").collect() == [(4,)]
