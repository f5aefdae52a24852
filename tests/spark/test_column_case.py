"""Columns of a frame whose names differ from the table's in case: no value of theirs is lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from tests.spark.conftest import Rows, rows

from headwater.spark import SchemaMerging, SparkLake
from headwater.storage.errors import Invalid

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def test_what_a_write_adds_takes_the_place_of_no_column(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.days (day STRING, tags ARRAY<STRING> DEFAULT ARRAY('none')) "
        "PARTITIONED BY (day)"
    )
    given = lake.spark.sql("SELECT ARRAY('web') AS TAGS, 'monday' AS day")
    lake.write(given, "db.days")
    assert rows(lake.table("db.days")) == [("monday", ["web"])]
    given = lake.spark.sql("SELECT ARRAY('shop') AS tags, 'tuesday' AS DAY")
    with pytest.raises(Invalid, match="rows lie outside partition day='monday'"):
        lake.write(given, "db.days", mode="overwrite", partition={"day": "monday"})
    lake.write(given.drop("DAY"), "db.days", mode="overwrite", partition={"DAY": "monday"})
    assert rows(lake.table("db.days")) == [("monday", ["shop"])]


_EVENTS = "id INT, s STRUCT<x: BIGINT, l: ARRAY<STRUCT<y: INT>>>, m MAP<STRING, STRUCT<z: INT>>"


def _event(lake: SparkLake, id: int) -> DataFrame:
    return lake.spark.sql(
        f"SELECT map('k', named_struct('Z', {id})) AS M, {id} AS Id, "
        f"named_struct('L', array(named_struct('Y', {id}), NULL), 'X', 10L) AS S"
    )


def test_columns_and_fields_of_a_frame_are_the_tables_in_any_case(lake: SparkLake) -> None:
    def as_stored(*ids: int) -> Rows:
        return sorted(
            [(id, (10, [(id,), None]), {"k": (id,)}) for id in ids],
            key=repr,
        )

    lake.sql(f"CREATE TABLE db.plain ({_EVENTS})")
    lake.sql(
        f"CREATE TABLE db.keyed ({_EVENTS}) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    )
    for name in ("db.plain", "db.keyed"):
        lake.write(_event(lake, 1), name)
        _event(lake, 2).write.format("headwater").mode("append").save(name)
        lake.write(_event(lake, 3), name, merging=SchemaMerging())
        merging = _event(lake, 4).write.format("headwater").option("write.merge-schema", "true")
        merging.mode("append").save(name)
        assert rows(lake.table(name)) == as_stored(1, 2, 3, 4)
        assert lake.table(name).columns == ["id", "s", "m"]
        lake.write(_event(lake, 9), name, mode="overwrite", replace_where="ID > 2")
        assert rows(lake.table(name)) == as_stored(1, 2, 9)
    lake.delete("db.keyed", keys=_event(lake, 9))
    lake.delete("db.keyed", keys=_event(lake, 2).select("ID"))
    assert rows(lake.table("db.keyed")) == as_stored(1)
    lake.update("db.keyed", {"S.X": "S.x * 1"}, where="ID = 1")
    assert rows(lake.table("db.keyed")) == as_stored(1)


def test_columns_of_a_stream_are_the_tables_in_any_case(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql(f"CREATE TABLE db.events ({_EVENTS})")
    lake.sql("CREATE TABLE db.copies (ID INT, m MAP<STRING, STRUCT<Z: INT>>)")
    lake.write(_event(lake, 1), "db.events")
    stream = lake.spark.readStream.format("headwater").load("db.events").drop("s")
    query = (
        stream.writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start("db.copies")
    )
    query.awaitTermination()
    assert rows(lake.table("db.copies")) == [(1, {"k": (1,)})]


def test_a_second_column_that_differs_in_case_is_refused(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT)")
    given = lake.spark.createDataFrame([(1, 2, 3)], "id INT, a INT, A INT")
    with pytest.raises(Invalid, match="column 'A' and column 'a' differ only in case"):
        lake.write(given, "db.t", merging=SchemaMerging())
    with pytest.raises(Invalid, match="no column 'ID'"):
        lake.write(lake.spark.createDataFrame([(1, 2)], "id INT, ID INT"), "db.t")


def test_files_whose_columns_differed_in_case_alone_are_read(lake: SparkLake) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("A", pa.int32())])
    table = lake.catalog.create_table("db.t", schema)
    table.write(pa.table({"id": [1], "a": [2], "A": [3]}).cast(schema))
    lake.sql("ALTER TABLE db.t RENAME COLUMN `A` TO b")
    assert rows(lake.sql("SELECT * FROM db.t")) == [(1, 2, 3)]
    assert rows(lake.sql("SELECT id FROM db.t WHERE b = 3")) == [(1,)]
    assert rows(lake.table("db.t", columns=["a"])) == [(2,)]
