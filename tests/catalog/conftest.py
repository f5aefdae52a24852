"""What the catalog's suites share: schemas, snapshots, databases."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.identifier import Identifier
from headwater.storage.schema import Schema
from headwater.storage.snapshot import Snapshot

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


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)],
)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog/headwater.db"
    create: Callable[[], str] = request.getfixturevalue("new_postgresql_database")
    return create()
