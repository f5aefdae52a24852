"""What the database forgets of expired snapshots changes no answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import create_engine, select
from tests.catalog.conftest import Clock
from tests.catalog.databases import POSTGRESQL_IN_MODES
from tests.conftest import NewSqlite

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import database_url as with_driver
from headwater.catalog.sql.database.models import SnapshotRow
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, HeadwaterError
from headwater.storage.files.access import FileAccess, FileStatus
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

DAYS = pa.schema([("day", pa.string()), ("n", pa.int64())])
DAY = 86_400_000


@contextmanager
def opened(
    url: str,
    folder: Path,
    history_millis: int | None,
    runtime: Runtime = SYSTEM_RUNTIME,
    files: FileAccess | None = None,
) -> Iterator[Lake]:
    """A lake whose database forgets after a while, or never."""
    catalog = SqlCatalog.open(
        url,
        warehouse="main",
        location=str(folder),
        runtime=runtime,
        history_millis=history_millis,
        create=url.startswith("sqlite"),
        files=files,
    )
    with closing(catalog):
        yield Lake(catalog, runtime)


def days_table(lake: Lake) -> Table:
    lake.create_database("sales")
    options = {"metastore.partitioned-table": "true"}
    return lake.create_table("sales.days", DAYS, partition_keys=["day"], options=options)


def commit(table: Table, user: str, number: int) -> None:
    assert TableCommit(table.storage, table.pointer, user).commit(
        [], identifier=number, allow_empty=True
    )


def sweep(lake: Lake) -> int:
    assert isinstance(lake.catalog, SqlCatalog)
    return lake.catalog.operation.sweep().forgotten


def swept(lake: Lake) -> int:
    """Sweep until rows go, as they do when every clock says that it is later."""
    for _ in range(1000):
        forgotten = sweep(lake)
        if forgotten:
            return forgotten
    raise AssertionError("no row went")


def known(url: str, branch: str = "main") -> list[int]:
    """The snapshots of a branch that have a row."""
    engine = create_engine(with_driver(url))
    with engine.connect() as connection:
        rows = select(SnapshotRow.snapshot_id).where(SnapshotRow.branch == branch)
        found = list(connection.execute(rows.order_by(SnapshotRow.snapshot_id)).scalars())
    engine.dispose()
    return found


def sizes(table: Table) -> dict[str, tuple[int, int]]:
    """Rows and files of each partition, as the catalog counts them."""
    page = table.catalog.partitions.list(table.identifier)
    return {each.spec["day"]: (each.record_count, each.file_count) for each in page.items}


def test_rows_of_expired_snapshots_go_and_what_they_answer_stays(
    migrated_url: str, tmp_path: Path
) -> None:
    with opened(migrated_url, tmp_path / "lake", 0) as lake:
        table = days_table(lake)
        for number in range(3):
            commit(table, "old job", number)
        table.write({"day": ["mon", "mon"], "n": [1, 2]})
        table.create_tag("monday")
        then = sizes(table)
        for number in range(4):
            commit(table, "job", number)
        table.write({"day": ["mon", "tue"], "n": [3, 4]})
        now = sizes(table)
        branch = table.create_branch("b", tag="monday")
        branch.write({"day": ["wed"], "n": [5]})
        table.expire_snapshots(retain_min=1, retain_max=1)
        assert swept(lake) == 5
        # The last commit of each job, what is tagged, and what is there.
        assert known(migrated_url) == [3, 4, 8, 9]
        assert known(migrated_url, "b") == [4, 5]
        late = TableCommit(table.storage, table.pointer, "old job")
        assert late.filter_committed([1, 2, 3]) == [3]
        assert sizes(table) == now
        # What came after the tag is not known, and is not guessed.
        again = table.create_branch("again", tag="monday")
        assert sizes(again) == then
        # The branches still know what they have in common: the tag stays.
        assert sizes(table.fast_forward("b")) == then | {"wed": (1, 1)}
        assert [tag.name for tag in table.tags()] == ["monday"]
        table.rollback(tag="monday")
        assert sizes(table) == then
        assert table.scan().to_arrow().sort_by("n")["n"].to_pylist() == [1, 2]
        table.write({"day": ["mon"], "n": [6]})
        assert sizes(table) == {"mon": (3, 2)}


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_table_goes_back_to_a_tag_before_what_is_forgotten(
    migrated_url: str, tmp_path: Path
) -> None:
    with opened(migrated_url, tmp_path / "lake", 0) as lake:
        table = days_table(lake)
        table.write({"day": ["mon"], "n": [1]})
        table.create_tag("first")
        then = sizes(table)
        for number in range(5):
            table.write({"day": ["mon", "tue"], "n": [number, number]})
        table.expire_snapshots(retain_min=1, retain_max=1)
        assert swept(lake) == 4
        assert known(migrated_url) == [1, 6]
        table.rollback(tag="first")
        assert sizes(table) == then
        assert known(migrated_url) == [1]


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_branches_know_what_they_have_in_common(migrated_url: str, tmp_path: Path) -> None:
    with opened(migrated_url, tmp_path / "lake", 0) as lake:
        table = days_table(lake)
        for day in ("mon", "tue", "wed"):
            table.write({"day": [day], "n": [1]})
        table.create_tag("monday", 1)
        branch = table.create_branch("b", snapshot_id=3)
        branch.write({"day": ["wed"], "n": [2]})
        table.write({"day": ["thu"], "n": [3]})
        table.expire_snapshots(retain_min=1, retain_max=1)
        assert swept(lake) == 1
        assert known(migrated_url) == [1, 3, 4]
        # What is tagged before the branch began is no part of what goes.
        table.fast_forward("b")
        assert [tag.name for tag in table.tags()] == ["monday"]
        assert sizes(table) == {"mon": (1, 1), "tue": (1, 1), "wed": (2, 2)}


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_after_a_fast_forward_a_rollback_counts_what_is_there(
    migrated_url: str, tmp_path: Path
) -> None:
    with opened(migrated_url, tmp_path / "lake", None) as lake:
        table = days_table(lake)
        table.write({"day": ["mon"], "n": [1]})
        table.create_tag("first")
        table.write({"day": ["tue"], "n": [1]})
        branch = table.create_branch("b", snapshot_id=2)
        for number in range(3):
            branch.write({"day": ["wed"], "n": [number]})
        # Nobody knows any more what the first of them changed.
        branch.expire_snapshots(retain_min=1, retain_max=1)
        table.fast_forward("b")
        assert sizes(table) == {"mon": (1, 1), "tue": (1, 1), "wed": (3, 3)}
        table.rollback(tag="first")
        assert sizes(table) == {"mon": (1, 1)}


class Interrupted(LocalFileAccess):
    """Has something else happen before tags are listed."""

    def __init__(self) -> None:
        self.before_tags: Callable[[], None] | None = None

    def list(self, directory: str) -> list[FileStatus]:
        work, self.before_tags = self.before_tags, None
        if work is not None:
            if directory.endswith("/tag"):
                work()
            else:
                self.before_tags = work
        return super().list(directory)


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_snapshot_that_becomes_the_latest_meanwhile_keeps_its_row(
    migrated_url: str, tmp_path: Path
) -> None:
    files = Interrupted()
    with (
        opened(migrated_url, tmp_path / "lake", 0) as lake,
        opened(migrated_url, tmp_path / "lake", 0, files=files) as sweeper,
    ):
        table = days_table(lake)
        table.write({"day": ["mon"], "n": [1]})
        table.write({"day": ["mon"], "n": [2]})
        sweep(sweeper)
        table.create_tag("then")
        table.write({"day": ["mon"], "n": [3]})
        table.expire_snapshots(retain_min=1, retain_max=1)

        def go_back() -> None:
            table.rollback(tag="then")
            table.delete_tag("then")

        files.before_tags = go_back
        assert swept(sweeper) == 1
        assert files.before_tags is None
        assert known(migrated_url) == [2]
        assert sizes(table) == {"mon": (2, 2)}


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_new_job_reads_no_old_snapshots_of_a_history_with_gaps(
    migrated_url: str, tmp_path: Path
) -> None:
    with opened(migrated_url, tmp_path / "lake", 0) as lake:
        table = days_table(lake)
        for number in range(4):
            commit(table, "old", number)
        for number in range(14):
            commit(table, "job", number)
        table.expire_snapshots(retain_min=12, retain_max=12)
        swept(lake)
        assert known(migrated_url) == [4, 6, *range(7, 19)]
        assert isinstance(lake.catalog, SqlCatalog)
        found = lake.catalog.snapshots.commits_of(table.identifier, "old")
        assert (found.identifier, found.since) == (3, 7)
        assert lake.catalog.snapshots.commits_of(table.identifier, "new").since == 7
        assert lake.catalog.snapshots.commits_of(table.identifier, "job").since == 18


@pytest.mark.modes
def test_more_rows_than_fit_one_transaction_go(tmp_path: Path, new_sqlite: NewSqlite) -> None:
    url = new_sqlite(tmp_path / "c.db")
    with opened(url, tmp_path / "lake", 0) as lake:
        table = days_table(lake)
        for _ in range(520):
            TableCommit(table.storage, table.pointer, "batches").commit([], allow_empty=True)
        table.expire_snapshots(retain_min=1, retain_max=1, limit=1000)
        assert swept(lake) == 519
        assert known(url) == [520]


@pytest.fixture
def aging(tmp_path: Path, new_sqlite: NewSqlite, clock: Clock) -> Iterator[tuple[Lake, str]]:
    """A lake that forgets after thirty days, and its database's URL."""
    url = new_sqlite(tmp_path / "c.db")
    with opened(url, tmp_path / "lake", 30 * DAY, clock.runtime) as lake:
        days_table(lake)
        yield lake, url


