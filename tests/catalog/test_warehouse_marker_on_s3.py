"""The marker of a warehouse in an object store, where no folder says that it is there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import httpx
import pyarrow as pa
import pytest
from tests import plain_http
from tests.catalog.conftest import Clock
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.outbox.warehouse_marker import KEPT_SECONDS
from headwater.catalog.table.table import Table
from headwater.server.dependencies import Principals
from headwater.server.metrics import Metrics
from headwater.server.probes import WarehouseStorage
from headwater.storage.errors import Forbidden, HeadwaterError, Unavailable
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

ORDERS, MORE = Identifier("sales", "orders"), Identifier("sales", "more")
SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}

Open = Callable[..., SqlCatalog]


class Bucket:
    """The bucket ``lake`` as its owner sees it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._client: Any = boto3.client("s3", endpoint_url=endpoint, **KEYS)
        self._users: Any = boto3.client("iam", endpoint_url=endpoint, **KEYS)

    def keys(self, prefix: str) -> list[str]:
        found = self._client.list_objects_v2(Bucket="lake", Prefix=prefix)
        return [each["Key"] for each in found.get("Contents", [])]

    def read(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket="lake", Key=key)["Body"].read()
        return content

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket="lake", Key=key, Body=content)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket="lake", Key=key)

    def user(self, name: str, actions: Sequence[str]) -> Mapping[str, str]:
        """Options with which a user who may do just that reaches the store."""
        self._users.create_user(UserName=name)
        if actions:
            allowed = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
            self._users.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=policy)
        key = self._users.create_access_key(UserName=name)["AccessKey"]
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": key["AccessKeyId"],
            "s3.secret-key": key["SecretAccessKey"],
        }


@pytest.fixture
def bucket(s3_endpoint: str) -> Iterator[Bucket]:
    """The bucket of a store that asks who everybody is, from when it is told to."""
    yield Bucket(s3_endpoint)
    plain_http.post(f"{s3_endpoint}/moto-api/reset-auth", content=b"inf").raise_for_status()


def _ask_for_keys(bucket: Bucket) -> None:
    plain_http.post(f"{bucket.endpoint}/moto-api/reset-auth", content=b"0").raise_for_status()


@pytest.fixture
def opening(tmp_path: Path, new_sqlite: NewSqlite, bucket: Bucket, clock: Clock) -> Iterator[Open]:
    """Opens warehouses on one database."""
    url, opened = new_sqlite(tmp_path / "headwater.db"), list[SqlCatalog]()
    everything = {
        "s3.endpoint": bucket.endpoint,
        "s3.access-key": "test",
        "s3.secret-key": "test",
    }

    def open_at(
        location: str, warehouse: str = "main", options: Mapping[str, str] = everything
    ) -> SqlCatalog:
        opened.append(
            SqlCatalog.open(
                url,
                warehouse=warehouse,
                location=location,
                storage_options=options,
                runtime=clock.runtime,
            )
        )
        return opened[-1]

    yield open_at
    for each in opened:
        each.close()


@pytest.fixture
def catalog(opening: Open) -> SqlCatalog:
    """A warehouse with a table of one row."""
    catalog = opening("s3://lake/main")
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, SCHEMA)
    _write(catalog)
    return catalog


def _write(catalog: SqlCatalog) -> int:
    """The number of rows of the table after another was written."""
    table = Table(catalog, catalog.tables.get(ORDERS))
    table.write({"order_id": [1]})
    return len(table.scan().to_arrow())


def _refused(
    catalog: SqlCatalog, bucket: Bucket, match: str, kind: type[HeadwaterError] = Unavailable
) -> None:
    """Nothing is made, and the warehouse is not ready."""
    before = bucket.keys("main/")
    with pytest.raises(HeadwaterError, match=match):
        catalog.tables.create(MORE, SCHEMA)
    with pytest.raises(kind, match=match):
        catalog.operation.check_storage()
    assert bucket.keys("main/") == before
    assert catalog.operation.backlog().decisions == 0


def test_a_new_warehouse_gets_one(catalog: SqlCatalog, opening: Open, bucket: Bucket) -> None:
    assert list(json.loads(bucket.read(f"main/{WAREHOUSE_MARKER}"))) == ["about", "id"]
    catalog.operation.check_storage()
    # Another process takes it for its own.
    assert _write(opening("s3a://lake/main")) == 2


