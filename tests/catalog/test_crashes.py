"""A process is killed (SIGKILL) at every step of an operation; the next one finds the truth."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text
from tests.catalog.databases import POSTGRESQL_IN_MODES, on_databases
from tests.catalog.worker import write_numbered
from tests.forks import Forks

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import database_url as with_driver
from headwater.catalog.table.table import Table
from headwater.storage.errors import NotFound
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.types.atomic_type import AtomicType, Root

# One of the processes that share the tests starts what dies in them.
pytestmark = pytest.mark.xdist_group("crashes")

MakeSnapshot = Callable[..., Snapshot]
MOST_STEPS = 60


class Lake:
    """A warehouse whose operations die in processes of their own."""

    def __init__(self, url: str, location: Path, forks: Forks) -> None:
        self.url = url
        self.location = location
        self._forks = forks

    @contextmanager
    def opened(self) -> Iterator[SqlCatalog]:
        catalog = SqlCatalog.open(self.url, warehouse="main", location=str(self.location))
        try:
            yield catalog
        finally:
            catalog.close()

    def dies(self, step: int, operation: str, snapshot: Snapshot | None = None) -> bool:
        """Whether the operation was killed; False when it has fewer steps and ended well."""
        arguments = [self.url, str(self.location), operation, str(step)]
        document = "" if snapshot is None else snapshot.to_json()
        self._forks.start(*arguments, document)
        ended = self._forks.ended()
        assert ended in (0, -signal.SIGKILL), "see what it printed"
        return ended != 0

    def open_decisions(self) -> int:
        engine = create_engine(with_driver(self.url))
        with engine.connect() as connection:
            count = connection.execute(text("SELECT COUNT(*) FROM hw_outbox")).scalar_one()
        engine.dispose()
        return int(count)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Where the operations die."""
    made = Forks("tests.catalog.worker")
    yield made
    made.close()


@pytest.fixture
def lake(
    migrated_url: str, tmp_path: Path, orders: Identifier, orders_schema: Schema, forks: Forks
) -> Lake:
    made = Lake(migrated_url, tmp_path / "lake", forks)
    with made.opened() as catalog:
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
    return made


def _check_agreement(catalog: SqlCatalog, table: Identifier) -> int:
    """That database and files tell the same history; the latest snapshot's id."""
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"), "snapshot")
    listed = {item.id: item.document for item in catalog.snapshots.list(table).items}
    on_disk = {
        int(path.name.removeprefix("snapshot-")): json.loads(path.read_text())
        for path in directory.glob("snapshot-*")
    }
    assert listed == on_disk
    latest = catalog.snapshots.latest(table)
    if latest is None:
        assert listed == {}
        return 0
    assert sorted(listed) == list(range(1, latest.snapshot.id + 1))
    assert (directory / "LATEST").read_text() == str(latest.snapshot.id)
    assert (directory / "EARLIEST").read_text() == "1"
    return latest.snapshot.id


