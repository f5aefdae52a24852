"""What the catalog's suites share: schemas, snapshots, databases."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.catalog.databases import DATABASES
from tests.conftest import NewSqlite

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE
from headwater.storage.runtime import Runtime
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot

ORDERS = Identifier("sales", "orders")


@pytest.fixture
def orders() -> Identifier:
    return ORDERS


@pytest.fixture
def orders_schema() -> Schema:
    """A partitioned primary-key table's schema."""
    columns = pa.schema([("order_id", pa.int64()), ("dt", pa.string()), ("amount", pa.int32())])
    return Schema.from_arrow(
        columns,
        primary_keys=["dt", "order_id"],
        partition_keys=["dt"],
        options={"bucket": "2"},
    )


@pytest.fixture
def snapshot() -> Callable[..., Snapshot]:
    """Makes a snapshot that nobody else makes; keywords replace fields, None leaves one out."""

    def make(snapshot_id: int, **fields: object) -> Snapshot:
        name = str(uuid.uuid4())
        document: dict[str, object] = {
            "version": 3,
            "uuid": name,
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": f"manifest-list-{name}-0",
            "deltaManifestList": f"manifest-list-{name}-1",
            "commitUser": "a-user",
            "commitIdentifier": snapshot_id,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000 + snapshot_id,
            "totalRecordCount": 10 * snapshot_id,
            "deltaRecordCount": 10,
            **fields,
        }
        return Snapshot.from_document({k: v for k, v in document.items() if v is not None})  # type: ignore[misc]

    return make


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog/headwater.db"
    create: Callable[[], str] = request.getfixturevalue(f"new_{request.param}_database")
    return create()


@pytest.fixture(params=DATABASES)
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path, new_sqlite: NewSqlite) -> str:
    """A database of each kind with the catalog's tables, and nothing in them."""
    if request.param == "sqlite":
        return new_sqlite(tmp_path / "catalog" / "headwater.db")
    url: str = request.getfixturevalue(f"{request.param}_catalog")
    return url


class Clock:
    """A clock that a test turns; names and waiting are real enough. A copy stands still."""

    def __init__(self) -> None:
        self.millis = 1_700_000_000_000
        self.wrong_by = 0
        self._alarm: tuple[int, Callable[[], object]] | None = None

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        """Something happens once so many more seconds have been waited for."""
        self._alarm = self.millis + round(seconds * 1000), happens

    def set_wrong(self, **parts: float) -> None:
        """Let it tell a wrong time; none passes."""
        self.wrong_by = timedelta(**parts) // timedelta(milliseconds=1)

    def turn(self, **parts: float) -> None:
        self.millis += timedelta(**parts) // timedelta(milliseconds=1)

    def _sleep(self, seconds: float) -> None:
        self.turn(seconds=seconds)
        if self._alarm is not None and self._alarm[0] <= self.millis:
            (_, happens), self._alarm = self._alarm, None
            happens()

    @property
    def runtime(self) -> Runtime:
        return Runtime(self._now, _new_uuid, self._sleep, monotonic=self._monotonic)

    def _now(self) -> int:
        return self.millis + self.wrong_by

    def _monotonic(self) -> float:
        return self.millis / 1000


def _new_uuid() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def clock() -> Clock:
    return Clock()


# What a server answers, and what clients make of it, has suites of its own.
@pytest.fixture(params=["embedded", pytest.param("served", marks=pytest.mark.modes)])
def lake(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, new_sqlite: NewSqlite
) -> Iterator[Lake]:
    """A lake with a database ``sales``: in this process, and through a server."""
    new_sqlite(tmp_path / "lake" / DATABASE_FILE)
    with connect(tmp_path / "lake", runtime=clock.runtime) as embedded:
        embedded.create_database("sales")
        if request.param == "embedded":
            yield embedded
            return
        serve: Callable[[Catalog], str] = request.getfixturevalue("serve")
        with connect(serve(embedded.catalog), runtime=clock.runtime) as served:
            yield served
