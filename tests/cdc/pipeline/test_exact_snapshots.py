"""Snapshots of tables without a key: exactly at one position, whenever a pipeline ends."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.killed_pipelines import Writer, running
from tests.cdc.pipeline.test_interruptions import ends
from tests.cdc.source_logs import MYSQL

from headwater.cdc.mysql.gtid import GtidSet
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.running import RunningPipeline

TABLE = "CREATE TABLE t (a INT, b VARCHAR(20))"
ROWS = "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL)"
CHANGES = (
    "INSERT INTO t VALUES (1, 'x'), (3, 'z')",
    "UPDATE t SET b = 'new' WHERE a = 2",
    "DELETE FROM t WHERE a = 1 LIMIT 1",
)
LATE = {"row_kind": ["+I"], "a": [99], "b": ["late"]}
WRITERS = 4
ROUNDS = 4


@pytest.fixture
def appending(follower: Follower) -> Follower:
    """A pipeline that follows tables without a key, with short batches."""
    follower.change(tables_without_key=TablesWithoutKey.APPEND, batch_seconds=0.1)
    return follower


@contextmanager
def writing(origin: Origin, statements: Callable[[random.Random], list[str]]) -> Iterator[None]:
    """Change the source from several sessions at once."""
    with ExitStack() as stack:
        for seed in range(WRITERS):
            stack.enter_context(Writer(origin.address, origin.database, statements, seed))
        yield


def some_changes(rng: random.Random) -> list[str]:
    """A transaction; many rows are equal."""
    value = rng.randrange(4)
    if rng.random() < 0.8:
        return ["INSERT INTO other VALUES (1)"]
    changes = [
        f"INSERT INTO t VALUES ({value}, 'x'), ({value}, 'x')",
        f"UPDATE t SET b = 'y{rng.randrange(3)}' WHERE a = {value} LIMIT 2",
        f"DELETE FROM t WHERE a = {value} LIMIT 2",
        "INSERT INTO other VALUES (1)",
    ]
    return ["BEGIN", *rng.sample(changes, 2), rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])]


def until_streaming(running_pipeline: RunningPipeline, origin: Origin) -> None:
    """Wait until the table's rows are read."""
    while True:
        assert running_pipeline.is_running
        table = running_pipeline.status().tables.get(origin.table("t"))
        if table is not None and table.phase is TablePhase.STREAMING:
            return


def test_snapshots_while_the_table_changes(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, "CREATE TABLE other (a INT)", ROWS)
    for number in range(ROUNDS):
        if number:
            appending.resnapshot("t")
        with writing(origin, some_changes), RunningPipeline(appending.pipeline()) as pipeline:
            until_streaming(pipeline, origin)
            appending.change(batch_seconds=0.1 * (number + 1))
        appending.once()
        appending.check("t", "other")


def test_comparisons_while_the_table_changes(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, "CREATE TABLE other (a INT)", ROWS)
    appending.once()
    with writing(origin, some_changes), RunningPipeline(appending.pipeline()):
        for _ in range(ROUNDS):
            verdict = appending.verify()["t"]
            # It may be too busy to be read at one position, and is never found to differ.
            assert verdict.differences.num_rows == 0, verdict.differences.to_pylist()
            assert verdict.is_equal or "t" in (verdict.problem or "")
    appending.once()
    appending.check("t", "other")


@pytest.mark.parametrize("source", [MYSQL], indirect=True)
def test_mysql_tells_a_position_with_all_that_is_seen(origin: Origin) -> None:
    origin.run("CREATE TABLE n (a INT)")
    with closing(MySQLSource(origin.address)) as source:
        before = source.position()
        assert isinstance(before, GtidSet)
        # Each transaction is a row.
        with writing(origin, lambda _: ["INSERT INTO n VALUES (1)"]):
            for _ in range(100):
                with source.consistent_read(before) as read:
                    logged = read.logged()
                    ((rows,),) = read.server.rows(f"SELECT COUNT(*) FROM `{origin.database}`.n")
                assert isinstance(logged, GtidSet)
                assert int(str(rows)) <= logged.count - before.count


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", ["create_table", "overwrite"])
def test_a_snapshot_that_is_interrupted(
    origin: Origin, appending: Follower, step: str, is_done: bool
) -> None:
    origin.run(TABLE, ROWS)
    ends(appending, step, "t", is_done=is_done)
    origin.run(*CHANGES)
    appending.once()
    appending.check("t")


@pytest.mark.parametrize("is_done", [False, True])
def test_a_second_snapshot_that_is_interrupted(
    origin: Origin, appending: Follower, is_done: bool
) -> None:
    origin.run(TABLE, ROWS)
    appending.once()
    appending.resnapshot("t")
    origin.run("DELETE FROM t WHERE a = 2")
    ends(appending, "overwrite", "t", is_done=is_done)
    origin.run(*CHANGES)
    appending.once()
    appending.check("t")


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("statement", ["TRUNCATE TABLE t", "INSERT INTO t VALUES (5, 'e')"])
def test_a_batch_after_the_snapshot_that_is_interrupted(
    origin: Origin, appending: Follower, statement: str, is_done: bool
) -> None:
    origin.run(TABLE, ROWS)
    appending.once()
    origin.run(statement)
    step = "truncate" if statement.startswith("TRUNCATE") else "write"
    ends(appending, step, "t", is_done=is_done)
    origin.run(*CHANGES)
    appending.once()
    appending.check("t")


def test_a_snapshot_that_is_committed_late(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, ROWS)
    ends(appending, "overwrite", "t")
    first = appending.batch()
    origin.run(*CHANGES)
    # Another process gives the first attempt up, and ends within its own.
    ends(appending, "overwrite", "t")
    second = appending.batch()
    assert second > first

    def commit_late() -> object:
        table = appending.lake.table("lake.t")
        return table.overwrite(LATE, commit_user="cdc-shop", commit_identifier=first)

    # Only now is the first attempt carried out.
    assert commit_late() is not None
    appending.once()
    appending.check("t")
    assert commit_late() is None
    appending.check("t")


def test_a_snapshot_is_given_up_when_its_process_ends(
    origin: Origin, appending: Follower, kills: int, seed: int, tmp_path: Path
) -> None:
    origin.run(TABLE, "CREATE TABLE other (a INT)", ROWS)
    doubled = "INSERT INTO t SELECT a, b FROM t"
    origin.run(*[doubled] * 15)
    path, log = str(tmp_path / "lake"), tmp_path / "errors"
    rng = random.Random(seed)
    with writing(origin, lambda _: ["INSERT INTO other VALUES (1)"]):
        for _ in range(kills):
            with running(path, origin.address, appending.settings, log):
                _until_position(origin, rng.randrange(30))
    assert not log.exists(), log.read_text()
    origin.run(*CHANGES)
    appending.once()
    appending.check("t", "other")


def _until_position(origin: Origin, transactions: int) -> None:
    """Wait until other sessions have written some transactions."""
    with MySQLServer(origin.address) as server:
        count = f"SELECT COUNT(*) FROM `{origin.database}`.other"
        ((start,),) = server.rows(count)
        while True:
            ((now,),) = server.rows(count)
            if int(str(now)) - int(str(start)) > 10 * transactions:
                return
