"""Settings of a session that change what statements mean, as in Spark's own tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@contextmanager
def settings(spark: SparkSession, **given: str) -> Iterator[None]:
    """Settings whose names begin with ``spark.sql.``, with ``_`` for their dots."""
    named = {f"spark.sql.{key.replace('_', '.')}": value for key, value in given.items()}
    before = {key: str(spark.conf.get(key)) for key in named}
    for key, value in named.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


@contextmanager
def table_options(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """Options of tables that the session overrides."""
    for key, value in given.items():
        spark.conf.set(f"spark.paimon.{key}", value)
    try:
        yield
    finally:
        for key in given:
            spark.conf.unset(f"spark.paimon.{key}")


def test_statements_that_change_rows_follow_the_sessions_table_options(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, x INT) TBLPROPERTIES ('write-only' = 'true')")

    def formats() -> list[object]:
        return [name for (name,) in rows(lake.sql("SELECT file_format FROM db.`t$files`"))]

    lake.sql("INSERT INTO db.t VALUES (1, 1)")
    with table_options(lake.spark, {"file.format": "orc", "scan.snapshot-id": "9"}):
        lake.sql("INSERT INTO db.t VALUES (2, 2)")
        lake.sql("INSERT INTO db.t SELECT 3, 3")
        lake.sql("UPDATE db.t SET x = 4 WHERE id = 1")
        lake.sql(
            "MERGE INTO db.t USING (SELECT 5 AS id) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id, x) VALUES (5, 5)"
        )
    assert formats() == ["orc"] * 4
    with table_options(lake.spark, {"*.db.t.file.format": "avro", "main.db.u.bucket": "7"}):
        lake.sql("CALL sys.compact(table => 'db.t')")
    assert formats() == ["avro"]
    lake.sql("INSERT INTO db.t /*+ OPTIONS('file.format' = 'orc') */ VALUES (9, 9)")
    assert sorted(map(str, formats())) == ["avro", "orc"]
    for key in ("no.such", "team.owner", "scan.snapshot-id"):
        with pytest.raises(Invalid, match=f"'{key}' is .* option of a table that is changed"):
            lake.sql(f"UPDATE db.t /*+ OPTIONS('{key}' = '1') */ SET x = 1")
    named = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "loaded"}
    with table_options(lake.spark, named):
        lake.sql("INSERT OVERWRITE db.t VALUES (6, 6)")
    assert rows(lake.sql("SHOW TAGS db.t")) == [("loaded",)]
    for options, message in (
        ({"bucket": "1"}, "'bucket' cannot be laid"),
        ({"no": "1"}, "RESET"),
        ({"team.owner": "1"}, "RESET"),
    ):
        with table_options(lake.spark, options), pytest.raises(Invalid, match=message):
            lake.sql("DELETE FROM db.t")
    assert rows(lake.sql("SELECT * FROM db.t")) == [(6, 6)]
    for text, options in {
        "CREATE TABLE db.u (a TIMESTAMP)": {"legacy-timestamp-mapping.enabled": "true"},
        "SELECT * FROM db.t": {"*.db.t.read.allow.fullScan": "false"},
        "INSERT INTO db.t VALUES (7, 7)": {"write.hive-style-dynamic-partition.enabled": "TRUE"},
    }.items():
        with table_options(lake.spark, options), pytest.raises(Unsupported, match="not followed"):
            lake.sql(text)
    with table_options(lake.spark, {"read.allow.fullScan": "true"}):
        assert rows(lake.sql("SELECT * FROM db.t")) == [(6, 6)]


def test_numbers_within_values_overflow_in_no_session(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, a ARRAY<INT>, m MAP<INT, TINYINT>)")
    with settings(lake.spark, ansi_enabled="false"):
        lake.sql("INSERT INTO db.t VALUES (1, array(2L, NULL), map(3L, 4)), (2, NULL, NULL)")
        for wrong in (
            "INSERT INTO db.t VALUES (9, array(3000000000L), NULL)",
            "INSERT INTO db.t VALUES (9, NULL, map(3000000000L, 1))",
            "INSERT INTO db.t VALUES (9, NULL, map(1, 300))",
            "UPDATE db.t SET a = array(3000000000L)",
        ):
            with pytest.raises(PySparkException, match="overflows"):
                lake.sql(wrong)
    assert rows(lake.sql("SELECT * FROM db.t")) == [(1, [2, None], {3: 4}), (2, None, None)]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_is_no_decimal_is_stored_as_null(lake: SparkLake, ansi: str) -> None:
    lake.sql("CREATE TABLE db.t (id INT, d DECIMAL(5, 2), a ARRAY<DECIMAL(5, 2)>)")
    with settings(lake.spark, ansi_enabled=ansi):
        lake.sql(
            "INSERT INTO db.t VALUES (1, double('NaN'), array(float('Infinity'), 1.5F)), "
            "(2, -double('Infinity'), NULL)"
        )
        with pytest.raises(PySparkException, match=r"overflows|OUT_OF_RANGE|OVERFLOW"):
            lake.sql("INSERT INTO db.t VALUES (3, 1e9D, NULL)")
    assert rows(lake.sql("SELECT * FROM db.t")) == [
        (1, None, [None, Decimal("1.50")]),
        (2, None, None),
    ]


def test_a_backslash_stands_for_itself_where_the_session_says_so(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, p STRING) PARTITIONED BY (p)")
    with settings(lake.spark, parser_escapedStringLiterals="true"):
        lake.sql(r"INSERT INTO db.t PARTITION (p = 'a\tb') SELECT 1")
        lake.sql(r"INSERT INTO db.t VALUES (2, 'a\tb'), (3, 'c')")
        lake.sql(r"ALTER TABLE db.t ADD COLUMNS (d STRING COMMENT 'x\ty')")
        lake.sql(r"ALTER TABLE db.t ALTER COLUMN d SET DEFAULT '\d'")
        lake.sql("ALTER TABLE db.t DROP PARTITION (p = 'c')")
        assert rows(lake.sql(r"SELECT id, p FROM db.t WHERE p = 'a\tb'")) == [
            (1, r"a\tb"),
            (2, r"a\tb"),
        ]
        assert rows(lake.sql("SELECT id FROM db.t WHERE p = sys.max_pt('db.t')")) == [(1,), (2,)]
    field = lake.catalog.table("db.t").schema.column("d")
    assert (field.description, field.default_value) == ("x\ty", r"'\d'")
    lake.sql(r"INSERT INTO db.t PARTITION (p = 'a\tb') (id) SELECT 4")
    assert rows(lake.sql(r"SELECT id FROM db.t WHERE p = 'a\tb'")) == [(4,)]


def test_types_mean_what_the_session_says(lake: SparkLake) -> None:
    columns = "id INT, t TIMESTAMP, z TIMESTAMP_LTZ, s STRUCT<t: TIMESTAMP>, c CHAR(3)"
    with settings(lake.spark, timestampType="TIMESTAMP_NTZ", charAsVarchar="true"):
        lake.sql(f"CREATE TABLE db.t ({columns})")
        lake.sql("ALTER TABLE db.t ADD COLUMNS (u TIMESTAMP, d CHAR(2))")
    assert {row[0]: row[1] for row in lake.sql("DESCRIBE db.t").collect()} == {
        "id": "int", "t": "timestamp_ntz", "z": "timestamp", "s": "struct<t:timestamp_ntz>",
        "c": "varchar(3)", "u": "timestamp_ntz", "d": "varchar(2)",
    }  # fmt: skip


def test_moments_keep_their_zones_where_timestamp_has_none(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, z TIMESTAMP) PARTITIONED BY (z)")
    with settings(lake.spark, timestampType="TIMESTAMP_NTZ", session_timeZone="Asia/Kolkata"):
        lake.sql("INSERT INTO db.t PARTITION (z = '2026-01-01 00:00:00Z') SELECT 1")
        lake.sql("INSERT INTO db.t PARTITION (z = '2026-01-01 00:00:00') SELECT 2")
        read = lake.sql("SELECT id, unix_seconds(z) - 1767225600 FROM db.t")
        assert rows(read) == [(1, 0), (2, -19800)]


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_writes_of_the_format_fill_up_no_char_that_is_text(lake: SparkLake, value: str) -> None:
    lake.sql("CREATE TABLE db.t (id INT, c CHAR(5), v VARCHAR(3))")
    new = lake.spark.sql("SELECT 1 AS id, 'ab' AS c, 'abc' AS v")
    with settings(lake.spark, legacy_charVarcharAsString=value):
        new.write.format("headwater").mode("append").save("db.t")
        lake.write(new, "db.t")
        lake.sql("INSERT INTO db.t VALUES (1, 'ab', 'abc')")
        assert lake.catalog.table("db.t").scan().to_arrow()["c"].to_pylist() == ["ab"] * 3
        assert rows(lake.sql("SELECT c FROM db.t")) == [("ab",)] * 3
    new.write.format("headwater").mode("append").save("db.t")
    assert lake.catalog.table("db.t").scan().to_arrow()["c"].to_pylist() == ["ab"] * 3 + ["ab   "]


def test_char_is_text_where_it_is_declared_as_such(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT)")
    with settings(lake.spark, legacy_charVarcharAsString="true"):
        lake.sql("CREATE TABLE db.u (c CHAR(5), v VARCHAR(3), s STRUCT<c: CHARACTER(2)>)")
        lake.sql("ALTER TABLE db.t ADD COLUMN v VARCHAR(3)")
        for length in ("", "(0)", "(1, 2)"):
            with pytest.raises(Invalid, match=r"length|type"):
                lake.sql(f"CREATE TABLE db.w (v VARCHAR{length})")
    assert dict(lake.table("db.u").dtypes) == {
        "c": "string",
        "v": "string",
        "s": "struct<c:string>",
    }
    lake.sql("INSERT INTO db.u VALUES ('longer', 'longer', named_struct('c', 'longer'))")
    lake.sql("INSERT INTO db.t VALUES (1, 'longer')")
    assert rows(lake.sql("SELECT u.c, u.v, s.c FROM db.u, db.t WHERE t.v = 'longer'"))


@pytest.mark.parametrize(
    ("key", "value"), [("readSideCharPadding", "false"), ("legacy_charVarcharAsString", "true")]
)
def test_streams_fill_up_char_as_queries_do(lake: SparkLake, key: str, value: str) -> None:
    lake.sql("CREATE TABLE db.t (id INT, c CHAR(5))")
    lake.catalog.table("db.t").write({"id": [1], "c": ["ab"]})
    stored: list[str] = []

    def followed() -> list[str]:
        frame = lake.spark.readStream.format("headwater").load("db.t").select("c")
        stored.clear()
        query = frame.writeStream.foreachBatch(
            lambda batch, _: stored.extend(row[0] for row in batch.collect())
        )
        query.trigger(availableNow=True).start().awaitTermination()
        return list(stored)

    assert followed() == ["ab   "]
    with settings(lake.spark, **{key: value}):
        assert followed() == ["ab"]


def test_a_branch_of_the_session_is_never_taken_for_the_table(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, p STRING) PARTITIONED BY (p)")
    lake.sql("INSERT INTO db.t VALUES (1, 'x')")
    lake.sql("CALL sys.create_branch('db.t', 'b')")
    lake.sql("SET spark.paimon.branch = b")
    try:
        for text in (
            "SELECT * FROM db.t", "INSERT INTO db.t VALUES (2, 'x')", "UPDATE db.t SET id = 3",
            "DELETE FROM db.t", "TRUNCATE TABLE db.t", "ALTER TABLE db.t DROP PARTITION (p = 'x')",
            "ALTER TABLE db.t ADD COLUMN c INT", "ANALYZE TABLE db.t COMPUTE STATISTICS",
            "SHOW PARTITIONS db.t", "CALL sys.purge_files('db.t')",
            "MERGE INTO db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        ):  # fmt: skip
            with pytest.raises(Unsupported, match=r"write `t\$branch_b`, and RESET"):
                lake.sql(text)
        lake.sql("INSERT INTO db.`t$branch_b` VALUES (2, 'x')")
        assert rows(lake.sql("SELECT id FROM db.`t$branch_b`")) == [(2,)]
    finally:
        lake.sql("RESET spark.paimon.branch")
    assert rows(lake.sql("SELECT * FROM db.t")) == [(1, "x")]
