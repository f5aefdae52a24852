"""Tables followed by streaming queries, stopped, killed and repeated: nothing lost or doubled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyspark.sql.types as st
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.conftest import (
    Numbered,
    data_files,
    data_source,
    named_files,
    numbers,
    rows,
    store,
    stored,
)

from headwater.catalog.table.table import Table
from headwater.spark import SparkLake
from headwater.spark.connection import Connection
from headwater.spark.data_source import source_class
from headwater.spark.stream.read import StreamReader
from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.files.local import local_path
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import Json

pytestmark = pytest.mark.spark

SOURCE, TARGET = "db.source", "db.target"
FOLLOWER = Path(__file__).with_name("follower.py")

Follow = Callable[..., StreamingQuery]
Offset = dict[str, Json]


@pytest.fixture
def keyed(lake: SparkLake, numbered: Numbered) -> None:
    """Two primary-key tables of the same columns, spread differently."""
    for name, buckets in ((SOURCE, "2"), (TARGET, "3")):
        lake.create_table(
            name, numbered(0, 1).schema, primary_keys=["id"], options={"bucket": buckets}
        )


@pytest.fixture
def appended(lake: SparkLake, numbered: Numbered) -> None:
    """Two append tables, where what comes twice is there twice."""
    for name in (SOURCE, TARGET):
        lake.create_table(name, numbered(0, 1).schema)


@pytest.fixture
def follow(spark: SparkSession, lake: SparkLake, tmp_path: Path) -> Follow:
    """Starts a query from the source to the target with a checkpoint of that name."""

    def start(checkpoint: str = "checkpoint", **options: str) -> StreamingQuery:
        named = {key.replace("_", "-"): value for key, value in options.items()}
        stream = spark.readStream.format("headwater").options(**named).load(SOURCE)
        writer = (
            stream.writeStream.format("headwater")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
        )
        return writer.start(TARGET)

    return start


def catch_up(query: StreamingQuery) -> int:
    """Wait for a query that ends by itself; how many rows it read."""
    query.awaitTermination()
    return sum(progress.numInputRows for progress in query.recentProgress)


def write(lake: SparkLake, start: int, stop: int, name: str = "first", kind: str = "+I") -> None:
    """Commit rows as `numbered` makes them to the source, without Spark."""
    store(lake, SOURCE, start, stop, name, kind)


def position(lake: SparkLake, consumer_id: str) -> int | None:
    return lake.catalog.table(SOURCE).consumer(consumer_id).next_snapshot


def latest(lake: SparkLake, name: str) -> int:
    snapshot = lake.catalog.table(name).latest_snapshot()
    return 0 if snapshot is None else snapshot.id


def forget_last_batch(checkpoint: Path) -> None:
    """Leave a checkpoint as a crash between the sink's commit and Spark's own leaves it."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()


@pytest.mark.usefixtures("keyed")
def test_a_new_query_goes_on_where_the_consumer_stopped(lake: SparkLake, follow: Follow) -> None:
    write(lake, 0, 40)
    write(lake, 20, 60, "second")
    assert catch_up(follow("one", consumer_id="copy")) == 60
    assert position(lake, "copy") == 3
    assert stored(lake, TARGET) == numbers((0, 20), (20, 60, "second"))

    write(lake, 0, 5, "gone", "-D")
    write(lake, 50, 55, "third")
    write(lake, 3, 4, "back")
    lake.catalog.table(SOURCE).compact()
    assert catch_up(follow("two", consumer_id="copy")) == 11
    assert position(lake, "copy") == latest(lake, SOURCE) + 1
    expected = numbers(
        (3, 4, "back"), (5, 20), (20, 50, "second"), (50, 55, "third"), (55, 60, "second")
    )
    assert stored(lake, TARGET) == stored(lake, SOURCE) == expected


@pytest.mark.usefixtures("appended")
@pytest.mark.slow
def test_nothing_is_doubled_in_an_append_table_when_queries_take_over(
    lake: SparkLake, numbered: Numbered, follow: Follow
) -> None:
    expected: list[DataFrame] = []
    for turn in range(3):
        for part in range(2):
            start = 100 * turn + 10 * part
            lake.write(numbered(start, start + 10), SOURCE)
            expected.append(numbered(start, start + 10))
        assert catch_up(follow(f"checkpoint-{turn}", consumer_id="copy")) == 20
    assert stored(lake, TARGET) == stored(lake, SOURCE)
    assert lake.table(TARGET).count() == 60


