"""Pipelines from Python: started, watched, stopped; and what is said where they cannot start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from tests.cdc.pipeline.cut_connections import CutConnections
from tests.cdc.service.conftest import source_url
from tests.cdc.source_logs import SourceServer
from tests.cdc.waiting import until

from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.state import BatchPlan, PipelineState, TablePhase
from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.service.sources import open_source
from headwater.cdc.source.source import Source
from headwater.client import Lake, connect
from headwater.storage.errors import (
    Conflict,
    Forbidden,
    HeadwaterError,
    Unavailable,
    Unsupported,
)

pytestmark = pytest.mark.mariadb


def items(lake: Lake) -> list[tuple[int, str]]:
    rows = lake.table("lake.orders").scan().to_arrow().sort_by("id").to_pylist()
    return [(row["id"], row["item"]) for row in rows]


def elsewhere(lake: Lake) -> None:
    """Leave the state of a pipeline that followed another server."""
    PipelineState.open(lake, "lake", "shop").record(BatchPlan(0, None, "0-99-999999999"))


def test_a_pipeline_follows_until_it_is_stopped(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    with lake.cdc.mysql(**options) as pipeline:
        assert pipeline.name == "shop"
        until(lambda: lake.table_exists("lake.orders") and len(items(lake)) == 2)
        store.run("INSERT INTO orders VALUES (3, 'mug')")
        until(lambda: len(items(lake)) == 3)
        until(lambda: [table.rows for table in pipeline.status().tables.values()] == [3])
        until(lambda: pipeline.status().lag_bytes == 0)
        assert pipeline.status().position
        assert repr(pipeline).startswith("Pipeline shop: running, 1 tables into lake, batch ")
        with pytest.raises(TimeoutError, match="pipeline 'shop' still runs after 0 s"):
            pipeline.wait(0)
    assert not pipeline.is_running
    assert pipeline.wait()
    assert "ended" in repr(pipeline)


@pytest.mark.parametrize("returns", [False, True])
def test_it_is_stopped_while_its_source_is_away(
    lake: Lake, store: SourceServer, options: dict[str, Any], returns: bool
) -> None:
    with CutConnections(store.address, []) as way:
        options["source"] = source_url(way.address)
        pipeline = lake.cdc.mysql(**options)
        until(lambda: pipeline.status().batch > 0)
        way.is_closed = True
        # It waits for longer each time.
        until(lambda: way.rejected == 5)
        state = PipelineState.open(lake, "lake", "shop")
        with ThreadPoolExecutor(1) as threads:
            stopping = threads.submit(lake.cdc.stop, name="shop")
            until(state.requests)
            if returns:
                way.is_closed = False
            stopping.result(120)
        assert pipeline.wait(30)
        assert state.requests() == {}


def test_it_is_stopped_when_only_its_own_connection_is_lost(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    assert lake.cdc.mysql(**options, once=True).wait()
    state = PipelineState.open(lake, "lake", "shop")
    parsed = PipelineOptions.parse({**options, "source": source_url(store.address)})
    may_connect = Event()

    def connect_again() -> Source:
        may_connect.wait(60)
        return open_source(parsed.address(), parsed.settings())

    with store.session() as cursor, ThreadPoolExecutor(1) as threads:

        def connections() -> int:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Connections'")
            return int(cursor.fetchone()[1])

        # What the server has of the connection before.
        with closing(open_source(parsed.address(), parsed.settings())) as before:
            before.lock("shop", 10)
            running = RunningPipeline(Pipeline(lake, connect_again, parsed.settings()))
            stopping = threads.submit(lake.cdc.stop, name="shop")
            until(state.requests)
        # The command sees nobody that has the lock, and looks again.
        seen = connections()
        until(lambda: stopping.done() or connections() > seen + 2)
        may_connect.set()
        assert running.wait(60)
        stopping.result(60)
    assert state.requests() == {}


def test_a_request_to_stop_counts_where_it_came_after_the_start(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    assert lake.cdc.mysql(**options, once=True).wait()
    state = PipelineState.open(lake, "lake", "shop")
    parsed = PipelineOptions.parse({**options, "source": source_url(store.address)})
    connections = iter((False, False, True))

    def connect_late() -> Source:
        if not next(connections):
            raise Unavailable("the source is away")
        # Behind the last look of the process that waited.
        state.request("stop", "later")
        return open_source(parsed.address(), parsed.settings())

    # Meant for a process that ended before it saw it.
    state.request("stop", "earlier")
    assert RunningPipeline(Pipeline(lake, connect_late, parsed.settings())).wait(60)
    assert state.requests() == {}


def test_once_ends_when_all_is_committed(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    assert lake.cdc.mysql(**options, once=True).wait()
    store.run("UPDATE orders SET item = 'mug' WHERE id = 2")
    pipeline = lake.cdc.mysql(**options, once=True)
    assert pipeline.wait()
    assert items(lake) == [(1, "pen"), (2, "mug")]
    (table,) = pipeline.status().tables.values()
    assert table.phase is TablePhase.STREAMING
    assert table.rows > 0


def test_a_second_start_is_told_of_the_first(lake: Lake, options: dict[str, Any]) -> None:
    with lake.cdc.mysql(**options):
        until(lambda: lake.table_exists("lake.orders"))
        with pytest.raises(Conflict, match="pipeline 'shop' runs in another process"):
            lake.cdc.mysql(**options, lock_seconds=0.1).wait()


def test_a_failed_pipeline_raises_at_the_end_of_its_block(
    lake: Lake, options: dict[str, Any]
) -> None:
    elsewhere(lake)
    with pytest.raises(Conflict, match="lacks transactions"), lake.cdc.mysql(**options) as pipeline:
        until(lambda: not pipeline.is_running)
    assert "failed" in repr(pipeline)
    # What goes wrong in the block goes before it.
    with pytest.raises(ZeroDivisionError), lake.cdc.mysql(**options):
        _ = 1 // 0


# What keeps a pipeline from being started --------------------------------------------------------


def rejected(lake: Lake, options: dict[str, Any], *messages: str) -> None:
    """Check that a pipeline is not started, and that nothing is created."""
    before = {name: lake.list_tables(name) for name in lake.list_databases()}
    with pytest.raises(HeadwaterError) as error:
        lake.cdc.mysql(**options)
    for message in messages:
        assert message in error.value.message
    assert "\n" not in error.value.message
    assert {name: lake.list_tables(name) for name in lake.list_databases()} == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "mysql://u@h/shop"}, "a database is named; choose tables with --include"),
        ({"source": "mysql://u@127.0.0.1:1"}, "the source at 127.0.0.1:1 cannot be reached"),
        ({"include": "nothing.*"}, "pattern 'nothing.*': it matches no table of the source"),
        ({"exclude": "cdc_*.*"}, "all tables that they match are excluded; correct --include"),
        ({"target": "away"}, "target 'away': it is not a database of the lake; create it"),
    ],
)
def test_wrong_options_create_nothing(
    lake: Lake, options: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    rejected(lake, {**options, **changed}, message)


@pytest.mark.parametrize(
    ("table_options", "problem"),
    [
        ({"bucket": "x"}, "option 'bucket' must be an integer, not 'x'; correct it"),
        ({"merge-engine": "first-row"}, "merge-engine is first-row, and deduplicate is needed"),
        ({"merge-engine": "partial-update"}, "merge-engine is partial-update, and"),
        ({"ignore-delete": True}, "ignore-delete keeps deleted rows"),
        ({"deduplicate.ignore-delete": True}, "ignore-delete keeps deleted rows"),
        ({"sequence.field": "item"}, "sequence.field is set; leave the option out"),
        ({"rowkind.field": "item"}, "rowkind.field is set; leave the option out"),
        ({"bucket": -2}, "bucket is -2, which hides rows until a compaction"),
        ({"record-level.expire-time": "1 d"}, "record-level.expire-time is set"),
        ({"primary-key": "item"}, "define the primary-key either as a key or as an option"),
        ({"partition": "item", "bucket": 2}, "in two partitions unless bucket is -1"),
        ({"bucket": 2, "bucket-key": "zz"}, "zz"),
        ({"file.format": "lance-like"}, "does not yet write tables with file.format=lance-like"),
    ],
    ids=str,
)
def test_table_options_that_make_another_table_create_nothing(
    lake: Lake, options: dict[str, Any], table_options: dict[str, Any], problem: str
) -> None:
    options = {**options, "table_options": table_options}
    rejected(lake, options, "pipeline 'shop' cannot start: table ", problem)
    (finding,) = lake.cdc.check(**options)
    assert problem in f"{finding.problem}; {finding.remedy}"


def test_a_wrong_password(
    lake: Lake, options: dict[str, Any], new_user: Callable[..., str]
) -> None:
    source = new_user().replace("secret", "wrong")
    rejected(lake, {**options, "source": source}, "rejects user 'u", "check the password")
    with pytest.raises(Forbidden):
        lake.cdc.check(**{**options, "source": source})


def test_missing_privileges_are_named(
    lake: Lake, store: SourceServer, options: dict[str, Any], new_user: Callable[..., str]
) -> None:
    # It sees the table, and may not read it.
    source = new_user(f"INSERT ON {store.database}.*")
    name = f"{store.database}.orders"
    quoted = f"`{store.database}`.`orders`"
    rejected(
        lake,
        {**options, "source": source},
        "privilege REPLICATION SLAVE: user 'u",
        "privilege BINLOG MONITOR: user 'u",
        f"table {name}: user 'u",
        f"GRANT SELECT ON {quoted} TO 'u",
    )
    enough = ("REPLICATION SLAVE ON *.*", "BINLOG MONITOR ON *.*", f"SELECT ON {store.database}.*")
    assert lake.cdc.mysql(**{**options, "source": new_user(*enough), "once": True}).wait()


def test_settings_of_the_server_are_named(
    lake: Lake, options: dict[str, Any], mariadb_url: str
) -> None:
    rejected(lake, {**options, "source": mariadb_url}, "setting log_bin: it is OFF; set log_bin")


def test_tables_that_cannot_be_followed_are_named_together(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    store.run(
        "CREATE TABLE keyless (a INT)",
        "CREATE TABLE cdc_state (id INT PRIMARY KEY)",
        "CREATE TABLE Orders (id INT PRIMARY KEY)",
        "CREATE TABLE `orders$1` (id INT PRIMARY KEY)",
        "CREATE TABLE kinds (id INT PRIMARY KEY, _VALUE_KIND INT)",
        "CREATE TABLE sets (id SET('a', 'b') PRIMARY KEY)",
    )
    lake.create_table(
        "lake.orders",
        pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())]),
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    rejected(
        lake,
        options,
        f"table {store.database}.keyless: it has no primary key",
        "are both table lake.orders of the lake",
        "table lake.cdc_state of the lake is where pipelines keep their state",
        f"for {store.database}.orders$1: 'orders$1' is not a table name",
        f"for {store.database}.kinds: column name '_VALUE_KIND' is reserved",
        f"for {store.database}.sets: primary key column 'id' must not be of a nested type",
        f"table lake.orders of the lake, for {store.database}.orders: column 'item' is missing, "
        "column 'note' is not the source's, column 'id' is BIGINT NOT NULL, and INT NOT NULL is "
        "needed; drop it",
    )
    findings = lake.cdc.check(**options)
    assert len(findings) == 7
    assert all(finding.problem and finding.remedy for finding in findings)
    left_out = [
        f"{store.database}.{name}"
        for name in ("keyless", "cdc_state", "orders", "orders$1", "kinds", "sets")
    ]
    (finding,) = lake.cdc.check(**options, exclude=[*left_out, f"{store.database}.Orders"])
    assert finding.problem == "all tables that they match are excluded"


def test_tables_without_a_key_are_appended(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    store.run("CREATE TABLE keyless (a INT)", "INSERT INTO keyless VALUES (1), (1)")
    appending = {**options, "tables_without_key": "append"}
    (finding,) = lake.cdc.check(**options)
    assert "follow it with --tables-without-key append" in finding.remedy
    assert lake.cdc.check(**appending) == []
    assert lake.cdc.mysql(**appending, once=True).wait()
    assert lake.table("lake.keyless").scan().to_arrow().to_pylist() == [
        {"row_kind": "+I", "a": 1},
        {"row_kind": "+I", "a": 1},
    ]
    (pipeline,) = lake.cdc.status()
    assert {table.phase for table in pipeline.tables} == {"streaming"}


def test_a_position_that_is_not_of_this_server(lake: Lake, options: dict[str, Any]) -> None:
    elsewhere(lake)
    with pytest.raises(Conflict, match=r"lacks transactions of '0-99-999999999'.*resnapshot --all"):
        lake.cdc.mysql(**options, once=True).wait()
    assert lake.list_tables("lake") == ["cdc_state"]
    # The command that it names: the pipeline goes on from where the source is.
    assert not lake.cdc.resnapshot(name="shop")
    assert lake.cdc.mysql(**options, once=True).wait()
    assert items(lake) == [(1, "pen"), (2, "cup")]


def test_a_position_of_postgresql(lake: Lake, options: dict[str, Any]) -> None:
    position = "7431118262741853/1/0/16B3748"
    PipelineState.open(lake, "lake", "shop").record(BatchPlan(0, None, position))
    with pytest.raises(Conflict, match=rf"{position}.* resnapshot --all"):
        lake.cdc.mysql(**options, once=True).wait()
    assert lake.list_tables("lake") == ["cdc_state"]


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("headwater.cdc.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with connect(tmp_path) as lake, pytest.raises(Unsupported, match=r"'headwater\[cdc\]'"):
        _ = lake.cdc
