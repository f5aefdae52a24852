"""Branches and schema rollback over the wire, as Java and pypaimon send and expect them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

Commit = Callable[..., httpx.Response]


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert answer.status_code == body["code"]
    assert body["message"]
    return body["code"], body["resourceType"], body["resourceName"]


def _post(http: httpx.Client, path: str, **body: object) -> httpx.Response:
    # As Java up to 1.4 sends it.
    return http.post(path, content=json.dumps(body), headers={"content-type": "text/plain"})


def _names(http: httpx.Client, table: str) -> object:
    answer = http.get(f"{table}/branches")
    assert answer.status_code == 200
    return answer.json()["branches"]


@pytest.fixture
def history(orders: str, commit: Commit) -> None:
    """Two snapshots."""
    assert commit(orders, 1).json() == {"success": True}
    assert commit(orders, 2).json() == {"success": True}


@pytest.mark.usefixtures("history")
def test_a_branch_is_a_table_under_another_name(
    http: httpx.Client, orders: str, commit: Commit
) -> None:
    assert _names(http, orders) == []
    assert _post(http, f"{orders}/branches", branch="b", fromTag=None).status_code == 200
    assert _names(http, orders) == ["b"]
    branch = f"{orders}%24branch_b"
    told, main = http.get(branch).json(), http.get(orders).json()
    assert (told["name"], told["id"], told["path"]) == (
        "orders$branch_b",
        main["id"],
        main["path"],
    )
    assert _error(http.get(f"{branch}/snapshot"))[:2] == (404, "SNAPSHOT")
    assert commit(branch, 1).json() == {"success": True}
    assert http.get(f"{branch}/snapshot").json()["snapshot"]["snapshot"]["id"] == 1
    assert http.get(f"{orders}/snapshot").json()["snapshot"]["snapshot"]["id"] == 2
    assert _post(http, f"{branch}/tags", tagName="v1").status_code == 200
    assert http.get(f"{branch}/tags").json()["tags"] == ["v1"]
    assert http.get(f"{orders}/tags").json()["tags"] == []
    reset = {"consumerId": "billing", "nextSnapshotId": 1}
    assert _post(http, f"{branch}/consumers/reset", **reset).status_code == 200
    path = Path(told["path"].removeprefix("file://")) / "branch" / "branch-b"
    assert (path / "consumer" / "consumer-billing").exists()


@pytest.mark.usefixtures("history")
def test_a_branch_is_made_from_a_tag_renamed_forwarded_and_dropped(
    http: httpx.Client, orders: str, commit: Commit
) -> None:
    assert _post(http, f"{orders}/tags", tagName="v1", snapshotId=1).status_code == 200
    assert _post(http, f"{orders}/branches", branch="a b", fromTag="v1").status_code == 200
    assert commit(f"{orders}%24branch_a+b", 2, uuid="other").json() == {"success": True}
    renamed = _post(http, f"{orders}/branches/a+b/rename", toBranch="c")
    assert (renamed.status_code, _names(http, orders)) == (200, ["c"])
    assert _post(http, f"{orders}/branches/c/forward").status_code == 200
    latest = http.get(f"{orders}/snapshot").json()["snapshot"]["snapshot"]
    assert (latest["id"], latest["uuid"]) == (2, "other")
    assert http.delete(f"{orders}/branches/c").status_code == 200
    assert _names(http, orders) == []
    assert _error(http.get(f"{orders}%24branch_c"))[:2] == (404, "TABLE")


@pytest.mark.usefixtures("history")
def test_the_errors_that_clients_turn_into_exceptions(
    http: httpx.Client, sales: str, orders: str
) -> None:
    nowhere = f"{sales}/tables/nowhere"
    assert _error(http.get(f"{nowhere}/branches"))[:2] == (404, "TABLE")
    assert _error(_post(http, f"{nowhere}/branches", branch="b"))[:2] == (404, "TABLE")
    missing_tag = _post(http, f"{orders}/branches", branch="b", fromTag="none")
    assert _error(missing_tag) == (404, "TAG", "none")
    assert _post(http, f"{orders}/branches", branch="b").status_code == 200
    assert _post(http, f"{orders}/branches", branch="c").status_code == 200
    for taken in (
        _post(http, f"{orders}/branches", branch="b"),
        _post(http, f"{orders}/branches/c/rename", toBranch="b"),
    ):
        assert _error(taken) == (409, "BRANCH", "b")
    for missing in (
        http.delete(f"{orders}/branches/none"),
        _post(http, f"{orders}/branches/none/forward"),
        _post(http, f"{orders}/branches/none/rename", toBranch="d"),
    ):
        assert _error(missing) == (404, "BRANCH", "none")
    for wrong in (
        _post(http, f"{orders}/branches", branch="main"),
        _post(http, f"{orders}/branches", branch="17"),
        _post(http, f"{orders}/branches"),
        _post(http, f"{orders}/branches/main/forward"),
        http.delete(f"{orders}/branches/main"),
    ):
        assert wrong.status_code == 400


def test_a_schema_is_rolled_back(http: httpx.Client, orders: str, commit: Commit) -> None:
    change = {"action": "setOption", "key": "write-only", "value": "true"}
    for _ in range(2):
        assert _post(http, orders, changes=[change]).status_code == 200
        change = {**change, "value": "false"}
    assert commit(orders, 1, schemaId=1).json() == {"success": True}
    assert _post(http, f"{orders}/rollback-schema", schemaId=1).status_code == 200
    assert http.get(orders).json()["schemaId"] == 1
    used = _post(http, f"{orders}/rollback-schema", schemaId=0)
    assert used.status_code == 409
    assert "schema 1 is still referenced by snapshots/tags/changelogs" in used.json()["message"]
    assert _post(http, f"{orders}/rollback-schema", schemaId=999).status_code == 400


@pytest.mark.usefixtures("history")
def test_a_rollback_compares_what_it_undoes(http: httpx.Client, orders: str) -> None:
    instant = {"type": "snapshot", "snapshotId": 1}
    refused = _post(http, f"{orders}/rollback", instant=instant, fromSnapshot=7)
    assert refused.status_code == 409
    assert "Latest snapshot 2 is not 7" in refused.json()["message"]
    done = _post(http, f"{orders}/rollback", instant=instant, fromSnapshot=2)
    assert done.status_code == 200
    assert http.get(f"{orders}/snapshot").json()["snapshot"]["snapshot"]["id"] == 1
