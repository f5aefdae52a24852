"""Writes with a number: their rows are committed once, however often they are repeated."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.conftest import Clock
from tests.client.conftest import Clock as NoWaiting
from tests.client.conftest import open_proxy
from tests.processes import run_function

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.table.pointer import CatalogPointer
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid, OutcomeUnknown, Unavailable
from headwater.storage.files.local import local_path
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, SnapshotPointer

USER = "cdc-shop"
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False), pa.field("p", pa.int64(), False), ("v", pa.int64())]
)
KEYED = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
MODES: Mapping[str, Mapping[str, object]] = {
    "append": {"options": {}},
    "append to buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
    "append to partitions": {"partition_keys": ["p"]},
    "fixed buckets": {"primary_keys": ["k"], "options": {"bucket": "2", **KEYED}},
    "dynamic buckets": {"primary_keys": ["k"], "options": {"bucket": "-1", **KEYED}},
    "postponed buckets": {"primary_keys": ["k"], "options": {"bucket": "-2", **KEYED}},
    "across partitions": {
        "primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": "-1"},
    },
    "deletion vectors": {
        "primary_keys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
    "first row": {"primary_keys": ["k"], "options": {"bucket": "1", "merge-engine": "first-row"}},
}  # fmt: skip


@pytest.fixture(params=MODES)
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    """An empty table of each mode."""
    return lake.create_table("sales.t", SCHEMA, **MODES[request.param])  # type: ignore[arg-type]


@pytest.fixture
def log(lake: Lake) -> Table:
    """An append table."""
    return lake.create_table("sales.log", SCHEMA)


def batch(number: int) -> dict[str, list[int]]:
    """The rows of a commit: no other has their keys, so that a doubled one is seen."""
    return {"k": [10 * number, 10 * number + 1], "p": [0, 1], "v": [1, 1]}


def write(table: Table, number: int, **more: object) -> Snapshot | None:
    return table.write(batch(number), commit_user=USER, commit_identifier=number, **more)  # type: ignore[arg-type]


def rows(table: Table) -> list[dict[str, int]]:
    if table.schema.table_options.bucket == -2:
        table.compact()
    stored: list[dict[str, int]] = table.scan().to_arrow().to_pylist()
    return sorted(stored, key=lambda row: row["k"])


def expected(*numbers: int) -> list[dict[str, int]]:
    """The rows of commits, each once."""
    columns = [batch(number) for number in numbers]
    return [
        {name: column[name][at] for name in SCHEMA.names} for column in columns for at in range(2)
    ]


def data_files(table: Table) -> set[str]:
    """The names of the data files on the disk, whether the table has them or not."""
    folder = Path(local_path(table.storage.layout.location))
    return {path.name for path in folder.rglob("data-*")}


def expire(table: Table) -> None:
    table.expire_snapshots(retain_min=1, retain_max=1, retain=timedelta(0))


def test_a_repeated_write_adds_its_rows_once(table: Table, lake: Lake) -> None:
    for number in range(3):
        made = write(table, number, properties={"cdc.position": str(number)})
        assert made is not None
        assert (made.commit_user, made.commit_identifier) == (USER, number)
        assert made.properties == {"cdc.position": str(number)}
        # Another writer commits in between, under the same number.
        other = {"k": [1000 + number], "p": [0], "v": [1]}
        assert table.write(other, commit_user="other", commit_identifier=number) is not None
        before, latest = data_files(table), table.latest_snapshot()
        # Another process repeats it, and the one before it.
        again = lake.table("sales.t")
        for repeated in range(number + 1):
            assert write(again, repeated) is None
        assert data_files(table) == before
        assert again.latest_snapshot() == latest
        assert table.last_committed(USER) == number
    others = [{"k": 1000 + number, "p": 0, "v": 1} for number in range(3)]
    assert rows(table) == [*expected(0, 1, 2), *others]


def test_a_number_is_known_though_its_snapshot_expired(table: Table, lake: Lake) -> None:
    assert table.last_committed(USER) is None
    for number in (3, 8):
        assert write(table, number) is not None
    for number in range(6):
        table.write({"k": [1000 + number], "p": [0], "v": [1]})
    expire(table)
    assert USER not in {snapshot.commit_user for snapshot in table.snapshots()}
    again = lake.table("sales.t")
    assert again.last_committed(USER) == 8
    before = data_files(table)
    # Those that were never used, but are lower, count as committed.
    for number in (0, 3, 7, 8):
        assert write(again, number) is None
    assert data_files(table) == before
    assert write(again, 9) is not None
    assert [row for row in rows(table) if row["k"] < 1000] == expected(3, 8, 9)


def test_a_commit_without_rows_is_known_to_be_done(table: Table) -> None:
    none = SCHEMA.empty_table()
    assert table.write(none) is None
    made = table.write(none, commit_user=USER, commit_identifier=0)
    assert made is not None
    assert (made.commit_kind, made.delta_record_count) == (CommitKind.APPEND, 0)
    stream = pa.RecordBatchReader.from_batches(SCHEMA, [])
    assert table.write(stream, commit_user=USER, commit_identifier=1) is not None
    assert table.last_committed(USER) == 1
    # The same number brings no rows later.
    assert write(table, 1) is None
    assert write(table, 2) is not None
    assert rows(table) == expected(2)


def overwrite(table: Table, number: int, **more: object) -> Snapshot | None:
    return table.overwrite(batch(number), commit_user=USER, commit_identifier=number, **more)  # type: ignore[arg-type]


def test_a_repeated_overwrite_replaces_rows_once(table: Table, lake: Lake) -> None:
    assert write(table, 0) is not None
    made = overwrite(table, 1, dynamic=False, properties=lambda: {"cdc.position": "1"})
    assert made is not None
    assert (made.commit_kind, made.commit_identifier) == (CommitKind.OVERWRITE, 1)
    assert made.properties == {"cdc.position": "1"}
    assert write(table, 2) is not None
    before = data_files(table)
    # A process that was late repeats it, and what came after it stays.
    assert overwrite(lake.table("sales.t"), 1, dynamic=False) is None
    assert write(table, 1) is None
    assert data_files(table) == before
    assert rows(table) == expected(1, 2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_overwrite_without_rows_is_known_to_be_done(table: Table, dynamic: bool) -> None:
    assert write(table, 0) is not None
    none = pa.RecordBatchReader.from_batches(SCHEMA, [])
    made = table.overwrite(none, dynamic=dynamic, commit_user=USER, commit_identifier=1)
    assert made is not None
    assert table.last_committed(USER) == 1
    assert write(table, 1) is None
    is_kept = dynamic and bool(table.schema.partition_keys)
    assert rows(table) == (expected(0) if is_kept else [])


def test_a_stream_is_written_once_and_not_read_again(table: Table) -> None:
    small = table.with_options({"write-buffer-size": "4 kb"})
    batches = [
        pa.record_batch(
            {"k": range(start, start + 500), "p": [0] * 500, "v": [1] * 500}, schema=SCHEMA
        )
        for start in range(0, 2000, 500)
    ]
    unread: list[pa.RecordBatch] = []

    def read(source: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for item in source:
            unread.remove(item)
            yield item

    for is_first in (True, False):
        unread[:] = batches
        stream = pa.RecordBatchReader.from_batches(SCHEMA, read(batches))
        made = small.write(stream, commit_user=USER, commit_identifier=5)
        assert (made is not None) == is_first
        # A repeated stream is not read.
        assert len(unread) == (0 if is_first else 4)
    assert [row["k"] for row in rows(table)] == list(range(2000))
    assert all(row["v"] == 1 for row in rows(table))


def test_each_branch_has_numbers_of_its_own(table: Table) -> None:
    assert write(table, 0) is not None
    table.create_branch("trial", snapshot_id=1)
    trial = table.branch("trial")
    # The branch has the rows of the commit that it began with, and its number.
    assert trial.last_committed(USER) == 0
    assert write(trial, 0) is None
    assert write(trial, 1) is not None
    assert (table.last_committed(USER), trial.last_committed(USER)) == (0, 1)
    assert write(trial, 1) is None
    assert rows(trial) == expected(0, 1)
    assert write(table, 1) is not None
    assert rows(table) == expected(0, 1)


def test_a_rollback_takes_numbers_back(log: Table) -> None:
    for number in range(3):
        write(log, number)
    log.rollback(snapshot_id=1)
    assert log.last_committed(USER) == 0
    assert write(log, 1) is not None
    assert rows(log) == expected(0, 1)


def test_row_kinds_are_kept(lake: Lake) -> None:
    table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    assert write(table, 0) is not None
    for _ in range(2):
        table.write(batch(0), pa.array(["-D", "+U"]), commit_user=USER, commit_identifier=1)
    assert rows(table) == expected(0)[1:]
    # The commit that is deleted from here on is not done again.
    assert write(table, 0) is None
    assert rows(table) == expected(0)[1:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"commit_user": USER}, "commit_identifier is missing"),
        ({"commit_identifier": 1}, "commit_user is missing"),
        ({"commit_user": "", "commit_identifier": 1}, "commit_user '' is not usable"),
        ({"commit_user": " ", "commit_identifier": 1}, "commit_user ' ' is not usable"),
        ({"commit_user": "a\0", "commit_identifier": 1}, "not usable; use 1 to 255 printable"),
        ({"commit_user": "a" * 256, "commit_identifier": 1}, "not usable"),
        ({"commit_user": USER, "commit_identifier": -1}, "-1 is out of range"),
        ({"commit_user": USER, "commit_identifier": 2**63 - 1}, "is out of range"),
        ({"commit_user": USER, "commit_identifier": True}, "the bool True: give a whole number"),
        ({"commit_user": USER, "commit_identifier": "1"}, "the str '1': give a whole number"),
        ({"commit_user": 5, "commit_identifier": 1}, "the int 5: give text"),
    ],
)
def test_a_bad_number_is_rejected_by_name(
    log: Table, arguments: Mapping[str, object], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        log.write(batch(0), **arguments)  # type: ignore[arg-type]
    assert log.snapshots() == []
    assert data_files(log) == set()


def test_a_bad_user_has_no_last_number(log: Table) -> None:
    with pytest.raises(Invalid, match="commit_user '' is not usable"):
        log.last_committed("")


@pytest.mark.parametrize("user", ["a/b c", "..", ".", "%2F", "é?&#", "a" * 255])
def test_any_printable_name_is_a_user(log: Table, user: str) -> None:
    assert log.write(batch(0), commit_user=user, commit_identifier=0) is not None
    for number in range(1, 6):
        log.write(batch(number))
    expire(log)
    assert log.last_committed(user) == 0
    assert log.write(batch(0), commit_user=user, commit_identifier=0) is None
    assert log.last_committed("nobody") is None


def test_bad_rows_take_no_number(log: Table) -> None:
    with pytest.raises(Invalid, match="no_such_column"):
        log.write({"no_such_column": [1]}, commit_user=USER, commit_identifier=0)
    assert log.last_committed(USER) is None
    assert data_files(log) == set()
    assert write(log, 0) is not None


def test_a_user_without_numbers_is_not_taken_for_one(log: Table) -> None:
    made = log.write(batch(0))
    assert made is not None
    assert log.last_committed(made.commit_user) is None
    with pytest.raises(Invalid, match="the commits of this user have no numbers; use another"):
        log.write(batch(1), commit_user=made.commit_user, commit_identifier=0)
    assert rows(log) == expected(0)


def test_an_external_table_never_doubles_what_it_forgot(lake: Lake, tmp_path: Path) -> None:
    path = {"path": f"{tmp_path}/outside"}
    table = lake.create_table("sales.outside", SCHEMA, options=path)
    assert write(table, 0) is not None
    assert write(table, 0) is None
    for number in range(1, 4):
        table.write(batch(number))
    expire(table)
    with pytest.raises(Invalid, match="snapshots have expired, and nothing remembers"):
        write(table, 0)
    assert rows(table) == expected(0, 1, 2, 3)


def test_what_is_due_after_it_is_done(lake: Lake) -> None:
    kept = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **kept}
    table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options=options)
    for number in range(8):
        made = write(table, number)
        assert made is not None
        assert made.commit_kind is CommitKind.APPEND
    assert len(table.snapshots()) == 2
    assert len(table.files()) <= 3
    assert rows(table) == expected(*range(8))


class Failing:
    """Runs no task of a compaction."""

    def run(self, work: Callable[..., object], tasks: Sequence[object]) -> Iterator[object]:
        raise Unavailable("no memory is left")


def test_a_compaction_that_fails_fails_no_write(lake: Lake) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options=options)
    for number in range(4):
        assert write(table, number, executor=Failing()) is not None
        assert write(table, number, executor=Failing()) is None
    assert {snapshot.commit_kind for snapshot in table.snapshots()} == {CommitKind.APPEND}
    assert rows(table) == expected(*range(4))


def test_embedded_and_served_know_the_same_numbers(
    tmp_path: Path, serve: Callable[[Catalog], str]
) -> None:
    with connect(tmp_path / "lake") as embedded:
        embedded.create_database("sales")
        tables = [embedded.create_table("sales.log", SCHEMA)]
        with connect(serve(embedded.catalog)) as served:
            tables.append(served.table("sales.log"))
            for number in range(6):
                first, second = tables[:: 1 if number % 2 else -1]
                assert write(first, number) is not None
                if number % 3 == 0:
                    for _ in range(4):
                        first.write(SCHEMA.empty_table(), commit_user="o", commit_identifier=number)
                        first.truncate() if number == 0 else first.compact()
                    expire(first)
                assert write(second, number) is None
                assert second.last_committed(USER) == number
            assert rows(tables[0]) == expected(*range(1, 6))


def test_a_truncation_that_is_repeated_keeps_later_rows(lake: Lake) -> None:
    table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    write(table, 0)
    made = table.truncate(commit_user="other", commit_identifier=1, properties={"a": "b"})
    assert made is not None
    assert made.properties["a"] == "b"
    assert rows(table) == expected()
    write(table, 1)
    assert table.truncate(commit_user="other", commit_identifier=1) is None
    assert rows(table) == expected(1)
    assert table.truncate(commit_user="other", commit_identifier=2) is not None
    assert table.truncate() is not None
    assert rows(table) == expected()


# Races ----------------------------------------------------------------------------------------


class Died(BaseException):
    """The process is gone."""


class Meddled(Table):
    """A handle of a process to which things happen.

    Attributes:
        before_decision: What happens before each of its next decisions, in turn.
        after_decision: What happens after each of its decisions, whatever it was.
        lost: How many of the next decisions it does not hear of.
    """

    before_decision: Sequence[Callable[[], object]] = ()
    after_decision: Callable[[CommitAnswer], object] = staticmethod(lambda _: None)
    lost: int = 0

    @property
    def pointer(self) -> SnapshotPointer:
        return _MeddledPointer(self.catalog, self.identifier, self.info.id, self)

    @staticmethod
    def over(table: Table, *before_decision: Callable[[], object], lost: int = 0) -> Meddled:
        """Another process's handle of a table."""
        made = Meddled(table.catalog, table.info, table.storage.runtime)
        made.before_decision, made.lost = before_decision, lost
        return made


