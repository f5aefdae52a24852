"""Partitions on the wire: the fields and codes that Paimon's clients expect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

Call = Callable[..., httpx.Response]


@pytest.fixture
def daily(http: httpx.Client, sales: str, schema: dict[str, object]) -> str:
    """The path of a table whose partitions are in the catalog."""
    options = {"bucket": "2", "metastore.partitioned-table": "TRUE"}
    body = {
        "identifier": {"database": "sales", "object": "daily"},
        "schema": {**schema, "options": options},
    }
    assert http.post(f"{sales}/tables", json=body).status_code == 200
    return f"{sales}/tables/daily"


def _partitions(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found = answer.json()["partitions"]
    assert isinstance(found, list)
    return found


def test_a_partition_has_every_field(
    http: httpx.Client, daily: str, snapshot: Callable[..., dict[str, object]]
) -> None:
    statistics = {
        "spec": {"dt": "a"},
        "recordCount": 10,
        "fileSizeInBytes": 1000,
        "fileCount": 1,
        "lastFileCreationTime": 7,
        "totalBuckets": 2,
    }
    body = {"snapshot": snapshot(1), "statistics": [statistics]}
    assert http.post(f"{daily}/commit", json=body).json() == {"success": True}
    answer = http.get(f"{daily}/partitions")
    assert answer.json()["nextPageToken"] is None
    (found,) = _partitions(answer)
    assert {key: found[key] for key in statistics} == statistics
    assert found["done"] is False
    assert found["createdAt"] > 0
    assert found["updatedAt"] > 0
    # pypaimon needs them present.
    assert {"createdBy", "updatedBy", "options"} <= found.keys()


def test_create_and_drop_as_java_asks(http: httpx.Client, daily: str) -> None:
    specs = [{"dt": "a"}, {"dt": "b"}]
    answer = http.post(f"{daily}/partitions", json={"partitionSpecs": specs})
    assert answer.json() == {"created": specs, "existed": []}
    body: dict[str, object] = {"partitionSpecs": specs, "ignoreIfExists": None}
    assert http.post(f"{daily}/partitions", json=body).json() == {"created": [], "existed": specs}
    body = {"partitionSpecs": specs, "ignoreIfExists": False}
    answer = http.post(f"{daily}/partitions", json=body)
    assert answer.status_code == 409
    error = answer.json()
    assert (error["code"], error["resourceType"], error["resourceName"]) == (
        409,
        "PARTITION",
        "dt=a",
    )
    gone = {"partitionSpecs": [{"dt": "a"}, {"dt": "z"}]}
    answer = http.post(f"{daily}/partitions/drop", json=gone)
    assert answer.json() == {"dropped": [{"dt": "a"}], "missing": [{"dt": "z"}]}
    answer = http.post(f"{daily}/partitions/drop", json={**gone, "ignoreIfNotExists": False})
    error = answer.json()
    assert (error["code"], error["resourceType"], error["resourceName"]) == (
        404,
        "PARTITION",
        "dt=a",
    )


def test_mark_done(http: httpx.Client, daily: str) -> None:
    answer = http.post(f"{daily}/partitions/mark", json={"specs": [{"dt": "a"}]})
    assert (answer.status_code, answer.json()) == (200, {})
    (found,) = _partitions(http.get(f"{daily}/partitions"))
    assert (found["spec"], found["done"]) == ({"dt": "a"}, True)


def test_lists(http: httpx.Client, daily: str) -> None:
    specs = [{"dt": f"{number:03}"} for number in range(150)]
    http.post(f"{daily}/partitions", json={"partitionSpecs": specs})
    first = http.get(f"{daily}/partitions")
    token = first.json()["nextPageToken"]
    second = http.get(f"{daily}/partitions", params={"pageToken": token})
    assert [item["spec"] for item in _partitions(first) + _partitions(second)] == specs
    named = http.get(f"{daily}/partitions", params={"partitionNamePattern": "dt=14%"})
    assert [item["spec"]["dt"][:2] for item in _partitions(named)] == ["14"] * 10
    # Java's client takes the first page of these for all of them.
    answer = http.post(f"{daily}/partitions/list-by-names", json={"specs": [*specs, {"dt": "z"}]})
    assert [item["spec"] for item in _partitions(answer)] == specs
    assert answer.json()["nextPageToken"] is None


def test_list_by_filter(http: httpx.Client, daily: str) -> None:
    specs = [{"dt": f"{number:03}"} for number in range(150)]
    http.post(f"{daily}/partitions", json={"partitionSpecs": specs})
    reference = {"index": 0, "name": "dt", "type": "STRING"}
    condition = {
        "kind": "LEAF",
        "transform": {"name": "FIELD_REF", "fieldRef": reference},
        "function": "GREATER_OR_EQUAL",
        "literals": ["145"],
    }
    body: dict[str, object] = {"filter": json.dumps(condition), "maxResults": 0, "pageToken": None}
    answer = http.post(f"{daily}/partitions/list-by-filter", json=body)
    assert [item["spec"] for item in _partitions(answer)] == specs[145:]
    for wrong in ({}, {"filter": ""}, {"filter": "x"}, {**body, "maxResults": -1}):
        answer = http.post(f"{daily}/partitions/list-by-filter", json=wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, 400)


def test_partitions_in_files_are_501(http: httpx.Client, orders: str) -> None:
    condition = json.dumps({"kind": "LEAF"})
    for answer in (
        http.get(f"{orders}/partitions"),
        http.post(f"{orders}/partitions", json={"partitionSpecs": []}),
        http.post(f"{orders}/partitions/drop", json={"partitionSpecs": []}),
        http.post(f"{orders}/partitions/mark", json={"specs": []}),
        http.post(f"{orders}/partitions/list-by-names", json={"specs": []}),
        http.post(f"{orders}/partitions/list-by-filter", json={"filter": condition}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (501, 501)
