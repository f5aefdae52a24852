"""Deleting a dropped table's files, which takes as long as there are files."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import NewSqlite

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.schema.table_schema import Schema

SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
ORDERS = Identifier("sales", "orders")


class SlowToDelete(LocalFileAccess):
    """Storage that deletes directories when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.release = threading.Event(), threading.Event()

    def delete_tree(self, directory: str) -> None:
        self.is_asked.set()
        assert self.release.wait(120)
        super().delete_tree(directory)


def test_others_write_meanwhile_although_the_database_has_one_writer(
    tmp_path: Path, new_sqlite: NewSqlite
) -> None:
    files, url = SlowToDelete(), new_sqlite(tmp_path / "headwater.db")
    lake = tmp_path / "lake"
    catalog = SqlCatalog.open(url, warehouse="main", location=str(lake), files=files)
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, SCHEMA)
    with ThreadPoolExecutor(1) as pool:
        dropping = pool.submit(catalog.tables.drop, ORDERS)
        try:
            assert files.is_asked.wait(120)
            catalog.databases.create("more")
            # The name is free at once, and the directory another one.
            catalog.tables.create(ORDERS, SCHEMA)
            assert catalog.tables.get(ORDERS).path != local_uri(str(lake / "sales.db/orders"))
            assert not dropping.done()
        finally:
            files.release.set()
        dropping.result(timeout=120)
    assert [path.name.partition("-")[0] for path in (lake / "sales.db").iterdir()] == ["orders"]
    assert not (lake / "sales.db" / "orders").exists()
    assert catalog.operation.backlog().decisions == 0
    catalog.close()


def test_two_may_delete_the_same_directory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rmdir = tmp_path / "table", os.rmdir
    for folder in range(3):
        (table / f"bucket-{folder}").mkdir(parents=True)
        (table / f"bucket-{folder}" / "data").touch()

    def rmdir_after_another(path: str, **place: int) -> None:
        rmdir(path, **place)
        monkeypatch.setattr(os, "rmdir", rmdir)
        rmdir(path, **place)

    monkeypatch.setattr(os, "rmdir", rmdir_after_another)
    LocalFileAccess().delete_tree(local_uri(str(table)))
    assert not table.exists()
