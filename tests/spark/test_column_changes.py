"""Updates, deletions and merges by Spark of tables whose columns lie in several files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake
from headwater.spark.row_change import RowCounts
from headwater.storage.errors import Invalid, Unsupported

pytestmark = pytest.mark.spark

OPTIONS = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'"
VECTORS = f"{OPTIONS}, 'deletion-vectors.enabled' = 'true'"


def make(lake: SparkLake, options: str = VECTORS, parts: str = "") -> None:
    lake.sql(f"CREATE TABLE db.t (id BIGINT, a INT, b STRING) {parts} TBLPROPERTIES ({options})")
    for ids in (range(4), range(4, 6)):
        lake.catalog.table("db.t").write([{"id": id, "a": id * 10, "b": f"b{id}"} for id in ids])


def column_files(lake: SparkLake) -> list[tuple[int, int, tuple[str, ...]]]:
    """The first row, the number of rows and the columns of the files of some columns."""
    files = lake.catalog.table("db.t").inspect.files().to_pylist()
    return sorted(
        (file["first_row_id"], file["record_count"], tuple(file["write_cols"]))
        for file in files
        if file["write_cols"] is not None
    )


@pytest.mark.modes
def test_an_update_writes_the_columns_that_change(lake: SparkLake) -> None:
    make(lake)
    lake.sql("UPDATE db.t SET a = a + length(b) WHERE id % 2 = 1 AND id < 4")
    assert column_files(lake) == [(0, 4, ("a",))]
    table = lake.sql("SELECT id, a, b, _ROW_ID, _SEQUENCE_NUMBER FROM db.t")
    assert rows(table) == [
        (0, 0, "b0", 0, 3), (1, 12, "b1", 1, 3), (2, 20, "b2", 2, 3), (3, 32, "b3", 3, 3),
        (4, 40, "b4", 4, 2), (5, 50, "b5", 5, 2),
    ]  # fmt: skip
    lake.sql("UPDATE db.t SET b = DEFAULT, a = 1 WHERE reverse(b) = '5b'")
    assert rows(lake.sql("SELECT a, b, _ROW_ID FROM db.t WHERE id = 5")) == [(1, None, 5)]
    assert lake.catalog.table("db.t").check_files(deep=True).is_whole


def test_a_deletion_marks_rows(lake: SparkLake) -> None:
    make(lake)
    lake.sql("UPDATE db.t SET a = -1 WHERE id = 2")
    lake.sql("DELETE FROM db.t WHERE reverse(b) IN ('0b', '4b') OR a = -1")
    assert rows(lake.sql("SELECT id, _ROW_ID FROM db.t")) == [(1, 1), (3, 3), (5, 5)]
    assert lake.sql("DELETE FROM db.t WHERE id = 5").collect()[0][0] == 1
    lake.sql("UPDATE db.t SET b = 'x'")
    assert rows(lake.sql("SELECT id, a, b FROM db.t")) == [(1, 10, "x"), (3, 30, "x")]


def test_a_merge_is_one_commit_of_columns_rows_and_deletions(
    spark: SparkSession, lake: SparkLake
) -> None:
    make(lake)
    source = spark.createDataFrame(
        [(1, "one"), (2, "two"), (4, "four"), (9, "nine")], "id BIGINT, b STRING"
    )
    counts = (
        lake.merge("db.t", source, on=["id"])
        .when_matched_delete("source.b = 'two'")
        .when_matched_update({"b": "upper(source.b)"}, "target.a < 40")
        .when_matched_update({"a": "target.a + 1"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"b": "'none'"}, "target.id = 5")
    )
    with pytest.raises(Invalid, match="the source lacks the columns a"):
        counts.execute()
    counts = (
        lake.merge("db.t", source, on=["id"])
        .when_matched_delete("source.b = 'two'")
        .when_matched_update({"b": "upper(source.b)"}, "target.a < 40")
        .when_matched_update({"a": "target.a + 1"})
        .when_not_matched_insert({"id": "source.id", "b": "source.b"})
        .when_not_matched_by_source_update({"b": "'none'"}, "target.id = 5")
    )
    assert counts.execute() == RowCounts(inserted=1, updated=3, deleted=1)
    assert len(lake.catalog.table("db.t").snapshots()) == 3
    assert rows(lake.sql("SELECT id, a, b, _ROW_ID FROM db.t")) == [
        (0, 0, "b0", 0), (1, 10, "ONE", 1), (3, 30, "b3", 3), (4, 41, "b4", 4),
        (5, 50, "none", 5), (9, None, "nine", 6),
    ]  # fmt: skip
    assert column_files(lake) == [(0, 4, ("a", "b")), (4, 2, ("a", "b"))]


@pytest.mark.modes
def test_a_star_leaves_out_the_columns_that_rows_are_matched_by(lake: SparkLake) -> None:
    make(lake, OPTIONS)
    lake.sql(
        "MERGE INTO db.t USING (SELECT 4L id, 44 a, 'x' b) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert column_files(lake) == [(4, 2, ("a", "b"))]
    # A value of another type is cast, and so written.
    lake.sql(
        "MERGE INTO db.t USING (SELECT 4 id, 45 a, 'y' b) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    assert column_files(lake)[-1] == (4, 2, ("id", "a", "b"))
    assert rows(lake.sql("SELECT * FROM db.t WHERE id = 4")) == [(4, 45, "y")]


@pytest.mark.modes
@pytest.mark.skipif(
    kind_of_session() == "connect", reason="Spark Connect shows no plans: everything is read"
)
def test_only_columns_that_are_needed_are_read(lake: SparkLake, folder: Path) -> None:
    make(lake)
    lake.sql("UPDATE db.t SET b = upper(b)")
    for file in lake.catalog.table("db.t").inspect.files().to_pylist():
        if file["write_cols"] is not None and list(file["write_cols"]) == ["b"]:
            (path,) = folder.rglob(Path(file["file_path"]).name)
            path.rename(path.with_suffix(".away"))
    lake.sql("UPDATE db.t SET a = a + 1 WHERE id = 4")
    lake.sql(
        "MERGE INTO db.t USING (SELECT 1L id, 7 n) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET a = t.a + s.n"
    )
    lake.sql("DELETE FROM db.t WHERE id % 2 = 0 AND a < 40")
    for path in folder.rglob("*.away"):
        path.rename(path.with_suffix(".parquet"))
    assert rows(lake.sql("SELECT * FROM db.t")) == [
        (1, 17, "B1"), (3, 30, "B3"), (4, 41, "B4"), (5, 50, "B5"),
    ]  # fmt: skip


@pytest.mark.modes
def test_updates_at_once_of_the_same_columns_are_repeated(lake: SparkLake) -> None:
    make(lake)
    with ThreadPoolExecutor(2) as threads:
        texts = ["UPDATE db.t SET a = a + 1", "UPDATE db.t SET a = a + 10 WHERE id > 0"]
        for done in [threads.submit(lake.sql, text) for text in texts]:
            done.result()
    assert [row[1] for row in rows(lake.table("db.t"))] == [1, 21, 31, 41, 51, 61]


@pytest.mark.modes
def test_what_a_table_does_not_allow_is_refused(spark: SparkSession, lake: SparkLake) -> None:
    make(lake, OPTIONS, "PARTITIONED BY (b)")
    with pytest.raises(Unsupported, match=r"'deletion-vectors\.enabled' is not true"):
        lake.sql("DELETE FROM db.t WHERE id + 1 = 2")
    with pytest.raises(Invalid, match="'b' is a partition column"):
        lake.sql("UPDATE db.t SET b = 'x'")
    twice = spark.createDataFrame([(1, 5), (1, 6)], "id BIGINT, a INT")
    with pytest.raises(Invalid, match="several rows of the source match one row"):
        lake.merge("db.t", twice, on=["id"]).when_matched_update({"a": "source.a"}).execute()
    assert column_files(lake) == []
    assert len(lake.catalog.table("db.t").snapshots()) == 2


@pytest.mark.modes
def test_a_stream_tells_of_rows_that_are_added(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    make(lake)
    lake.sql("CREATE TABLE db.copy (id BIGINT, a INT, b STRING)")

    def follow() -> None:
        stream = spark.readStream.format("headwater").option("consumer-id", "copy").load("db.t")
        query = (
            stream.writeStream.format("headwater")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start("db.copy")
        )
        query.awaitTermination()

    follow()
    lake.sql("UPDATE db.t SET a = -1 WHERE id < 2")
    lake.sql(
        "MERGE INTO db.t USING (SELECT 0L id, 9L n) s ON t.id = s.n WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, b) VALUES (n, 'nine')"
    )
    assert lake.sql("CALL sys.compact(table => 'db.t')").collect()
    lake.sql("INSERT INTO db.t VALUES (10, 100, 'b10')")
    follow()
    assert lake.catalog.table("db.t").consumer("copy").next_snapshot == 7
    assert rows(lake.table("db.copy")) == [
        *[(i, i * 10, f"b{i}") for i in range(6)][:2],
        (10, 100, "b10"),
        *[(i, i * 10, f"b{i}") for i in range(2, 6)],
        (9, None, "nine"),
    ]
    assert rows(lake.sql("SELECT id, a FROM db.t WHERE id < 3")) == [(0, -1), (1, -1), (2, 20)]
    assert len(lake.catalog.table("db.t").files()) == 2
