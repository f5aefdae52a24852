"""Every catalog there is; one behaviour suite runs over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES
from tests.conftest import NewSqlite

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.client.rest import RestCatalog
from headwater.storage.schema.table_schema import Schema


def _sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    yield from _sql(_new_sqlite(request, tmp_path), tmp_path)


def _new_sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    make: NewSqlite = request.getfixturevalue("new_sqlite")
    return make(tmp_path / "headwater.db")


def _postgresql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    yield from _sql(request.getfixturevalue("postgresql_catalog"), tmp_path)


def _mariadb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    yield from _sql(request.getfixturevalue("mariadb_catalog"), tmp_path)


def _mysql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    yield from _sql(request.getfixturevalue("mysql_catalog"), tmp_path)


def _rest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    """The REST client of a real server over SQLite."""
    serve: Callable[[Catalog], str] = request.getfixturevalue("serve")
    for behind in _sql(_new_sqlite(request, tmp_path), tmp_path):
        client = RestCatalog(serve(behind), warehouse="main")
        yield client
        client.close()


def _sql(url: str, tmp_path: Path) -> Iterator[Catalog]:
    catalog = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    yield catalog
    catalog.close()


_CATALOGS: dict[str, Callable[[pytest.FixtureRequest, Path], Iterator[Catalog]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mariadb": _mariadb,
    "mysql": _mysql,
    "rest": _rest,
}


@pytest.fixture(params=[*POSTGRESQL_IN_MODES, "rest"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    """An empty warehouse ``main`` whose files are in the folder ``lake``."""
    yield from _CATALOGS[request.param](request, tmp_path)


@pytest.fixture
def table(catalog: Catalog, orders: Identifier, orders_schema: Schema) -> Identifier:
    """An empty table."""
    catalog.databases.create(orders.database)
    catalog.tables.create(orders, orders_schema)
    return orders


@pytest.fixture
def directory(catalog: Catalog, table: Identifier) -> Path:
    """The table's directory on the local disk."""
    return Path(catalog.tables.get(table).path.removeprefix("file://"))
