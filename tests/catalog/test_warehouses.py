"""Warehouses in the catalog's database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.open_database import opened_database
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.table_schema import Schema

SECRETS = {"s3.secret-key": "hunter2", "s3.access-key": "AKIA1", "s3.endpoint": "http://minio:9000"}


@pytest.fixture
def runtime() -> Runtime:
    """A clock that stands still."""
    return Runtime(lambda: 1000, SYSTEM_RUNTIME.new_uuid, lambda seconds: None)


@pytest.fixture
def database(migrated_url: str, runtime: Runtime) -> Iterator[SqlDatabase]:
    with opened_database(migrated_url, runtime) as opened:
        yield opened


@pytest.fixture
def warehouses(database: SqlDatabase, runtime: Runtime) -> Warehouses:
    return Warehouses(database, runtime)


def test_what_is_added_is_found(warehouses: Warehouses, tmp_path: Path) -> None:
    added = warehouses.add("lake", str(tmp_path / "lake"), {})
    assert added.location == f"file://{tmp_path}/lake"
    assert warehouses.find("lake") == warehouses.get("lake") == added
    assert warehouses.find("Lake") is None
    with pytest.raises(AlreadyExists, match="'lake'"):
        warehouses.add("lake", str(tmp_path / "other"), {})


def test_they_come_in_order_and_pages(warehouses: Warehouses, tmp_path: Path) -> None:
    for name in ("b", "a", "C", "a-1"):
        warehouses.add(name, str(tmp_path / name), {})
    everything = warehouses.list().items
    assert [info.name for info in everything] == ["C", "a", "a-1", "b"]
    first = warehouses.list(max_results=3)
    assert list(first.items) == list(everything[:3])
    rest = warehouses.list(max_results=3, page_token=first.next_token)
    assert (list(rest.items), rest.next_token) == (list(everything[3:]), None)


def test_options_are_set_and_removed(warehouses: Warehouses, tmp_path: Path) -> None:
    added = warehouses.add("lake", str(tmp_path / "lake"), {"s3.region": "1", "s3.endpoint": "2"})
    changed = warehouses.set(
        "lake", {"s3.endpoint": "3", "s3.access-key": "4"}, ["s3.region", "never"]
    )
    assert changed.options == {"s3.endpoint": "3", "s3.access-key": "4"}
    assert changed == warehouses.get("lake")
    # The clock stands still here, and yet the change shows.
    assert changed.updated_at > added.updated_at
    with pytest.raises(Invalid, match=r"'s3\.endpoint' is both"):
        warehouses.set("lake", {"s3.endpoint": "3"}, ["s3.endpoint"])
    with pytest.raises(NotFound, match="'pond'"):
        warehouses.set("pond", {}, [])


def test_secrets_are_not_shown(warehouses: Warehouses, tmp_path: Path) -> None:
    options = {**SECRETS, "s3.region": "eu", "s3.sts.endpoint": "http://ann:pw@host"}
    info = warehouses.add("lake", str(tmp_path / "lake"), options)
    assert info.shown_options == {
        "s3.access-key": "***",
        "s3.secret-key": "***",
        "s3.endpoint": "http://minio:9000",
        "s3.region": "eu",
        "s3.sts.endpoint": "***",
    }
    assert "hunter2" not in repr(info)
    assert info.options == options


@pytest.mark.parametrize("name", ["", "a/b", "a b", ".a", "a" * 201, "ü", "a\x00", "a\n"])
def test_a_name_that_is_none_is_refused(warehouses: Warehouses, name: str) -> None:
    with pytest.raises(Invalid, match="is not a warehouse name"):
        warehouses.add(name, "/x", {})


def test_a_location_that_cannot_be_is_refused(warehouses: Warehouses, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="scheme 'ftp'"):
        warehouses.add("lake", "ftp://host/x", {})
    with pytest.raises(Invalid):
        warehouses.add("lake", "s3://", {})
    with pytest.raises(Invalid, match="the storage option '' is not known"):
        warehouses.add("lake", str(tmp_path), {"": "x"})
    assert list(warehouses.list().items) == []


def test_warehouses_must_not_overlap(warehouses: Warehouses, tmp_path: Path) -> None:
    warehouses.add("lake", str(tmp_path / "a" / "lake"), {})
    for place in ("a/lake", "a", "a/lake/b"):
        with pytest.raises(Invalid, match="overlaps"):
            warehouses.add("pond", str(tmp_path / place), {})
    warehouses.add("pond", str(tmp_path / "a" / "lake2"), {})


def test_warehouses_of_a_server_overlap_neither_each_other_nor_the_databases(
    warehouses: Warehouses, tmp_path: Path
) -> None:
    warehouses.add("lake", str(tmp_path / "a" / "lake"), {})
    warehouses.claim({"main": str(tmp_path / "a" / "lake2"), "pond": str(tmp_path / "b")})
    # It is the database's.
    warehouses.claim({"lake": str(tmp_path / "a" / "lake")})
    warehouses.claim({"lake": str(tmp_path / "a")})
    for given in (
        {"main": "b", "pond": "b"},
        {"main": "b/c", "pond": "b"},
        {"main": "a/lake/b"},
        {"main": "a"},
        {"main": "a/lake/b", "lake": "c"},
    ):
        with pytest.raises(Invalid, match="overlaps"):
            warehouses.claim({name: str(tmp_path / place) for name, place in given.items()})


def test_a_table_of_one_is_no_external_table_of_another(
    database: SqlDatabase, tmp_path: Path
) -> None:
    orders = Identifier("sales", "orders")
    ours, others = (
        SqlCatalog.on(database, warehouse=name, location=str(tmp_path / name))
        for name in ("ours", "others")
    )
    for catalog in (ours, others):
        catalog.databases.create("sales")
    schema = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
    ours.tables.create(orders, schema)
    path = {"path": ours.tables.get(orders).path}
    for asked in (Schema(fields=(), options=path), replace(schema, options=path)):
        with pytest.raises(Invalid, match="the place of another table"):
            others.tables.create(orders, asked)
    with pytest.raises(Invalid, match="the place of another table"):
        others.tables.register(orders, path["path"])
    assert list(others.tables.list("sales").items) == []


def test_only_an_empty_one_is_removed(
    warehouses: Warehouses, database: SqlDatabase, tmp_path: Path
) -> None:
    added = warehouses.add("lake", str(tmp_path / "lake"), {})
    catalog = SqlCatalog.on(database, warehouse="lake", location=added.location)
    catalog.databases.create("sales")
    with pytest.raises(Conflict, match="'lake' is not empty"):
        warehouses.remove("lake")
    assert warehouses.get("lake") == added
    catalog.databases.drop("sales")
    warehouses.remove("lake")
    assert warehouses.find("lake") is None
    with pytest.raises(NotFound):
        warehouses.remove("lake")


def test_what_takes_a_removed_ones_name_has_none_of_its_grants(
    warehouses: Warehouses, migrated_url: str, tmp_path: Path
) -> None:
    targets = [PermissionTarget(TargetType.CATALOG), PermissionTarget(TargetType.CATALOG_ALL)]
    for name in ("lake", "pond"):
        warehouses.add(name, str(tmp_path / name), {})
        with closing(_open(migrated_url, name, tmp_path)) as catalog:
            for target in targets:
                catalog.permissions.grant(Grant(target, Access.ALL, "ada"))
    warehouses.remove("lake")
    warehouses.add("lake", str(tmp_path / "lake"), {})
    for name, granted in (("lake", 0), ("pond", 1)):
        with closing(_open(migrated_url, name, tmp_path)) as catalog:
            assert [len(catalog.permissions.list(t).items) for t in targets] == [granted] * 2


def test_one_with_tables_that_can_be_restored_is_not_removed(
    warehouses: Warehouses, migrated_url: str, tmp_path: Path
) -> None:
    warehouses.add("lake", str(tmp_path / "lake"), {})
    with closing(_open(migrated_url, "lake", tmp_path, undrop_millis=60_000)) as catalog:
        catalog.databases.create("sales")
        schema = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
        catalog.tables.create(Identifier("sales", "orders"), schema)
        catalog.databases.drop("sales")
        with pytest.raises(Conflict, match="dropped"):
            warehouses.remove("lake")
        (dropped,) = catalog.dropped_tables.list().items
        catalog.dropped_tables.purge(dropped.id)
    warehouses.remove("lake")


def _open(url: str, name: str, tmp_path: Path, *, undrop_millis: int = 0) -> SqlCatalog:
    location = str(tmp_path / name)
    return SqlCatalog.open(url, warehouse=name, location=location, undrop_millis=undrop_millis)


def test_of_many_added_at_once_none_lies_in_another(warehouses: Warehouses, tmp_path: Path) -> None:
    places = [tmp_path / "lake" / Path(*["deeper"] * at) for at in range(6)]
    start = threading.Barrier(len(places))

    def add(at: int) -> bool:
        start.wait()
        try:
            warehouses.add(f"lake{at}", str(places[at]), {})
        except Invalid:
            return False
        return True

    with ThreadPoolExecutor(len(places)) as threads:
        added = list(threads.map(add, range(len(places))))
    assert added.count(True) == 1
    assert [info.name for info in warehouses.list().items] == [f"lake{added.index(True)}"]


def test_nothing_begins_in_a_removed_one(
    warehouses: Warehouses, database: SqlDatabase, tmp_path: Path
) -> None:
    """By a server that has yet to see that it was removed, or replaced by another."""
    added = warehouses.add("lake", str(tmp_path / "lake"), {})
    stale = SqlCatalog.on(database, warehouse="lake", location=added.location, is_managed=True)
    grant = Grant(PermissionTarget(TargetType.CATALOG), Access.ALL, "ada")
    stale.databases.create("sales")
    stale.permissions.grant(grant)
    stale.databases.drop("sales")
    warehouses.remove("lake")
    for location in (None, "elsewhere"):
        if location is not None:
            warehouses.add("lake", str(tmp_path / location), {})
        with pytest.raises(Unavailable, match="was removed by somebody"):
            stale.databases.create("sales")
        with pytest.raises(Unavailable, match="was removed by somebody"):
            stale.permissions.grant(grant)
    assert list(stale.databases.list().items) == []
    assert list(stale.permissions.list(grant.target).items) == []


def test_what_begins_and_a_removal_wait_for_each_other(
    warehouses: Warehouses, database: SqlDatabase, tmp_path: Path
) -> None:
    added = warehouses.add("lake", str(tmp_path / "lake"), {})
    rounds = 10
    for number in range(rounds):
        catalog = SqlCatalog.on(
            database, warehouse="lake", location=added.location, is_managed=True
        )
        start = threading.Barrier(2)

        def create(catalog: SqlCatalog = catalog, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                catalog.databases.create("sales")
            except Unavailable:
                return False
            return True

        def remove(start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                warehouses.remove("lake")
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as threads:
            created, removed = threads.submit(create), threads.submit(remove)
        assert created.result() != removed.result(), number
        if created.result():
            catalog.databases.drop("sales")
        else:
            warehouses.add("lake", str(tmp_path / "lake"), {})


def test_one_whose_files_are_yet_to_be_deleted_is_not_removed(
    warehouses: Warehouses, database: SqlDatabase, tmp_path: Path
) -> None:
    added = warehouses.add("lake", str(tmp_path / "lake"), {})
    files = StubbornFiles()
    catalog = SqlCatalog.on(database, warehouse="lake", location=added.location, files=files)
    catalog.databases.create("sales")
    schema = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
    catalog.tables.create(Identifier("sales", "orders"), schema)
    files.are_stubborn = True
    with pytest.raises(OutcomeUnknown):
        catalog.tables.drop(Identifier("sales", "orders"))
    catalog.databases.drop("sales")
    with pytest.raises(Conflict, match="yet to be deleted"):
        warehouses.remove("lake")
    files.are_stubborn = False
    catalog.repair()
    warehouses.remove("lake")


class StubbornFiles(LocalFileAccess):
    """The local disk, which deletes nothing while it is stubborn."""

    are_stubborn = False

    def delete_tree(self, path: str) -> None:
        if self.are_stubborn:
            raise Unavailable("the disk is stubborn")
        super().delete_tree(path)
