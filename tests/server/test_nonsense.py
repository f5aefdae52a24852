"""Nonsense is answered with an error of the contract, which tells nothing of the server."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.modes

DEEP = 100_000
# Of a traceback, of SQL, of the places of modules.
TELLING = ("Traceback", "SELECT", "INSERT", "sqlalchemy", "sqlite", "site-packages", ".py")
HUGE = 2**70

SNAPSHOTS: dict[str, dict[str, object]] = {
    "times beyond all": {"timeMillis": HUGE},
    "negative times": {"timeMillis": -1},
    "negative ids": {"id": -5},
    "ids beyond all": {"id": 2**63},
    "the last id": {"id": 2**63 - 1},
    "negative schemas": {"schemaId": -1},
    "identifiers beyond all": {"commitIdentifier": HUGE},
    "fractions": {"id": 1.5},
    "truth": {"id": True},
    "no number": {"watermark": float("nan")},
    "other kinds": {"commitKind": "X"},
    "null characters": {"commitUser": "a\0b"},
    "null characters in names": {"deltaManifestList": "a\0b"},
    "ways out": {"baseManifestList": "../../x"},
    "long names": {"commitUser": "x" * 100_000},
    "long uuids": {"uuid": "u" * 300},
    "counts beyond all": {"totalRecordCount": HUGE},
    "negative counts": {"totalRecordCount": -1},
    "other properties": {"properties": {"a": 1}},
    "properties that are no texts": {"properties": {"a": {}}},
    "no properties": {"properties": ["a"]},
    "row ids below all": {"nextRowId": -1},
    "versions beyond all": {"version": 2**31},
}
# Not the next snapshot, or odd and yet what engines can read.
TAKEN: list[dict[str, object]] = [
    {"id": 2**63 - 1},
    {"totalRecordCount": -1},
    {"properties": {"a": 1}},
    {"commitUser": "x" * 100_000},
]
STATISTICS: dict[str, dict[str, object]] = {
    "sizes beyond all": {"recordCount": HUGE},
    "the last size": {"recordCount": 2**63 - 1},
    "sizes below all": {"fileCount": -(2**62)},
    "buckets beyond all": {"totalBuckets": 2**40},
    "other partitions": {"spec": {"x": "y"}},
    "null characters": {"spec": {"dt": "\0"}},
}


def _is_of_the_contract(answer: httpx.Response) -> None:
    body = answer.json()
    if answer.status_code != 200:
        assert 400 <= answer.status_code < 500, answer.text[:300]
        assert body.keys() == {"message", "resourceType", "resourceName", "code"}
        assert (body["code"], bool(body["message"])) == (answer.status_code, True)
    assert not [word for word in TELLING if word in answer.text], answer.text[:300]


def _sent(http: httpx.Client, orders: str, content: bytes) -> set[int]:
    statuses: set[int] = set()
    for way in ("", "?way=ordinary"):
        answer = http.post(f"{orders}/commit{way}", content=content)
        _is_of_the_contract(answer)
        statuses.add(answer.status_code)
    return statuses


@pytest.mark.parametrize("fields", SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_snapshots_of_nonsense(
    http: httpx.Client,
    orders: str,
    snapshot: Callable[..., dict[str, object]],
    fields: dict[str, object],
) -> None:
    body: dict[str, object] = {"snapshot": snapshot(1, **fields), "statistics": []}
    statuses = _sent(http, orders, json.dumps(body).encode())
    assert statuses == {400} or fields in TAKEN
    assert http.get(f"{orders}/snapshots").json()["snapshots"] == [] or fields in TAKEN


@pytest.mark.parametrize("fields", STATISTICS.values(), ids=STATISTICS)
def test_statistics_of_nonsense(
    http: httpx.Client,
    orders: str,
    snapshot: Callable[..., dict[str, object]],
    fields: dict[str, object],
) -> None:
    names = ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime", "totalBuckets")
    statistics = {"spec": {"dt": "a"}, **dict.fromkeys(names, 1), **fields}
    body = {"snapshot": snapshot(7), "baseSnapshotUuid": None, "statistics": [statistics]}
    _sent(http, orders, json.dumps(body).encode())


def test_bodies_that_are_no_request(
    http: httpx.Client, orders: str, snapshot: Callable[..., dict[str, object]]
) -> None:
    whole = json.dumps({"snapshot": snapshot(7), "statistics": []}).encode()
    bodies = [
        b"[" * DEEP + b"]" * DEEP,
        b'{"snapshot":' * DEEP + b"1" + b"}" * DEEP,
        whole[:-1] + b',"of tomorrow":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"snapshot":{"properties":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}}",
        whole[:-1] + b',"snapshot":{"id":1}}',
        b'{"snapshot":"\xff"}',
        b"",
        b"null",
        b"[1]",
        b"\\ud800",
        b'{"a": "\\',
    ]
    for body in bodies:
        _sent(http, orders, body)
    assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize("padding", [0, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("way", ["", "?way=ordinary"])
def test_what_is_said_twice_is_refused(
    http: httpx.Client,
    orders: str,
    snapshot: Callable[..., dict[str, object]],
    way: str,
    padding: int,
) -> None:
    one = json.dumps(snapshot(1))
    other = json.dumps(snapshot(1, uuid="another"))
    bodies = [
        f'{{"snapshot":{one},"snapshot":{other},"statistics":[]}}',
        f'{{"snapshot":{one[:-1]},"uuid":"another"}},"statistics":[]}}',
        f'{{"snapshot":{one[:-1]},"properties":{{"a":"1","\\u0061":"2"}}}},"statistics":[]}}',
    ]
    for body in bodies:
        answer = http.post(f"{orders}/commit{way}", content=body[:-1] + " " * padding + "}")
        assert answer.status_code == 400, answer.text
        assert "twice" in answer.json()["message"]
    assert http.get(f"{orders}/snapshot").status_code == 404
    made = http.post("/v1/main/databases", content='{"name":"a1","name":"a2"}')
    assert (made.status_code, "'name' twice" in made.text) == (400, True)
    assert http.get("/v1/main/databases").json()["databases"] == ["sales"]


@pytest.mark.parametrize("way", ["", "?way=ordinary"])
def test_a_snapshot_has_not_the_uuid_of_its_base(
    http: httpx.Client,
    orders: str,
    snapshot: Callable[..., dict[str, object]],
    commit: Callable[..., httpx.Response],
    way: str,
) -> None:
    assert commit(orders, 1).json() == {"success": True}
    body = {"snapshot": snapshot(2, uuid="uuid-1"), "baseSnapshotUuid": "uuid-1", "statistics": []}
    answer = http.post(f"{orders}/commit{way}", json=body)
    assert (answer.status_code, "the uuid of its base" in answer.text) == (400, True)
    assert http.get(f"{orders}/snapshot").json()["snapshot"]["snapshot"]["id"] == 1


def test_a_message_does_not_repeat_a_long_request(http: httpx.Client, orders: str) -> None:
    answer = http.post(f"{orders}/read", json={"where": "amount = " + "-" * 200_000 + "1"})
    assert answer.status_code == 400
    assert len(answer.content) < 5000


def test_a_condition_that_takes_long_to_read_is_refused_unread(
    http: httpx.Client, orders: str
) -> None:
    longest = "amount = 1" + " " * (262_144 - 10)
    assert http.post(f"{orders}/read", json={"where": longest}).status_code == 200
    answer = http.post(f"{orders}/read", json={"where": longest + " "})
    assert answer.status_code == 400
    assert "'where' has 262,145 characters, and may have 262,144" in answer.text


def test_a_number_of_a_billion_digits_stops_nobody(http: httpx.Client, orders: str) -> None:
    for where in (
        "amount = 1e999999999",
        "amount > -1e-999999999",
        "amount < CAST(1e999999999 AS INT)",
    ):
        answer = http.post(f"{orders}/read", json={"where": where})
        assert answer.status_code in (200, 501), answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/v1/main/databases/a%00b",
        "/v1/main/databases/%ff",
        "/v1/main/databases/" + "x" * 3000,
        "/v1/main/databases?databaseNamePattern=%25%25%25%5c",
        "/v1/main/databases?databaseNamePattern=" + "%25_" * 5000,
        "/v1/main/databases?maxResults=-1",
        "/v1/main/databases?pageToken=%00",
        "{orders}/snapshots/%00",
        "{orders}/tags/%00",
        "{orders}%24branch_%00/snapshot",
    ],
)
def test_paths_of_nonsense(http: httpx.Client, orders: str, path: str) -> None:
    _is_of_the_contract(http.get(path.replace("{orders}", orders)))


# In the place of every part of a path that is not the warehouse.
PARTS = ("..%2f..%2fetc", "%00", "'%20OR%201=1--", "x" * 300, "%ff", "-1", "", "%F0%9F%92%A9", "{}")
BODIES = (None, b"{}", b'{"a":', b'{"name":1,"snapshot":{},"identifier":[],"changes":"x"}')


def test_every_route_with_nonsense(http: httpx.Client, orders: str, tmp_path: Path) -> None:
    paths: dict[str, dict[str, object]] = http.get("/openapi.json").json()["paths"]
    asked = 0
    for path, operations in paths.items():
        here = re.sub(r"\{(prefix|warehouse)\}", "main", path)
        for method in operations:
            bodies = BODIES if method in ("post", "put", "patch") else BODIES[:1]
            for part, body in itertools.product(PARTS if "{" in here else PARTS[:1], bodies):
                if method == "delete" and here.endswith("/warehouses/main"):
                    continue
                found = re.sub(r"\{[^}]*\}", lambda _, part=part: part, here)  # type: ignore[misc]
                answer = http.request(method, found, content=body)
                asked += 1
                about = (method, found, body, answer.text[:300])
                if answer.status_code >= 400:
                    assert answer.status_code < 500 or answer.status_code == 501, about
                    fields = {"message", "resourceType", "resourceName", "code"}
                    assert answer.json().keys() == fields, about
                    telling = (*TELLING, str(tmp_path), "hw_")
                    assert not [word for word in telling if word in answer.text], about
    assert asked > 1000
