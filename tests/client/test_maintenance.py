"""The upkeep of many tables: planned, run, cut off, resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import NewSqlite

from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE
from headwater.client.maintenance import (
    DEFAULT_ACTIONS,
    Action,
    Limits,
    MaintenancePlan,
    PlanFile,
    Rules,
    State,
    Step,
    plan_maintenance,
    run_maintenance,
)
from headwater.storage.errors import AlreadyExists, Invalid, NotFound
from headwater.storage.runtime import SYSTEM_RUNTIME

KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("dt", pa.string())])
LEFT_ALONE = {"write-only": "true", "num-sorted-run.compaction-trigger": "2"}


@pytest.fixture
def lake(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[Lake]:
    """Two tables that want compaction, one with a partition that is past, one in order."""
    new_sqlite(tmp_path / DATABASE_FILE)
    with connect(tmp_path) as lake:
        lake.create_database("shop")
        lake.create_database("other")
        for name in ("shop.orders", "other.orders"):
            table = lake.create_table(
                name, KEYED, primary_keys=["id"], options={"bucket": "1", **LEFT_ALONE}
            )
            for _ in range(3):
                table.write({"id": [1, 2], "dt": ["a", "b"]})
        days = lake.create_table(
            "shop.days",
            KEYED,
            partition_keys=["dt"],
            options={"partition.expiration-time": "7 d", "write-only": "true"},
        )
        days.write({"id": [1], "dt": ["2001-01-01"]})
        lake.create_table("shop.empty", KEYED)
        yield lake


def listed(plan: MaintenancePlan) -> list[tuple[str, str, str]]:
    return [(step.table, str(step.action), str(step.state)) for step in plan.steps]


def test_what_is_due_is_done_and_not_found_again(lake: Lake) -> None:
    plan = plan_maintenance(lake)
    assert listed(plan) == [
        ("other.orders", "compact", "waiting"),
        ("shop.days", "expire-partitions", "waiting"),
        ("shop.orders", "compact", "waiting"),
    ]
    compaction = plan.steps[-1]
    assert compaction.size == sum(file.file_size for file in lake.table("shop.orders").files())
    assert compaction.due.startswith("1 task, ")
    assert plan.steps[1].due == "1 partition"
    run_maintenance(lake, plan)
    assert {step.state for step in plan.steps} == {State.DONE}
    assert plan.steps[1].outcome == "1 partition"
    assert plan_maintenance(lake).steps == []
    assert len(lake.table("shop.orders").files()) == 1
    assert lake.table("shop.orders").scan().to_arrow().sort_by("id").to_pydict() == {
        "id": [1, 2],
        "dt": ["a", "b"],
    }
    assert lake.table("shop.days").scan().count() == 0


def test_tables_and_actions_are_chosen(lake: Lake) -> None:
    chosen = plan_maintenance(lake, include=["shop.*"], exclude=["*.days"])
    assert [step.table for step in chosen.steps] == ["shop.orders"]
    assert plan_maintenance(lake, max_tables=2).steps == plan_maintenance(lake).steps[:2]
    with pytest.raises(Invalid, match=r"no table has a name like 'sale\.\*'"):
        plan_maintenance(lake, include=["shop.*", "sale.*"])
    every = plan_maintenance(lake, include=["shop.orders"], actions=tuple(Action))
    assert [step.action for step in every.steps] == [
        Action.COMPACT,
        Action.COMPACT_MANIFESTS,
        Action.ANALYZE,
    ]
    run_maintenance(lake, every)
    assert {step.state for step in every.steps} == {State.DONE}
    assert lake.table("shop.orders").inspect.statistics().num_rows == 1


def test_full_compaction_takes_what_is_not_due(lake: Lake) -> None:
    table = lake.create_table(
        "shop.parts", KEYED, primary_keys=["id"], options={"bucket": "1", "write-only": "true"}
    )
    table.write({"id": [1]})
    table.write({"id": [2]})
    assert plan_maintenance(lake, include=["shop.parts"]).steps == []
    run_maintenance(lake, plan_maintenance(lake, include=["shop.parts"], rules=Rules(full=True)))
    assert len(lake.table("shop.parts").files()) == 1


def test_orphans_are_removed_when_they_are_old_enough(lake: Lake, tmp_path: Path) -> None:
    (data,) = tmp_path.glob("warehouse/shop.db/orders/bucket-0")
    (data / "data-left-behind.parquet").write_bytes(b"x" * 2048)
    orphans = [Action.REMOVE_ORPHAN_FILES]
    assert plan_maintenance(lake, actions=orphans).steps == []
    rules = Rules(orphans_older_than=timedelta(0))
    plan = plan_maintenance(lake, actions=orphans, rules=rules)
    assert [(step.table, step.due) for step in plan.steps] == [("shop.orders", "1 file, 2.0 KiB")]
    run_maintenance(lake, plan)
    assert not (data / "data-left-behind.parquet").exists()


def test_what_fails_or_is_refused_keeps_nothing_else_from_being_done(lake: Lake) -> None:
    lake.create_table(
        "shop.chain",
        KEYED,
        options={"manifest.compression": "lzo"},
        for_another_engine=True,
    )
    plan = plan_maintenance(lake)
    lake.drop_table("other.orders")
    run_maintenance(lake, plan)
    states = {step.table: (step.state, step.outcome) for step in plan.steps}
    assert states["other.orders"][0] is State.FAILED
    assert "other.orders" in states["other.orders"][1]
    assert states["shop.orders"][0] is State.DONE
    assert states["shop.chain"][0] is State.REFUSED
    assert "manifest.compression" in states["shop.chain"][1]


def test_a_plan_that_was_cut_off_is_resumed(lake: Lake, tmp_path: Path) -> None:
    file = PlanFile(tmp_path / "plan.jsonl")
    plan = plan_maintenance(lake)
    file.create(plan)
    with pytest.raises(AlreadyExists, match=r"plan\.jsonl"):
        file.create(plan)

    def cut_off(step: Step) -> None:
        file.add(step)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_maintenance(lake, plan, tables_at_once=1, on_step=cut_off)
    with (tmp_path / "plan.jsonl").open("a") as half:
        half.write('{"table": "shop.da')
    resumed = file.read()
    done = resumed.in_state(State.DONE)
    assert len(done) == 1
    assert len(resumed.in_state(State.WAITING)) == 2
    before = lake.table(done[0].table).latest_snapshot()
    run_maintenance(lake, resumed, on_step=file.add)
    assert lake.table(done[0].table).latest_snapshot() == before
    assert {step.state for step in file.read().steps} == {State.DONE}


def test_limits_leave_steps_waiting(lake: Lake) -> None:
    plan = plan_maintenance(lake)
    run_maintenance(lake, plan, limits=Limits(size=1))
    assert {step.table: step.state for step in plan.steps} == {
        "other.orders": State.WAITING,
        "shop.days": State.DONE,
        "shop.orders": State.WAITING,
    }
    assert plan.steps[0].outcome == "it rewrites more bytes than are left for this run"
    moments = iter(range(0, 10_000, 60))
    clock = replace(SYSTEM_RUNTIME, monotonic=lambda: float(next(moments)))
    run_maintenance(
        lake, plan, limits=Limits(time=timedelta(seconds=90)), tables_at_once=1, runtime=clock
    )
    assert [step.outcome for step in plan.in_state(State.WAITING)] == ["the time is over"]
    run_maintenance(lake, plan)
    assert {step.state for step in plan.steps} == {State.DONE}


def test_files_that_are_no_plan_are_refused(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "plan"
    with pytest.raises(NotFound, match="there is no plan"):
        PlanFile(path).read()
    for text in ("", "no json\n", '{"version": 1}\n', "[]\n"):
        path.write_text(text)
        with pytest.raises(Invalid, match="is not a plan"):
            PlanFile(path).read()
    path.write_text('{"version": 9}\n')
    with pytest.raises(Invalid, match="another version"):
        PlanFile(path).read()
    with pytest.raises(Invalid, match="the plan is for warehouse elsewhere"):
        run_maintenance(lake, MaintenancePlan("elsewhere", Rules()))
    assert set(DEFAULT_ACTIONS) < set(Action)
    step = Step("a.b", Action.COMPACT, "1 task")
    plan = MaintenancePlan(lake.warehouse, Rules(), [step])
    plan.record(replace(step, state=State.DONE))
    assert repr(plan).endswith("0 waiting, 1 done, 0 failed, 0 refused)")
