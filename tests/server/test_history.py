"""Commits, snapshots, tags and consumers over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

MakeSnapshot = Callable[..., dict[str, object]]
Commit = Callable[..., httpx.Response]


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert answer.status_code == body["code"]
    assert body["message"]
    return body["code"], body["resourceType"], body["resourceName"]


def _directory(http: httpx.Client, table: str) -> Path:
    return Path(http.get(table).json()["path"].removeprefix("file://"))


def test_an_empty_table_answers_404_about_a_snapshot(http: httpx.Client, orders: str) -> None:
    assert _error(http.get(f"{orders}/snapshot"))[:2] == (404, "SNAPSHOT")
    assert http.get(f"{orders}/snapshots").json() == {"snapshots": [], "nextPageToken": None}
    for version in ("1", "LATEST", "EARLIEST", "a-tag"):
        answer = http.get(f"{orders}/snapshots/{version}")
        assert _error(answer) == (404, "SNAPSHOT", version)


def test_a_snapshot_comes_back_as_it_was_sent(
    http: httpx.Client, orders: str, snapshot: MakeSnapshot
) -> None:
    odd = snapshot(
        1,
        statistics=None,
        fieldOfTomorrow={"nested": [1, 2.5, None, {"ü": "\u0000"}]},
        watermark=-(2**63),
        commitIdentifier=2**63 - 1,
    )
    odd["indexManifest"] = None
    body = {
        "baseSnapshotUuid": None,
        "snapshot": odd,
        "statistics": [
            {
                "spec": {"dt": "2026-01-01"},
                "recordCount": 7,
                "fileSizeInBytes": 700,
                "fileCount": 2,
                "lastFileCreationTime": 17,
                "totalBuckets": 2,
                "fieldOfTomorrow": 1,
            }
        ],
    }
    assert http.post(f"{orders}/commit", json=body).json() == {"success": True}
    latest = http.get(f"{orders}/snapshot").json()["snapshot"]
    assert latest == {
        "snapshot": odd,
        "recordCount": 7,
        "fileSizeInBytes": 700,
        "fileCount": 2,
        "lastFileCreationTime": 17,
    }
    for version in ("1", "LATEST", "EARLIEST"):
        assert http.get(f"{orders}/snapshots/{version}").json() == {"snapshot": odd}
    assert http.get(f"{orders}/snapshots").json()["snapshots"] == [odd]
    file = _directory(http, orders) / "snapshot" / "snapshot-1"
    assert json.loads(file.read_text()) == odd


def test_a_conflict_is_an_answer_and_a_replay_a_success(
    http: httpx.Client, orders: str, snapshot: MakeSnapshot, commit: Commit
) -> None:
    assert commit(orders, 1).json() == {"success": True}
    rival: dict[str, object] = {
        "baseSnapshotUuid": None,
        "snapshot": snapshot(1, uuid="rival"),
        "statistics": [],
    }
    answer = http.post(f"{orders}/commit", json=rival)
    assert (answer.status_code, answer.json()) == (200, {"success": False})
    assert commit(orders, 1).json() == {"success": True}
    assert commit(orders, 2).json() == {"success": True}
    assert commit(orders, 2).json() == {"success": True}
    assert commit(orders, 4).json() == {"success": False}
    assert [item["id"] for item in http.get(f"{orders}/snapshots").json()["snapshots"]] == [2, 1]


def test_a_client_without_uuids_commits(
    http: httpx.Client, orders: str, snapshot: MakeSnapshot, commit: Commit
) -> None:
    # Paimon 1.3 and 1.4, after a commit of a newer client.
    assert commit(orders, 1).json() == {"success": True}
    for number, success in ((2, True), (3, True), (5, False)):
        body = {"tableId": None, "snapshot": snapshot(number, uuid=None), "statistics": None}
        assert http.post(f"{orders}/commit", json=body).json() == {"success": success}


def test_another_tables_id_is_a_missing_table(
    http: httpx.Client, orders: str, snapshot: MakeSnapshot
) -> None:
    body: dict[str, object] = {"tableId": "another", "snapshot": snapshot(1), "statistics": []}
    assert _error(http.post(f"{orders}/commit", json=body)) == (404, "TABLE", "sales.orders")
    body["tableId"] = http.get(orders).json()["id"]
    assert http.post(f"{orders}/commit", json=body).json() == {"success": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"id": "1"},
        {"id": True},
        {"schemaId": 9},
        {"commitKind": "EXPLODE"},
        {"baseManifestList": 7},
        {"commitUser": None},
        {"timeMillis": "now"},
    ],
)
def test_a_wrong_snapshot_is_refused(
    http: httpx.Client, orders: str, snapshot: MakeSnapshot, changes: dict[str, object]
) -> None:
    body = {"snapshot": snapshot(1, **changes), "statistics": []}
    assert _error(http.post(f"{orders}/commit", json=body))[0] == 400
    assert _error(http.get(f"{orders}/snapshot"))[:2] == (404, "SNAPSHOT")


def test_a_commit_without_its_parts_is_refused(http: httpx.Client, orders: str) -> None:
    bodies: list[dict[str, object]] = [
        {},
        {"snapshot": None},
        {"snapshot": []},
        {"snapshot": {}, "statistics": 1},
    ]
    for body in bodies:
        assert _error(http.post(f"{orders}/commit", json=body))[0] == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b'{"snapshot": null}',
        b'{"snapshot": {"id": 0}}',
        b"[]",
        b"\xff",
        b'{"snapshot": {"commitUser": "\\ud800"}}',
    ],
)
def test_a_commit_to_a_table_that_is_not_there_is_404_whatever_it_says(
    http: httpx.Client, orders: str, body: bytes
) -> None:
    missing = orders.replace("orders", "missing")
    for way in ("", "?way=ordinary"):
        answer = http.post(f"{missing}/commit{way}", content=body)
        assert _error(answer)[:2] == (404, "TABLE")
        answer = http.post(f"{orders}/commit{way}", content=body)
        assert _error(answer)[0] == 400
        assert answer.headers["x-headwater-error"] == "Invalid"


def test_snapshots_come_in_pages(http: httpx.Client, orders: str, commit: Commit) -> None:
    for number in range(1, 6):
        assert commit(orders, number).json() == {"success": True}
    first = http.get(f"{orders}/snapshots", params={"maxResults": "2"}).json()
    assert [item["id"] for item in first["snapshots"]] == [5, 4]
    params = {"maxResults": "3", "pageToken": first["nextPageToken"]}
    second = http.get(f"{orders}/snapshots", params=params).json()
    assert [item["id"] for item in second["snapshots"]] == [3, 2, 1]
    assert second["nextPageToken"] is None


def test_a_table_rolls_back(http: httpx.Client, orders: str, commit: Commit) -> None:
    def rollback(instant: dict[str, object], **more: object) -> httpx.Response:
        return http.post(f"{orders}/rollback", json={"instant": instant, **more})

    for number in range(1, 5):
        assert commit(orders, number).json() == {"success": True}
    for tag, number in (("early", 1), ("late", 3)):
        body = {"tagName": tag, "snapshotId": number}
        assert http.post(f"{orders}/tags", json=body).json() == {}
    to_three = {"type": "snapshot", "snapshotId": 3}
    assert rollback(to_three, fromSnapshot=2).status_code == 409
    assert rollback(to_three, fromSnapshot=4).json() == {}
    assert http.get(f"{orders}/snapshot").json()["snapshot"]["snapshot"]["id"] == 3
    assert _error(rollback({"type": "snapshot", "snapshotId": 9})) == (404, "SNAPSHOT", "9")
    assert _error(rollback({"type": "tag", "tagName": "nothing"})) == (404, "TAG", "nothing")
    assert rollback({"type": "tag", "tagName": "early"}).json() == {}
    assert http.get(f"{orders}/tags").json()["tags"] == ["early"]
    assert [item["id"] for item in http.get(f"{orders}/snapshots").json()["snapshots"]] == [1]
    wrongs: list[dict[str, object]] = [{"type": "moon"}, {"snapshotId": 1}, {"type": "tag"}, {}]
    for wrong in wrongs:
        assert _error(rollback(wrong))[0] == 400


def test_tags_live(http: httpx.Client, orders: str, commit: Commit) -> None:
    tags = f"{orders}/tags"
    assert _error(http.post(tags, json={"tagName": "v1"}))[:2] == (404, "SNAPSHOT")
    for number in (1, 2):
        assert commit(orders, number).json() == {"success": True}
    assert http.post(tags, json={"tagName": "v1", "snapshotId": 1}).json() == {}
    body = {"tagName": "v2 (ü)", "snapshotId": None, "timeRetained": "1 d"}
    assert http.post(tags, json=body).json() == {}
    assert _error(http.post(tags, json={"tagName": "v1"})) == (409, "TAG", "v1")
    assert http.post(tags, json={"tagName": "v1", "ignoreIfExists": True}).json() == {}
    one = http.get(f"{tags}/v1").json()
    assert (one["tagName"], one["snapshot"]["id"]) == ("v1", 1)
    assert (one["tagCreateTime"], one["tagTimeRetained"]) == (None, None)
    two = http.get(f"{tags}/v2+%28%C3%BC%29").json()
    assert (two["snapshot"]["id"], two["tagTimeRetained"]) == (2, "1d")
    assert two["tagCreateTime"] > 1_700_000_000_000
    assert http.get(f"{orders}/snapshots/v1").json()["snapshot"]["id"] == 1
    assert http.get(tags).json() == {"tags": ["v1", "v2 (ü)"], "nextPageToken": None}
    assert http.get(tags, params={"tagNamePrefix": "v2"}).json()["tags"] == ["v2 (ü)"]
    assert http.get(tags, params={"maxResults": "1"}).json()["nextPageToken"] == "v1"
    assert http.delete(f"{tags}/v1").json() == {}
    assert _error(http.delete(f"{tags}/v1")) == (404, "TAG", "v1")
    assert _error(http.get(f"{tags}/v1")) == (404, "TAG", "v1")
    for wrong in ("", "a/b", "../../x"):
        assert _error(http.post(tags, json={"tagName": wrong}))[0] == 400
    assert _error(http.post(tags, json={"tagName": "v3", "timeRetained": "soon"}))[0] == 400
    assert _error(http.post(tags, json={"tagName": "v3", "snapshotId": 9}))[:2] == (404, "SNAPSHOT")


def test_consumers_move(http: httpx.Client, orders: str, commit: Commit) -> None:
    def reset(consumer_id: str, next_snapshot: int | None) -> httpx.Response:
        body = {"consumerId": consumer_id, "nextSnapshotId": next_snapshot}
        return http.post(f"{orders}/consumers/reset", json=body)

    for number in (1, 2, 3):
        assert commit(orders, number).json() == {"success": True}
    assert reset("billing", 2).json() == {}
    assert reset("audit", 1).json() == {}
    files = _directory(http, orders) / "consumer"
    assert json.loads((files / "consumer-billing").read_text()) == {
        "nextSnapshot": 2,
        "lastSnapshotUuid": "uuid-1",
    }
    (files / "consumer-billing").write_text('{"nextSnapshot": 3}')  # another engine moved it
    listed = http.get(f"{orders}/consumers").json()
    assert [(item["consumerId"], item["nextSnapshot"]) for item in listed["consumers"]] == [
        ("audit", 1),
        ("billing", 3),
    ]
    assert reset("audit", None).json() == {}
    assert not (files / "consumer-audit").exists()
    for name in ("", "a/b", "../x"):
        assert _error(reset(name, 1))[0] == 400


def test_a_query_sees_everything(http: httpx.Client, orders: str) -> None:
    answer = http.post(f"{orders}/auth", json={"select": ["amount"]})
    assert answer.json() == {"filter": [], "columnMasking": {}}
    assert http.post(f"{orders}/auth", json={"select": None}).status_code == 200
    missing = http.post(f"{orders}/auth", json={"select": ["nothing"]})
    assert _error(missing) == (404, "COLUMN", "nothing")


def test_a_lost_snapshot_file_is_told(http: httpx.Client, orders: str, commit: Commit) -> None:
    assert commit(orders, 1).json() == {"success": True}
    (_directory(http, orders) / "snapshot" / "snapshot-1").unlink()
    answer = http.get(f"{orders}/snapshots")
    assert _error(answer)[0] == 500
    assert "snapshot-1" in answer.json()["message"]
    assert answer.headers["x-headwater-error"] == "CorruptData"


@pytest.mark.parametrize("way", ["", "?way=ordinary"])
def test_a_uuid_that_was_committed_with_another_content_is_a_conflict(
    http: httpx.Client, orders: str, snapshot: Callable[..., dict[str, object]], way: str
) -> None:
    def send(**fields: object) -> httpx.Response:
        body: dict[str, object] = {"snapshot": snapshot(1, **fields), "baseSnapshotUuid": None}
        body["statistics"] = []
        return http.post(f"{orders}/commit{way}", json=body)

    assert send().json() == {"success": True}
    # The same once more is what a client sends that lost the answer.
    assert send().json() == {"success": True}
    refused = send(commitUser="another")
    assert refused.status_code == 409
    assert "uuid-1" in refused.json()["message"]
    assert http.get(f"{orders}/snapshots/1").json()["snapshot"]["commitUser"] == "a-user"