@pytest.mark.parametrize(
    ("migrated_url", "which"),
    on_databases(["first", "second"], {"first"}),
    indirect=["migrated_url"],
)
def test_a_commit_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders: Identifier, snapshot: MakeSnapshot, which: str
) -> None:
    earlier = 0 if which == "first" else 1
    base: str | None = None
    with lake.opened() as catalog:
        for number in range(1, earlier + 1):
            made = snapshot(number)
            assert catalog.snapshots.commit(orders, None, made, base, []).decided()
            base = made.uuid
    fates: list[bool] = []
    for step in range(1, MOST_STEPS):
        number = earlier + 1
        offered = snapshot(number)
        killed = lake.dies(step, "commit", offered)
        if step % 2:
            # Somebody opens the warehouse first, and repairs it …
            with lake.opened() as catalog:
                assert lake.open_decisions() == 0
                happened = _check_agreement(catalog, orders) == number
        else:
            # … or the client's retry is the first to come by.
            happened = False
        with lake.opened() as catalog:
            if happened or not killed:
                fates.append(True)
                rival = snapshot(number)
                assert not catalog.snapshots.commit(orders, None, rival, base, []).decided()
            else:
                fates.append(False)
            assert catalog.snapshots.commit(orders, None, offered, base, []).decided()
            assert _check_agreement(catalog, orders) == number
            assert catalog.snapshots.get(orders, str(number)) == offered
            assert lake.open_decisions() == 0
            if not killed:
                break
            if earlier:
                catalog.snapshots.rollback_to_snapshot(orders, earlier)
                assert _check_agreement(catalog, orders) == earlier
            else:
                schema = catalog.tables.get(orders).schema
                catalog.tables.drop(orders)
                catalog.tables.create(orders, schema.to_schema())
    else:
        pytest.fail("the operation has more steps than were tried")
    assert not fates[0]
    assert any(fates)


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_numbered_write_killed_at_any_step_is_repeated_once(
    lake: Lake, orders: Identifier
) -> None:
    outcomes: list[bool] = []
    for number in range(1, 2 * MOST_STEPS):
        killed = lake.dies(number, "write")
        with lake.opened() as catalog:
            table = Table(catalog, catalog.tables.get(orders))
            # The repetition comes first, or another reader does.
            last = table.last_committed("job") if number % 2 else None
            made = write_numbered(catalog, number)
            outcomes.append(made is None)
            if number % 2:
                assert (last == number) == (made is None)
            assert write_numbered(catalog, number) is None
            assert table.last_committed("job") == number
            added = [
                snapshot.commit_identifier
                for snapshot in table.snapshots()
                if snapshot.commit_kind is CommitKind.APPEND
            ]
            assert sorted(added) == list(range(1, number + 1))
            stored = table.scan(columns=["order_id"]).to_arrow()["order_id"].to_pylist()
            assert sorted(stored) == list(range(1, number + 1))
            if not killed:
                break
    else:
        pytest.fail("the operation has more steps than were tried")
    assert not outcomes[0]
    # Killed after the decision, too.
    assert outcomes.count(True) > 1


@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_rollback_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    step = 1
    while True:
        with lake.opened() as catalog:
            latest = catalog.snapshots.latest(orders)
            base = None if latest is None else latest.snapshot.uuid
            for number in range(1 if latest is None else 2, 4):
                made = snapshot(number)
                assert catalog.snapshots.commit(orders, None, made, base, []).decided()
                base = made.uuid
            catalog.tags.create(orders, "late", 3)
        killed = lake.dies(step, "rollback")
        with lake.opened() as catalog:
            assert lake.open_decisions() == 0
            reached = _check_agreement(catalog, orders)
            assert reached in ((1, 3) if killed else (1,))
            assert catalog.tags.list(orders).items == (("late",) if reached == 3 else ())
            if reached == 3:
                catalog.snapshots.rollback_to_snapshot(orders, 1)
        if not killed:
            break
        step += 1
        assert step < MOST_STEPS
    assert step > 5


