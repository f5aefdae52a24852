"""Large bodies, ordinary ones and nasty ones, and what others are answered meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import plain_http
from tests.server.conftest import TOKEN

from headwater.server import large_bodies
from headwater.server.json_slices import decode
from headwater.server.large_bodies import MOST_ON_LOOP

SIZE = 4 * 1024 * 1024
_DATABASE = '{"name":"sales","options":'
_HEAD = '{"tableId":null,"baseSnapshotUuid":null,"snapshot":{"version":3,"id":1},"statistics":'


def _commit(snapshot: dict[str, object], partitions: int) -> bytes:
    statistics = [
        {"spec": {"dt": f"day-{number}"}, "recordCount": 1, "fileSizeInBytes": 2, "fileCount": 3}
        for number in range(partitions)
    ]
    body = {"baseSnapshotUuid": None, "snapshot": snapshot, "statistics": statistics}
    return json.dumps(body).encode()


def test_a_large_commit_is_taken_as_a_small_one_is(
    http: httpx.Client, orders: str, snapshot: Callable[..., dict[str, object]]
) -> None:
    body = _commit(snapshot(1), 1500)
    assert len(body) > MOST_ON_LOOP
    assert http.post(f"{orders}/commit", content=body, timeout=60).json() == {"success": True}
    latest = http.get(f"{orders}/snapshot").json()["snapshot"]
    assert (latest["recordCount"], latest["fileCount"]) == (1500, 4500)


def test_others_are_answered_while_one_is_read(
    http: httpx.Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def held(text: str) -> object:
        begun.set()
        assert go_on.wait(60)
        return decode(text)

    monkeypatch.setattr(large_bodies, "decode", held)
    content = json.dumps({"name": "sales"}).encode().ljust(MOST_ON_LOOP + 1)
    with ThreadPoolExecutor(1) as threads:
        large = threads.submit(http.post, "/v1/main/databases", content=content, timeout=60)
        try:
            assert begun.wait(60)
            for path in ("/healthz", "/v1/main/databases"):
                headers = {"authorization": f"Bearer {TOKEN}"}
                assert plain_http.get(address + path, headers=headers).status_code == 200
            assert not large.done()
        finally:
            go_on.set()
        assert large.result().status_code == 200


def _filled(head: str, item: str, end: str) -> str:
    many = (SIZE - len(head) - len(end)) // (len(item) + 1)
    return head + ",".join([item] * many) + end


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(_filled(_HEAD + "[", "1", "]}"), "commas", id="numbers"),
        pytest.param(_filled(_HEAD + "[", "[]", "]}"), "commas", id="arrays"),
        pytest.param(_filled(_HEAD + "[", "{}", "]}"), "commas", id="objects"),
        pytest.param(_HEAD + "[" * SIZE, "body", id="as deep as it is long"),
        pytest.param(_HEAD + "[" * 100_000 + "]" * 100_000 + "}", "deeper than 100", id="deep"),
        pytest.param(_HEAD + "[" + "1," * 100_000 + "1]}", "values of a wrong type", id="wrong"),
        pytest.param(_HEAD + "[" + "1," * 40_000 + '"1]}', "line 1, column", id="no end"),
        pytest.param(_DATABASE + "9" * 1_000_000 + "}", "4300 digits", id="a long number"),
        pytest.param(_DATABASE + '{"a":0.' + "9" * 1_000_000 + "}}", "'options.a'", id="digits"),
        pytest.param(_DATABASE + '{"a":"' + "\\ud83d" * 100_000 + '"}}', "pair", id="halves"),
        pytest.param(_DATABASE + '{"a":"' + "x" * (SIZE - 100) + '"', "line 1", id="a string"),
    ],
)
def test_nasty_bodies_get_one_short_error(http: httpx.Client, body: str, words: str) -> None:
    path = "/v1/main/databases"
    if body.startswith(_HEAD):
        http.post(path, json={"name": "sales"})
        path += "/sales/tables/orders/commit"
    content = body.encode()[:SIZE]
    answer = http.post(path, content=content, timeout=120)
    if body.startswith(_HEAD):
        # Of a table that is not there, that is told first.
        assert (answer.status_code, answer.json()["resourceType"]) == (404, "TABLE")
        answer = http.post("/v1/main/tables/rename", content=content, timeout=120)
        words = words if "wrong type" not in words else "source"
    assert answer.status_code == 400
    assert words in answer.json()["message"]
    assert len(answer.text) < 10_000
    assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize("count", [100, 50_000])
def test_many_wrong_values_are_not_all_told(http: httpx.Client, orders: str, count: int) -> None:
    body = {"snapshot": {}, "statistics": [7] * count}
    answer = http.post(f"{orders}/commit", json=body)
    assert answer.status_code == 400
    assert len(answer.text) < 5000
    assert ("and 80 more" in answer.text) == (count == 100)
    assert (f"{count} values of a wrong type" in answer.text) == (count > 100)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@given(value=_JSON, slice_characters=st.integers(1, 30), indent=st.sampled_from([None, 1]))
def test_slices_are_read_as_the_whole(
    value: object, slice_characters: int, indent: int | None
) -> None:
    assert decode(json.dumps(value, indent=indent), slice_characters) == value


@given(value=_JSON, slice_characters=st.integers(1, 30), changes=st.data())
def test_slices_are_refused_as_the_whole(
    value: object, slice_characters: int, changes: st.DataObject
) -> None:
    text = list(json.dumps(value))
    for _ in range(changes.draw(st.integers(1, 3))):
        at = changes.draw(st.integers(0, len(text)))
        text[at : at + changes.draw(st.integers(0, 2))] = changes.draw(
            st.text('[]{},:"1 .e\\', max_size=2)
        )
    whole = "".join(text)
    try:
        expected = json.loads(whole)
    except json.JSONDecodeError:
        with pytest.raises(json.JSONDecodeError):
            decode(whole, slice_characters)
    else:
        assert decode(whole, slice_characters) == expected


def test_what_is_deep_is_refused_in_any_slices() -> None:
    deep: list[object] = [1] * 3000
    for _ in range(200):
        deep = [deep]
    with pytest.raises(json.JSONDecodeError, match="Nested deeper than 100"):
        decode(json.dumps(deep))