def test_a_row_is_kept_for_the_whole_retention(aging: tuple[Lake, str], clock: Clock) -> None:
    lake, url = aging
    table = lake.table("sales.days")
    for _ in range(3):
        table.write({"day": ["mon"], "n": [1]})
    # A clock that is wrong for a while makes nothing older than it is: not one that is behind,
    clock.set_wrong(days=-300)
    assert sweep(lake) == 0
    clock.set_wrong()
    clock.turn(days=29)
    for _ in range(3):
        table.write({"day": ["mon"], "n": [1]})
    table.expire_snapshots(retain_min=1, retain_max=1)
    # and not one that is ahead.
    clock.set_wrong(days=300)
    assert sweep(lake) == 0
    clock.set_wrong()
    assert sweep(lake) == 0
    clock.turn(days=1)
    assert sweep(lake) == 3
    assert known(url) == [4, 5, 6]
    clock.turn(days=30)
    assert sweep(lake) == 2
    assert known(url) == [6]


def test_a_snapshot_that_is_there_keeps_its_row(aging: tuple[Lake, str], clock: Clock) -> None:
    lake, url = aging
    table = lake.table("sales.days")
    for _ in range(4):
        table.write({"day": ["mon"], "n": [1]})
    sweep(lake)
    clock.turn(days=31)
    assert sweep(lake) == 0
    assert known(url) == [1, 2, 3, 4]
    table.expire_snapshots(retain_min=2, retain_max=2)
    clock.turn(days=31)
    assert sweep(lake) == 2
    assert known(url) == [3, 4]