def test_a_commit_after_a_killed_rollback_is_not_mistaken(
    lake: Lake, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    """The first to come by is a commit that takes a number whose old file is still there."""
    with lake.opened() as catalog:
        kept = snapshot(1)
        assert catalog.snapshots.commit(orders, None, kept, None, []).decided()
        assert catalog.snapshots.commit(orders, None, snapshot(2), kept.uuid, []).decided()
        # The long-lived server's view: opened before the crash, so that nothing is repaired.
        # After the decision.
        assert lake.dies(4, "rollback")
        assert lake.open_decisions() == 1
        following = snapshot(2)
        assert catalog.snapshots.commit(orders, None, following, kept.uuid, []).decided()
        assert catalog.snapshots.get(orders, "LATEST") == following
        assert _check_agreement(catalog, orders) == 2


def _references(catalog: SqlCatalog, table: Identifier) -> tuple[object, ...]:
    """The snapshots, changelogs, tags and consumers, as storage has them."""
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"))
    tags = {name: catalog.tags.get(table, name).snapshot.id for name in _tags(catalog, table)}
    consumers = {
        item.consumer_id: item.next_snapshot for item in catalog.consumers.list(table).items
    }
    changelogs = sorted(path.name for path in directory.glob("changelog/changelog-*"))
    snapshots = [item.id for item in catalog.snapshots.list(table).items]
    return snapshots, changelogs, tags, consumers


def _tags(catalog: SqlCatalog, table: Identifier) -> Sequence[str]:
    return catalog.tags.list(table).items


SNAPSHOTS = [4, 3, 2, 1]
BILLED = {"billing": 3}
AFTERWARDS: dict[str, tuple[object, ...]] = {
    "create a tag": (SNAPSHOTS, [], {"old": 1, "new": 2}, BILLED),
    "rename a tag": (SNAPSHOTS, [], {"new": 1}, BILLED),
    "replace a tag": (SNAPSHOTS, [], {"old": 2}, BILLED),
    "delete a tag": (SNAPSHOTS, [], {}, BILLED),
    "set a consumer": (SNAPSHOTS, [], {"old": 1}, {"billing": 1}),
    "delete snapshots": ([4, 3], ["changelog-2"], {}, BILLED),
}


@pytest.mark.parametrize(
    ("migrated_url", "operation"),
    on_databases(list(AFTERWARDS), {"delete snapshots", "rename a tag"}),
    indirect=["migrated_url"],
)
def test_a_change_of_references_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders: Identifier, snapshot: MakeSnapshot, operation: str
) -> None:
    before: tuple[object, ...] = (SNAPSHOTS, [], {"old": 1}, BILLED)
    outcomes: list[bool] = []
    for step in range(1, MOST_STEPS):
        with lake.opened() as catalog:
            if outcomes:
                schema = catalog.tables.get(orders).schema
                catalog.tables.drop(orders)
                catalog.tables.create(orders, schema.to_schema())
            base: str | None = None
            for number in range(1, 5):
                made = snapshot(number)
                assert catalog.snapshots.commit(orders, None, made, base, []).decided()
                base = made.uuid
            catalog.tags.create(orders, "old", 1)
            catalog.consumers.reset(orders, "billing", 3)
            version = catalog.references.state(orders).version
        killed = lake.dies(step, operation)
        with lake.opened() as catalog:
            assert lake.open_decisions() == 0
            happened = _references(catalog, orders) == AFTERWARDS[operation]
            assert happened or (killed and _references(catalog, orders) == before)
            # What was planned before a change that happened is planned again.
            assert catalog.references.state(orders).version == version + happened
            outcomes.append(happened)
        if not killed:
            break
    else:
        pytest.fail("the operation has more steps than were tried")
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]
    assert len(outcomes) > 3


def test_a_reader_sees_a_decided_commit_only_with_its_file(
    lake: Lake, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    with lake.opened() as catalog:
        offered = snapshot(1)
        assert lake.dies(2, "commit", offered)
        assert lake.open_decisions() == 1
        latest = catalog.snapshots.latest(orders)
        assert latest is not None
        assert latest.snapshot == offered
        assert _check_agreement(catalog, orders) == 1


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_creation_killed_at_any_step_happened_or_did_not(lake: Lake) -> None:
    table = Identifier("sales", "new")
    for step in range(1, MOST_STEPS):
        killed = lake.dies(step, "create")
        with lake.opened() as catalog:
            assert lake.open_decisions() == 0
            names = list(catalog.tables.list("sales").items)
            if table.name in names:
                info = catalog.tables.get(table)
                file = Path(info.path.removeprefix("file://"), "schema", "schema-0")
                assert TableSchema.from_json(file.read_text()) == info.schema
                catalog.tables.drop(table)
            else:
                assert killed
                assert names == ["orders"]
        if not killed:
            return
    pytest.fail("the operation has more steps than were tried")


@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_an_alteration_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders: Identifier
) -> None:
    for step in range(1, MOST_STEPS):
        with lake.opened() as catalog:
            before = catalog.tables.get(orders).schema.id
        killed = lake.dies(step, "alter")
        with lake.opened() as catalog:
            assert lake.open_decisions() == 0
            info = catalog.tables.get(orders)
            assert info.schema.id in ((before, before + 1) if killed else (before + 1,))
            files = Path(info.path.removeprefix("file://"), "schema")
            assert sorted(path.name for path in files.iterdir()) == [
                f"schema-{number}" for number in range(info.schema.id + 1)
            ]
            on_disk = (files / f"schema-{info.schema.id}").read_text()
            assert TableSchema.from_json(on_disk) == info.schema
        if not killed:
            return
    pytest.fail("the operation has more steps than were tried")