def test_one_that_is_missing_or_another_ones_stops_writes_until_it_is_back(
    catalog: SqlCatalog, opening: Open, bucket: Bucket, clock: Clock
) -> None:
    key = f"main/{WAREHOUSE_MARKER}"
    marker = bucket.read(key)
    bucket.delete(key)
    clock.turn(seconds=KEPT_SECONDS)
    _refused(catalog, bucket, "is missing, and nothing is written")
    other = opening("s3://lake/other", "other")
    other.databases.create("sales")
    other.tables.create(ORDERS, SCHEMA)
    bucket.put(key, bucket.read(f"other/{WAREHOUSE_MARKER}"))
    clock.turn(seconds=KEPT_SECONDS)
    _refused(catalog, bucket, "is not the marker of warehouse 'main'")
    assert other.tables.get(ORDERS) is not None
    bucket.put(key, marker)
    clock.turn(seconds=KEPT_SECONDS)
    catalog.operation.check_storage()
    assert _write(catalog) == 2


@pytest.mark.parametrize(
    "actions",
    [
        pytest.param(["s3:GetObject", "s3:ListBucket"], id="read only"),
        pytest.param([], id="no access", marks=pytest.mark.modes),
    ],
)
def test_a_store_that_takes_no_writes_is_not_ready(
    catalog: SqlCatalog,
    opening: Open,
    bucket: Bucket,
    clock: Clock,
    actions: Sequence[str],
) -> None:
    restricted = opening("s3://lake/main", options=bucket.user("someone", actions))
    restricted.operation.check_storage()
    clock.turn(seconds=60)
    _ask_for_keys(bucket)
    with pytest.raises(Forbidden, match="s3://lake/main"):
        restricted.operation.check_storage()
    with pytest.raises(HeadwaterError):
        restricted.tables.create(MORE, SCHEMA)
    plain_http.post(f"{bucket.endpoint}/moto-api/reset-auth", content=b"inf").raise_for_status()
    # No later than it may write again.
    restricted.operation.check_storage()
    assert _write(catalog) == 2


def test_managers_are_told_which_warehouse_is_down_and_others_are_not(
    catalog: SqlCatalog,
    opening: Open,
    bucket: Bucket,
    clock: Clock,
    serve: Serve,
    tmp_path: Path,
) -> None:
    local = opening(str(tmp_path / "local"), "local", {})
    catalogs = {"main": catalog, "local": local}
    storage, database = WarehouseStorage(lambda: catalogs, clock.runtime), local.operation.database
    tokens = Tokens(database, SYSTEM_RUNTIME)
    metrics = Metrics()
    metrics.watch_warehouses(storage.states)
    address = serve(
        catalogs,
        parts={
            "principals": Principals(tokens, Groups(database)),
            "find_token": tokens.find,
            "probes": {"storage": storage},
            "storage": storage,
            "metrics": metrics,
            "runtime": clock.runtime,
        },
        require_token=True,
    )

    def ask(path: str, scope: Scope, *warehouses: str) -> httpx.Response:
        name = uuid.uuid4().hex
        secret = tokens.create(name, scopes=[scope], warehouses=warehouses or None).secret
        return plain_http.get(
            f"{address}{path}", headers={"authorization": f"Bearer {secret}"}, timeout=60
        )

    path = "/management/v1/readiness"

    missing = f"the marker s3://lake/main/{WAREHOUSE_MARKER} of warehouse 'main' is missing"

    def comes(fault: str | None, *warehouses: str) -> bool:
        """True once the warehouse ``main`` has that fault, and the other one none."""
        clock.turn(seconds=1)
        answer = ask(path, Scope.MANAGE, *warehouses).json()
        assert (answer["ready"], answer["failed"]) == (True, [])
        found = {each["name"]: (each["ready"], each["message"]) for each in answer["warehouses"]}
        if warehouses:
            return found == {"local": (True, None)}
        is_ready, message = found.get("main", (None, None))
        is_told = is_ready is (fault is None) and str(message).startswith(str(fault))
        return is_told and found.get("local") == (True, None)

    def see(fault: str | None, *warehouses: str) -> None:
        # By this clock, one that is slow to answer has not answered for a while.
        assert any(comes(fault, *warehouses) for _ in range(2000))

    see(None)
    bucket.delete(f"main/{WAREHOUSE_MARKER}")
    see(missing)
    see(None, "local")
    text = ask("/metrics", Scope.READ).text
    assert 'headwater_warehouse_ready{warehouse="main"} 0.0' in text
    assert 'headwater_warehouse_ready{warehouse="local"}' in text
    for scope in (Scope.READ, Scope.WRITE, Scope.ADMINISTER):
        assert ask(path, scope).status_code == 403
    anybody = plain_http.get(f"{address}{path}")
    assert anybody.status_code == 401
    assert "main" not in plain_http.get(f"{address}/readyz").text
