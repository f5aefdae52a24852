"""Somebody who may select some columns reads no others under names that these had or have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import httpx
import pyarrow as pa
import pytest
from tests import plain_http
from tests.server.restricted import PEOPLE, SCHEMA, filter_policy, leaf, mask_policy, people

from headwater.catalog.permissions import Access, ColumnSet, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client import Lake
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import DropColumn, RenameColumn, SchemaChange

Send: TypeAlias = Callable[[str, object], httpx.Response]
COLUMNS = PermissionTarget(TargetType.COLUMN, "sales", "people")


@pytest.fixture
def lake(catalog: SqlCatalog) -> Lake:
    lake = Lake(catalog)
    lake.create_database("sales")
    made = lake.create_table("sales.people", SCHEMA, options={"query-auth.enabled": "true"})
    made.write(people())
    made.create_branch("trial")
    return lake


@pytest.fixture
def send(catalog: SqlCatalog, lake: Lake, serve: Callable[..., str]) -> Iterator[Send]:
    """Sends as bob, who may select all but phones."""
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    parts = {"find_token": tokens.find}
    address = serve(catalog, parts=parts, require_token=True)
    headers = {"authorization": f"Bearer {tokens.create('bob').secret}"}
    _grant(lake, ColumnSet(excluded=("phone",)))
    with plain_http.Client(base_url=address, headers=headers) as http:

        def post(path: str, body: object) -> httpx.Response:
            return http.post(f"/v1/main/databases/sales/tables/people{path}", json=body)

        yield post


def _grant(lake: Lake, columns: ColumnSet) -> None:
    lake.catalog.permissions.grant(Grant(COLUMNS, Access.SELECT, "bob", columns))


def _rows(answer: httpx.Response) -> dict[str, list[object]]:
    assert answer.status_code == 200, answer.text
    found: dict[str, list[object]] = pa.ipc.open_stream(answer.content).read_all().to_pydict()
    return found


def test_a_hidden_column_stays_hidden_under_a_new_name(lake: Lake, send: Send) -> None:
    assert _rows(send("/read", {"select": ["id"]})) == {"id": [1, 2, 3, 4]}
    assert send("/read", {"select": ["phone"]}).status_code == 403
    lake.alter_table("sales.people", RenameColumn(("phone",), "mobile"))
    assert send("/auth", {"select": ["id"]}).status_code == 200
    for columns in (["mobile"], ["id", "mobile"], None):
        assert send("/read", {"select": columns}).status_code == 403, columns
    where = {"select": ["id"], "where": "mobile > '5'", "filterColumns": ["mobile"]}
    assert send("/read", where).status_code == 403
    # A condition names its columns, so that permission is asked for them, too.
    unnamed = send("/read", {"select": ["id"], "where": where["where"]})
    assert (unnamed.status_code, "filterColumns" in unnamed.text) == (400, True)
    assert _rows(send("/read", {"select": ["salary"]})) == {"salary": [10, 987654, 30, 40]}


@pytest.mark.parametrize(
    "changes",
    [
        [RenameColumn(("phone",), "mobile")],
        [DropColumn(("phone",))],
        # An earlier name of a hidden column is another column's now.
        [RenameColumn(("phone",), "mobile"), RenameColumn(("region",), "phone")],
    ],
)
@pytest.mark.parametrize("place", ["snapshot", "tag", "branch"])
def test_a_hidden_column_was_hidden_before(
    lake: Lake, send: Send, changes: list[SchemaChange], place: str
) -> None:
    lake.table("sales.people").create_tag("first")
    for change in changes:
        lake.alter_table("sales.people", change)
    path = "$branch_trial/read" if place == "branch" else "/read"
    moments: dict[str, dict[str, object]] = {
        "snapshot": {"snapshotId": 1},
        "tag": {"tag": "first"},
        "branch": {},
    }
    past = moments[place]
    asked: tuple[dict[str, object], ...] = (
        {"select": ["phone"]},
        {"select": ["id"], "where": "phone > '5'", "filterColumns": ["phone"]},
    )
    for body in asked:
        answer = send(path, {**body, **past})
        assert answer.status_code in (403, 404), answer.text
        assert b"5550101" not in answer.content
    # What is the same column still is read there.
    if place != "branch" or len(changes) == 1:
        assert _rows(send(path, {"select": ["id"], **past})) == {
            "id": [] if place == "branch" else [1, 2, 3, 4]
        }


def test_engines_are_not_let_read_a_branch_by_other_columns(
    lake: Lake, send: Send, catalog: SqlCatalog
) -> None:
    lake.alter_table("sales.people", RenameColumn(("phone",), "mobile"))
    assert send("$branch_trial/auth", {"select": ["id"]}).status_code == 200
    for columns in (["phone"], ["id", "phone"], None):
        assert send("$branch_trial/auth", {"select": columns}).status_code == 403, columns
    # A mask of a column that is not there would be applied to nothing.
    catalog.permissions.revoke(COLUMNS, Access.SELECT, "bob")
    catalog.permissions.grant(
        Grant(PermissionTarget(TargetType.TABLE, "sales", "people"), Access.SELECT, "bob")
    )
    assert send("$branch_trial/auth", {"select": ["phone"]}).status_code == 200
    catalog.policies.create(PEOPLE, mask_policy("bob", "mobile", {"name": "NULL"}))
    assert send("/auth", {"select": ["mobile"]}).json()["columnMasking"]
    answer = send("$branch_trial/auth", {"select": ["phone"]})
    assert answer.status_code == 403, answer.text
    catalog.policies.create(PEOPLE, filter_policy("bob", leaf("EQUAL", "region", "EMEA")))
    assert send("$branch_trial/auth", {"select": ["id"]}).status_code == 403
