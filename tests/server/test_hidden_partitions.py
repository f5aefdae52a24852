"""Partitions tell the values of columns: they are for those who may select these."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from tests import plain_http
from tests.conftest import Serve
from tests.server.restricted import leaf

from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client import Lake
from headwater.storage.runtime import SYSTEM_RUNTIME

TABLE = "/v1/main/databases/sales/tables/people"
COLUMNS = PermissionTarget(TargetType.COLUMN, "sales", "people")
WHOLE = PermissionTarget(TargetType.TABLE, "sales", "people")
LISTS: tuple[tuple[str, str, object], ...] = (
    ("GET", "/partitions", None),
    ("GET", "/partitions?partitionNamePattern=region%3DA%25", None),
    ("POST", "/partitions/list-by-names", {"specs": [{"region": "APAC"}]}),
    (
        *("POST", "/partitions/list-by-filter"),
        {"filter": json.dumps(leaf("EQUAL", "region", "APAC"))},
    ),
)

Statuses = Callable[[Grant], set[int]]


@pytest.fixture
def statuses(catalog: SqlCatalog, serve: Serve) -> Statuses:
    """The statuses of all lists of partitions for ada, who was granted one thing."""
    lake = Lake(catalog)
    lake.create_database("sales")
    made = lake.create_table(
        "sales.people",
        pa.schema([("id", pa.int64()), ("region", pa.string())]),
        partition_keys=["region"],
        options={"metastore.partitioned-table": "true", "query-auth.enabled": "true"},
    )
    made.write({"id": [1, 2], "region": ["APAC", "EMEA"]})
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(catalog, parts={"find_token": tokens.find}, require_token=True)
    secret = tokens.create("ada", scopes=[Scope.WRITE]).secret

    def ask(grant: Grant) -> set[int]:
        catalog.permissions.grant(grant)
        found = set()
        with plain_http.Client(
            base_url=address, headers={"authorization": f"Bearer {secret}"}
        ) as http:
            for method, path, body in LISTS:
                answer = http.request(method, TABLE + path, json=body)
                assert ("APAC" in answer.text) == answer.is_success, answer.text
                found.add(answer.status_code)
        return found

    return ask


@pytest.mark.parametrize(
    ("grant", "status"),
    [
        (Grant(WHOLE, Access.SELECT, "ada"), 200),
        (Grant(WHOLE, Access.UPDATE, "ada"), 200),
        (Grant(COLUMNS, Access.SELECT, "ada", ColumnSet(("region",))), 200),
        (Grant(COLUMNS, Access.SELECT, "ada", ColumnSet(excluded=("id",))), 200),
        (Grant(COLUMNS, Access.SELECT, "ada", ColumnSet(("id",))), 403),
        (Grant(COLUMNS, Access.SELECT, "ada", ColumnSet(excluded=("region",))), 403),
        (Grant(WHOLE, Access.ALTER, "ada"), 403),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else f"{value.access} {value.columns}",
)
def test_they_are_told_to_whom_may_select_their_columns(
    statuses: Statuses, grant: Grant, status: int
) -> None:
    assert statuses(grant) == {status}
