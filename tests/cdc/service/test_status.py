"""Where a pipeline is, from its state alone: its source cannot be asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import (
    Backlog,
    BatchPlan,
    PipelineState,
    TablePhase,
    TableState,
)
from headwater.client import Lake
from headwater.storage.errors import Conflict, Invalid, NotFound

SETTINGS = PipelineSettings("shop", "mysql://u@127.0.0.1:1", "lake", ("shop.*",))
STATES = {
    "shop.orders": TableState("lake.orders", TablePhase.STREAMING),
    "shop.logs": TableState("lake.logs", TablePhase.QUARANTINED, "0-1-7", "it has a POINT"),
}


@pytest.fixture
def state(lake: Lake) -> PipelineState:
    """A pipeline that has planned batch 1, which has rows of ``orders``."""
    state = PipelineState.open(lake, "lake", "shop")
    state.record(BatchPlan(0, None, "0-1-7"))
    state.save_settings(SETTINGS.stored())
    written = datetime.now(UTC) - timedelta(hours=2)
    state.record(
        BatchPlan(1, "0-1-7", "0-1-9", STATES),
        {
            "cdc.tables": '["shop.orders"]',
            "cdc.source-time": str(int(written.timestamp() * 1000)),
        },
    )
    return state


def test_a_batch_counts_when_all_tables_have_it(lake: Lake, state: PipelineState) -> None:
    table = lake.create_table(
        "lake.orders",
        pa.schema([pa.field("id", pa.int32(), nullable=False)]),
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    (status,) = lake.cdc.status()
    assert (status.batch, status.position) == (0, "0-1-9")
    table.write({"id": [1]}, commit_user=state.commit_user, commit_identifier=1)
    (status,) = lake.cdc.status(name="shop")
    assert status.batch == 1
    assert status.lag_seconds is not None
    assert 7000 < status.lag_seconds < 8000
    assert (status.is_running, status.source) == (None, SETTINGS.source)
    assert "cannot be reached" in str(status.problem)
    logs, orders = status.tables
    assert (logs.phase, logs.reason, logs.batch) == ("quarantined", "it has a POINT", None)
    assert (orders.phase, orders.reason, orders.batch) == ("streaming", None, 1)


def test_tables_that_cannot_catch_up(lake: Lake, state: PipelineState) -> None:
    for table, error, message in (
        ("shop.x", Invalid, r"does not follow table 'shop\.x'"),
        ("shop.orders", Invalid, "phase streaming; only a quarantined table catches up"),
        ("shop.logs", Conflict, r"position of its rows .* not known.*cdc resnapshot shop\.logs"),
    ):
        with pytest.raises(error, match=message):
            lake.cdc.catchup(table)
    state.save_settings(replace(SETTINGS, source="postgresql://u@127.0.0.1:1/d").stored())
    behind = replace(STATES["shop.logs"], backlog=Backlog("1/1/0/9"))
    state.record(BatchPlan(2, "0-1-9", "0-1-9", {"shop.logs": behind}))
    with pytest.raises(Conflict, match=r"PostgreSQL deletes the log.* resnapshot shop\.logs"):
        lake.cdc.catchup("shop.logs")
    assert state.requests() == {}


def test_a_table_that_catches_up_says_where_it_is(lake: Lake, state: PipelineState) -> None:
    behind = TableState("lake.logs", TablePhase.CATCHING_UP, "0-1-7", backlog=Backlog("0-1-8"))
    state.record(BatchPlan(2, "0-1-9", "0-1-12", {"shop.logs": behind}))
    ((logs,),) = (status.tables for status in lake.cdc.status())
    assert (logs.phase, logs.reason) == ("catching-up", "its rows are those of '0-1-8'")


def test_which_pipeline_is_meant(lake: Lake, state: PipelineState) -> None:
    assert [status.name for status in lake.cdc.status(target="lake")] == ["shop"]
    with pytest.raises(NotFound, match="the lake has no pipeline into database second"):
        lake.cdc.status(target="second")
    with pytest.raises(Invalid, match=r"does not follow table 'shop\.x'; it follows shop\.logs"):
        lake.cdc.resnapshot("shop.x")
    PipelineState.open(lake, "lake", "other").record(BatchPlan(0, None, "0-1-7"))
    with pytest.raises(Invalid, match="several pipelines: 'other' into lake, 'shop' into lake"):
        lake.cdc.resnapshot("shop.orders")
    assert state.requests() == {}
