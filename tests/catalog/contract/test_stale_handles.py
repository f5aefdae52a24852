"""Operations of a handle whose table was dropped, whether or not another table has its name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from headwater.catalog.model.branches import Branches
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.consumers import Consumers
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import Partitions
from headwater.catalog.model.policies import Policies
from headwater.catalog.model.protection import Protection
from headwater.catalog.model.references import TableReferences
from headwater.catalog.model.snapshots import Snapshots
from headwater.catalog.model.tables import Tables
from headwater.catalog.model.tags import Tags
from headwater.catalog.policies import ColumnMask, Policy
from headwater.catalog.table.consumer import Consumer
from headwater.catalog.table.inspect import Inspect
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import HeadwaterError, NotFound, ResourceType
from headwater.storage.jobs.stepped_write import SteppedWrite
from headwater.storage.maintenance.deletion import Deletion, Removal
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema_change import AddColumn
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types import parse_type

MakeSnapshot: TypeAlias = Callable[..., Snapshot]
Operation: TypeAlias = Callable[[Table], object]

NAME = "sales.t"
ROWS = {"k": [7], "p": ["a"]}
LATE = datetime(2100, 1, 1, tzinfo=UTC)
ANOTHER = "was dropped, and there is another of its name now"

TABLE_OPERATIONS: Mapping[str, Collection[Operation]] = {
    "alter": [lambda t: t.alter(AddColumn(("z",), parse_type("INT")))],
    "analyze": [lambda t: t.analyze()],
    "branch": [lambda t: t.branch("b")],
    "branches": [lambda t: t.branches()],
    "changes": [lambda t: t.changes(since=0), lambda t: t.changes(since="keep")],
    "check_files": [lambda t: t.check_files()],
    "compact": [lambda t: t.compact(full=True)],
    "compact_manifests": [lambda t: t.compact_manifests()],
    "compaction_due": [lambda t: t.compaction_due()],
    "consumers": [lambda t: t.consumers()],
    "create_branch": [lambda t: t.create_branch("n")],
    "create_due_tags": [lambda t: t.create_due_tags()],
    "create_tag": [lambda t: t.create_tag("n")],
    "delete": [lambda t: t.delete("k = 7")],
    "delete_tag": [lambda t: t.delete_tag("keep")],
    "drop_branch": [lambda t: t.drop_branch("b")],
    "drop_partitions": [lambda t: t.drop_partitions({"p": "a"})],
    "expire_changelogs": [lambda t: t.expire_changelogs(delete_all=True)],
    "expire_partitions": [
        lambda t: t.expire_partitions(older_than=timedelta(0), strategy="update-time")
    ],
    "expire_snapshots": [
        lambda t: t.expire_snapshots(retain_min=1, retain_max=1),
        lambda t: t.expire_snapshots(retain_min=1, retain_max=1, dry_run=True),
    ],
    "expire_tags": [
        lambda t: t.expire_tags(older_than=LATE),
        lambda t: t.expire_tags(older_than=LATE, dry_run=True),
    ],
    "fast_forward": [lambda t: t.fast_forward("b")],
    "files": [lambda t: t.files(), lambda t: t.files(snapshot_id=1)],
    "last_committed": [lambda t: t.last_committed("job")],
    "latest_snapshot": [lambda t: t.latest_snapshot()],
    "mark_partitions_done": [
        lambda t: t.mark_partitions_done({"p": "a"}),
        lambda t: t.mark_partitions_done(idle=timedelta(0)),
    ],
    "merge": [lambda t: t.merge(ROWS, ["k", "p"])],
    "overwrite": [lambda t: t.overwrite(ROWS), lambda t: t.overwrite({"k": [1]}, {"p": "a"})],
    "partitions": [lambda t: t.partitions()],
    "partitions_by_values": [lambda t: t.partitions_by_values()],
    "rebuild_bucket_indexes": [lambda t: t.rebuild_bucket_indexes()],
    "references": [lambda t: t.references.state()],
    "refresh": [lambda t: t.refresh()],
    "remove_orphan_files": [lambda t: t.remove_orphan_files(older_than=timedelta(0))],
    "remove_unexisting_files": [lambda t: t.remove_unexisting_files()],
    "rename_branch": [lambda t: t.rename_branch("b", "n")],
    "rename_tag": [lambda t: t.rename_tag("keep", "n")],
    "replace_tag": [lambda t: t.replace_tag("keep"), lambda t: t.replace_tag("keep", 2)],
    "require_present": [lambda t: t.require_present()],
    "rewrite_file_indexes": [lambda t: t.rewrite_file_indexes()],
    "rollback": [lambda t: t.rollback(snapshot_id=1), lambda t: t.rollback(tag="keep")],
    "rollback_schema": [lambda t: t.rollback_schema(0)],
    "scan": [
        lambda t: t.scan(),
        lambda t: t.scan(snapshot_id=1),
        lambda t: t.scan(tag="keep"),
        lambda t: t.scan(timestamp=LATE),
        lambda t: t.scan(version="keep"),
        lambda t: t.scan(watermark=0),
    ],
    "snapshot": [lambda t: t.snapshot(1)],
    "snapshot_at": [lambda t: t.snapshot_at(LATE)],
    "snapshot_at_watermark": [lambda t: t.snapshot_at_watermark(0)],
    "snapshot_version": [lambda t: t.snapshot_version("1")],
    "snapshots": [lambda t: t.snapshots()],
    "tag": [lambda t: t.tag("keep")],
    "tags": [lambda t: t.tags()],
    "truncate": [lambda t: t.truncate()],
    "update": [lambda t: t.update({"v": 1}, where="k = 7")],
    "upsert": [lambda t: t.upsert(ROWS)],
    "write": [
        lambda t: t.write(ROWS),
        lambda t: t.write({"k": [], "p": []}),
        lambda t: t.write(ROWS, commit_user="job", commit_identifier=7),
    ],
    "write_steps": [
        lambda t: t.write_steps(_write_step, commit_user="job", commit_identifier=7),
    ],
    # What a handle gives is of the same table.
    "pointer": [
        lambda t: t.pointer.latest(),
        lambda t: t.with_options({"write-only": "true"}).pointer.latest(),
    ],
}
OF_THE_HANDLE = {
    *("catalog", "identifier", "info", "laid_over", "name", "schema", "storage"),
    # Objects that are made without the catalog, and whose operations have cases of their own.
    *("consumer", "inspect", "maintenance", "with_options"),
    # For tables whose rows a server reads: see `test_a_stream_that_a_server_reads`.
    *("refuse_restricted", "served_stream"),
    # Logs what fails: see `test_maintenance_after_a_commit_leaves_the_new_table_alone`.
    "keep_up",
}

CONSUMER_OPERATIONS: Mapping[str, Callable[[Consumer], object]] = {
    "advance": lambda c: c.advance(2),
    "delete": lambda c: c.delete(force=True),
    "hold": lambda c: c.hold().take(),
    "is_rolled_back": lambda c: c.is_rolled_back,
    "lag": lambda c: c.lag,
    "next_snapshot": lambda c: c.next_snapshot,
    "position": lambda c: c.position(),
    "reset": lambda c: c.reset(1, force=True),
    "saved": lambda c: c.saved,
}

MASK = Policy("ada", ColumnMask("k", '{"name": "NULL"}'))
CatalogOperation: TypeAlias = Callable[[Any, Identifier], object]
CATALOG_OPERATIONS: Mapping[type, Mapping[str, CatalogOperation]] = {
    Tables: {
        "get": lambda part, name: part.get(name),
        "alter": lambda part, name: part.alter(name, [SetOption("write-only", "true")]),
        "replace": lambda part, name: part.replace(name, _schema()),
        "rename": lambda part, name: part.rename(name, Identifier("sales", "u")),
        "drop": lambda part, name: part.drop(name),
    },
    Snapshots: {
        "commits_of": lambda part, name: part.commits_of(name, "a-user"),
        "latest": lambda part, name: part.latest(name),
        "get": lambda part, name: part.get(name, "EARLIEST"),
        "list": lambda part, name: part.list(name),
        "rollback_to_snapshot": lambda part, name: part.rollback_to_snapshot(name, 1),
        "rollback_to_tag": lambda part, name: part.rollback_to_tag(name, "keep"),
        "rollback_schema": lambda part, name: part.rollback_schema(name, 0),
    },
    Tags: {
        "create": lambda part, name: part.create(name, "n", 1),
        "get": lambda part, name: part.get(name, "keep"),
        "list": lambda part, name: part.list(name),
        "delete": lambda part, name: part.delete(name, "keep"),
        "rename": lambda part, name: part.rename(name, "keep", "n"),
        "replace": lambda part, name: part.replace(name, "keep", 1),
    },
    TableReferences: {
        "state": lambda part, name: part.state(name),
        "commit_deletion": lambda part, name: part.commit_deletion(
            name, Deletion("d", 0, Removal(), True)
        ),
        "finish_deletion": lambda part, name: part.finish_deletion(name, "d"),
    },
    Branches: {
        "list": lambda part, name: part.list(name),
        "create": lambda part, name: part.create(name, "n", from_snapshot=1),
        "rename": lambda part, name: part.rename(name, "b", "n"),
        "fast_forward": lambda part, name: part.fast_forward(name, "b"),
        "drop": lambda part, name: part.drop(name, "b"),
    },
    Partitions: {
        "list": lambda part, name: part.list(name),
        "list_by_names": lambda part, name: part.list_by_names(name, [{"p": "a"}]),
        "list_by_filter": lambda part, name: part.list_by_filter(name, "{}"),
        "create": lambda part, name: part.create(name, [{"p": "z"}]),
        "drop": lambda part, name: part.drop(name, [{"p": "a"}]),
        "mark_done": lambda part, name: part.mark_done(name, [{"p": "a"}]),
    },
    Consumers: {
        "list": lambda part, name: part.list(name),
        "reset": lambda part, name: part.reset(name, "c", 1, force=True),
        "lease": lambda part, name: part.lease(name, "c", "me", 1000),
        "release": lambda part, name: part.release(name, "c", "me"),
    },
    Policies: {
        "list": lambda part, name: part.list(name),
        "create": lambda part, name: part.create(name, MASK),
        "drop": lambda part, name: part.drop(name, MASK.type, "ada", "k"),
    },
    Protection: {
        "is_table_protected": lambda part, name: part.is_table_protected(name),
        "protect_table": lambda part, name: part.protect_table(name),
    },
}
PARTS: Mapping[type, str] = {TableReferences: "references"}
NOT_OF_A_TABLE = {
    (Tables, "create"),
    (Tables, "register"),
    # Need a snapshot: see `test_a_commit_by_a_bound_name_is_of_its_table_alone`.
    (Snapshots, "commit"),
    (Snapshots, "was_taken"),
    # In this process nobody is restricted, whatever the table.
    (Policies, "access"),
}


def _write_step(steps: SteppedWrite) -> None:
    steps.write(pa.record_batch({"k": [7], "p": ["a"], "v": [1]}))


def _schema() -> Schema:
    return Schema.from_arrow(
        pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.int64())]),
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"bucket": "1", "metastore.partitioned-table": "true", "write-only": "true"},
    )


def _make(lake: Lake, *keys: int) -> Table:
    """A table with a commit for each key, a tag, a branch and a consumer."""
    table = lake.create_table(NAME, _schema())
    for key in keys:
        table.write({"k": [key], "p": ["a"]})
    table.create_tag("keep", 1)
    table.create_branch("b", snapshot_id=1)
    table.consumer("c").reset(2)
    return table


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    made = Lake(catalog)
    made.create_database("sales")
    return made


@pytest.fixture(params=["dropped", "made again"])
def stale(request: pytest.FixtureRequest, lake: Lake) -> Table:
    """A handle of a table that was dropped."""
    table = _make(lake, 1, 2)
    lake.drop_table(NAME)
    if request.param == "made again":
        _make(lake, 7, 8, 9)
    return table


def _files(lake: Lake) -> object:
    """The files of the table that has the name, and when they changed."""
    if not lake.table_exists(NAME):
        return None
    folder = Path(lake.table(NAME).info.path.removeprefix("file://"))
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def _state(lake: Lake) -> object:
    """What an operation could change of the table that has the name."""
    if not lake.table_exists(NAME):
        return None
    table = lake.table(NAME)
    return (
        table.info,
        table.scan().to_arrow().to_pylist(),
        [snapshot.id for snapshot in table.snapshots()],
        table.tags(),
        table.branches(),
        [(each.consumer_id, each.next_snapshot) for each in table.consumers()],
        table.partitions(),
        lake.catalog.protection.is_table_protected(Identifier.parse(NAME)),
        lake.catalog.policies.list(Identifier.parse(NAME)),
    )


def _expect_refusal(lake: Lake, operation: Callable[[], object]) -> None:
    """Check that an operation reports the drop and leaves the new table as it is."""
    before = _files(lake)
    with pytest.raises(HeadwaterError) as caught:
        operation()
    assert isinstance(caught.value, NotFound), repr(caught.value)
    assert caught.value.resource_type is ResourceType.TABLE
    expected = "does not exist" if before is None else ANOTHER
    assert re.match(rf"table {NAME}(\$branch_b)? {expected}", caught.value.message)
    assert _files(lake) == before


def test_every_method_of_a_handle_has_a_case() -> None:
    public = {name for name in dir(Table) if not name.startswith("_")}
    assert public == {*TABLE_OPERATIONS} | OF_THE_HANDLE
    consumer = {name for name in dir(Consumer) if not name.startswith("_")}
    assert consumer == {*CONSUMER_OPERATIONS}


def test_every_operation_of_a_catalog_on_a_table_has_a_case() -> None:
    methods_of_tables = {
        (part, name)
        for part in CATALOG_OPERATIONS
        for name, method in inspect.getmembers(part, inspect.isfunction)
        if not name.startswith("_")
        and {"identifier", "source"} & inspect.signature(method).parameters.keys()
    }
    cases = {(part, name) for part, methods in CATALOG_OPERATIONS.items() for name in methods}
    assert methods_of_tables == cases | NOT_OF_A_TABLE


def test_every_operation_of_a_handle_reports_the_drop(
    lake: Lake, stale: Table, subtests: pytest.Subtests
) -> None:
    before = _state(lake)
    for name, operations in TABLE_OPERATIONS.items():
        for at, operation in enumerate(operations):
            with subtests.test(name, at=at):
                _expect_refusal(lake, partial(operation, stale))
    for name, consume in CONSUMER_OPERATIONS.items():
        with subtests.test(f"consumer: {name}"):
            _expect_refusal(lake, partial(consume, stale.consumer("c")))
    assert _state(lake) == before


def test_every_system_table_reports_the_drop(lake: Lake, stale: Table) -> None:
    # What these show is a part of the handle.
    names = {name for name in dir(Inspect) if not name.startswith("_")}
    for name in sorted(names - {"table", "options", "aggregation_fields", "row_tracking"}):
        _expect_refusal(lake, getattr(stale.inspect, name))


def test_every_operation_of_a_catalog_reports_the_drop_of_a_bound_name(
    lake: Lake, stale: Table, subtests: pytest.Subtests
) -> None:
    before = _state(lake)
    for part, operations in CATALOG_OPERATIONS.items():
        for name, operation in operations.items():
            with subtests.test(part.__name__, operation=name):
                service = getattr(lake.catalog, PARTS.get(part, part.__name__.lower()))
                _expect_refusal(lake, partial(operation, service, stale.identifier))
    assert _state(lake) == before


def test_a_commit_by_a_bound_name_is_of_its_table_alone(
    lake: Lake, stale: Table, snapshot: MakeSnapshot
) -> None:
    snapshots, name = lake.catalog.snapshots, stale.identifier
    before = _state(lake)
    for table_id in (None, stale.info.id):
        for identifier in (name, name.with_table_id(None)):
            if table_id is None and identifier.table_id is None:
                continue
            _expect_refusal(
                lake, partial(snapshots.commit, identifier, table_id, snapshot(4), None, [])
            )
    _expect_refusal(lake, lambda: snapshots.was_taken(name, snapshot(1)))
    assert _state(lake) == before


def test_a_handle_of_a_branch_reports_the_drop_of_its_table(lake: Lake) -> None:
    table = _make(lake, 1)
    branch = table.branch("b")
    assert branch.identifier.table_id == table.info.id
    lake.drop_table(NAME)
    _make(lake, 7)
    for operation in (
        lambda: branch.scan(),
        lambda: branch.write(ROWS),
        lambda: branch.refresh(),
        lambda: branch.create_tag("n"),
        lambda: branch.branch("main"),
        lambda: branch.fast_forward("c"),
    ):
        with pytest.raises(NotFound, match=ANOTHER):
            operation()
    assert lake.table(NAME).branch("b").scan().to_arrow()["k"].to_pylist() == [7]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_read_under_way_reports_the_drop(lake: Lake, is_made_again: bool) -> None:
    table = _make(lake, 1, 2)
    chosen, planned, begun = table.scan(), table.scan(), table.scan().to_batches()
    changes = table.changes(since=0)
    assert len(planned.splits) == 1
    assert len(changes.splits) == 2
    lake.drop_table(NAME)
    if is_made_again:
        _make(lake, 7, 8)
    expected = ANOTHER if is_made_again else f"table {NAME} does not exist"
    for read in (
        chosen.to_arrow,
        chosen.count,
        planned.to_arrow,
        lambda: list(begun),
        changes.to_arrow,
        changes.to_polars,
    ):
        with pytest.raises(NotFound, match=expected) as caught:
            read()
        assert caught.value.resource_type is ResourceType.TABLE


def test_a_handle_of_an_external_table_reports_the_drop(lake: Lake, tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "elsewhere")}
    table = lake.create_table(NAME, pa.schema([("k", pa.int64())]), options=options)
    table.write({"k": [1]})
    assert table.info.is_external
    lake.drop_table(NAME)
    files = sorted((tmp_path / "elsewhere").rglob("*"))
    operations: list[Operation] = [
        lambda t: t.scan(),
        lambda t: t.scan(snapshot_id=1),
        lambda t: t.write({"k": [2]}),
        lambda t: t.snapshots(),
        lambda t: t.compact(full=True),
        lambda t: t.expire_snapshots(),
        lambda t: t.remove_orphan_files(older_than=timedelta(0)),
        lambda t: t.check_files(),
    ]
    for is_made_again in (False, True):
        if is_made_again:
            _make(lake, 7)
        for operation in operations:
            _expect_refusal(lake, partial(operation, table))
    assert sorted((tmp_path / "elsewhere").rglob("*")) == files


def test_maintenance_after_a_commit_leaves_the_new_table_alone(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    table = _make(lake, 1).with_options({"snapshot.num-retained.max": "1"})
    lake.drop_table(NAME)
    _make(lake, 7, 8, 9)
    before, files = _state(lake), _files(lake)
    table.with_options({"write-only": "false"}).keep_up()
    assert ANOTHER in caplog.text
    assert (_state(lake), _files(lake)) == (before, files)


def test_a_table_that_was_renamed_keeps_its_id(lake: Lake) -> None:
    table = _make(lake, 1)
    lake.rename_table(NAME, "sales.u")
    with pytest.raises(NotFound, match=f"table {NAME} does not exist"):
        table.refresh()
    _make(lake, 7)
    with pytest.raises(NotFound, match=ANOTHER):
        table.refresh()
    assert lake.table("sales.u").info.id == table.info.id
    lake.drop_table(NAME)
    lake.rename_table("sales.u", NAME)
    assert table.refresh().scan().to_arrow()["k"].to_pylist() == [1]


def test_a_name_without_an_id_is_that_of_any_table(lake: Lake) -> None:
    table = _make(lake, 1)
    lake.drop_table(NAME)
    made = _make(lake, 7)
    name = Identifier.parse(NAME)
    assert name == table.identifier == made.identifier
    assert hash(name) == hash(made.identifier)
    assert str(made.identifier) == NAME
    assert repr(made.identifier) == "Identifier(database='sales', name='t')"
    assert lake.catalog.tables.get(name).id == made.info.id != table.info.id