@dataclass(frozen=True)
class _MeddledPointer(CatalogPointer):
    table: Meddled = field(kw_only=False)

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        if self.table.before_decision:
            first, *self.table.before_decision = self.table.before_decision
            first()
        answer = super().commit(snapshot, base, statistics)
        self.table.after_decision(answer)
        if self.table.lost:
            self.table.lost -= 1
            return CommitAnswer.unknown(Unavailable("no response"))
        return answer

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return None if self.table.lost else super().was_taken(snapshot)


@pytest.mark.parametrize("is_expired", [False, True], ids=["there", "expired"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["table", "stream"])
def test_another_process_commits_the_same_number_meanwhile(
    table: Table, is_expired: bool, is_stream: bool
) -> None:
    def commit_first() -> None:
        assert write(table, 1) is not None
        if is_expired:
            for number in range(10, 13):
                table.write(batch(number))
            expire(table)

    late = Meddled.over(table, commit_first)
    data = pa.table(batch(1), schema=SCHEMA)
    made = late.write(
        data.to_reader() if is_stream else data, commit_user=USER, commit_identifier=1
    )
    # As long as the other's snapshot is there, it is returned.
    assert (made is None) == is_expired
    assert made is None or made.id == 1
    assert [row for row in rows(table) if row["k"] < 100] == expected(1)
    named = {file.name for file in table.files()}
    if table.schema.table_options.bucket != -2 and not is_expired:
        assert data_files(table) == named


@pytest.mark.parametrize("is_new", [False, True])
def test_snapshots_that_expire_meanwhile_may_be_of_others(log: Table, is_new: bool) -> None:
    def others_commit() -> None:
        log.write(batch(2), commit_user="other", commit_identifier=1)
        for number in range(3, 6):
            log.write(batch(number))
        expire(log)

    log.write(batch(0), commit_user="another" if is_new else USER, commit_identifier=0)
    late = Meddled.over(log, others_commit)
    assert write(late, 1) is not None
    assert rows(log) == expected(0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("happened", [False, True])
def test_an_unknown_outcome_is_resolved_by_the_repetition(table: Table, happened: bool) -> None:
    assert write(table, 0) is not None

    def no_connection() -> None:
        raise Unavailable("no connection")

    # The time runs out, whatever became of the request.
    patient = Meddled.over(table, *([] if happened else [no_connection]), lost=10**6)
    if happened:
        with pytest.raises(OutcomeUnknown):
            write(patient, 1)
    else:
        with pytest.raises(Unavailable):
            write(patient, 1)
    assert table.last_committed(USER) == int(happened)
    assert (write(table, 1) is None) == happened
    assert write(table, 1) is None
    assert rows(table) == expected(0, 1)


def test_a_server_that_goes_with_the_commit_is_asked_again(
    tmp_path: Path, serve: Callable[[Catalog], str]
) -> None:
    with connect(tmp_path / "lake") as embedded, open_proxy(serve(embedded.catalog)) as proxy:
        embedded.create_database("sales")
        log = embedded.create_table("sales.log", SCHEMA)
        with connect(proxy.url, runtime=NoWaiting().runtime) as served:
            table = served.table("sales.log")
            # The request is lost, and the server with it.
            proxy.go("POST /commit")
            with pytest.raises(OutcomeUnknown):
                write(table, 0)
            proxy.start()
            assert write(table, 0) is not None
            # The server commits, and its response is lost.
            proxy.lose_answer("POST /commit")
            assert write(table, 1) is not None
            for number in (0, 1):
                assert write(table, number) is None
            # Nothing is known while it is away.
            proxy.stop()
            with pytest.raises(Unavailable):
                table.last_committed(USER)
            with pytest.raises(Unavailable):
                write(table, 1)
        assert rows(log) == expected(0, 1)


def test_a_repeated_number_hides_no_later_one(lake: Lake) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options=options)
    for number in range(3):
        # The process ends before the compaction.
        assert write(table.with_options({"write-only": "true"}), number) is not None
    for number in range(3):
        assert write(table, number) is None
        assert table.last_committed(USER) == 2
    # The repetition of the last commit has done it.
    assert [snapshot.commit_kind for snapshot in table.snapshots()].count(CommitKind.COMPACT) == 1
    assert write(table, 3) is not None
    assert rows(table) == expected(*range(4))


@dataclass
class Race:
    """A job that several processes do, one of which is stopped and goes on.

    Attributes:
        folder: The lake's.
        done: Up to which number the job is done by one of them.
        others: How many commits others made.
        dies_late: Whether the process dies after its next decision.
    """

    folder: Path
    clock: Clock = field(default_factory=Clock)
    done: int = -1
    others: int = 0
    dies_late: bool = False

    def happen(self, table: Table, number: int, event: str) -> None:
        """Something happens before the decision about a number."""
        self.clock.turn(seconds=1)
        if event in ("repeat", "overtake"):
            with connect(self.folder, runtime=self.clock.runtime) as lake:
                rival = lake.table("sales.t")
                for repeated in range(number + 1 + (event == "overtake")):
                    write(rival, repeated)
            self.done = max(self.done, number + (event == "overtake"))
        elif event == "write":
            self.others += 1
            table.write({"k": [1000 + self.others], "p": [0], "v": [1]})
        elif event == "compact":
            table.compact()
        elif event == "expire":
            expire(table)
        elif event == "die":
            raise Died
        elif event == "die late":
            self.dies_late = True
        else:
            assert event == "nothing"

    def decided(self, number: int, answer: CommitAnswer) -> None:
        """The decision about a number was made."""
        if answer.decided():
            self.done = max(self.done, number)
        if self.dies_late:
            self.dies_late = False
            raise Died


EVENTS = st.sampled_from(
    ["repeat", "overtake", "write", "compact", "expire", "die", "die late", "nothing"]
)


@settings(max_examples=15)
@given(st.lists(st.lists(EVENTS, max_size=4), max_size=8), st.sampled_from(["1", "-1"]))
def test_any_interleaving_commits_each_number_once(
    schedule: Sequence[Sequence[str]], bucket: str
) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        race = Race(Path(folder))
        with connect(folder, runtime=race.clock.runtime) as lake:
            lake.create_database("sales")
            options = {"bucket": bucket, **KEYED, "num-sorted-run.compaction-trigger": "2"}
            table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options=options)
            for events in schedule:
                last = table.last_committed(USER)
                number = 0 if last is None else last + 1

                def happen(number: int = number, events: Sequence[str] = events) -> None:
                    for event in events:
                        race.happen(table, number, event)

                stopped = Meddled.over(table, happen)
                stopped.after_decision = partial(race.decided, number)
                with suppress(Died):
                    write(stopped, number)
                    assert race.done >= number
                # The process that died comes back, or one that is behind.
                for repeated in range(race.done + 1):
                    assert write(lake.table("sales.t"), repeated) is None
                assert (table.last_committed(USER) or 0) == max(race.done, 0)
            others = [{"k": 1001 + at, "p": 0, "v": 1} for at in range(race.others)]
            assert rows(table) == [*expected(*range(race.done + 1)), *others]