def test_a_snapshot_whose_changelog_is_there_keeps_its_row(
    aging: tuple[Lake, str], clock: Clock
) -> None:
    lake, url = aging
    kept = {"snapshot": "1", "changelog": "3"}
    options = {
        f"{what}.num-retained.{bound}": count
        for what, count in kept.items()
        for bound in ("min", "max")
    }
    table = lake.create_table("sales.log", DAYS, options=options)
    for _ in range(5):
        table.write({"day": ["mon"], "n": [1]})
    table.expire_snapshots()
    assert [snapshot.id for snapshot in table.snapshots()] == [5]
    sweep(lake)
    clock.turn(days=31)
    assert sweep(lake) == 2
    assert known(url) == [3, 4, 5]


def test_what_came_after_a_rollback_is_as_young_as_it_is(
    aging: tuple[Lake, str], clock: Clock
) -> None:
    lake, url = aging
    table = lake.table("sales.days")
    for _ in range(4):
        table.write({"day": ["mon"], "n": [1]})
    sweep(lake)
    clock.turn(days=31)
    table.rollback(snapshot_id=2)
    for _ in range(4):
        table.write({"day": ["tue"], "n": [1]})
    table.expire_snapshots(retain_min=1, retain_max=1)
    # Snapshot 4 of the time that was noted went; another one has its number.
    assert sweep(lake) == 0
    assert known(url) == [1, 2, 3, 4, 5, 6]
    clock.turn(days=31)
    assert sweep(lake) == 5


def test_a_branch_that_cannot_be_looked_at_keeps_its_rows(
    aging: tuple[Lake, str], clock: Clock
) -> None:
    lake, url = aging
    tables = [lake.table("sales.days"), lake.create_table("sales.more", DAYS)]
    for table in tables:
        for _ in range(3):
            table.write({"day": ["mon"], "n": [1]})
        table.expire_snapshots(retain_min=1, retain_max=1)
    sweep(lake)
    clock.turn(days=31)
    layout = tables[0].storage.layout
    lake.catalog.table_files(lake.catalog.tables.get(tables[0].identifier)).write(
        layout.tag("broken"), b"{"
    )
    assert sweep(lake) == 2
    assert len(known(url)) == 4


moments = st.integers(0, 9)


