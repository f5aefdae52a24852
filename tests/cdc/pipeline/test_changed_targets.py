"""Tables of the lake, or of a pipeline's state, that somebody drops, makes again or takes."""

from __future__ import annotations

from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.waiting import until

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