# Its file decides, on whatever database.
@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", ["sqlite"], indirect=True)
def test_an_alteration_of_an_external_table_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders_schema: Schema, tmp_path: Path
) -> None:
    outside = Identifier("sales", "outside")
    files = tmp_path / "elsewhere" / "schema"
    options = {**orders_schema.options, "path": str(files.parent)}
    with lake.opened() as catalog:
        catalog.tables.create(outside, replace(orders_schema, options=options))
    fates: set[bool] = set()
    for step in range(1, MOST_STEPS):
        with lake.opened() as catalog:
            before = catalog.tables.get(outside).schema
        texts = {path.name: path.read_text() for path in files.iterdir()}
        killed = lake.dies(step, "alter-external")
        with lake.opened() as catalog:
            assert lake.open_decisions() == 0
            info = catalog.tables.get(outside)
            happened = info.schema.id > before.id
            assert happened or killed
            fates.add(happened)
            # As if the answer was lost: who sees that it did not happen repeats it.
            column = f"c{step}"
            if not happened:
                catalog.tables.alter(outside, [AddColumn((column,), AtomicType(Root.INT))])
                info = catalog.tables.get(outside)
            assert info.schema.id == before.id + 1
            names = [field.name for field in info.schema.fields]
            assert names == [*(field.name for field in before.fields), column]
            assert catalog.tables.list_details("sales", pattern="outside").items == (info,)
        after = {p.name: p.read_text() for p in files.iterdir() if p.name.startswith("schema-")}
        assert after == {**texts, f"schema-{info.schema.id}": info.schema.to_json()}
        if not killed:
            assert fates == {True, False}
            return
    pytest.fail("the operation has more steps than were tried")


@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_drop_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders: Identifier, orders_schema: Schema
) -> None:
    outside = [lake.location.parent / name for name in ("outside", "index")]
    named = {
        "data-file.external-paths": f"file://{outside[0]}",
        "global-index.external-path": f"file://{outside[1]}",
    }
    for step in range(1, MOST_STEPS):
        with lake.opened() as catalog:
            directory = Path(catalog.tables.get(orders).path.removeprefix("file://"))
            # All of it is done at once, and places that were claimed are passed over.
            catalog.tables.alter(orders, [SetOption(*each) for each in named.items()])
        for place in outside:
            (place / "bucket-0").mkdir(parents=True, exist_ok=True)
            (place / "bucket-0" / "data").write_bytes(b"x")
        killed = lake.dies(step, "drop")
        with lake.opened() as catalog:
            assert lake.open_decisions() == 0
            try:
                catalog.tables.get(orders)
            except NotFound:
                assert [place.exists() for place in (directory, *outside)] == [False] * 3
                catalog.tables.create(orders, orders_schema)
            else:
                assert killed
                assert directory.exists()
                assert all((place / "bucket-0" / "data").exists() for place in outside)
        if not killed:
            return
    pytest.fail("the operation has more steps than were tried")


@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_replacement_killed_at_any_step_happened_or_did_not(
    lake: Lake, orders: Identifier
) -> None:
    fates: list[bool] = []
    # There are many steps, and each starts a process: where all tests run, one database takes all.
    stride = 4 if lake.url.startswith("postgresql") else 1
    for step in range(1, MOST_STEPS, stride):
        with lake.opened() as catalog:
            before = catalog.tables.get(orders)
            table = Table(catalog, before)
            names = [field.name for field in before.schema.fields]
            row = {"order_id": [step], "dt": ["a"], "amount": [1], "extra": [1]}
            table.write(pa.table({name: row[name] for name in names}))
            held = table.scan().to_arrow().num_rows
            number = _check_agreement(catalog, orders)
        killed = lake.dies(step, "replace")
        with lake.opened() as catalog:
            after = catalog.tables.get(orders)
            happened = after.schema.id > before.schema.id
            # Never the one without the other: no data under the old schema, none under the new.
            assert Table(catalog, after).scan().to_arrow().num_rows == (0 if happened else held)
            assert _check_agreement(catalog, orders) == number + happened
            assert (after.schema.id, after.id) == (before.schema.id + happened, before.id)
            on_disk = Path(
                after.path.removeprefix("file://"), "schema", f"schema-{after.schema.id}"
            )
            assert TableSchema.from_json(on_disk.read_text()) == after.schema
            assert lake.open_decisions() == 0
        fates.append(happened)
        if not killed:
            break
    assert fates[0] is False
    assert fates[-1] is True
    assert sorted(fates) == fates
