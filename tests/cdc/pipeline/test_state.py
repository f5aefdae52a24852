"""The state of pipelines: plans are recorded once, and stored values are read strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.cdc.pipeline.state import (
    STATE_TABLE,
    Backlog,
    BatchPlan,
    PipelineState,
    TablePhase,
    TableState,
)
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, CorruptData, HeadwaterError, Invalid, NotFound
from headwater.storage.snapshot.snapshot import CommitKind

ORDERS = TableState("lake.orders", TablePhase.SNAPSHOT)
ITEMS = TableState("lake.items", TablePhase.STREAMING, "0-1-7")
FIRST = BatchPlan(0, None, "0-1-8", {"shop.orders": ORDERS, "shop.items": ITEMS})
SECOND = BatchPlan(
    1,
    "0-1-8",
    "0-1-12",
    {
        "shop.orders": replace(ORDERS, phase=TablePhase.STREAMING),
        "shop.ünits; '": TableState(
            "lake.units", TablePhase.QUARANTINED, "0-1-9", 'column "p": type geometry'
        ),
    },
)


@pytest.fixture(params=["embedded", pytest.param("served", marks=pytest.mark.modes)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """A lake with a database ``lake``: in this process, and through a server."""
    with connect(tmp_path / "lake") as embedded:
        embedded.create_database("lake")
        if request.param == "embedded":
            yield embedded
            return
        serve: Callable[[Catalog], str] = request.getfixturevalue("serve")
        with connect(serve(embedded.catalog)) as served:
            yield served


@pytest.fixture
def state(lake: Lake) -> PipelineState:
    return PipelineState.open(lake, "lake", "shop")


def test_a_plan_is_read_as_it_was_recorded(lake: Lake, state: PipelineState) -> None:
    assert state.plan() is None
    assert state.record(FIRST) == FIRST
    assert state.record(SECOND) == SECOND
    # A process that starts again reads the same; tables that are not followed any more are gone.
    again = PipelineState.open(lake, "lake", "shop")
    assert again.plan() == SECOND
    table = lake.table(f"lake.{STATE_TABLE}")
    assert table.scan().count() == 3
    assert table.last_committed("cdc-shop") == 1
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.properties["cdc.position"] == "0-1-12"
    assert len(table.snapshots()) == 2


def test_tables_that_are_behind(lake: Lake, state: PipelineState) -> None:
    backlog = Backlog("0-1-5", prepared=("X'61','',1",))
    quarantined = TableState(
        "lake.items", TablePhase.QUARANTINED, "0-1-5", "a date", backlog=backlog
    )
    behind = replace(
        quarantined,
        phase=TablePhase.CATCHING_UP,
        reason=None,
        backlog=replace(backlog, until="0-1-7"),
    )
    state.record(replace(FIRST, tables={"shop.items": quarantined}))
    state.record(replace(SECOND, tables={"shop.items": behind}))
    plan = PipelineState.open(lake, "lake", "shop").plan()
    assert plan is not None
    assert plan.tables == {"shop.items": behind}
    assert not behind.is_followed
    with pytest.raises(Invalid, match="is in phase catching-up, and has no backlog"):
        replace(behind, backlog=None)


def test_a_state_of_an_earlier_version(lake: Lake, state: PipelineState) -> None:
    """It has neither backlogs nor files of the log."""
    value = '{"target":"lake.items","phase":"quarantined","position":"0-1-5","reason":"a date"}'
    plan = '{"number":0,"start":null,"end":"0-1-8"}'
    rows = [("plan", plan), ("table:shop.items", value)]
    lake.table(f"lake.{STATE_TABLE}").write(
        pa.table({
            "pipeline": ["shop"] * 2,
            "item": [item for item, _ in rows],
            "value": [value for _, value in rows],
        })
    )  # fmt: skip
    recorded = state.plan()
    assert recorded is not None
    assert recorded.tables["shop.items"].backlog is None
    assert (state.log_file(), state.tagged()) == (None, [])


def test_what_is_kept_besides_plans(lake: Lake, state: PipelineState) -> None:
    state.record(FIRST)
    state.save_log_file("1/1764377081/log.000003")
    state.save_tagged([100, 200])
    again = PipelineState.open(lake, "lake", "shop")
    assert again.plan() == FIRST
    assert (again.log_file(), again.tagged()) == ("1/1764377081/log.000003", [100, 200])
    again.save_log_file(None)
    assert PipelineState.open(lake, "lake", "shop").log_file() is None
    # A plan may come with it, in one commit.
    snapshots = len(lake.table(f"lake.{STATE_TABLE}").snapshots())
    again.record(SECOND, log_file="1/1764377081/log.000004")
    assert len(lake.table(f"lake.{STATE_TABLE}").snapshots()) == snapshots + 1
    last = PipelineState.open(lake, "lake", "shop")
    assert (last.plan(), last.log_file()) == (SECOND, "1/1764377081/log.000004")


def test_what_a_process_wrote_is_known_to_it(lake: Lake, state: PipelineState) -> None:
    """It does not read it again, and it reads what others wrote."""
    other = PipelineState.open(lake, "lake", "shop")
    state.record(FIRST)
    assert state.plan() == other.plan() == FIRST
    state.save_log_file("1/1764377081/log.000003")
    state.request("stop", "")
    other.request("resnapshot:a", "replace")
    for process in (state, other):
        assert process.log_file() == "1/1764377081/log.000003"
        assert process.requests() == {"stop": "", "resnapshot:a": "replace"}
    state.answer({"stop": "", "resnapshot:a": "replace"})
    other.save_log_file(None)
    for process in (state, other):
        assert (process.plan(), process.log_file(), process.requests()) == (FIRST, None, {})


def test_the_first_plan_under_a_number_counts(lake: Lake, state: PipelineState) -> None:
    other = PipelineState.open(lake, "lake", "shop")
    state.record(FIRST)
    later = replace(FIRST, end="0-1-100")
    assert other.record(later) == FIRST
    assert other.plan() == FIRST
    table = lake.table(f"lake.{STATE_TABLE}")
    assert len(table.snapshots()) == 1


def test_two_processes_record_one_plan(lake: Lake, state: PipelineState) -> None:
    """The other one comes first after both have looked."""

    class Late(PipelineState):
        def plan(self) -> BatchPlan | None:
            last = super().plan()
            if state.plan() == FIRST:
                state.record(SECOND)
            return last

    state.record(FIRST)
    late = Late.open(lake, "lake", "shop")
    assert late.record(replace(SECOND, end="0-1-99", tables={})) == SECOND
    assert state.plan() == SECOND


def test_a_request_that_comes_while_a_plan_is_recorded(lake: Lake, state: PipelineState) -> None:
    """It is committed after the process has looked, and before its plan."""

    class Late(PipelineState):
        def plan(self) -> BatchPlan | None:
            last = super().plan()
            if last == FIRST:
                state.request("stop", "")
            return last

    state.record(FIRST)
    late = Late.open(lake, "lake", "shop")
    assert late.record(SECOND) == SECOND
    assert late.requests() == {"stop": ""}


def test_plans_and_requests_are_known_after_compactions(lake: Lake, state: PipelineState) -> None:
    state.record(FIRST)
    state.request("resnapshot:a", "replace")
    plan = FIRST
    kinds = set()
    for number in range(1, 25):
        plan = BatchPlan(number, plan.end, f"0-1-{8 + number}", {})
        assert state.record(plan) == state.plan() == plan
        assert state.requests() == {"resnapshot:a": "replace"}
        latest = lake.table(f"lake.{STATE_TABLE}").latest_snapshot()
        assert latest is not None
        kinds.add(latest.commit_kind)
    assert kinds == {CommitKind.APPEND, CommitKind.COMPACT}
    state.answer({"resnapshot:a": ""})
    assert state.requests() == {"resnapshot:a": "replace"}, "another one came since"
    state.answer({"resnapshot:a": "replace"})
    assert state.requests() == {}
    again = PipelineState.open(lake, "lake", "shop")
    assert (again.plan(), again.requests()) == (plan, {})


def test_a_process_that_is_behind_is_told(lake: Lake, state: PipelineState) -> None:
    state.record(FIRST)
    state.record(SECOND)
    with pytest.raises(Conflict, match="another process has planned batch 1; stop one of them"):
        state.record(FIRST)
    assert state.plan() == SECOND


def test_plans_follow_each_other(state: PipelineState) -> None:
    with pytest.raises(Invalid, match="cannot record batch 1 after '0-1-8': expected batch 0"):
        state.record(SECOND)
    state.record(FIRST)
    for plan in (replace(SECOND, number=2), replace(SECOND, start="0-1-7")):
        with pytest.raises(Invalid, match="expected batch 1 after '0-1-8'; read the last plan"):
            state.record(plan)
    assert state.plan() == FIRST


def test_pipelines_share_the_table(lake: Lake, state: PipelineState) -> None:
    other = PipelineState.open(lake, "lake", "shop' OR 'a' = 'a")
    state.record(FIRST)
    assert other.plan() is None
    other.record(replace(FIRST, tables={}))
    state.record(SECOND)
    assert (state.plan(), other.plan()) == (SECOND, replace(FIRST, tables={}))


def test_a_plan_is_known_after_its_snapshot_expired(lake: Lake, state: PipelineState) -> None:
    state.record(FIRST)
    other = PipelineState.open(lake, "lake", "other")
    plan = replace(FIRST, tables={})
    for _ in range(8):
        other.record(plan)
        plan = BatchPlan(plan.number + 1, plan.end, plan.end + "1")
    table = lake.table(f"lake.{STATE_TABLE}")
    table.expire_snapshots(retain_min=1, retain_max=1, retain=timedelta(0))
    assert PipelineState.open(lake, "lake", "shop").record(replace(FIRST, end="x")) == FIRST


def test_deleted_state_is_not_made_up_for(lake: Lake, state: PipelineState) -> None:
    state.record(FIRST)
    lake.table(f"lake.{STATE_TABLE}").delete("pipeline = 'shop'")
    assert state.plan() is None
    with pytest.raises(Conflict, match=r"its state was deleted from lake\.cdc_state; restore"):
        state.record(FIRST)


@pytest.mark.parametrize(
    ("item", "value", "message"),
    [
        ("plan", '{"number": 0, "start": null, "end": "e", "colour": 1}', "unknown key 'colour'"),
        ("plan", '{"number": 0, "start": null}', "key 'end' is missing"),
        ("plan", '{"number": "0", "start": null, "end": "e"}', "key 'number': .*valid integer"),
        ("plan", "{", "Invalid JSON"),
        ("plan", None, "Invalid JSON"),
        ("table:a", '{"target": "t", "phase": "asleep"}', "key 'phase'.*'snapshot'"),
        ("table:a", '{"target": "t", "phase": "snapshot", "x": 1}', "unknown key 'x'"),
        ("table:a", '{"target": "t", "phase": "quarantined"}', "needs a reason"),
        ("views", "{}", "unknown item"),
    ],
)
def test_a_stored_value_of_another_version_is_rejected_by_name(
    lake: Lake, state: PipelineState, item: str, value: str | None, message: str
) -> None:
    state.record(FIRST)
    lake.table(f"lake.{STATE_TABLE}").write(
        {"pipeline": ["shop"], "item": [item], "value": pa.array([value], pa.string())}
    )
    with pytest.raises(CorruptData, match=message) as error:
        state.plan()
    assert f"cannot read item {item!r} of pipeline 'shop'" in error.value.message
    with pytest.raises(CorruptData):
        state.record(SECOND)


def test_a_plan_without_bounds_is_rejected(lake: Lake, state: PipelineState) -> None:
    state.record(FIRST)
    lake.table(f"lake.{STATE_TABLE}").delete("item = 'plan'")
    with pytest.raises(CorruptData, match="item 'plan' of pipeline 'shop': it is missing"):
        state.plan()


@pytest.mark.parametrize(("number", "start"), [(-1, "a"), (0, "a"), (1, None)])
def test_a_batch_with_wrong_bounds_is_rejected(number: int, start: str | None) -> None:
    with pytest.raises(Invalid, match=f"batch {number} starts after {start!r}"):
        BatchPlan(number, start, "b")


@pytest.mark.parametrize(
    ("phase", "reason"), [(TablePhase.QUARANTINED, None), (TablePhase.STREAMING, "a reason")]
)
def test_only_a_quarantined_table_has_a_reason(phase: TablePhase, reason: str | None) -> None:
    with pytest.raises(Invalid, match=f"in phase {phase} with the reason {reason!r}"):
        TableState("t", phase, None, reason)


def test_what_is_not_a_state_table_is_rejected(lake: Lake) -> None:
    with pytest.raises(NotFound):
        PipelineState.open(lake, "missing", "shop")
    PipelineState.open(lake, "lake", "shop")
    with pytest.raises(Invalid, match="pipeline name ' ' is empty"):
        PipelineState.open(lake, "lake", " ")
    lake.create_database("other")
    lake.create_table(f"other.{STATE_TABLE}", pa.schema([("pipeline", pa.string())]))
    with pytest.raises(Invalid, match=r"other\.cdc_state is not a state table: expected"):
        PipelineState.open(lake, "other", "shop")


def test_a_name_that_no_commit_user_can_have_is_rejected(lake: Lake) -> None:
    with pytest.raises(HeadwaterError, match="commit_user"):
        PipelineState.open(lake, "lake", "a\nb").record(FIRST)
