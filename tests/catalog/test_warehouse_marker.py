"""The file by which a warehouse is known: where it is missing, or another's, nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import delete, select
from tests.catalog.conftest import Clock
from tests.conftest import NewSqlite

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.models import WarehouseMarkerRow
from headwater.catalog.sql.outbox.warehouse_marker import KEPT_SECONDS
from headwater.storage.errors import HeadwaterError, NotFound, OutcomeUnknown, Unavailable
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot

ORDERS, MORE = Identifier("sales", "orders"), Identifier("sales", "more")
SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))

Open = Callable[..., SqlCatalog]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def opening(tmp_path: Path, new_sqlite: NewSqlite, clock: Clock) -> Iterator[Open]:
    """Opens warehouses on one database."""
    url, opened = new_sqlite(tmp_path / "headwater.db"), list[SqlCatalog]()

    def open_at(location: Path, warehouse: str = "main") -> SqlCatalog:
        opened.append(
            SqlCatalog.open(url, warehouse=warehouse, location=str(location), runtime=clock.runtime)
        )
        return opened[-1]

    yield open_at
    for each in opened:
        each.close()


@pytest.fixture
def catalog(opening: Open, lake: Path) -> SqlCatalog:
    """A warehouse with a table of one snapshot."""
    catalog = opening(lake)
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, SCHEMA)
    _commit(catalog, 1)
    return catalog


def _commit(catalog: SqlCatalog, number: int) -> bool:
    document = {
        "version": 3,
        "uuid": f"uuid-{number}",
        "id": number,
        "schemaId": 0,
        "baseManifestList": f"manifest-list-{number}-0",
        "deltaManifestList": f"manifest-list-{number}-1",
        "commitUser": "a-user",
        "commitIdentifier": number,
        "commitKind": "APPEND",
        "timeMillis": 1_700_000_000_000 + number,
    }
    base = f"uuid-{number - 1}" if number > 1 else None
    snapshot = Snapshot.from_json(json.dumps(document).encode(), "a snapshot")
    return catalog.snapshots.commit(ORDERS, None, snapshot, base, []).decided()


def _id(lake: Path) -> object:
    return json.loads((lake / WAREHOUSE_MARKER).read_text())["id"]


def _known(catalog: SqlCatalog) -> list[tuple[str, str]]:
    with catalog.operation.database.read() as connection:
        rows = connection.execute(select(WarehouseMarkerRow.warehouse, WarehouseMarkerRow.id))
        return [(row.warehouse, row.id) for row in rows]


def _refused(catalog: SqlCatalog, number: int, kind: type[HeadwaterError] = Unavailable) -> None:
    """Every write is refused, and decides nothing."""
    writes: list[Callable[[], object]] = [
        lambda: _commit(catalog, number),
        lambda: catalog.tables.create(MORE, SCHEMA),
        lambda: catalog.tables.drop(ORDERS),
        lambda: catalog.branches.create(ORDERS, "b"),
    ]
    for write in writes:
        with pytest.raises(kind, match="nothing is written") as refused:
            write()
        assert not isinstance(refused.value, OutcomeUnknown)
    latest = catalog.snapshots.latest(ORDERS)
    assert latest is not None
    assert latest.snapshot.id == number - 1
    assert catalog.operation.backlog().decisions == 0
    with pytest.raises(NotFound):
        catalog.tables.get(MORE)


def test_a_warehouse_gets_one_when_it_is_first_used(opening: Open, lake: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(opening, [lake] * 4))
    assert _known(opened[0]) == [("main", _id(lake))]
    assert _known(opening(lake)) == [("main", _id(lake))]


@pytest.mark.parametrize("wrong_by", [0, -50], ids=["right", "set back"])
def test_nothing_is_written_beneath_a_disk_that_is_not_mounted(
    catalog: SqlCatalog, opening: Open, lake: Path, clock: Clock, wrong_by: int
) -> None:
    _commit(catalog, 2)
    lake.rename(lake.with_name("disk"))
    lake.mkdir()
    clock.turn(seconds=KEPT_SECONDS)
    # By so little that it is borne.
    clock.set_wrong(seconds=wrong_by)
    _refused(catalog, 3)
    # Nor by a server that is started meanwhile.
    _refused(opening(lake), 3)
    assert list(lake.iterdir()) == []
    lake.rmdir()
    lake.with_name("disk").rename(lake)
    clock.turn(seconds=KEPT_SECONDS)
    assert _commit(catalog, 3)


def test_nor_before_that_is_noticed(catalog: SqlCatalog, lake: Path, clock: Clock) -> None:
    lake.rename(lake.with_name("disk"))
    lake.mkdir()
    with pytest.raises(Unavailable, match="nothing is written"):
        catalog.tables.create(MORE, SCHEMA)
    assert list(lake.iterdir()) == []
    lake.rmdir()
    lake.with_name("disk").rename(lake)
    clock.turn(seconds=KEPT_SECONDS)
    catalog.operation.sweep()
    assert catalog.operation.backlog().decisions == 0
    catalog.tables.create(MORE, SCHEMA, ignore_if_exists=True)
    assert len(list(lake.glob("sales.db/more*/schema/schema-0"))) == 1


def test_nothing_is_written_where_another_warehouse_is(
    catalog: SqlCatalog, opening: Open, lake: Path, clock: Clock, tmp_path: Path
) -> None:
    other = opening(tmp_path / "other", "other")
    other.databases.create("sales")
    other.tables.create(MORE, SCHEMA)
    _commit(catalog, 2)
    lake.rename(tmp_path / "disk")
    (tmp_path / "other").rename(lake)
    before = sorted(lake.rglob("*"))
    clock.turn(seconds=KEPT_SECONDS)
    _refused(catalog, 3)
    with pytest.raises(Unavailable, match="is not the marker of warehouse 'main'"):
        catalog.reconciler.reconcile(apply=True)
    assert sorted(lake.rglob("*")) == before


def test_one_that_an_older_version_made_gets_its_marker(
    catalog: SqlCatalog, opening: Open, lake: Path
) -> None:
    with catalog.operation.database.engine.begin() as connection:
        connection.execute(delete(WarehouseMarkerRow))
    (lake / WAREHOUSE_MARKER).unlink()
    # Unless its disk is not mounted.
    lake.rename(lake.with_name("disk"))
    lake.mkdir()
    _refused(opening(lake), 2)
    assert (list(lake.iterdir()), _known(catalog)) == ([], [])
    lake.rmdir()
    lake.with_name("disk").rename(lake)
    again = opening(lake)
    assert _known(again) == [("main", _id(lake))]
    assert _commit(again, 2)


def test_reconciling_gives_it_one_again(catalog: SqlCatalog, lake: Path, clock: Clock) -> None:
    before = _id(lake)
    (lake / WAREHOUSE_MARKER).unlink()
    clock.turn(seconds=KEPT_SECONDS)
    catalog.reconciler.reconcile()
    _refused(catalog, 2)
    catalog.reconciler.reconcile(apply=True)
    assert _id(lake) == before
    assert _commit(catalog, 2)


@pytest.mark.parametrize("content", ["", "{}", '{"id": 7}', "[]", json.dumps({"id": "x" * 37})])
def test_what_is_no_marker_is_another_ones(
    catalog: SqlCatalog, lake: Path, clock: Clock, content: str
) -> None:
    (lake / WAREHOUSE_MARKER).write_text(content)
    clock.turn(seconds=KEPT_SECONDS)
    _refused(catalog, 2)
    assert (lake / WAREHOUSE_MARKER).read_text() == content


def test_a_copy_beside_the_original_has_to_be_meant(
    catalog: SqlCatalog, opening: Open, lake: Path, tmp_path: Path, clock: Clock
) -> None:
    shutil.copytree(lake, tmp_path / "copy")
    copy = opening(tmp_path / "copy", "copy")
    copy.databases.create("sales")
    with pytest.raises(Unavailable, match="is the marker of warehouse 'main'"):
        copy.tables.create(MORE, SCHEMA)
    (tmp_path / "copy" / WAREHOUSE_MARKER).unlink()
    clock.turn(seconds=KEPT_SECONDS)
    copy.tables.create(MORE, SCHEMA)
    assert dict(_known(catalog)) == {"main": _id(lake), "copy": _id(tmp_path / "copy")}
    assert _commit(catalog, 2)


def test_an_empty_warehouse_may_be_anywhere_and_have_any_name(
    opening: Open, lake: Path, tmp_path: Path, clock: Clock
) -> None:
    opening(lake)
    first = _id(lake)
    renamed = opening(lake, "renamed")
    assert (_known(renamed), _id(lake)) == ([("renamed", first)], first)
    shutil.rmtree(lake)
    clock.turn(seconds=KEPT_SECONDS)
    renamed.databases.create("sales")
    renamed.tables.create(ORDERS, SCHEMA)
    assert _known(renamed) == [("renamed", _id(lake))]
    moved = opening(tmp_path / "elsewhere", "other")
    assert _id(tmp_path / "elsewhere") != first
    assert len(_known(moved)) == 2


def test_storage_that_does_not_answer_is_not_said_to_be_missing(
    catalog: SqlCatalog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: LocalFileAccess, path: str) -> bytes:
        raise Unavailable(f"{path}: it does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(LocalFileAccess, "read", fail)
        clock.turn(seconds=KEPT_SECONDS)
        assert _commit(catalog, 2)
        catalog.operation.check_storage()
    assert _commit(catalog, 3)
