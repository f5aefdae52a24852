"""Pipelines that end at a certain step, and what their next start makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa
import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import with_files
from tests.cdc.waiting import until

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.errors import Conflict, HeadwaterError, Unavailable


class EndedError(BaseException):
    """The process ends here; nothing catches it."""


class EndingLake:
    """A lake whose user ends at some step.

    Args:
        lake: The lake.
        step: The method of the lake, or of a table of it.
        subject: The table.
        is_done: Whether the step is done before.
    """

    def __init__(
        self, lake: Any, step: str, subject: str, *, is_done: bool = False, is_table: bool = False
    ) -> None:
        self._inner, self._step, self._subject, self._is_done = lake, step, subject, is_done
        self._is_table = is_table

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._inner, name)
        # Rows are written at once, or in steps.
        is_step = name.removesuffix("_steps") == self._step
        if not is_step and name != "table":
            return real

        def call(*arguments: Any, **options: Any) -> Any:
            is_it = self._is_table or self._subject == str(arguments[0])
            if is_step and is_it and not self._is_done:
                self._end()
            result = real(*arguments, **options)
            if is_step and is_it and self._is_done:
                self._end()
            if name == "table" and is_it:
                return type(self)(
                    result, self._step, self._subject, is_done=self._is_done, is_table=True
                )
            return result

        return call

    def _end(self) -> None:
        raise EndedError


class EndingProgress(ProgressLog):
    """A progress whose first news of a changed schema ends the process."""

    def schema_changed(self, table: TableName, statement: str) -> None:
        raise EndedError


def ends(follower: Follower, step: str, table: str, *, is_done: bool = False) -> None:
    """Run the pipeline until it ends at a step."""
    lake = follower.lake
    follower.lake = EndingLake(lake, step, f"lake.{table}", is_done=is_done)  # type: ignore[assignment]
    with pytest.raises(EndedError):
        follower.once()
    follower.lake = lake


def ends_after_alter(pipeline: Pipeline) -> None:
    """Run a pipeline until the lake's table is altered."""
    pipeline.progress = EndingProgress()
    with pytest.raises(EndedError):
        pipeline.run(once=True)


TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(20))"
ROWS = "INSERT INTO t VALUES (1, 1, 2, 'x'), (2, 3, 4, 'y'), (3, 5, 6, 'z')"
SWAP = "ALTER TABLE t CHANGE a b INT, CHANGE b a INT AFTER id"


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD d INT NOT NULL DEFAULT 5 AFTER id",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE t MODIFY a BIGINT",
        "ALTER TABLE t MODIFY a VARCHAR(30)",
        "ALTER TABLE t DROP COLUMN a",
    ],
)
def test_after_an_alter_and_before_the_next_plan(
    origin: Origin, follower: Follower, statement: str
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.run("UPDATE t SET a = 7 WHERE id = 1", statement, "UPDATE t SET c = 'w' WHERE id = 2")
    ends_after_alter(follower.pipeline())
    follower.once()
    follower.check("t")
    assert follower.phases() == {"t": TablePhase.STREAMING}


@with_files
def test_between_the_commits_of_two_tables(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS, "CREATE TABLE u LIKE t")
    follower.once()
    follower.change(writers=1)
    origin.run("INSERT INTO u SELECT * FROM t", "UPDATE t SET a = 9", "DELETE FROM t WHERE id = 3")
    ends(follower, "write", "u")
    origin.run("UPDATE u SET b = a")
    follower.once()
    follower.check("t", "u")


@pytest.mark.parametrize("is_read", [False, True])
def test_a_planned_batch_whose_table_is_dropped_from_the_lake(
    origin: Origin, follower: Follower, is_read: bool
) -> None:
    origin.run(TABLE, ROWS, "CREATE TABLE u LIKE t")
    if not is_read:
        follower.once()
    follower.change(writers=1)
    origin.run("INSERT INTO u SELECT * FROM t", "UPDATE t SET a = 9")
    ends(follower, "write", "t")
    follower.lake.drop_table("lake.t")
    follower.once()
    follower.check("u")
    assert follower.phases() == {"t": TablePhase.QUARANTINED, "u": TablePhase.STREAMING}
    assert "table lake.t does not exist" in str(follower.states()["t"].reason)
    follower.resnapshot("t")
    follower.once()
    follower.check("t", "u")


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO t VALUES (4, 4, 4, 'v')", "TRUNCATE TABLE t", "ALTER TABLE t ADD d INT"],
)
def test_a_table_that_somebody_makes_again_meanwhile(
    origin: Origin, follower: Follower, statement: str
) -> None:
    origin.run(TABLE, ROWS, "CREATE TABLE u LIKE t")
    follower.once()
    rows = follower.lake.table("lake.t").scan().to_arrow()
    follower.lake.drop_table("lake.t")
    other = follower.lake.create_table("lake.t", rows.schema, primary_keys=["id"])
    other.write({"id": [7], "a": [0], "b": [0], "c": ["own"]})
    origin.run(statement, "INSERT INTO u (id) VALUES (1)")
    follower.once()
    follower.check("u")
    state = follower.states()["t"]
    assert state.phase is TablePhase.QUARANTINED
    assert "table lake.t is not the one that the pipeline wrote" in str(state.reason)
    assert [row["c"] for row in follower.rows("t")] == ["own"]
    follower.lake.drop_table("lake.t")
    follower.resnapshot("t")
    follower.once()
    follower.check("t", "u")