def _work(folder: str, address: str, seed: int, numbers: int) -> None:
    """A process that does the whole job from its beginning, in this process or over HTTP."""
    with connect(address or folder) as lake:
        table = lake.table("sales.t")
        for number in range(numbers):
            write(table, number)
            if number % 3 == seed:
                table.expire_snapshots(retain_min=1, retain_max=1, retain=timedelta(0))


def test_processes_that_do_the_same_job_do_it_once(
    tmp_path: Path, serve: Callable[[Catalog], str]
) -> None:
    numbers = 12
    folder = tmp_path / "lake"
    with connect(folder) as lake:
        lake.create_database("sales")
        options = {"bucket": "1", **KEYED, "commit.max-retries": "100", "commit.timeout": "1 min"}
        table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options=options)
        address = serve(lake.catalog)
        processes = [("", 0), (address, 1), (address, 2)]
        start = partial(run_function, _work, folder=tmp_path, variables=os.environ)
        with ThreadPoolExecutor(len(processes)) as threads:
            running = [
                threads.submit(start, str(folder), url, seed, numbers) for url, seed in processes
            ]
            for process in running:
                done = process.result()
                assert done.returncode == 0, done.stderr
        assert table.last_committed(USER) == numbers - 1
        assert rows(table) == expected(*range(numbers))
