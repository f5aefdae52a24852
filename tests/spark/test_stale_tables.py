"""Reads, writes and streams of a table that is dropped and made again under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.types as st
import pytest
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.spark.conftest import data_source
from tests.spark_sessions import kind_of_session

import headwater.client
from headwater.catalog.sql import SqlCatalog
from headwater.client import Lake
from headwater.client.connect import database_of
from headwater.spark import SparkLake
from headwater.spark.stream.read import StreamReader
from headwater.storage.errors import HeadwaterError, NotFound, ResourceType

pytestmark = pytest.mark.spark

NAME = "db.t"
ANOTHER = "was dropped, and there is another of its name now"
COLUMNS = pa.schema([pa.field("id", pa.int64())])


def _make(lake: Lake, *ids: int) -> None:
    """A table with a commit for each id."""
    table = lake.create_table(NAME, COLUMNS)
    for number in ids:
        table.write({"id": [number]})


def _make_again(lake: Lake, *ids: int) -> None:
    lake.drop_table(NAME)
    _make(lake, *ids)


@pytest.fixture
def catalog(folder: Path) -> Iterator[Lake]:
    with headwater.client.connect(folder) as lake:
        lake.create_database("db")
        yield lake


def _reader(folder: Path) -> StreamReader:
    source = data_source(folder, NAME)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def test_a_query_does_not_follow_another_table_of_the_name(catalog: Lake, folder: Path) -> None:
    _make(catalog, 1, 2)
    running = _reader(folder)
    full = running.latestOffset(running.initialOffset(), ReadAllAvailable())
    catalog.table(NAME).write({"id": [3]})
    end = running.latestOffset(full, ReadAllAvailable())
    assert (end["snapshotId"], end["table"]) == (4, catalog.table(NAME).info.id)
    # The snapshot that was read last has expired there, and the one that comes next is present.
    _make_again(catalog, 11, 12, 13, 14, 15)
    catalog.table(NAME).expire_snapshots(retain_min=2, retain_max=2)
    for reader in (running, _reader(folder)):
        with pytest.raises(NotFound, match=ANOTHER) as caught:
            reader.latestOffset(end, ReadAllAvailable())
        assert caught.value.resource_type is ResourceType.TABLE
        with pytest.raises(NotFound, match=ANOTHER):
            reader.partitions(full, end)


def test_an_offset_of_an_earlier_release_is_of_any_table(catalog: Lake, folder: Path) -> None:
    _make(catalog, 1, 2)
    first = _reader(folder)
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    earlier = {key: value for key, value in end.items() if key != "table"}
    # As there is nothing new, the offset must not change: Spark would run an empty batch.
    assert _reader(folder).latestOffset(earlier, ReadAllAvailable()) == earlier
    catalog.table(NAME).write({"id": [3]})
    following = _reader(folder).latestOffset(earlier, ReadAllAvailable())
    assert (following["snapshotId"], following["table"]) == (4, catalog.table(NAME).info.id)


def test_a_frame_that_was_loaded_reports_the_drop(catalog: Lake, folder: Path) -> None:
    _make(catalog, 1)
    source = data_source(folder, NAME)
    schema = source.schema()
    # Spark plans in another process than it asks for the schema.
    pickles: Any = CPickleSerializer()
    sent = pickles.dumps(source)
    _make_again(catalog, 7)
    with pytest.raises(NotFound, match=ANOTHER):
        pickles.loads(sent).reader(schema)
    catalog.drop_table(NAME)
    with pytest.raises(NotFound, match=f"table {NAME} does not exist"):
        pickles.loads(sent).reader(schema)


def _making_again(spark: SparkSession, folder: Path, table_id: str, *, is_kept: bool) -> DataFrame:
    """A frame whose task drops the table and makes another, before it gives a row.

    Args:
        spark: The session.
        folder: Where the lake is.
        table_id: The table's id.
        is_kept: Whether the dropped table can be restored, so that its directory stays.
    """
    url, location = database_of(str(folder), None)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        undrop = 3_600_000 if is_kept else 0
        opened = SqlCatalog.open(url, warehouse="main", location=location, undrop_millis=undrop)
        lake = Lake(opened)
        if lake.table(NAME).info.id == table_id:
            lake.drop_table(NAME)
            lake.create_table(NAME, pa.schema([pa.field("id", pa.int64())]))
        lake.close()
        yield from batches

    schema = st.StructType([st.StructField("id", st.LongType())])
    return spark.range(0, 1, 1, 1).mapInArrow(work, schema)


def _write(lake: SparkLake, rows: DataFrame, way: str) -> None:
    match way:
        case "SparkLake":
            lake.write(rows, NAME)
        case "format":
            rows.write.format("headwater").mode("append").save(NAME)
        case "INSERT":
            lake.sql(f"INSERT INTO {NAME} SELECT * FROM {{rows}}", rows=rows)


@pytest.mark.skipif(kind_of_session() == "cluster", reason="tasks have no catalog in a folder")
@pytest.mark.parametrize(
    ("way", "is_kept"),
    [("SparkLake", True), ("SparkLake", False), ("format", True), ("INSERT", True)],
)
def test_a_write_does_not_reach_a_table_that_took_the_name_meanwhile(
    spark: SparkSession, lake: SparkLake, folder: Path, way: str, is_kept: bool
) -> None:
    _make(lake.catalog, 1)
    table_id = lake.catalog.table(NAME).info.id
    rows = _making_again(spark, folder, table_id, is_kept=is_kept)
    with pytest.raises((HeadwaterError, PySparkException), match=ANOTHER):
        _write(lake, rows, way)
    assert lake.catalog.table(NAME).info.id != table_id
    assert lake.catalog.table(NAME).snapshots() == []
