"""Another engine commits to a table's path, around the catalog: it is seen, nothing is stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.errors import Conflict, NotFound, OutcomeUnknown
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import Fate

MakeSnapshot = Callable[..., Snapshot]


class RacedFiles(LocalFileAccess):
    """The local disk, on which somebody else is a moment faster with one file."""

    def __init__(self) -> None:
        self.first: tuple[str, bytes] | None = None

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if self.first is not None and path.endswith(self.first[0]):
            assert super().write_if_absent(path, self.first[1])
            self.first = None
        return super().write_if_absent(path, data)


@pytest.fixture
def files() -> RacedFiles:
    return RacedFiles()


@pytest.fixture
def catalog(
    tmp_path: Path, files: RacedFiles, orders: Identifier, orders_schema: Schema
) -> Iterator[SqlCatalog]:
    url = f"sqlite:///{tmp_path}/headwater.db"
    location = str(tmp_path / "lake")
    opened = SqlCatalog.open(url, warehouse="main", location=location, create=True, files=files)
    with closing(opened):
        opened.databases.create(orders.database)
        opened.tables.create(orders, orders_schema)
        yield opened


def _file(catalog: SqlCatalog, table: Identifier, number: int) -> Path:
    location = catalog.tables.get(table).path.removeprefix("file://")
    return Path(location, "snapshot", f"snapshot-{number}")


def _commit(catalog: SqlCatalog, table: Identifier, made: Snapshot, base: Snapshot | None) -> bool:
    uuid = None if base is None else base.uuid
    return catalog.snapshots.commit(table, None, made, uuid, []).decided()


def test_a_foreign_snapshot_is_seen_before_the_commit_is_decided(
    catalog: SqlCatalog, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    first, second, foreign = snapshot(1), snapshot(2), snapshot(2, commitUser="by path")
    assert _commit(catalog, orders, first, None)
    path = _file(catalog, orders, 2)
    path.write_text(foreign.to_json())
    for _ in range(2):
        with pytest.raises(Conflict, match=r"snapshot-2 .* something else wrote it.*move it away"):
            _commit(catalog, orders, second, first)
    latest = catalog.snapshots.latest(orders)
    assert latest is not None
    assert latest.snapshot == first
    assert catalog.snapshots.was_taken(orders, second) is None
    assert catalog.operation.backlog().decisions == 0
    assert path.read_text() == foreign.to_json()
    catalog.tables.alter(orders, [SetOption("write-only", "true")])
    path.rename(path.with_name("elsewhere"))
    assert _commit(catalog, orders, second, first)


def test_a_foreign_snapshot_of_one_table_keeps_no_other_from_committing(
    catalog: SqlCatalog, orders: Identifier, orders_schema: Schema, snapshot: MakeSnapshot
) -> None:
    calm = Identifier("sales", "calm")
    catalog.tables.create(calm, orders_schema)
    path = _file(catalog, orders, 1)
    path.parent.mkdir(exist_ok=True)
    path.write_text("not even a snapshot")
    with pytest.raises(Conflict):
        _commit(catalog, orders, snapshot(1), None)
    assert _commit(catalog, calm, snapshot(1), None)


def test_a_file_that_is_the_commits_own_is_in_nobodys_way(
    catalog: SqlCatalog, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    """As after a restored backup of the database."""
    first = snapshot(1)
    path = _file(catalog, orders, 1)
    path.parent.mkdir(exist_ok=True)
    path.write_text(first.to_json())
    assert _commit(catalog, orders, first, None)


def test_a_foreign_snapshot_that_wins_the_race_leaves_the_last_good_one_served(
    catalog: SqlCatalog, files: RacedFiles, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    first, second, foreign = snapshot(1), snapshot(2), snapshot(2, commitUser="by path")
    assert _commit(catalog, orders, first, None)
    catalog.tags.create(orders, "good", 1)
    files.first = ("snapshot-2", foreign.to_json().encode())
    answer = catalog.snapshots.commit(orders, None, second, first.uuid, [])
    assert answer.fate is Fate.UNKNOWN
    with pytest.raises(OutcomeUnknown, match="snapshot-2 is not the file"):
        answer.decided()
    # Whoever reads goes on with the snapshot before.
    latest = catalog.snapshots.latest(orders)
    assert latest is not None
    assert latest.snapshot == first
    assert list(catalog.snapshots.list(orders).items) == [first]
    assert catalog.snapshots.get(orders, "LATEST") == first
    with pytest.raises(NotFound):
        catalog.snapshots.get(orders, "2")
    assert catalog.tables.get(orders).schema.id == 0
    assert list(catalog.tags.list(orders).items) == ["good"]
    assert list(catalog.consumers.list(orders).items) == []
    # Whoever changes the table is told what is wrong.
    with pytest.raises(Conflict, match="snapshot-2"):
        _commit(catalog, orders, snapshot(2), first)
    with pytest.raises(Conflict, match="snapshot-2"):
        _commit(catalog, orders, snapshot(3), second)
    with pytest.raises(Conflict, match="snapshot-2"):
        catalog.tables.alter(orders, [SetOption("write-only", "true")])
    with pytest.raises(Conflict, match="snapshot-2"):
        catalog.snapshots.rollback_to_snapshot(orders, 1)
    (failure,) = catalog.operation.sweep().repaired.failures
    assert "snapshot-2" in failure
    # The file is left for somebody to look at; without it the decision comes true.
    path = _file(catalog, orders, 2)
    assert path.read_text() == foreign.to_json()
    path.rename(path.with_name("elsewhere"))
    assert catalog.operation.sweep().repaired.settled == 1
    assert _commit(catalog, orders, second, first)
    latest = catalog.snapshots.latest(orders)
    assert latest is not None
    assert latest.snapshot == second


def test_a_first_snapshot_that_loses_the_race_leaves_an_empty_table(
    catalog: SqlCatalog, files: RacedFiles, orders: Identifier, snapshot: MakeSnapshot
) -> None:
    files.first = ("snapshot-1", b"{}")
    answer = catalog.snapshots.commit(orders, None, snapshot(1), None, [])
    assert answer.fate is Fate.UNKNOWN
    assert catalog.snapshots.latest(orders) is None
    catalog.tables.drop(orders)
    assert list(catalog.tables.list("sales").items) == []
