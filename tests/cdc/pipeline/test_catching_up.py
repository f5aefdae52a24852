"""Quarantined tables that catch up by the log, while others go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.test_interruptions import ends
from tests.cdc.pipeline.test_other_sources import begin_file, purge_before
from tests.cdc.source_logs import only_mariadb, with_files
from tests.cdc.waiting import until

from headwater.cdc.columns import BadDates
from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.sink.schema_changes import Narrowing
from headwater.storage.errors import Unavailable

ROWS = 500
LAX = "SET SESSION sql_mode = ''"
BAD = "INSERT INTO t (id, d, v) VALUES (9001, '0000-00-00', 1)"


@pytest.fixture
def tables(origin: Origin, follower: Follower) -> None:
    """A table ``t`` of many rows, and ``u``, which are followed."""
    origin.run(LAX, *_made("t", "id INT PRIMARY KEY"), *_made("u", "id INT PRIMARY KEY"))
    follower.once()


def _made(name: str, key: str) -> tuple[str, str]:
    numbers = ", ".join(f"({number}, '2026-01-02', {number})" for number in range(ROWS))
    return (
        f"CREATE TABLE {name} ({key}, d DATE, v INT)",
        f"INSERT INTO {name} (id, d, v) VALUES {numbers}",
    )


def catch_up(follower: Follower, *tables: str) -> None:
    """Ask for what ``headwater cdc catchup`` asks for."""
    state = PipelineState.open(follower.lake, "lake", follower.settings.name)
    for table in tables:
        state.request(f"catchup:{follower.origin.table(table).escaped}", "")


def quarantine(origin: Origin, follower: Follower) -> None:
    """Let ``t`` be quarantined for a date, and have changes of both tables after it."""
    origin.run("UPDATE t SET v = v + 1 WHERE id < 3", BAD, "UPDATE u SET v = 7 WHERE id = 1")
    follower.once()
    assert follower.phases() == {"t": TablePhase.QUARANTINED, "u": TablePhase.STREAMING}
    origin.run(
        "UPDATE t SET v = 70 WHERE id = 7",
        "DELETE FROM t WHERE id = 8",
        "ALTER TABLE t ADD COLUMN note VARCHAR(20)",
        "UPDATE t SET note = 'new', id = 10009 WHERE id = 9",
        "UPDATE u SET v = 8 WHERE id = 1",
    )
    follower.once()
    follower.change(bad_dates=BadDates.NULL)


def written(progress: Any, origin: Origin, table: str = "t") -> int:
    rows: int = progress.tables[origin.table(table)].rows
    return rows


@with_files
@pytest.mark.usefixtures("tables")
def test_a_table_catches_up(origin: Origin, follower: Follower) -> None:
    quarantine(origin, follower)
    origin.run("ALTER TABLE t CHANGE v w INT", "UPDATE t SET w = 12 WHERE id = 13")
    assert "cannot be compared" in str(follower.verify()["t"].problem)
    catch_up(follower, "t")
    progress = follower.once()
    follower.check("t", "u")
    assert follower.phases() == {"t": TablePhase.STREAMING, "u": TablePhase.STREAMING}
    # The log's rows of it were written, and no others.
    assert written(progress, origin) < ROWS
    assert follower.states()["t"].backlog is None
    origin.run("INSERT INTO t (id, w) VALUES (20000, 1)", "DELETE FROM u WHERE id = 2")
    assert written(follower.once(), origin) == 1
    follower.check("t", "u")


@pytest.mark.usefixtures("tables")
def test_a_request_that_is_obeyed_twice(
    origin: Origin, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine(origin, follower)
    follower.change(bad_dates=BadDates.FAIL)
    catch_up(follower, "t")

    def answered(self: PipelineState, requests: Mapping[str, str]) -> None:
        if requests:
            raise Unavailable("the lake is not there")

    monkeypatch.setattr(PipelineState, "answer", answered)
    with pytest.raises(Unavailable):
        follower.once()
    monkeypatch.undo()
    follower.once()
    assert follower.phases()["t"] is TablePhase.QUARANTINED
    follower.change(bad_dates=BadDates.NULL)
    catch_up(follower, "t")
    follower.once()
    follower.check("t", "u")


@pytest.mark.usefixtures("tables")
def test_while_both_tables_change(origin: Origin, follower: Follower) -> None:
    quarantine(origin, follower)
    follower.change(batch_bytes=200)
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: bool(running.status().tables))
        catch_up(follower, "t")

        def caught_up() -> bool:
            origin.run("UPDATE t SET v = v + 1 WHERE id = 11", "UPDATE u SET v = v + 1")
            return follower.phases()["t"] is TablePhase.STREAMING

        until(caught_up)
        running.stop()
        running.wait(60)
    follower.once()
    follower.check("t", "u")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("is_done", [False, True])
def test_interrupted_at_each_part(origin: Origin, follower: Follower, is_done: bool) -> None:
    quarantine(origin, follower)
    catch_up(follower, "t")
    follower.change(batch_bytes=1)
    for _ in range(3):
        ends(follower, "write", "t", is_done=is_done)
        # Parts begin where the last one that was planned does, or after it.
        assert follower.phases()["t"] is TablePhase.CATCHING_UP
        if not is_done:
            break
        origin.run("UPDATE u SET v = v + 1")
    progress = follower.once()
    follower.check("t", "u")
    assert written(progress, origin) < ROWS


@pytest.mark.usefixtures("tables")
def test_interrupted_after_an_alter(origin: Origin, follower: Follower) -> None:
    quarantine(origin, follower)
    catch_up(follower, "t")
    follower.change(batch_bytes=1)
    ends(follower, "alter", "t", is_done=True)
    progress = follower.once()
    follower.check("t", "u")
    assert written(progress, origin) < ROWS


@with_files
def test_a_table_without_a_key(origin: Origin, follower: Follower) -> None:
    """Each change is there once."""
    origin.run(LAX, *_made("t", "id INT"), *_made("u", "id INT"))
    follower.change(tables_without_key=TablesWithoutKey.APPEND)
    follower.once()
    quarantine(origin, follower)
    catch_up(follower, "t")
    follower.change(batch_bytes=1)
    for _ in range(3):
        ends(follower, "write", "t", is_done=True)
    progress = follower.once()
    follower.check("t", "u")
    assert written(progress, origin) < ROWS


@pytest.mark.usefixtures("tables")
def test_a_cause_that_stays(origin: Origin, follower: Follower) -> None:
    quarantine(origin, follower)
    reason, backlog = follower.states()["t"].reason, follower.states()["t"].backlog
    follower.change(bad_dates=BadDates.FAIL)
    rows = follower.rows("t")
    catch_up(follower, "t")
    follower.once()
    state = follower.states()["t"]
    assert (state.phase, state.reason) == (TablePhase.QUARANTINED, reason)
    assert state.backlog == backlog
    assert follower.rows("t") == rows
    follower.resnapshot("t")
    follower.change(bad_dates=BadDates.NULL)
    follower.once()
    follower.check("t", "u")


@pytest.mark.usefixtures("tables")
def test_a_statement_that_is_applied_after_all(origin: Origin, follower: Follower) -> None:
    follower.change(narrowing=Narrowing.FAIL)
    origin.run("UPDATE t SET v = 1", "ALTER TABLE t MODIFY v SMALLINT", "UPDATE t SET v = 2")
    follower.once()
    assert follower.phases()["t"] is TablePhase.QUARANTINED
    follower.change(narrowing=Narrowing.KEEP)
    catch_up(follower, "t")
    follower.once()
    follower.check("t")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5", "UPDATE t SET n = 6 WHERE id = 1"),
        ("TRUNCATE TABLE t", "INSERT INTO t (id, v) VALUES (1, 2)"),
        ("RENAME TABLE t TO s", "UPDATE s SET v = 3", "RENAME TABLE s TO t"),
        (
            "DROP TABLE t",
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO t VALUES (1, 2)",
        ),
    ],
    ids=["needs reading", "truncated", "renamed", "dropped"],
)
def test_statements_since_then(
    origin: Origin, follower: Follower, statements: tuple[str, ...]
) -> None:
    origin.run(BAD)
    follower.once()
    follower.change(bad_dates=BadDates.NULL)
    catch_up(follower, "t")
    origin.run(*statements)
    follower.once()
    follower.check("t", "u")


@pytest.mark.usefixtures("tables")
def test_xa_transactions_that_end_since_then(origin: Origin, follower: Follower) -> None:
    origin.session(
        "XA START 'one'", "UPDATE t SET v = 99 WHERE id = 1", "XA END 'one'", "XA PREPARE 'one'"
    )
    follower.once()
    origin.run(BAD)
    follower.once()
    origin.session("XA COMMIT 'one'")
    origin.session(
        "XA START 'two'", "UPDATE t SET v = 99 WHERE id = 2", "XA END 'two'", "XA PREPARE 'two'"
    )
    follower.once()
    follower.change(bad_dates=BadDates.NULL)
    catch_up(follower, "t")
    follower.once()
    origin.session("XA COMMIT 'two'")
    follower.once()
    follower.check("t", "u")


@only_mariadb
def test_a_foreign_key_that_comes_while_it_catches_up(origin: Origin, follower: Follower) -> None:
    origin.run(
        LAX,
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        *_made("t", "id INT PRIMARY KEY"),
        *_made("u", "id INT PRIMARY KEY"),
        f"INSERT INTO parents SELECT id FROM t WHERE id < {ROWS}",
    )
    follower.once()
    origin.run(BAD, *(f"UPDATE t SET v = 7 WHERE id = {number}" for number in range(20, 26)))
    origin.run("DELETE FROM t WHERE id = 9001")
    follower.once()
    # It stays behind the others by these transactions.
    follower.change(bad_dates=BadDates.NULL, batch_bytes=1)
    catch_up(follower, "t")
    ends(follower, "write", "t")
    assert follower.phases()["t"] is TablePhase.CATCHING_UP
    origin.run(
        "ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES parents (id) ON DELETE CASCADE",
        "DELETE FROM parents WHERE id = 5",
    )
    follower.once()
    origin.run("DELETE FROM parents WHERE id = 6")
    follower.once()
    follower.check("t", "u", "parents")


@with_files
@pytest.mark.usefixtures("tables")
def test_a_log_that_was_purged(origin: Origin, follower: Follower) -> None:
    quarantine(origin, follower)
    begin_file(origin)
    # Positions in files say nothing where their file is gone.
    follower.once()
    purge_before(origin)
    origin.run("UPDATE u SET v = 9 WHERE id = 3")
    catch_up(follower, "t")
    follower.once()
    state = follower.states()["t"]
    assert state.phase is TablePhase.QUARANTINED
    assert "does not have its log from" in str(state.reason)
    assert str(state.reason).endswith(f"headwater cdc resnapshot {origin.table('t')}")
    follower.check("u")
    follower.resnapshot("t")
    follower.once()
    follower.check("t", "u")


@only_mariadb
def test_children_of_foreign_keys_cannot(origin: Origin, follower: Follower) -> None:
    origin.run(
        LAX,
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE, v INT, "
        "FOREIGN KEY (v) REFERENCES p (id) ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1), (2)",
    )
    follower.once()
    origin.run(BAD)
    follower.once()
    follower.change(bad_dates=BadDates.NULL)
    for _ in range(2):
        catch_up(follower, "t")
        follower.once()
    reason = str(follower.states()["t"].reason)
    assert reason.count("it cannot catch up: a foreign key changes its rows") == 1
    assert reason.endswith(f"headwater cdc resnapshot {origin.table('t')}")


@pytest.mark.usefixtures("tables")
def test_a_table_that_somebody_made_again_cannot(origin: Origin, follower: Follower) -> None:
    quarantine(origin, follower)
    rows = follower.lake.table("lake.t").scan().to_arrow()
    follower.lake.drop_table("lake.t")
    follower.lake.create_table("lake.t", rows.schema, primary_keys=["id"])
    catch_up(follower, "t")
    follower.once()
    assert "is not the one that the pipeline wrote" in str(follower.states()["t"].reason)
