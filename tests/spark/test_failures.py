"""A write that fails leaves nothing; one whose answer is lost keeps what it may have committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tests import plain_http
from tests.spark.conftest import Numbered, arrow, data_files, named_files, numbers, store, stored

from headwater.spark import SparkLake, connect
from headwater.spark.connection import Connection
from headwater.spark.options import WriteOptions
from headwater.spark.write.tasks import BatchWriter, StreamWriter, WrittenFiles
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import CommitKind
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import TableWriter

pytestmark = pytest.mark.spark


@pytest.fixture
def table(lake: SparkLake, numbered: Numbered) -> str:
    lake.create_table("db.t", numbered(0, 1).schema, primary_keys=["id"], options={"bucket": "2"})
    store(lake, "db.t", 0, 20)
    return "db.t"


def test_a_null_key_fails_the_write_and_leaves_no_file(
    lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    lake.create_table(
        "db.one",
        numbered(0, 1).schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "1", "write-buffer-size": "1 kb"},
    )
    # In one task, which has written files of all partitions when it meets the null.
    bad = numbered(0, 5000).withColumn("id", sf.when(sf.col("id") != 4999, sf.col("id")))
    one_task = bad.coalesce(1).write.format("headwater").mode("append")
    attempts: list[Callable[[], None]] = [
        lambda: lake.write(bad, "db.one"),
        lambda: one_task.save("db.one"),
    ]
    for write in attempts:
        with pytest.raises(Exception, match="column 'id' is NOT NULL, but 1 of"):
            write()
        assert data_files(folder) == []
    assert stored(lake, "db.one") == []


def test_a_task_that_fails_takes_the_files_of_the_others_with_it(
    spark: SparkSession, lake: SparkLake, table: str, numbered: Numbered, folder: Path
) -> None:
    """Each bucket's rows are a task's; the null goes to one of them, among many batches."""
    before, snapshot = data_files(folder), lake.catalog.table(table).latest_snapshot()
    rows_of_two = numbered(0, 40_000)
    bad = rows_of_two.withColumn("id", sf.when(sf.col("id") != 7, sf.col("id")))
    with pytest.raises(Invalid, match="column 'id' is NOT NULL, but 1 of"):
        lake.write(bad, table)
    assert data_files(folder) == before
    # What Spark itself fails by stays Spark's error.
    with pytest.raises(PySparkException, match="mine"):
        lake.write(rows_of_two.withColumn("name", sf.raise_error(sf.lit("mine"))), table)
    assert data_files(folder) == before
    assert lake.catalog.table(table).latest_snapshot() == snapshot
    # No task runs for rows that Spark knows there are none of.
    lake.write(spark.createDataFrame([], rows_of_two.schema), table, mode="overwrite")
    assert stored(lake, table) == []


def test_what_finished_tasks_wrote_is_deleted_when_another_fails(
    lake: SparkLake, table: str, folder: Path
) -> None:
    before = data_files(folder)
    handle = lake.catalog.table(table)
    with TableWriter(handle.storage, max_sequence_numbers={}) as tasks:
        tasks.write(arrow(0, 50))
        done = WrittenFiles("a-batch", tuple(tasks.finish()))
    assert len(data_files(folder)) == len(before) + 2
    writer = BatchWriter(WriteOptions(Connection(str(folder)), table))
    writer.abort([done, None])
    assert data_files(folder) == before


def test_files_stay_once_their_commit_may_have_begun(
    lake: SparkLake, table: str, folder: Path
) -> None:
    """When Spark has every task's message, the commit may be on its way to the catalog."""
    handle = lake.catalog.table(table)
    with TableWriter(handle.storage, max_sequence_numbers={}) as tasks:
        tasks.write(arrow(0, 50))
        done = WrittenFiles("a-batch", tuple(tasks.finish()))
    written = data_files(folder)
    options = WriteOptions(Connection(str(folder)), table)
    BatchWriter(options).abort([done])
    StreamWriter(options).abort([done, done], 7)
    assert data_files(folder) == written


