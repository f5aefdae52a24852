"""JSON of many messages at once: what it finds is what Python's reader finds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.kafka.json_text import JsonBatch
from headwater.storage.errors import CorruptData

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(["a", "b", 'q"', "back\\", "ü€😀", "{", ":", "", "\n"])
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def _texts(texts: list[bytes]) -> list[Any]:
    batch = JsonBatch(texts, "messages")
    texts_of_a: list[Any] = batch.text(batch.members(batch.values)["a"]).to_pylist()
    return texts_of_a


def _batch(*values: object, **how: Any) -> JsonBatch:
    return JsonBatch([json.dumps(value, **how).encode() for value in values], "messages")


@given(
    st.lists(OBJECTS, max_size=5),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_members_are_those_that_python_reads(
    objects: list[dict[str, Any]], escapes: bool, indent: int | None
) -> None:
    batch = _batch(*objects, ensure_ascii=escapes, indent=indent)
    members = batch.members(batch.values)
    assert members.cells.keys() == {name for value in objects for name in value}
    for name, cells in members.cells.items():
        assert cells.is_present.tolist() == [name in value for value in objects]
        raw, text = batch.raw(cells).to_pylist(), batch.text(cells).to_pylist()
        for row, value in enumerate(objects):
            expected = value.get(name)
            assert (raw[row] is None) == (expected is None)
            if raw[row] is not None:
                assert json.loads(raw[row]) == expected
            if isinstance(expected, str):
                assert text[row] == expected
            elif expected is not None:
                assert text[row] == raw[row].decode()


@given(st.lists(st.lists(VALUES, max_size=4) | st.none(), max_size=5), st.sampled_from([None, 2]))
def test_items_are_those_that_python_reads(
    arrays: list[list[Any] | None], indent: int | None
) -> None:
    batch = _batch(*({"a": array} for array in arrays), indent=indent)
    rows, items = batch.items(batch.members(batch.values)["a"])
    read: list[list[Any] | None] = [None if array is None else [] for array in arrays]
    for row, text in zip(rows.tolist(), batch.raw(items).to_pylist(), strict=True):
        part = read[row]
        assert part is not None
        part.append(None if text is None else json.loads(text))
    assert read == arrays


def test_nested_objects_at_different_depths() -> None:
    values = [{"payload": {"x": {"a": 1}}}, {"x": {"a": 2, "b": {"a": 3}}}, {"x": None}]
    batch = _batch(*values)
    top = batch.members(batch.values)
    inner = batch.members(top["payload"])
    merged = batch.members(top["x"])
    assert batch.text(batch.members(inner["x"])["a"]).to_pylist() == ["1", None, None]
    assert batch.text(merged["a"]).to_pylist() == [None, "2", None]
    assert batch.raw(merged["b"]).to_pylist() == [None, b'{"a": 3}', None]


def test_numbers_keep_their_digits() -> None:
    text = '{"big": 9223372036854775807, "long": 1.10000000000000000000000000000000001, "e": 1E30}'
    batch = JsonBatch([text.encode()], "messages")
    members = batch.members(batch.values)
    assert [batch.text(members[name])[0].as_py() for name in ("big", "long", "e")] == [
        "9223372036854775807",
        "1.10000000000000000000000000000000001",
        "1E30",
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"abc",
        b"[1]",
        b'"text"',
        b"{",
        b'{"a": 1',
        b'{"a": 1}}',
        b'{"a": 1} {"a": 2}',
        b'{"a": 1 2}',
        b'{"a" 1}',
        b'{"a": nul}',
        b'{"a": "x}',
        b'{"a": "\xff"}',
        b"\x00\x00\x00\x00\x01abc",
    ],
)
def test_other_texts_are_rejected(text: bytes) -> None:
    with pytest.raises(CorruptData):
        _texts([b'{"a": 1}', text, b'{"a": 2}'])


def test_a_member_that_is_there_twice_is_rejected() -> None:
    batch = JsonBatch([b'{"a": 1, "b": 2, "a": 3}'], "messages")
    with pytest.raises(CorruptData, match="two members 'a'"):
        batch.members(batch.values)


def test_no_messages() -> None:
    batch = JsonBatch([], "messages")
    assert batch.members(batch.values).cells == {}
    assert len(batch.items(batch.values)[0]) == 0
    assert np.array_equal(batch.is_null(batch.values), np.zeros(0, bool))
