"""`headwater dropped`, `protect` and `unprotect`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import NewSqlite

from headwater.catalog.sql import SqlCatalog
from headwater.client import Lake

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def served(
    tmp_path: Path, new_sqlite: NewSqlite, serve: Callable[..., str]
) -> Iterator[tuple[str, Lake]]:
    """A server that keeps dropped tables, and what is behind it: a table with two rows."""
    url = new_sqlite(tmp_path / "catalog.db")
    place = str(tmp_path / "lake")
    catalog = SqlCatalog.open(url, warehouse="main", location=place, undrop_millis=3_600_000)
    with Lake(catalog) as lake:
        lake.create_database("sales")
        orders = lake.create_table("sales.orders", pa.schema([("id", pa.int64())]))
        orders.write({"id": [1, 2]})
        yield serve(catalog), lake


def test_a_drop_is_undone(headwater: Headwater, served: tuple[str, Lake]) -> None:
    address, lake = served
    lake.drop_table("sales.orders")
    listed = headwater("dropped", "list", "sales", "--json", HEADWATER_CATALOG=address)
    (row,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert (row["table"], row["by"]) == ("sales.orders", None)
    assert row["kept until"] > row["dropped"]
    restored = headwater(
        "dropped", "restore", row["id"], "--as", "sales.again", HEADWATER_CATALOG=address
    )
    assert (restored.returncode, restored.stdout) == (0, "table sales.again is restored\n")
    assert lake.table("sales.again").scan().to_arrow().num_rows == 2
    again = headwater("dropped", "restore", row["id"], HEADWATER_CATALOG=address)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert row["id"] in again.stderr


def test_a_dropped_table_is_purged(headwater: Headwater, served: tuple[str, Lake]) -> None:
    address, lake = served
    path = Path(lake.table("sales.orders").info.path.removeprefix("file://"))
    lake.drop_table("sales.orders")
    listed = headwater("dropped", "list", "--json", HEADWATER_CATALOG=address)
    table_id = json.loads(listed.stdout)["id"]
    assert headwater("dropped", "purge", table_id, HEADWATER_CATALOG=address).returncode == 0
    assert not path.exists()
    assert headwater("dropped", "list", "--json", HEADWATER_CATALOG=address).stdout == ""


def test_protection_is_set_and_taken_back(headwater: Headwater, served: tuple[str, Lake]) -> None:
    address, lake = served
    for name in ("sales", "sales.orders"):
        assert headwater("protect", name, HEADWATER_CATALOG=address).returncode == 0
    protection = lake.catalog.protection
    assert protection.is_database_protected("sales")
    assert protection.is_table_protected(lake.table("sales.orders").info.identifier)
    for name in ("sales.orders", "sales"):
        assert headwater("unprotect", name, HEADWATER_CATALOG=address).returncode == 0
    lake.drop_database("sales", cascade=True)
    missing = headwater("protect", "sales", HEADWATER_CATALOG=address)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
