"""Every answer of the API to a restricted principal, byte for byte: hidden values are in none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests import plain_http
from tests.server.restricted import (
    HIDDEN,
    PEOPLE,
    SCHEMA,
    concat,
    filter_policy,
    leaf,
    mask_policy,
    people,
)

from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client import Lake
from headwater.storage.runtime import SYSTEM_RUNTIME

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "openapi" / "headwater.json").read_text()
)
NAMES = {
    "prefix": "main",
    "warehouse": "main",
    "database": "sales",
    "table": "people",
    "branch": "trial",
    "tag": "first",
    "version": "LATEST",
    "user": "nobody",
    "view": "recent",
    "function": "area",
    "group": "analysts",
    "name": "ada",
}
TABLE = "/v1/main/databases/sales/tables/people"
# What changes the table comes after what reads it.
LATE = ("drop", "rename", "replace", "rollback", "forward", "purge", "restore", "DELETE")

Send = Callable[[str, str, object], httpx.Response]


def _bodies(operation: Mapping[str, Any]) -> Iterator[object]:
    """The examples of an operation's body, about the table of people."""
    content = operation.get("requestBody", {}).get("content", {})
    for described in content.values():
        name = described["schema"].get("$ref", "").rpartition("/")[2]
        for example in DOCUMENT["components"]["schemas"].get(name, {}).get("examples", ()):
            yield json.loads(
                json.dumps(example)
                .replace('"orders"', '"people"')
                .replace('"dt"', '"region"')
                .replace('"order_id"', '"id"')
                .replace('"amount"', '"phone"')
            )


REGION = leaf("EQUAL", "region", "APAC-" + "SECRET"[:3])
READS: tuple[dict[str, object], ...] = (
    {},
    {"select": []},
    {"select": ["phone"], "where": "phone > '5'"},
    {"select": ["salary"], "where": "id = 2", "filterColumns": ["id"]},
    {"where": "salary > 100"},
    {"where": "region LIKE 'APAC%'"},
    {"where": "CAST(phone AS INT) = 1"},
    {"where": "phone ="},
    {"select": ["nothing"]},
    {"kind": "audit-log"},
    {"kind": "read-optimized"},
    {"kind": "changes", "changes": {"since": 0}},
    {"kind": "changes", "changes": {"since": 0, "until": 99}},
    {"kind": "changes", "changes": {"since": "first", "mode": "diff"}},
    {"tag": "first"},
    {"tag": "none"},
    {"snapshotId": 1},
    {"snapshotId": 9},
    {"snapshotId": 1, "parts": 7, "part": 3},
    {"snapshotId": 1, "schemaId": 7},
    {"limit": 1},
    {"limit": 0},
    {"options": {"query-auth.enabled": "false"}},
    {"select": ["_ROW_ID"]},
    {"select": ["id"], "where": "_ROW_ID > 1", "filterColumns": ["_ROW_ID"]},
    {"unknown": 1},
)
MORE: tuple[tuple[str, str, object], ...] = (
    ("POST", f"{TABLE}/auth", {"select": ["phone", "salary"]}),
    ("POST", f"{TABLE}/auth", {"select": None}),
    *(("POST", f"{TABLE}/read", body) for body in READS),
    ("POST", f"{TABLE}$branch_trial/read", {}),
    ("GET", f"{TABLE}/partitions?partitionNamePattern=region%3D%25", None),
    ("POST", f"{TABLE}/partitions/list-by-names", {"specs": [{"region": "APAC"}]}),
    ("POST", f"{TABLE}/partitions/list-by-filter", {"filter": json.dumps(REGION)}),
    ("GET", f"{TABLE}$branch_trial", None),
    ("GET", f"{TABLE}$branch_trial/partitions", None),
)


@pytest.fixture
def sends(catalog: SqlCatalog, serve: Callable[..., str]) -> Iterator[Callable[[str], Send]]:
    """Sends requests as a principal; `people` is partitioned by region, and ada sees EMEA."""
    lake = Lake(catalog)
    lake.create_database("sales")
    made = lake.create_table(
        "sales.people",
        SCHEMA,
        partition_keys=["region"],
        options={"query-auth.enabled": "true", "metastore.partitioned-table": "true"},
    )
    made.write(people())
    made.create_tag("first")
    made.create_branch("trial", tag="first")
    made.consumer("billing").reset(1)
    policies = catalog.policies
    policies.create(PEOPLE, filter_policy("ada", leaf("EQUAL", "region", "EMEA")))
    policies.create(PEOPLE, mask_policy("ada", "phone", concat("***")))
    policies.create(PEOPLE, mask_policy("ada", "salary", {"name": "NULL"}))
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(
        catalog,
        parts={"find_token": tokens.find},
        require_token=True,
        data_token_seconds=7200,
    )
    with plain_http.Client(base_url=address) as http:

        def as_principal(name: str) -> Send:
            secret = tokens.create(name, scopes=[Scope.ADMINISTER, Scope.MANAGE]).secret
            headers = {"authorization": f"Bearer {secret}"}

            def send(method: str, path: str, body: object) -> httpx.Response:
                return http.request(method, path, json=body, headers=headers)

            return send

        yield as_principal


def _requests() -> Iterator[tuple[str, str, object]]:
    yield from MORE
    found: list[tuple[str, str, object]] = []
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            place = path
            for name, value in NAMES.items():
                place = place.replace(f"{{{name}}}", value)
            for body in list(_bodies(operation)) or [None]:
                found.append((method.upper(), place, body))
    yield from sorted(found, key=lambda each: any(word in f"{each[0]} {each[1]}" for word in LATE))


def _shown(content: bytes) -> list[str]:
    integer = (987654).to_bytes(4, "little")
    found = [value for value in HIDDEN if value.encode() in content]
    return [*found, *(["987654 in binary"] if integer in content else [])]


def test_no_answer_holds_a_hidden_value(sends: Callable[[str], Send]) -> None:
    send = sends("ada")
    answered: dict[int, int] = {}
    for method, path, body in _requests():
        answer = send(method, path, body)
        answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
        everything = answer.content + str(answer.headers).encode()
        assert not _shown(everything), (method, path, body, answer.status_code)
        assert answer.status_code != 500, (method, path, body, answer.text)
    assert answered[200] > 40
    assert answered[403] > 8


def test_they_are_there_for_whom_nothing_restricts(sends: Callable[[str], Send]) -> None:
    send = sends("owner")
    found = {
        value for method, path, body in MORE for value in _shown(send(method, path, body).content)
    }
    assert found == {"5550101", "5550102", "5550103", "5550104", "APAC-SECRET", "987654 in binary"}
    assert send("GET", f"{TABLE}/token", None).status_code == 200


def test_tokens_are_withheld_for_the_table_and_its_branches(
    catalog: SqlCatalog, sends: Callable[[str], Send]
) -> None:
    Lake(catalog).create_table("sales.other", pa.schema([("id", pa.int64())]))
    send = sends("ada")
    for table in ("people", "people$branch_trial"):
        answer = send("GET", f"/v1/main/databases/sales/tables/{table}/token", None)
        assert answer.status_code == 403, table
        assert "policies restrict" in answer.json()["message"]
    # One for another table opens that table alone.
    for method, what, body in (("GET", "token", None), ("POST", "read", {})):
        other = f"/v1/main/databases/sales/tables/other/{what}"
        assert send(method, other, body).status_code == 200