@pytest.mark.modes
@pytest.mark.usefixtures("appended")
def test_first_rows_are_written_compacted_read_and_followed(
    lake: SparkLake, numbered: Numbered, follow: Follow
) -> None:
    lake.catalog.drop_table(SOURCE)
    options = {"bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup"}
    lake.create_table(SOURCE, numbered(0, 1).schema, primary_keys=["id"], options=options)
    # Each write is followed by the compaction that makes its rows part of the table.
    lake.write(numbered(0, 20), SOURCE)
    write(lake, 10, 30, "second")
    first = numbered(0, 20).union(numbered(20, 30, "second"))
    assert rows(lake.table(SOURCE)) == rows(first)
    compacted = latest(lake, SOURCE)
    write(lake, 25, 40, "third")
    # The target has no key, so that a row that comes twice is there twice.
    start = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(compacted)}
    query = follow("one", consumer_id="copy", **start)
    assert catch_up(query) == 40
    assert [progress.numInputRows for progress in query.recentProgress] == [30, 10]
    expected = first.union(numbered(30, 40, "third"))
    assert rows(lake.table(SOURCE)) == stored(lake, TARGET) == rows(expected)


@pytest.mark.usefixtures("keyed")
def test_a_running_query_saves_where_it_starts_and_each_batch_that_is_done(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    write(lake, 0, 10)
    stream = spark.readStream.format("headwater").option("consumer-id", "live")
    query = (
        stream.option("scan.mode", "latest")
        .load(SOURCE)
        .writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(TARGET)
    )
    try:
        query.processAllAvailable()
        assert position(lake, "live") == 2
        for version in range(2):
            write(lake, 10, 20, f"v{version}")
            query.processAllAvailable()
            assert position(lake, "live") == latest(lake, SOURCE) + 1
            assert stored(lake, TARGET) == numbers((10, 20, f"v{version}"))
    finally:
        query.stop()


@pytest.mark.usefixtures("keyed")
def test_a_batch_that_fails_does_not_move_the_consumer(
    spark: SparkSession, lake: SparkLake, follow: Follow, tmp_path: Path
) -> None:
    write(lake, 0, 10)
    write(lake, 10, 20)
    lake.catalog.table(SOURCE).consumer("copy").reset(2)
    stream = spark.readStream.format("headwater").option("consumer-id", "copy").load(SOURCE)
    broken = stream.withColumn("name", sf.expr("IF(id = 15, raise_error('broken'), name)"))
    query = (
        broken.writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "broken"))
        .trigger(availableNow=True)
        .start(TARGET)
    )
    with pytest.raises(StreamingQueryException, match="broken"):
        query.awaitTermination()
    assert position(lake, "copy") == 2
    assert stored(lake, TARGET) == []
    assert catch_up(follow("mended", consumer_id="copy")) == 10
    assert position(lake, "copy") == 3
    assert stored(lake, TARGET) == numbers((10, 20))


@pytest.mark.usefixtures("appended")
def test_a_batch_repeated_after_a_crash_is_written_once(
    lake: SparkLake, follow: Follow, tmp_path: Path, folder: Path
) -> None:
    write(lake, 0, 30)
    write(lake, 30, 50)
    start = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}
    first = follow(**start)
    assert catch_up(first) == 50
    assert [progress.batchId for progress in first.recentProgress] == [0, 1]
    assert latest(lake, TARGET) == 2
    forget_last_batch(tmp_path / "checkpoint")
    write(lake, 50, 60)
    again = follow(**start)
    assert catch_up(again) == 30
    assert [progress.batchId for progress in again.recentProgress] == [1, 2]
    assert latest(lake, TARGET) == 3
    assert data_files(folder) == sorted(named_files(lake, SOURCE) + named_files(lake, TARGET))
    assert stored(lake, TARGET) == numbers((0, 60))


@pytest.mark.usefixtures("appended")
def test_an_older_copy_of_a_checkpoint_is_refused(
    lake: SparkLake, follow: Follow, tmp_path: Path, folder: Path
) -> None:
    """Its batches hold other rows than those of the same numbers."""
    for start in (0, 10, 20):
        write(lake, start, start + 10)
        catch_up(follow())
        if not start:
            shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    write(lake, 30, 40)
    before = data_files(folder)
    with pytest.raises(StreamingQueryException, match=r"batch 2 of query .* and this is batch 1: "):
        catch_up(follow("copy"))
    assert data_files(folder) == before
    assert catch_up(follow()) == 10
    assert stored(lake, TARGET) == numbers((0, 40))


@pytest.mark.usefixtures("appended")
@pytest.mark.slow
def test_a_new_checkpoint_in_an_old_place_is_a_new_query(
    lake: SparkLake, numbered: Numbered, follow: Follow, tmp_path: Path
) -> None:
    """Its batches start at 0 again, and must not be taken for those of the old query."""
    lake.write(numbered(0, 5), SOURCE)
    catch_up(follow())
    (tmp_path / "checkpoint").rename(tmp_path / "old")
    catch_up(follow())
    assert stored(lake, TARGET) == numbers((0, 5), (0, 5))