class TwoMemories(RuleBasedStateMachine):
    """One table in two lakes, one of which forgets what has expired as soon as it can."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.number = 0
        self.branches = ["main"]

    @initialize()
    def start(self) -> None:
        self.clock = Clock()
        self.lakes = []
        for name, retention in (("short", 0), ("long", None)):
            folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
            url = f"sqlite:///{folder}/{name}.db"
            opening = opened(url, folder / "lake", retention, self.clock.runtime)
            self.lakes.append(self.stack.enter_context(opening))
        for lake in self.lakes:
            days_table(lake)

    def teardown(self) -> None:
        self.stack.close()

    def tables(self, branch: str) -> list[Table]:
        suffix = "" if branch == "main" else f"$branch_{branch}"
        return [lake.table(f"sales.days{suffix}") for lake in self.lakes]

    def both(self, branch: str, work: Callable[[Table], object]) -> None:
        """Do something in both lakes; either both do it or both refuse it."""
        outcomes = []
        for table in self.tables(branch):
            try:
                outcomes.append(repr(work(table)))
            except HeadwaterError as error:
                outcomes.append(type(error).__name__)
        assert outcomes[0] == outcomes[1]
        self.clock.turn(milliseconds=1)

    def pick(self, at: int) -> str:
        return self.branches[at % len(self.branches)]

    @rule(at=moments, day=st.sampled_from(["mon", "tue", "wed"]), rows=st.integers(1, 3))
    def write(self, at: int, day: str, rows: int) -> None:
        def work(table: Table) -> None:
            table.write({"day": [day] * rows, "n": list(range(rows))})

        self.both(self.pick(at), work)

    @rule(at=moments, user=st.sampled_from(["ada", "bob"]))
    def commit_numbered(self, at: int, user: str) -> None:
        self.number += 1

        def work(table: Table) -> None:
            commit(table, user, self.number)

        self.both(self.pick(at), work)

    @rule(at=moments, retained=st.integers(1, 3))
    def expire(self, at: int, retained: int) -> None:
        def work(table: Table) -> None:
            table.expire_snapshots(retain_min=retained, retain_max=retained)

        self.both(self.pick(at), work)

    @rule()
    def sweep(self) -> None:
        for lake in self.lakes:
            sweep(lake)
        self.clock.turn(milliseconds=1)

    @rule(at=moments, tag=st.sampled_from(["x", "y"]))
    def tag(self, at: int, tag: str) -> None:
        self.both(self.pick(at), lambda table: table.create_tag(tag))

    @rule(at=moments, tag=st.sampled_from(["x", "y"]))
    def untag(self, at: int, tag: str) -> None:
        self.both(self.pick(at), lambda table: table.delete_tag(tag))

    @rule(at=moments, tag=st.sampled_from(["x", "y"]))
    def roll_back_to_tag(self, at: int, tag: str) -> None:
        self.both(self.pick(at), lambda table: table.rollback(tag=tag))

    @rule(at=moments, steps=st.integers(1, 3))
    def roll_back(self, at: int, steps: int) -> None:
        def work(table: Table) -> None:
            latest = table.latest_snapshot()
            if latest is not None:
                table.rollback(snapshot_id=latest.id - steps)

        self.both(self.pick(at), work)

    @rule(name=st.sampled_from(["b", "c"]), tag=st.sampled_from(["x", "y", None]))
    def fork(self, name: str, tag: str | None) -> None:
        def work(table: Table) -> None:
            latest = table.latest_snapshot()
            if tag is not None:
                table.create_branch(name, tag=tag)
            elif latest is not None:
                table.create_branch(name, snapshot_id=latest.id)
            else:
                raise Conflict("nothing to begin with")

        self.both("main", work)
        self._look()

    @rule(name=st.sampled_from(["b", "c"]))
    def forward(self, name: str) -> None:
        def work(table: Table) -> None:
            table.fast_forward(name)

        self.both("main", work)

    @rule(name=st.sampled_from(["b", "c"]))
    def drop(self, name: str) -> None:
        self.both("main", lambda table: table.drop_branch(name))
        self._look()

    def _look(self) -> None:
        self.branches = ["main", *self.tables("main")[1].branches()]

    @invariant()
    def both_answer_alike(self) -> None:
        for branch in self.branches:
            answers = [self._answers(table) for table in self.tables(branch)]
            assert answers[0] == answers[1]
            for table in self.tables(branch):
                rows = table.scan().to_arrow().group_by("day").aggregate([("n", "count")])
                there = {each["day"]: each["n_count"] for each in rows.to_pylist()}
                assert {day: count for day, (count, _) in sizes(table).items()} == there

    def _answers(self, table: Table) -> object:
        identifier = table.identifier
        info = table.catalog.snapshots.latest(identifier)
        assert isinstance(table.catalog, SqlCatalog)
        commits = table.catalog.snapshots.commits_of
        return (
            sizes(table),
            None if info is None else (info.record_count, info.file_count, info.snapshot.id),
            [(each.id, each.time_millis, each.commit_identifier) for each in table.snapshots()],
            [(each.name, each.snapshot.id) for each in table.tags()],
            [commits(identifier, user).identifier for user in ("ada", "bob")],
            table.scan().to_arrow().num_rows,
        )


@pytest.mark.modes
def test_a_catalog_that_forgets_answers_as_one_that_does_not() -> None:
    run_state_machine_as_test(
        TwoMemories, settings=settings(max_examples=5, stateful_step_count=30, deadline=None)
    )
