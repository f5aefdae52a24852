"""A snapshot's JSON is kept as its client wrote it, to the byte of each value."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from headwater.catalog.sql import SqlCatalog

# What a parser and a printer between them would change.
VALUES = {
    "a long fraction": "0.1000000000000000055511151231257827",
    "zeros at the end": "1.1000",
    "an exponent": "1E+2",
    "beyond a double": "1e400",
    "beyond 64 bits": "123456789012345678901234567890",
    "minus zero": "-0",
    "an escape": r'"\u00e9\/\ud83d\ude00"',
    "plain text": '"é😀"',
    "a separator": '"\u2028"',
    "an object": '{"b": [1.50, null, {}], "a": true}',
    "null": "null",
}


def _snapshot(value: str, snapshot_id: int = 1) -> str:
    return (
        f'{{"version": 3, "uuid": "uuid-{snapshot_id}", "id": {snapshot_id}, "schemaId": 0, '
        '"baseManifestList": "a", "deltaManifestList": "b", "commitUser": "me", '
        '"commitIdentifier": 9223372036854775807, "commitKind": "APPEND", "timeMillis": 1, '
        f'"fromTheFuture":  {value} }}'
    )


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_every_value_comes_back_as_it_was_sent(
    http: httpx.Client, catalog: SqlCatalog, orders: str, value: str
) -> None:
    sent = _snapshot(value)
    body = f' {{"statistics": [], "snapshot" : {sent} , "baseSnapshotUuid": null, "more": [1]}} '
    for _ in range(2):  # and once more: a replay
        answer = http.post(f"{orders}/commit", content=body.encode())
        assert answer.json() == {"success": True}, answer.text
    for path in ("snapshot", "snapshots", "snapshots/1", "snapshots/LATEST"):
        assert sent in http.get(f"{orders}/{path}").text
    assert http.post(f"{orders}/tags", json={"tagName": "first"}).status_code == 200
    assert f'"fromTheFuture":  {value}' in http.get(f"{orders}/tags/first").text
    (file,) = Path(catalog.location.removeprefix("file://")).rglob("snapshot-1")
    assert file.read_text() == sent