@pytest.mark.usefixtures("appended")
@pytest.mark.slow
def test_killed_after_its_commit_a_query_resumes_without_doubling(
    lake: SparkLake, numbered: Numbered, spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    for start in (0, 10):
        lake.write(numbered(start, start + 10), SOURCE)
    process = subprocess.Popen(
        [sys.executable, str(FOLLOWER), str(folder), str(checkpoint)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while latest(lake, TARGET) == 0:
            with pytest.raises(subprocess.TimeoutExpired):  # it would have ended by itself
                process.wait(timeout=0.1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lake.write(numbered(20, 30), SOURCE)
    stream = spark.readStream.format("headwater").load(SOURCE)
    query = (
        stream.writeStream.format("headwater")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(TARGET)
    )
    query.awaitTermination()
    assert stored(lake, TARGET) == numbers((0, 30))


@pytest.mark.usefixtures("appended")
@pytest.mark.slow
def test_scan_modes_choose_where_a_stream_starts(
    lake: SparkLake, numbered: Numbered, follow: Follow
) -> None:
    for start in range(0, 30, 10):
        lake.write(numbered(start, start + 10), SOURCE)
    then = lake.catalog.table(SOURCE).snapshot(3).time_millis
    # Files are older than the commit that they are for.
    files_since = lake.catalog.table(SOURCE).snapshot(2).time_millis + 1
    started: list[tuple[dict[str, str], int]] = [
        ({}, 30),
        ({"scan.mode": "latest"}, 0),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, 20),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, 30),
        ({"scan.mode": "from-timestamp", "scan.timestamp-millis": str(then)}, 10),
        ({"scan.file-creation-time-millis": str(files_since)}, 10),
    ]
    for number, (options, count) in enumerate(started):
        assert catch_up(follow(f"mode-{number}", **options)) == count
    with pytest.raises(StreamingQueryException, match=r"scan\.mode' must be one of"):
        catch_up(follow("never", **{"scan.mode": "never"}))


@pytest.mark.usefixtures("appended")
def test_a_start_without_a_mode_is_that_of_a_stream(
    lake: SparkLake, follow: Follow, folder: Path
) -> None:
    """Spark asks for the columns of a stream as for those of a batch."""
    for start in (0, 10):
        write(lake, start, start + 10)
    # There is no batch to read there, as long as nobody reads one.
    begun = follow("next", **{"scan.snapshot-id": "3"})
    assert catch_up(begun) == 0
    unread = data_source(folder, SOURCE, **{"scan.snapshot-id": "3"})
    columns = unread.schema()
    with pytest.raises(NotFound, match="has no snapshot 3"):
        unread.reader(columns)
    write(lake, 20, 25)
    assert catch_up(follow("next", **{"scan.snapshot-id": "3"})) == 5
    assert catch_up(follow("early", **{"scan.timestamp-millis": "0"})) == 25
    # Columns of then would leave out what came later.
    first = {"scan.snapshot-id": "1"}
    lake.catalog.alter_table(SOURCE, AddColumn(("score",), AtomicType(Root.INT)))
    with pytest.raises(StreamingQueryException, match=r"set the option .* to from-snapshot"):
        catch_up(follow("later", **first))
    assert _reader(folder, **first, columns="id,name").initialOffset()["snapshotId"] == 1
    present = data_source(folder, SOURCE, **first, **{"scan.mode": "from-snapshot"})
    assert present.schema().fieldNames() == ["id", "name", "part", "score"]


@pytest.mark.usefixtures("keyed")
@pytest.mark.modes
def test_a_rolled_back_position_is_an_error_though_its_id_is_taken_again(
    lake: SparkLake, follow: Follow
) -> None:
    for version in range(2):
        write(lake, 0, 10, f"v{version}")
    table = lake.catalog.table(SOURCE)
    table.consumer("copy").reset(latest(lake, SOURCE))
    assert catch_up(follow("one", consumer_id="copy")) == 10
    assert catch_up(follow("one", include_row_kind="true")) == 0
    copied = stored(lake, TARGET)
    table.rollback(snapshot_id=1)
    for again in range(3):
        write(lake, 0, 10, f"again {again}")
        starts = (
            ("one", {"include_row_kind": "true"}),
            (f"other-{again}", {"consumer_id": "copy"}),
        )
        for checkpoint, options in starts:
            with pytest.raises(StreamingQueryException, match="no longer part of the table's"):
                catch_up(follow(checkpoint, **options))
    assert stored(lake, TARGET) == copied


def _position_of_another_engine(table: Table, snapshot: int) -> Callable[[], object]:
    """Delete a consumer's file, and return what writes it back, though the snapshot has expired."""
    consumer = table.consumer("copy")
    consumer.reset(snapshot)
    path = Path(local_path(table.storage.layout.location)) / "consumer" / "consumer-copy"
    position = path.read_bytes()
    consumer.delete()
    return partial(path.write_bytes, position)


@pytest.mark.modes
@pytest.mark.usefixtures("keyed")
def test_an_expired_position_is_an_error_not_a_gap(lake: SparkLake, follow: Follow) -> None:
    for version in range(3):
        write(lake, 0, 10, f"v{version}")
    table = lake.catalog.table(SOURCE)
    restore = _position_of_another_engine(table, 2)
    table.expire_snapshots(retain_min=1, retain_max=1)
    restore()
    with pytest.raises(StreamingQueryException, match="snapshot 2 has expired"):
        catch_up(follow(consumer_id="copy"))
    assert stored(lake, TARGET) == []


@pytest.mark.usefixtures("keyed")
def test_a_stream_says_what_it_does_with_deletes(
    spark: SparkSession, lake: SparkLake, folder: Path
) -> None:
    write(lake, 0, 10)
    write(lake, 0, 5, "x", "-D")
    undecided = data_source(folder, SOURCE)
    with pytest.raises(Invalid, match="set the option include-row-kind"):
        undecided.streamReader(undecided.schema())
    with_kinds = spark.readStream.format("headwater").option("include-row-kind", "true")
    assert with_kinds.load(SOURCE).columns == ["id", "name", "part", "_ROW_KIND"]
    without = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "include-row-kind": "false"}
    reader = _reader(folder, **without)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert _ids(reader, begin, end) == list(range(10))


@pytest.mark.modes
@pytest.mark.usefixtures("keyed")
def test_a_stream_tells_what_overwrites_replaced(
    lake: SparkLake, follow: Follow, numbered: Numbered
) -> None:
    table = lake.catalog.table(SOURCE)
    table.alter(SetOption("streaming-read-overwrite", "true"))
    write(lake, 0, 6)
    catch_up(follow(include_row_kind="true"))
    write(lake, 4, 8, "second")
    table.overwrite(numbered(5, 9))
    write(lake, 8, 10, "third")
    catch_up(follow(include_row_kind="true"))
    assert stored(lake, TARGET) == stored(lake, SOURCE)
    # In other buckets.
    table.alter(SetOption("bucket", "5"))
    lake.catalog.table(SOURCE).overwrite(numbered(7, 12))
    catch_up(follow(include_row_kind="true"))
    assert stored(lake, TARGET) == stored(lake, SOURCE)
    assert lake.table(TARGET).count() == 5


@pytest.mark.modes
@pytest.mark.usefixtures("keyed")
def test_a_stream_reads_only_what_where_and_columns_ask_for(
    lake: SparkLake, numbered: Numbered, follow: Follow
) -> None:
    write(lake, 0, 30)
    read = catch_up(follow(where="id >= 10 AND part = '1'", columns="id,name", consumer_id="c"))
    assert read == 7
    expected = numbered(10, 30).where("part = '1'").withColumn("part", sf.lit(None))
    assert stored(lake, TARGET) == rows(expected)


@pytest.mark.modes
@pytest.mark.usefixtures("keyed")
def test_a_restarted_query_sees_a_column_that_was_added(
    lake: SparkLake, numbered: Numbered, follow: Follow
) -> None:
    write(lake, 0, 10)
    catch_up(follow(consumer_id="copy"))
    for name in (SOURCE, TARGET):
        lake.catalog.alter_table(name, AddColumn(("score",), AtomicType(Root.INT)))
    lake.write(numbered(10, 20).withColumn("score", sf.lit(7)), SOURCE)
    catch_up(follow(consumer_id="copy"))
    assert stored(lake, TARGET) == stored(lake, SOURCE)
    assert lake.table(TARGET).where("score = 7").count() == 10


@pytest.mark.modes
@pytest.mark.usefixtures("keyed")
def test_a_complete_result_replaces_the_last_one(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    counts = spark.createDataFrame([("", 0)], "part STRING, count BIGINT")
    lake.create_table("db.counts", counts.schema)
    write(lake, 0, 30)
    write(lake, 30, 90)
    start = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}
    stream = spark.readStream.format("headwater").option("include-row-kind", "false")
    query = (
        stream.options(**start)
        .load(SOURCE)
        .groupBy("part")
        .count()
        .writeStream.format("headwater")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start("db.counts")
    )
    assert catch_up(query) == 90
    assert rows(lake.table("db.counts", snapshot_id=1)) == [("0", 10), ("1", 10), ("2", 10)]
    assert rows(lake.table("db.counts")) == [("0", 30), ("1", 30), ("2", 30)]


@pytest.mark.usefixtures("keyed")
def test_many_changes_of_one_key_in_one_batch_end_as_the_last(
    lake: SparkLake, numbered: Numbered, follow: Follow
) -> None:
    write(lake, 0, 8)
    for version in range(5):
        write(lake, 0, 6, f"v{version}")
        write(lake, 0, version, "x", "-D")
    query = follow(consumer_id="copy", **{"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    assert catch_up(query) == 8 + 5 * 6 + 10
    assert latest(lake, TARGET) == 1
    assert stored(lake, TARGET) == numbers((4, 6, "v4"), (6, 8))


@pytest.mark.modes
@pytest.mark.usefixtures("appended")
def test_options_that_a_stream_does_not_have_are_refused(
    spark: SparkSession,
    lake: SparkLake,
    follow: Follow,
    folder: Path,
    tmp_path: Path,
) -> None:
    write(lake, 0, 3)
    lake.catalog.table(SOURCE).create_tag("v1")
    wrong = [
        ({"scan.tag-name": "v1"}, "no option 'scan.tag-name' for spark.readStream"),
        ({"maxFilesPerTrigger": "1"}, "no option 'maxfilespertrigger'"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "takes no other option, not scan"),
    ]
    for options, message in wrong:
        source = data_source(folder, SOURCE, **options)
        with pytest.raises(Invalid, match=message):
            source.streamReader(source.schema()).initialOffset()
    options, message = wrong[0]
    with pytest.raises(Exception, match=message):
        catch_up(follow(**options))
    writer = spark.readStream.format("headwater").load(SOURCE).writeStream.format("headwater")
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).option("merge-schema", "true")
    with pytest.raises(Exception, match=r"no option 'merge-schema' for df\.writeStream"):
        catch_up(writer.start(TARGET))


@pytest.mark.usefixtures("keyed")
@pytest.mark.modes
def test_two_queries_do_not_share_a_consumer(lake: SparkLake, follow: Follow, folder: Path) -> None:
    write(lake, 0, 10)
    lake.catalog.table(SOURCE).consumer("copy").reset(1)
    with lake.catalog.table(SOURCE).consumer("copy").hold(timedelta(seconds=3)) as hold:
        with pytest.raises(StreamingQueryException, match=r"is in use by 'process .*is alive"):
            catch_up(follow("second", consumer_id="copy"))
        assert stored(lake, TARGET) == []
        assert position(lake, "copy") == 1
        hold.advance(2)
        # A consumer of its own belongs to one query only.
        assert catch_up(follow("third", consumer_id="own")) == 10
    write(lake, 10, 20)
    assert catch_up(follow("second", consumer_id="copy")) == 10
    assert position(lake, "copy") == 3


@pytest.mark.usefixtures("keyed")
@pytest.mark.modes
def test_a_query_whose_consumer_is_moved_by_force_ends(
    spark: SparkSession, lake: SparkLake, follow: Follow, tmp_path: Path
) -> None:
    write(lake, 0, 10)
    stream = spark.readStream.format("headwater").option("consumer-id", "copy").load(SOURCE)
    query = (
        stream.writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(TARGET)
    )
    try:
        query.processAllAvailable()
        lake.catalog.table(SOURCE).consumer("copy").reset(1, force=True)
        write(lake, 10, 20)
        with pytest.raises(StreamingQueryException, match="may not move consumer 'copy' any more"):
            query.awaitTermination()
    finally:
        query.stop()
    assert position(lake, "copy") == 1
    # The next query has it at once.
    assert catch_up(follow("next", consumer_id="copy")) == 20
    assert position(lake, "copy") == 3


@pytest.mark.usefixtures("keyed")
@pytest.mark.modes
def test_a_query_may_ignore_what_its_consumer_has_read(lake: SparkLake, follow: Follow) -> None:
    for start in (0, 10, 20):
        write(lake, start, start + 10)
    lake.catalog.table(SOURCE).consumer("copy").reset(4)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}
    assert catch_up(follow("one", consumer_id="copy", **options)) == 0
    again = {**options, "consumer.ignore-progress": "true", "consumer.mode": "at-least-once"}
    assert catch_up(follow("two", consumer_id="copy", **again)) == 20
    assert position(lake, "copy") == 4
    assert stored(lake, TARGET) == numbers((10, 30))


def test_options_about_consumers_are_checked(lake: SparkLake, folder: Path) -> None:
    lake.create_table(SOURCE, st.StructType([st.StructField("id", st.LongType())]))
    wrong = [
        ({"consumer.ignore-progress": "true"}, "set consumer-id, too"),
        ({"consumer-id": "c", "consumer.mode": "twice"}, "must be one of exactly-once, at-least"),
        ({"consumer-id": "c", "headwater.consumer.lease-time": "0 s"}, "more than 0 and at most"),
    ]
    for options, message in wrong:
        with pytest.raises(Invalid, match=message):
            data_source(folder, SOURCE, **options).schema()


@pytest.mark.usefixtures("keyed")
@pytest.mark.modes
def test_micro_batches_are_limited_in_size(lake: SparkLake, follow: Follow) -> None:
    for start in (0, 20, 40):
        write(lake, start, start + 20)
    write(lake, 0, 20, "second")
    limits = {"read.stream.maxFilesPerTrigger": "1", "scan.mode": "from-snapshot"}
    query = follow("one", consumer_id="copy", **limits, **{"scan.snapshot-id": "1"})
    assert catch_up(query) == 80
    # Each commit has a file in each of two buckets.
    assert len([p for p in query.recentProgress if p.numInputRows]) == 8
    assert position(lake, "copy") == 5
    assert stored(lake, TARGET) == stored(lake, SOURCE)
    write(lake, 60, 70)
    assert catch_up(follow("one", consumer_id="copy", **limits, **{"scan.snapshot-id": "1"})) == 10
    assert stored(lake, TARGET) == stored(lake, SOURCE)


@pytest.mark.usefixtures("appended")
@pytest.mark.modes
def test_a_micro_batch_waits_for_rows_but_not_for_ever(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    write(lake, 0, 10)
    stream = spark.readStream.format("headwater")
    stream = stream.option("read.stream.minRowsPerTrigger", "15")
    query = (
        stream.option("read.stream.maxTriggerDelayMs", "600000")
        .load(SOURCE)
        .writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(TARGET)
    )
    try:
        query.processAllAvailable()
        assert latest(lake, TARGET) == 1  # the first has not waited
        write(lake, 10, 20)
        query.processAllAvailable()
        assert latest(lake, TARGET) == 1
        write(lake, 20, 30)
        query.processAllAvailable()
        assert latest(lake, TARGET) == 2
        assert stored(lake, TARGET) == numbers((0, 30))
    finally:
        query.stop()


def test_limits_of_micro_batches_are_checked(lake: SparkLake, folder: Path) -> None:
    lake.create_table(SOURCE, st.StructType([st.StructField("id", st.LongType())]))
    least, most = "read.stream.minRowsPerTrigger", "read.stream.maxRowsPerTrigger"
    wrong = [
        ({most: "0"}, "must be 1 or more, not 0"),
        ({most: "many"}, "must be an integer"),
        ({least: "5"}, "need each other"),
        ({least: "5", "read.stream.maxTriggerDelayMs": "9", most: "4"}, "at least 5 rows"),
    ]
    for options, message in wrong:
        with pytest.raises(Invalid, match=message):
            data_source(folder, SOURCE, **options).schema()


def _reader(folder: Path, **options: str) -> StreamReader:
    source = data_source(folder, SOURCE, **options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


@pytest.mark.usefixtures("appended")
def test_a_running_query_stops_before_other_columns(lake: SparkLake, folder: Path) -> None:
    write(lake, 0, 5)
    changes = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    running = _reader(folder, **changes)
    chosen = _reader(folder, **changes, columns="id,name")
    ignoring = _reader(folder, **changes, **{"headwater.schema-change": "ignore"})
    start = running.initialOffset()
    write(lake, 5, 10)
    lake.catalog.alter_table(SOURCE, SetOption("comment", "of no concern"))
    write(lake, 10, 15)
    everything = ReadAllAvailable()
    assert running.latestOffset(start, everything)["snapshotId"] == 4
    lake.catalog.alter_table(SOURCE, AddColumn(("score",), AtomicType(Root.INT)))
    write(lake, 15, 20)
    end = running.latestOffset(start, everything)
    assert end["snapshotId"] == 4
    with pytest.raises(Invalid, match="its columns changed with snapshot 4"):
        running.latestOffset(end, everything)
    assert chosen.latestOffset(start, everything)["snapshotId"] == 5
    assert ignoring.latestOffset(start, everything)["snapshotId"] == 5
    again = _reader(folder, **changes)
    assert again.latestOffset(end, everything)["snapshotId"] == 5
    # A full read would lack the new column without a word.
    full = _reader(folder).initialOffset()
    with pytest.raises(Invalid, match="its columns changed with snapshot 4"):
        running.latestOffset(full, everything)
    assert again.latestOffset(full, everything)["snapshotId"] == 5
    assert chosen.latestOffset(full, everything)["snapshotId"] == 5


@pytest.mark.usefixtures("appended")
def test_a_query_that_stopped_before_other_columns_notices_a_rollback(
    lake: SparkLake, folder: Path
) -> None:
    changes = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    write(lake, 0, 5)
    write(lake, 5, 10)
    running = _reader(folder, **changes)
    lake.catalog.alter_table(SOURCE, AddColumn(("score",), AtomicType(Root.INT)))
    write(lake, 10, 15)
    end = running.latestOffset(running.initialOffset(), ReadAllAvailable())
    assert end["snapshotId"] == 3
    lake.catalog.table(SOURCE).rollback(snapshot_id=1)
    for start in (20, 25):
        write(lake, start, start + 5)
    with pytest.raises(Invalid, match="snapshot 2, which the stream has read, is no longer part"):
        _reader(folder, **changes).latestOffset(end, ReadAllAvailable())


@pytest.mark.usefixtures("appended")
def test_a_start_that_expired_is_an_error_or_another_start(lake: SparkLake, folder: Path) -> None:
    for start in range(0, 20, 5):
        write(lake, start, start + 5)
    table = lake.catalog.table(SOURCE)
    restore = _position_of_another_engine(table, 1)
    table.expire_snapshots(retain_min=2, retain_max=2)
    restore()
    starts = ({"consumer-id": "copy"}, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    for options in starts:
        failing = _reader(folder, **options)
        with pytest.raises(NotFound, match="snapshot 1 has expired"):
            failing.initialOffset()
        failing.stop()
        earliest = _reader(folder, **options, **{"headwater.expired-start": "earliest"})
        assert earliest.initialOffset() == {"snapshotId": 3, "changes": True}
        earliest.stop()
        full = _reader(folder, **options, **{"headwater.expired-start": "latest-full"})
        offset = full.initialOffset()
        full.stop()
        assert (offset["snapshotId"], offset["changes"]) == (4, False)
        restore()
    with pytest.raises(Invalid, match="must be one of fail, earliest, latest-full"):
        data_source(folder, SOURCE, **{"headwater.expired-start": "late"}).schema()


def _ids(reader: StreamReader, start: Offset, end: Offset) -> list[int]:
    numbers = [
        batch["id"].to_pylist()
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
    ]
    return sorted(number for ids in numbers for number in ids)


@pytest.mark.usefixtures("appended")
@pytest.mark.parametrize(
    "options",
    [{}, {"read.stream.maxFilesPerTrigger": "1"}, {"scan.mode": "latest"}],
    ids=["full", "part", "latest"],
)
def test_a_repeated_first_batch_begins_where_the_query_began(
    lake: SparkLake, folder: Path, options: dict[str, str]
) -> None:
    """Spark asks for the start again, when there are later commits."""
    write(lake, 0, 5)
    write(lake, 5, 10)
    failed = _reader(folder, **options)
    begin = failed.initialOffset()
    write(lake, 10, 15)
    end = failed.latestOffset(begin, failed.getDefaultReadLimit())
    wanted = _ids(failed, begin, end)
    assert wanted
    write(lake, 20, 25)
    again = _reader(folder, **options)
    assert again.initialOffset() != begin
    assert _ids(again, again.initialOffset(), end) == wanted
    # What follows begins where a batch ended, until an offset is as the one before it.
    numbers, last = list(wanted), end
    while (following := again.latestOffset(last, ReadAllAvailable())) != last:
        numbers += _ids(again, last, following)
        last = following
    assert sorted(numbers) == [*range(10 if "scan.mode" in options else 0, 15), *range(20, 25)]


@pytest.mark.modes
@pytest.mark.usefixtures("appended")
def test_a_first_batch_that_failed_is_repeated_as_it_was(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    write(lake, 0, 5)
    write(lake, 5, 10)
    is_broken = True
    numbers: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        ids = [row.id for row in batch.select("id").collect()]
        if is_broken:
            raise ValueError("broken")
        numbers.extend(ids)

    def run() -> None:
        stream = spark.readStream.format("headwater").option("read.stream.maxFilesPerTrigger", "1")
        writer = stream.load(SOURCE).writeStream.foreachBatch(take).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="broken"):
        run()
    is_broken = False
    write(lake, 10, 15)
    run()
    assert sorted(numbers) == list(range(15))


@pytest.mark.usefixtures("appended")
def test_a_consumer_holds_the_full_read_that_it_begins_with(lake: SparkLake, folder: Path) -> None:
    for start in (0, 5, 10):
        write(lake, start, start + 5)
    table = lake.catalog.table(SOURCE)
    options = {"consumer-id": "copy", "read.stream.maxFilesPerTrigger": "1"}
    killed = _reader(folder, **options)
    begin = killed.initialOffset()
    part = killed.latestOffset(begin, killed.getDefaultReadLimit())
    write(lake, 15, 20)
    table.compact(full=True)
    expired = table.expire_snapshots(retain_min=1, retain_max=1)
    assert (expired.earliest, expired.held_back_by) == (3, "copy")
    assert len(_ids(killed, begin, part)) == 5
    end = killed.latestOffset(part, ReadAllAvailable())
    (info,) = table.consumers()
    assert (info.next_snapshot, info.full_read) == (3, True)
    killed.stop()

    # Nobody knows whether all rows were written: the next one begins with the same rows.
    reader = _reader(folder, **options)
    assert reader.initialOffset() == begin
    assert _ids(reader, begin, end) == list(range(15))
    reader.commit(end)
    (info,) = table.consumers()
    assert (info.next_snapshot, info.full_read) == (4, False)
    table.expire_snapshots(retain_min=1, retain_max=1)
    last = reader.latestOffset(end, ReadAllAvailable())
    assert _ids(reader, end, last) == list(range(15, 20))
    reader.stop()


@pytest.mark.usefixtures("appended")
def test_a_batch_whose_snapshots_expire_while_it_is_read_is_called_expired(
    lake: SparkLake, folder: Path
) -> None:
    for start in (0, 5):
        write(lake, start, start + 5)
    table = lake.catalog.table(SOURCE)
    reader = _reader(folder)
    begin = reader.initialOffset()
    (partition,) = reader.partitions(begin, reader.latestOffset(begin, ReadAllAvailable()))
    table.compact(full=True)
    kept = {path: path.read_bytes() for path in folder.rglob("data-*")}
    for path in kept:
        path.unlink()
    with pytest.raises(CorruptData, match="is missing"):
        list(reader.read(partition))
    for path, content in kept.items():
        path.write_bytes(content)
    table.expire_snapshots(retain_min=1, retain_max=1)
    with pytest.raises(NotFound, match="snapshot 2 has expired"):
        list(reader.read(partition))


@pytest.mark.parametrize("bucket", ["2", "-1"], ids=["rescaled", "dynamic"])
def test_changes_of_a_key_stay_in_order_whatever_the_buckets(
    lake: SparkLake, numbered: Numbered, folder: Path, bucket: str
) -> None:
    options = {"bucket": bucket, "dynamic-bucket.target-row-num": "5"}
    lake.create_table(SOURCE, numbered(0, 1).schema, primary_keys=["id"], options=options)
    write(lake, 0, 20)
    if bucket == "2":
        lake.catalog.alter_table(SOURCE, SetOption("bucket", "4"))
        table = lake.catalog.table(SOURCE)
        table.overwrite(table.scan().to_arrow())
    write(lake, 0, 20, "second")
    source = source_class(Connection(str(folder), parallelism=8))(
        CaseInsensitiveDict({"path": SOURCE, "include-row-kind": "true"})
    )
    reader = source.streamReader(source.schema())
    end = latest(lake, SOURCE) + 1
    whole = ({"snapshotId": 1, "changes": True}, {"snapshotId": end, "changes": True})
    values: dict[int, list[str]] = {}
    for partition in reader.partitions(*whole):
        seen: dict[int, list[str]] = {}
        for batch in reader.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            columns = batch.to_pydict()
            for key, name in zip(columns["id"], columns["name"], strict=True):
                seen.setdefault(key, []).append(name)
        assert not seen.keys() & values.keys()  # one task has all changes of a key
        values |= seen
    assert values == {key: [f"first-{key}", f"second-{key}"] for key in range(20)}


def test_a_row_that_moves_to_another_partition_is_deleted_before_it_comes_back(
    lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    options = {"bucket": "-1"}
    schema = numbered(0, 1).schema
    lake.create_table(SOURCE, schema, primary_keys=["id"], partition_keys=["part"], options=options)
    table = lake.catalog.table(SOURCE)
    for part in ("b", "a", "c", "a"):
        moved = {"id": list(range(9)), "name": [part] * 9, "part": [part] * 9}
        table.write(pa.table(moved))
    newest = latest(lake, SOURCE)
    source = source_class(Connection(str(folder), parallelism=8))(
        CaseInsensitiveDict({"path": SOURCE, "include-row-kind": "true"})
    )
    reader = source.streamReader(source.schema())
    whole = ({"snapshotId": 1, "changes": True}, {"snapshotId": newest + 1, "changes": True})
    (partition,) = reader.partitions(*whole)
    assert _present(reader.read(partition)) == dict.fromkeys(range(9), "a")


def _present(changes: Iterable[object]) -> dict[int, str]:
    """The partition of each row that is left after changes, in their order."""
    present: dict[int, str] = {}
    for batch in changes:
        assert isinstance(batch, pa.RecordBatch)
        for row in batch.to_pylist():
            if row["_ROW_KIND"] in ("+I", "+U"):
                present[row["id"]] = row["part"]
            else:
                present.pop(row["id"])
    return present


@pytest.mark.parametrize("limit", ["Files", "Rows", "Bytes"])
def test_a_row_that_moves_is_deleted_and_added_in_one_batch(
    lake: SparkLake, numbered: Numbered, folder: Path, limit: str
) -> None:
    """However little a batch may hold: each file has a row that moves in and one that moves out."""
    lake.create_table(
        SOURCE,
        numbered(0, 1).schema,
        primary_keys=["id"],
        partition_keys=["part"],
        options={"bucket": "-1"},
    )
    for parts in (["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]):
        lake.catalog.table(SOURCE).write({"id": [0, 1], "name": parts, "part": parts})
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "include-row-kind": "true"}
    reader = _reader(folder, **options, **{f"read.stream.max{limit}PerTrigger": "1"})
    at, batches, changes = reader.initialOffset(), 0, list[object]()
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        for partition in reader.partitions(at, end):
            changes += reader.read(partition)
        at, batches = end, batches + 1
    assert _present(changes) == {0: "b", 1: "a"}
    assert batches == 4
