"""Tables of the lake, or of a pipeline's state, that somebody drops, makes again or takes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.waiting import until

from headwater.cdc.pipeline.settings import OnDrop
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.schema.change import SetOption

TABLE = "CREATE TABLE t (a INT PRIMARY KEY, b INT)"
ROWS = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"
OWNER = "headwater.cdc.pipeline"


def ask_to_replace(origin: Origin, follower: Follower, table: str) -> None:
    """Ask for a table to be read again into a new table of the lake."""
    state = PipelineState.open(follower.lake, "lake", follower.settings.name)
    state.request(f"resnapshot:{origin.table(table).escaped}", "replace")


def test_a_lost_state_table(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    for number in range(4, 10):
        origin.run(f"INSERT INTO t VALUES ({number}, {number})")
        follower.once()
    follower.lake.drop_table("lake.cdc_state")
    origin.run("INSERT INTO t VALUES (10, 10)", "DELETE FROM t WHERE a = 1")
    follower.once()
    state = follower.states()["t"]
    assert state.phase is TablePhase.QUARANTINED
    assert state.reason is not None
    assert "its state was lost" in state.reason
    assert "--replace" in state.reason
    ask_to_replace(origin, follower, "t")
    follower.once()
    follower.check("t")


def test_a_table_that_another_pipeline_has_taken(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    follower.lake.table("lake.t").alter(SetOption(OWNER, "other"))
    before = follower.rows("t")
    origin.run("DELETE FROM t WHERE a = 1")
    for ask in (follower.resnapshot, lambda name: ask_to_replace(origin, follower, name)):
        ask("t")
        follower.once()
        state = follower.states()["t"]
        assert state.phase is TablePhase.QUARANTINED
        assert state.reason is not None
        assert "pipeline 'other' writes to it" in state.reason
        assert follower.rows("t") == before
    follower.lake.table("lake.t").alter(SetOption(OWNER, "shop"))
    follower.resnapshot("t")
    follower.once()
    follower.check("t")


def test_verify_names_the_table_that_somebody_drops(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS, "CREATE TABLE u (a INT PRIMARY KEY)")
    follower.once()
    follower.lake.drop_table("lake.t")
    verdicts = follower.verify()
    assert verdicts["u"].is_equal
    assert not verdicts["t"].is_equal
    assert verdicts["t"].problem is not None
    assert "somebody dropped it" in verdicts["t"].problem


def test_a_table_that_is_made_again_while_a_pipeline_runs(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: follower.batch() > 0 and follower.phases() == {"t": TablePhase.STREAMING})
        schema = follower.lake.table("lake.t").scan().to_arrow().schema
        follower.lake.drop_table("lake.t")
        origin.run("INSERT INTO t VALUES (4, 4)")
        until(lambda: follower.phases() == {"t": TablePhase.QUARANTINED})
        follower.lake.create_table("lake.t", schema, primary_keys=("a",))
        follower.resnapshot("t")
        until(lambda: follower.phases() == {"t": TablePhase.STREAMING})
        origin.run("INSERT INTO t VALUES (5, 5)")
        until(lambda: follower.count("t") == 5)
        running.stop()
        running.wait(60)
    follower.check("t")
    assert follower.lake.table("lake.t").schema.options[OWNER] == "shop"


@pytest.fixture
def foreign(origin: Origin, follower: Follower) -> list[dict[str, object]]:
    """The rows of a table ``t`` of the lake that no pipeline made, and that keeps one quarantined.

    The source has a table of its name with other columns.
    """
    origin.run("CREATE TABLE followed (a INT PRIMARY KEY)", "INSERT INTO followed VALUES (1)")
    follower.change(on_drop=OnDrop.DROP)
    follower.once()
    schema = pa.schema([pa.field("k", pa.string(), nullable=False), ("mine", pa.string())])
    table = follower.lake.create_table("lake.t", schema, primary_keys=("k",))
    table.write([{"k": "x", "mine": "kept"}])
    origin.run(TABLE, ROWS)
    follower.once()
    assert follower.phases()["t"] is TablePhase.QUARANTINED
    return follower.rows("t")


def test_a_table_of_somebody_else_is_not_dropped_with_the_source_table(
    origin: Origin, follower: Follower, foreign: list[dict[str, object]]
) -> None:
    origin.run("DROP TABLE t")
    follower.once()
    assert "t" not in follower.phases()
    assert follower.rows("t") == foreign


def test_a_table_of_somebody_else_is_not_renamed_with_the_source_table(
    origin: Origin, follower: Follower, foreign: list[dict[str, object]]
) -> None:
    origin.run("RENAME TABLE t TO u", "INSERT INTO u VALUES (4, 4)")
    follower.once()
    assert follower.rows("t") == foreign
    follower.check("u", "followed")
    assert follower.phases().keys() == {"u", "followed"}


def test_a_table_of_somebody_else_is_not_read_into(
    origin: Origin, follower: Follower, foreign: list[dict[str, object]]
) -> None:
    for ask in (follower.resnapshot, lambda name: ask_to_replace(origin, follower, name)):
        ask("t")
        follower.once()
        state = follower.states()["t"]
        assert state.phase is TablePhase.QUARANTINED
        assert "table lake.t of the lake differs from" in (state.reason or "")
        assert follower.rows("t") == foreign
        assert OWNER not in follower.lake.table("lake.t").schema.options
    follower.lake.rename_table("lake.t", "lake.mine")
    follower.resnapshot("t")
    follower.once()
    follower.check("t", "followed")
    assert follower.rows("mine") == foreign