@with_files
def test_a_planned_range_whose_table_changes(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    ends(follower, "write", "t")
    assert follower.states()["t"].reading is not None
    origin.run("ALTER TABLE t ADD COLUMN d INT")
    follower.once()
    follower.check("t")


def test_a_planned_range_whose_table_changes_twice(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    ends(follower, "write", "t")
    origin.run("ALTER TABLE t ADD COLUMN d INT")
    # It is committed without the range, as that cannot be read.
    ends(follower, "write", "t", is_done=True)
    follower.once()
    follower.check("t")


def test_a_made_table_whose_source_changes(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    ends(follower, "create_table", "t", is_done=True)
    origin.run("ALTER TABLE t ADD COLUMN d INT, DROP COLUMN c")
    follower.once()
    follower.check("t")


def test_a_renamed_table(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.run("INSERT INTO t VALUES (4, 4, 4, 'v')", "RENAME TABLE t TO v")
    origin.run(TABLE, "INSERT INTO t VALUES (1, 0, 0, 'new')")
    ends(follower, "rename_table", "t", is_done=True)
    follower.once()
    follower.check("t", "v")


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", ["write", "truncate"])
def test_a_truncated_table(origin: Origin, follower: Follower, step: str, is_done: bool) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.run("UPDATE t SET a = 7", "TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 0, 0, 'new')")
    ends(follower, step, "t", is_done=is_done)
    origin.run("INSERT INTO t VALUES (2, 0, 0, 'new')")
    follower.once()
    follower.check("t")


class PausingLake(EndingLake):
    """A lake whose user pauses at a step, once, while something else happens."""

    pauses: ClassVar[list[Callable[[], None]]] = []

    def _end(self) -> None:
        if self.pauses:
            self.pauses.pop()()


def test_a_lake_that_is_gone_while_another_table_is_read(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS, "CREATE TABLE u LIKE t", "INSERT INTO u SELECT * FROM t")
    lake = follower.lake

    def go() -> None:
        raise Unavailable("the lake is not there")

    PausingLake.pauses = [go]
    follower.lake = PausingLake(lake, "table", "lake.u")  # type: ignore[assignment]
    follower.once()
    follower.lake = lake
    assert not PausingLake.pauses
    follower.check("t", "u")


@pytest.mark.parametrize(
    "error",
    [pa.ArrowInvalid("int64 5e18"), OverflowError("too large"), pl.exceptions.ComputeError("no")],
)
def test_an_error_that_nobody_has_foreseen_is_of_its_table(
    origin: Origin, follower: Follower, error: Exception
) -> None:
    origin.run(TABLE, ROWS, "CREATE TABLE u LIKE t")
    follower.once()
    lake = follower.lake

    def fail() -> None:
        raise error

    origin.run("UPDATE t SET a = 7", "INSERT INTO u (id) VALUES (1)")
    PausingLake.pauses = [fail]
    follower.lake = PausingLake(lake, "write", "lake.t")  # type: ignore[assignment]
    follower.once()
    follower.lake = lake
    follower.check("u")
    assert follower.phases() == {"t": TablePhase.QUARANTINED, "u": TablePhase.STREAMING}
    assert f"cannot be written: {type(error).__name__}: {error}" in str(
        follower.states()["t"].reason
    )
    follower.resnapshot("t")
    follower.once()
    follower.check("t", "u")


def test_a_process_that_truncates_after_another_has_gone_on(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    lake = follower.lake
    other = Follower(origin, lake)

    def overtake() -> None:
        # The source takes the process for gone, and its lock is free.
        for number in _processes(origin, "id <> CONNECTION_ID() AND user = 'headwater'"):
            with suppress(HeadwaterError):
                origin.run(f"KILL {number}")
        other.once()
        other.check("t")

    origin.run("TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 0, 0, 'new')")
    PausingLake.pauses = [overtake]
    follower.lake = PausingLake(lake, "truncate", "lake.t")  # type: ignore[assignment]
    follower.once()
    follower.lake = lake
    assert not PausingLake.pauses
    follower.check("t")


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_columns_that_swap_names_and_places(origin: Origin, follower: Follower, image: str) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.session(f"SET SESSION binlog_row_image = '{image}'", "UPDATE t SET c = 'n' WHERE id < 3")
    origin.run(SWAP, "UPDATE t SET a = 70 WHERE id = 3")
    follower.once()
    follower.check("t")


def test_ranges_read_behind_columns_that_swap(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    ends(follower, "write", "t")
    origin.run(SWAP)
    follower.once()
    follower.check("t")


FAMILY = (
    "CREATE TABLE parents (id INT PRIMARY KEY, code INT UNIQUE, v INT)",
    "CREATE TABLE children (id INT PRIMARY KEY, parent INT, v INT, FOREIGN KEY (parent) "
    "REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE grandchildren (id INT PRIMARY KEY, child INT, FOREIGN KEY (child) "
    "REFERENCES children (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE notes (id INT PRIMARY KEY, code INT, FOREIGN KEY (code) "
    "REFERENCES parents (code) ON DELETE SET NULL ON UPDATE CASCADE)",
    "INSERT INTO parents VALUES (1, 10, 0), (2, 20, 0), (3, 30, 0)",
    "INSERT INTO children VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)",
    "INSERT INTO grandchildren VALUES (1, 1), (2, 2), (3, 3), (4, 1)",
    "INSERT INTO notes VALUES (1, 10), (2, 20), (3, 30)",
)
MEMBERS = ("parents", "children", "grandchildren", "notes")


@pytest.mark.parametrize("table", MEMBERS)
def test_between_a_parent_and_its_grandchildren(
    origin: Origin, follower: Follower, table: str
) -> None:
    origin.run(*FAMILY)
    follower.once()
    follower.change(writers=1)
    origin.run("DELETE FROM parents WHERE id = 1", "UPDATE parents SET id = 5 WHERE id = 2")
    ends(follower, "write", table)
    follower.once()
    follower.check(*MEMBERS)


def test_cascades_of_partial_images(origin: Origin, follower: Follower) -> None:
    origin.run(*FAMILY)
    follower.once()
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE children SET id = 8 WHERE id = 1",
        "UPDATE parents SET code = 25 WHERE id = 2",
        "UPDATE parents SET code = 26, v = 1 WHERE id = 2",
        "DELETE FROM parents WHERE id = 3",
    )
    follower.once()
    follower.check(*MEMBERS)


def test_a_column_of_a_foreign_key_that_is_renamed(origin: Origin, follower: Follower) -> None:
    origin.run(*FAMILY)
    follower.once()
    origin.run(
        "DELETE FROM parents WHERE id = 1",
        "ALTER TABLE children RENAME COLUMN parent TO mother",
        "DELETE FROM parents WHERE id = 2",
        "ALTER TABLE parents RENAME COLUMN id TO number",
    )
    follower.once()
    follower.check(*MEMBERS)


@with_files
def test_a_prepared_transaction_of_a_table_that_is_read_again(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.session(
        "XA START 'two'", "UPDATE t SET a = 50 WHERE id = 2", "XA END 'two'", "XA PREPARE 'two'"
    )
    follower.once()
    state = PipelineState.open(follower.lake, "lake", "shop")
    state.request(f"resnapshot:{origin.table('t').escaped}", "")
    follower.once()
    origin.session("XA COMMIT 'two'")
    follower.once()
    follower.check("t")


@with_files
def test_a_transaction_that_was_prepared_before_the_first_start(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    xid = '"a", "b"'
    origin.session(
        f"XA START {xid}",
        "UPDATE t SET a = 50 WHERE id = 2",
        f"XA END {xid}",
        f"XA PREPARE {xid}",
    )
    follower.once()
    origin.session(f"XA COMMIT {xid}")
    follower.once()
    follower.check("t")


@with_files
def test_a_transaction_that_was_prepared_in_a_log_that_was_left_out(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.session(
        "XA START 'gone'", "UPDATE t SET a = 60 WHERE id = 1", "XA END 'gone'", "XA PREPARE 'gone'"
    )
    follower.once()
    origin.session("XA COMMIT 'gone'")
    origin.session(
        "XA START 'two'", "UPDATE t SET a = 50 WHERE id = 2", "XA END 'two'", "XA PREPARE 'two'"
    )
    state = PipelineState.open(follower.lake, "lake", "shop")
    state.request("restart", "")
    follower.once()
    assert len(follower.states()["t"].prepared) == 1
    origin.session("XA COMMIT 'two'")
    follower.once()
    follower.check("t")


@with_files
def test_transactions_that_end_while_tables_join(
    origin: Origin, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.run("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1), (2)")
    follower.change(tables_without_key=TablesWithoutKey.APPEND)
    origin.session("XA START 'one'", "INSERT INTO t VALUES (3)", "XA END 'one'", "XA PREPARE 'one'")
    prepared = MySQLSource.prepared_transactions

    def then_committed(self: MySQLSource) -> tuple[str, ...]:
        transactions = prepared(self)
        if transactions:
            origin.session("XA COMMIT 'one'")
        return transactions

    monkeypatch.setattr(MySQLSource, "prepared_transactions", then_committed)
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: follower.batch() > 0 and follower.phases() == {"t": TablePhase.STREAMING})
        running.stop()
        running.wait(60)
    follower.check("t")
    assert follower.states()["t"].prepared == ()


def test_a_replacement_of_a_table_that_another_one_replaces(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    state = PipelineState.open(follower.lake, "lake", "shop")
    state.request(f"resnapshot:{origin.table('t').escaped}", "replace")
    origin.run(
        "CREATE TABLE other (a INT, b INT PRIMARY KEY)",
        "INSERT INTO other VALUES (1, 2)",
        "RENAME TABLE t TO old, other TO t",
    )
    follower.once()
    follower.check("t")
    assert follower.lake.table("lake.t").schema.primary_keys == ("b",)


@with_files
def test_a_log_that_is_lost_while_ranges_are_read(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.run("ALTER TABLE t ADD d INT NOT NULL DEFAULT 5")
    follower.change(batch_seconds=60)
    with MySQLServer(origin.address) as locker:
        locker.rows(f"LOCK TABLES `{origin.database}`.t WRITE")
        with RunningPipeline(follower.pipeline(), once=True) as running:
            while not _processes(origin, "state LIKE '%metadata lock%'"):
                assert running.is_running
            for number in _processes(origin, "command LIKE 'Binlog Dump%'"):
                with suppress(HeadwaterError):
                    origin.run(f"KILL {number}")
            while any(thread.name == "cdc-log" for thread in threading.enumerate()):
                assert running.is_running
            locker.rows("UNLOCK TABLES")
            running.wait(200)
    follower.check("t")


def test_a_statement_that_is_not_in_the_log_while_ranges_are_read(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.run("ALTER TABLE t ADD d INT NOT NULL DEFAULT 5")
    with MySQLServer(origin.address) as locker:
        locker.rows(f"LOCK TABLES `{origin.database}`.t WRITE")
        with RunningPipeline(follower.pipeline(), once=True) as running:
            until(lambda: _processes(origin, "state LIKE '%metadata lock%'"))
            locker.rows("SET sql_log_bin = 0")
            locker.rows(f"ALTER TABLE `{origin.database}`.t ADD e INT NOT NULL DEFAULT 6")
            locker.rows("UNLOCK TABLES")
            running.wait(60)
            assert not running.is_running
    follower.check("t")
    assert [row["e"] for row in follower.rows("t")] == [6] * follower.count("t")


def test_a_statement_that_waits_for_a_division(origin: Origin) -> None:
    """A range's reader must not wait behind it for the division, which waits for the reader."""
    origin.run(TABLE, ROWS)
    with (
        MySQLServer(origin.address) as other,
        closing(MySQLSource(origin.address)) as source,
    ):
        text = f"ALTER TABLE `{origin.database}`.t ADD d INT"
        statement = threading.Thread(target=other.rows, args=(text,))
        (table,) = source.tables([origin.table("t")]).followed
        with source.consistent_read(source.position()) as division:
            next(iter(division.key_ranges(table, 1)))
            statement.start()
            while not _processes(origin, "state LIKE '%metadata lock%'"):
                assert statement.is_alive()
            with (
                source.consistent_read(source.position()) as read,
                pytest.raises(Conflict, match="locked by another session"),
            ):
                read.check(table)
        statement.join()


@with_files
def test_a_log_that_ends_while_a_planned_batch_is_read_again(origin: Origin) -> None:
    """A server ends its log when it is shut down, and when a query is killed."""
    origin.run(TABLE)
    dumps = "command LIKE 'Binlog Dump%'"
    with closing(MySQLSource(origin.address)) as source:
        log = source.open_log(source.position(), 1 << 20, lambda _: True)
        with closing(log) as reader:
            until(lambda: bool(_processes(origin, dumps)))
            for number in _processes(origin, dumps):
                origin.run(f"KILL QUERY {number}")
            until(lambda: not _processes(origin, dumps))
            origin.run(ROWS)
            with pytest.raises(Unavailable, match="check that the server runs"):
                reader.read_until(source.position())


def _processes(origin: Origin, condition: str) -> list[object]:
    rows = origin.server.rows(f"SELECT id FROM information_schema.processlist WHERE {condition}")
    return [number for (number,) in rows]


def test_a_killed_connection_is_a_lost_one(origin: Origin) -> None:
    with MySQLServer(origin.address) as server:
        ((number,),) = server.rows("SELECT CONNECTION_ID()")
        origin.run(f"KILL {number}")
        ask: Callable[[], object] = lambda: server.rows("SELECT 1")  # noqa: E731
        for _ in range(2):
            with pytest.raises(Unavailable, match="cannot be reached"):
                ask()
