"""Operations on branches and schemas that die at any step, or meet each other: the truth is found.

What dies here is a catalog in this process: at each step before and after a change of a file, and
before each commit of the database, everything is dropped on the floor.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from tests.catalog.databases import POSTGRESQL_IN_MODES, on_databases
from tests.catalog.saved_state import SavedState
from tests.dying_files import Killed, SteppedFiles

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import database_url as with_driver
from headwater.storage.errors import AlreadyExists, Conflict, NotFound
from headwater.storage.files.access import FileAccess, FileStatus
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot

MakeSnapshot = Callable[..., Snapshot]
MOST_STEPS = 120
MEETINGS = 25

# Of each branch: its snapshots' uuids, its schemas, its tags.
Truth: TypeAlias = dict[str, tuple[list[str | None], list[str], list[str]]]


class Steps:
    """Counts the steps that a death can fall between, and dies at the chosen one."""

    def __init__(self, die_at: int | None = None) -> None:
        self.die_at = die_at
        self.taken = 0

    def step(self, _: Connection | None = None) -> None:
        if self.die_at is not None:
            self.taken += 1
            if self.taken >= self.die_at:
                raise Killed


class DyingFiles(SteppedFiles):
    """The local disk, on which the removal of a folder can be cut off, too."""

    def delete_tree(self, directory: str) -> None:
        # As a death in the middle leaves it: one file less.
        for status in self.walk(directory):
            self.delete(status.path)
        super().delete_tree(directory)


class MeddledFiles(LocalFileAccess):
    """The local disk, where somebody does something just before it is looked at.

    Args:
        moment: Before what: ``list``, ``walk`` or ``read``.
    """

    def __init__(self, moment: str) -> None:
        self._moment = moment
        self.meddle: Callable[[], object] | None = None

    def _looked_at(self, moment: str) -> None:
        if moment == self._moment and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            meddle()

    def list(self, directory: str) -> list[FileStatus]:
        self._looked_at("list")
        return super().list(directory)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        self._looked_at("walk")
        return super().walk(directory, unfinished=unfinished)

    def read(self, path: str) -> bytes:
        self._looked_at("read")
        return super().read(path)


class OvertakenFiles(LocalFileAccess):
    """The local disk, where somebody does something just after a tag was read."""

    def __init__(self) -> None:
        self.overtake: Callable[[], object] | None = None

    def read(self, path: str) -> bytes:
        data = super().read(path)
        if "/tag/" in path and self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            overtake()
        return data


class Place:
    """A warehouse, opened by one process after another."""

    def __init__(self, url: str, location: Path) -> None:
        self.url = url
        self.location = location
        self._engine = create_engine(with_driver(url))

    def open(self, files: FileAccess | None = None) -> SqlCatalog:
        return SqlCatalog.open(self.url, warehouse="main", location=str(self.location), files=files)

    def dies(self, step: int, operation: Callable[[SqlCatalog], None]) -> bool:
        """Whether the operation died; False when it has fewer steps and ended well."""
        steps = Steps()
        catalog = self.open(DyingFiles(steps.step))
        event.listen(Engine, "commit", steps.step)
        steps.die_at = step
        try:
            operation(catalog)
        except Killed:
            return True
        finally:
            event.remove(Engine, "commit", steps.step)
            steps.die_at = None
            catalog.close()
        return False

    def saved(self) -> SavedState:
        """What it holds now."""
        room = self.location.with_name(f"{self.location.name}-saved")
        return SavedState(self._engine, self.location, room)

    def close(self) -> None:
        self._engine.dispose()

    def open_decisions(self) -> int:
        with self._engine.connect() as connection:
            count = connection.execute(text("SELECT COUNT(*) FROM hw_outbox")).scalar_one()
        return int(count)


@pytest.fixture
def place(migrated_url: str, tmp_path: Path) -> Iterator[Place]:
    with closing(Place(migrated_url, tmp_path / "lake")) as made:
        yield made


def _told(catalog: SqlCatalog, table: Identifier) -> Truth:
    """What the catalog says, after it is compared with what storage has."""
    info = catalog.tables.get(table)
    root = Path(info.path.removeprefix("file://"))
    found: Truth = {}
    names = ["main", *catalog.branches.list(table)]
    for branch in names:
        name = branch_of(table, branch)
        directory = root if branch == "main" else root / "branch" / f"branch-{branch}"
        listed = {item.id: item.document for item in catalog.snapshots.list(name).items}
        on_disk = {
            int(path.name.removeprefix("snapshot-")): json.loads(path.read_text())
            for path in directory.glob("snapshot/snapshot-*")
        }
        assert listed == on_disk
        if listed:
            assert (directory / "snapshot" / "LATEST").read_text() == str(max(listed))
            assert (directory / "snapshot" / "EARLIEST").read_text() == str(min(listed))
        schemas = sorted(path.name for path in directory.glob("schema/*"))
        latest = catalog.tables.get(name).schema
        assert len(schemas) == latest.id + 1
        assert json.loads((directory / "schema" / schemas[-1]).read_text()) == json.loads(
            latest.to_json()
        )
        uuids = [str(listed[number]["uuid"]) for number in sorted(listed)]
        found[branch] = (list(uuids), schemas, list(catalog.tags.list(name).items))
    # Asking about the branches has settled what was open about them.
    there = {path.name.removeprefix("branch-") for path in root.glob("branch/*")}
    assert there == set(names) - {"main"}
    return found


def _prepare(
    catalog: SqlCatalog, table: Identifier, schema: Schema, snapshot: MakeSnapshot
) -> None:
    """A table with three snapshots, and a branch ``b`` that left it after the first."""
    catalog.tables.create(table, schema)
    base: str | None = None
    for number in (1, 2, 3):
        made = snapshot(number)
        assert catalog.snapshots.commit(table, None, made, base, []).decided()
        if number == 1:
            catalog.tags.create(table, "v1")
            catalog.branches.create(table, "b", from_tag="v1")
        base = made.uuid
    catalog.tags.create(table, "v3")
    catalog.tables.alter(table, [SetOption("write-only", "true")])
    b = branch_of(table, "b")
    catalog.tables.alter(b, [SetOption("manifest.format", "avro")])
    latest = catalog.snapshots.latest(b)
    assert latest is not None
    made = snapshot(2, schemaId=1)
    assert catalog.snapshots.commit(b, None, made, latest.snapshot.uuid, []).decided()
    catalog.tags.create(b, "v2")


TABLE = Identifier("sales", "orders")
OPERATIONS: dict[str, Callable[[SqlCatalog], None]] = {
    "create": lambda catalog: catalog.branches.create(TABLE, "c", from_tag="v1"),
    "create_empty": lambda catalog: catalog.branches.create(TABLE, "c"),
    "rename": lambda catalog: catalog.branches.rename(TABLE, "b", "c"),
    "forward": lambda catalog: catalog.branches.fast_forward(TABLE, "b"),
    "drop": lambda catalog: catalog.branches.drop(TABLE, "b"),
    "schema": lambda catalog: catalog.snapshots.rollback_schema(TABLE, 0),
}


@pytest.mark.parametrize(
    ("migrated_url", "operation"),
    on_databases(OPERATIONS, {"create"}),
    indirect=["migrated_url"],
)
def test_an_operation_killed_at_any_step_happened_or_did_not(
    place: Place, orders_schema: Schema, snapshot: MakeSnapshot, operation: str
) -> None:
    with_one = place.open()
    with_one.databases.create("sales")
    _prepare(with_one, TABLE, orders_schema, snapshot)
    before = _told(with_one, TABLE)
    fates: list[bool] = []
    prepared = place.saved()
    for step in range(1, MOST_STEPS):
        prepared.restore()
        killed = place.dies(step, OPERATIONS[operation])
        # Either somebody repairs the warehouse first, or whoever asks finds what is open.
        if step % 2:
            place.open().close()
            assert place.open_decisions() == 0
        after = _told(with_one, TABLE)
        happened = after != before
        assert killed or happened
        fates.append(happened)
        if not happened:
            OPERATIONS[operation](with_one)
            after = _told(with_one, TABLE)
        assert after == _expected(operation, before)
        # The names that were in use are as good as new.
        for name in set(with_one.branches.list(TABLE)):
            with_one.branches.drop(TABLE, name)
        for name in ("b", "c"):
            with_one.branches.create(TABLE, name)
        assert sorted(_told(with_one, TABLE)) == ["b", "c", "main"]
        assert place.open_decisions() == 0
        with_one.tables.drop(TABLE)
        if not killed:
            break
    else:
        pytest.fail("the operation has more steps than were tried")
    with_one.close()
    assert not fates[0]
    assert len(fates) > 4
    assert fates == sorted(fates)


def _expected(operation: str, before: Truth) -> Truth:
    main, b = before["main"], before["b"]
    match operation:
        case "create":
            return {**before, "c": (main[0][:1], main[1][:1], ["v1"])}
        case "create_empty":
            return {**before, "c": ([], main[1], [])}
        case "rename":
            return {"main": main, "c": b}
        case "forward":
            return {**before, "main": b}
        case "drop":
            return {"main": main}
        case _:
            return {**before, "main": (main[0], main[1][:1], main[2])}


def _drop_and_begin(catalog: SqlCatalog) -> None:
    """Drop the branch under whichever name it has, then begin one of each name."""
    for name in set(catalog.branches.list(TABLE)) & {"b", "c"}:
        catalog.branches.drop(TABLE, name)
    for name in ("b", "c"):
        catalog.branches.create(TABLE, name)


@pytest.mark.parametrize(
    ("migrated_url", "operation"),
    on_databases(["rename", "forward", "drop"], ()),
    indirect=["migrated_url"],
)
def test_what_comes_next_may_not_look_first(
    place: Place, orders_schema: Schema, snapshot: MakeSnapshot, operation: str
) -> None:
    """The first to come by after a death changes the very branch, and nobody has read it."""
    long_lived = place.open()
    long_lived.databases.create("sales")
    _prepare(long_lived, TABLE, orders_schema, snapshot)
    before = _told(long_lived, TABLE)
    left_open = 0
    prepared = place.saved()
    for step in range(1, MOST_STEPS):
        prepared.restore()
        killed = place.dies(step, OPERATIONS[operation])
        left_open += place.open_decisions() > 0
        _drop_and_begin(long_lived)
        after = _told(long_lived, TABLE)
        main = after["main"]
        assert main == before["main"] or (operation == "forward" and main == before["b"])
        assert after["b"] == after["c"] == ([], main[1], [])
        assert place.open_decisions() == 0
        if not killed:
            break
    long_lived.close()
    assert left_open > 2


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_history_that_changes_while_it_is_listed(
    place: Place, orders_schema: Schema, snapshot: MakeSnapshot
) -> None:
    files = MeddledFiles("list")
    reader, writer = place.open(files), place.open()
    writer.databases.create("sales")
    _prepare(writer, TABLE, orders_schema, snapshot)
    files.meddle = lambda: writer.snapshots.rollback_to_snapshot(TABLE, 2)
    assert [item.id for item in reader.snapshots.list(TABLE).items] == [2, 1]
    files.meddle = lambda: writer.branches.fast_forward(TABLE, "b")
    assert reader.snapshots.get(TABLE, "EARLIEST").id == 1
    files.meddle = lambda: writer.branches.drop(TABLE, "b")
    with pytest.raises(NotFound):
        reader.snapshots.list(branch_of(TABLE, "b"))
    reader.close()
    writer.close()


@pytest.mark.parametrize(
    ("migrated_url", "way_out"),
    on_databases(["drop", "rename"], {"drop"}),
    indirect=["migrated_url"],
)
@pytest.mark.parametrize("moment", ["walk", pytest.param("read", marks=pytest.mark.modes)])
def test_a_branch_that_comes_and_dies_while_its_name_is_looked_at(
    place: Place, orders_schema: Schema, snapshot: MakeSnapshot, way_out: str, moment: str
) -> None:
    leave: Callable[[SqlCatalog], None] = {
        "drop": lambda catalog: catalog.branches.drop(TABLE, "c"),
        "rename": lambda catalog: catalog.branches.rename(TABLE, "c", "d"),
    }[way_out]
    long_lived = place.open()
    long_lived.databases.create("sales")
    _prepare(long_lived, TABLE, orders_schema, snapshot)
    left_open = 0
    prepared = place.saved()
    for step in range(1, MOST_STEPS):
        prepared.restore()
        files = MeddledFiles(moment)
        late = place.open(files)
        died: list[bool] = []

        def come_and_go(step: int = step, died: list[bool] = died) -> None:
            long_lived.branches.create(TABLE, "c")
            died.append(place.dies(step, leave))

        files.meddle = come_and_go
        try:
            late.branches.create(TABLE, "c", from_tag="v1")
        except AlreadyExists:
            # It died before it was decided on.
            assert died == [True]
            assert "c" in late.branches.list(TABLE)
        else:
            left_open += died == [True]
            assert len(_told(long_lived, TABLE)["c"][0]) == 1
        _told(late, TABLE)
        late.close()
        if died == [False]:
            break
    long_lived.close()
    assert left_open > 1


def test_a_tag_whose_snapshot_goes_away_just_after_it_was_read(
    place: Place, orders_schema: Schema, snapshot: MakeSnapshot
) -> None:
    files = OvertakenFiles()
    reader, writer = place.open(files), place.open()
    writer.databases.create("sales")
    _prepare(writer, TABLE, orders_schema, snapshot)
    files.overtake = lambda: writer.snapshots.rollback_to_snapshot(TABLE, 2)
    with pytest.raises(Conflict, match="changed meanwhile"):
        reader.snapshots.rollback_to_tag(TABLE, "v3")
    assert [item.id for item in reader.snapshots.list(TABLE).items] == [2, 1]
    writer.branches.create(TABLE, "other")
    other = branch_of(TABLE, "other")
    writer.snapshots.commit(other, None, snapshot(1), None, []).decided()
    files.overtake = lambda: writer.branches.fast_forward(TABLE, "other")
    with pytest.raises(NotFound, match="no tag 'v1'"):
        reader.branches.create(TABLE, "c", from_tag="v1")
    assert sorted(_told(reader, TABLE)) == ["b", "main", "other"]
    reader.close()
    writer.close()


def _commit_once(catalog: SqlCatalog, name: Identifier, snapshot: MakeSnapshot) -> None:
    latest = catalog.snapshots.latest(name)
    base = None if latest is None else latest.snapshot
    made = snapshot(1 if base is None else base.id + 1)
    catalog.snapshots.commit(name, None, made, None if base is None else base.uuid, []).decided()


def _new_option(chance: Random) -> SetOption:
    return SetOption("snapshot.num-retained.max", str(chance.randrange(10, 1_000_000)))


def _meet(catalog: SqlCatalog, snapshot: MakeSnapshot, seed: int) -> Counter[str]:
    """Do one thing after another to the same few names; what came of it, by kind."""
    chance = Random(seed)
    results: Counter[str] = Counter()
    for _ in range(MEETINGS):
        branch, other = chance.sample(["a", "b"], 2)
        name = branch_of(TABLE, branch)
        actions: list[Callable[[], object]] = [
            partial(catalog.branches.create, TABLE, branch),
            partial(catalog.branches.create, TABLE, branch, from_tag="v1"),
            partial(catalog.branches.rename, TABLE, branch, other),
            partial(catalog.branches.fast_forward, TABLE, branch),
            partial(catalog.branches.drop, TABLE, branch),
            partial(catalog.snapshots.rollback_to_tag, TABLE, "v1"),
            partial(catalog.snapshots.rollback_schema, name, 0),
            partial(catalog.tables.alter, name, [_new_option(chance)]),
            partial(catalog.snapshots.list, TABLE),
            partial(_commit_once, catalog, TABLE, snapshot),
            *[partial(catalog.snapshots.list, name)] * 2,
            *[partial(_commit_once, catalog, name, snapshot)] * 4,
        ]
        try:
            chance.choice(actions)()
            results["done"] += 1
        except (AlreadyExists, Conflict, NotFound) as error:
            # Somebody else was there first. Nothing else may come of it.
            results[type(error).__name__] += 1
    return results


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_operations_that_meet_leave_one_truth(
    place: Place, orders_schema: Schema, snapshot: MakeSnapshot
) -> None:
    replicas = [place.open(), place.open()]
    replicas[0].databases.create("sales")
    replicas[0].tables.create(TABLE, orders_schema)
    _commit_once(replicas[0], TABLE, snapshot)
    replicas[0].tags.create(TABLE, "v1")
    with ThreadPoolExecutor(6) as pool:
        running = [
            pool.submit(_meet, replicas[number % 2], snapshot, number) for number in range(6)
        ]
        results = sum((one.result() for one in running), Counter[str]())
    assert results["done"] > 0
    _told(replicas[1], TABLE)
    assert place.open_decisions() == 0
    for replica in replicas:
        replica.close()