def test_a_repeated_batch_is_compacted_but_not_committed_again(
    lake: SparkLake, table: str, folder: Path
) -> None:
    """The query may have ended between the batch's commit and the compaction after it."""
    handle = lake.catalog.table(table).alter(SetOption("full-compaction.delta-commits", "2"))
    writer = StreamWriter(WriteOptions(Connection(str(folder)), table))

    def batch(start: int) -> WrittenFiles:
        states = BucketStates(handle.storage, handle.latest_snapshot())
        with TableWriter(handle.storage, max_sequence_numbers=states) as tasks:
            tasks.write(arrow(start, start + 20))
            return WrittenFiles("a-query", tuple(tasks.finish()))

    writer.commit([batch(10)], 0)
    writer.commit([batch(20)], 1)
    writer.commit([batch(30)], 2)
    last = batch(40)
    user = "spark-a-query"
    TableCommit(handle.storage, handle.pointer, user).commit(last.messages, identifier=3)
    writer.commit([batch(40)], 3)
    made = [s for s in reversed(handle.snapshots()) if s.commit_user == user]
    assert [(s.commit_kind, s.commit_identifier) for s in made] == [
        ("APPEND", 0), ("APPEND", 1), ("COMPACT", 1), ("APPEND", 2), ("APPEND", 3), ("COMPACT", 3),
    ]  # fmt: skip
    assert {file.level for file in handle.files()} == {5}
    assert stored(lake, table) == numbers((0, 60))
    # Once more: there is nothing left to do.
    writer.commit([batch(40)], 3)
    assert [s for s in reversed(handle.snapshots()) if s.commit_user == user] == made


def test_a_write_is_followed_by_its_compaction_in_tasks(
    lake: SparkLake, table: str, numbered: Numbered
) -> None:
    handle = lake.catalog.table(table).alter(SetOption("num-sorted-run.compaction-trigger", "2"))
    lake.write(numbered(10, 30, "second"), table)
    kinds = [snapshot.commit_kind for snapshot in reversed(handle.snapshots())]
    assert kinds == ["APPEND", "APPEND", "COMPACT"]
    assert {file.level for file in handle.files()} == {2}
    assert stored(lake, table) == numbers((0, 10), (10, 30, "second"))
    lake.delete(table, "id < 5")
    lake.delete(table, "id < 10")
    assert stored(lake, table) == numbers((10, 30, "second"))
    assert [s.commit_kind for s in handle.snapshots()].count(CommitKind.COMPACT) > 1


def test_a_commit_that_is_refused_leaves_no_file(
    lake: SparkLake, table: str, numbered: Numbered, folder: Path
) -> None:
    before = data_files(folder)
    rows_elsewhere = numbered(0, 9, "x")
    lake.create_table(
        "db.p",
        rows_elsewhere.schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "1"},
    )
    with pytest.raises(Invalid, match="outside"):
        lake.write(rows_elsewhere, "db.p", mode="overwrite", partition={"part": "0"})
    assert data_files(folder) == before


class LateCommit:
    """A proxy that holds a commit back until told to deliver it, and refuses all else then."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.url = ""
        self.held: tuple[str, bytes] | None = None

    def send(self, method: str, path: str, body: bytes) -> httpx.Response:
        """The server's answer to a request."""
        headers = {"content-type": "application/json"}
        return plain_http.request(method, self.target + path, content=body, headers=headers)

    def deliver(self) -> None:
        """Give the server the commit that was held back."""
        assert self.held is not None
        self.send("POST", *self.held).raise_for_status()


@pytest.fixture
def late_commit(lake: SparkLake, serve: Callable[..., str]) -> Iterator[LateCommit]:
    proxy = LateCommit(serve(lake.catalog.catalog))

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            self.close_connection = True
            if proxy.held is not None:
                self._answer(403, b'{"message": "refused", "code": 403}')
            elif self.command == "POST" and self.path.endswith("/commit"):
                proxy.held = (self.path, body)
            else:
                answer = proxy.send(self.command, self.path, body)
                self._answer(answer.status_code, answer.content)

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

        do_GET = do_POST = do_DELETE = _handle

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield proxy
        server.shutdown()
        thread.join()


def test_a_commit_that_may_still_come_keeps_its_files(
    spark: SparkSession,
    lake: SparkLake,
    table: str,
    numbered: Numbered,
    late_commit: LateCommit,
    folder: Path,
) -> None:
    """Spark then asks the writer to delete the files, which no snapshot names yet."""
    served = connect(spark, late_commit.url)
    with pytest.raises(Unavailable) as raised:
        served.write(numbered(10, 30, "second"), table)
    assert isinstance(raised.value, OutcomeUnknown)
    late_commit.deliver()
    assert stored(lake, table) == numbers((0, 10), (10, 30, "second"))
    assert data_files(folder) == named_files(lake, table)
