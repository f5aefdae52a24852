"""File indexes as bytes: built over columns, asked for conditions, and damaged."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from headwater.storage.errors import CorruptData
from headwater.storage.index.file_index.build import FileIndexBuilder, container_bytes
from headwater.storage.index.file_index.check import check_values
from headwater.storage.index.file_index.container import Bytes, IndexContainer, write_container
from headwater.storage.index.file_index.evaluate import matching_rows
from headwater.storage.predicate.filter import (
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from headwater.storage.schema.file_indexes import FileIndex
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField, parse_type, to_arrow
from headwater.storage.types.values import StorageValue

EXACT = ("bitmap", "range-bitmap", "bsi")
TYPES: Mapping[str, tuple[Sequence[StorageValue], Sequence[str]]] = {
    "BOOLEAN": ([True, False], ["bitmap", "range-bitmap"]),
    "TINYINT": ([-128, -1, 0, 5, 127], ["bloom-filter", *EXACT]),
    "INT": ([-(2**31), -70000, -1, 0, 1, 2, 70000, 2**31 - 1], ["bloom-filter", *EXACT]),
    "BIGINT": ([-(2**63) + 1, -(2**40), -1, 0, 1, 2**40, 2**63 - 1], ["bloom-filter", *EXACT]),
    "FLOAT": (
        [-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, math.nan],
        ["bloom-filter", "bitmap", "range-bitmap"],
    ),
    "DOUBLE": (
        [-math.inf, -1.5, -5e-324, -0.0, 0.0, 0.1, math.inf, math.nan],
        ["bloom-filter", "bitmap", "range-bitmap"],
    ),
    "DECIMAL(12, 2)": (
        [Decimal("-10.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("99.99")],
        ["range-bitmap", "bsi"],
    ),
    "STRING": (
        ["", "\0", "a", "ab", "abc", "abcd", "b", "é", "\ue000", "𝄞", "y" * 70],
        ["bloom-filter", "bitmap", "range-bitmap"],
    ),
    "BYTES": ([b"", b"\0", b"\xff\xfe", b"a" * 40], ["bloom-filter"]),
    "DATE": ([-1, 0, 1, 20000], ["bloom-filter", *EXACT]),
    "TIME(3)": ([0, 1, 86_399_999], ["bloom-filter", *EXACT]),
    "TIMESTAMP(3)": ([-1, 0, 1_700_000_000_000], ["bloom-filter", *EXACT]),
    "TIMESTAMP(6)": ([-1, 0, 1_700_000_000_000_001], ["bloom-filter", *EXACT]),
    # Several of one microsecond, before and after the epoch.
    "TIMESTAMP(9)": (
        [-1001, -1000, -999, -1, 0, 999, 1000, 1001],
        ["bloom-filter", "bitmap", "bsi"],
    ),
}
SMALL = {"index-block-size": "40 b", "chunk-size": "24 b", "items": "50", "fpp": "0.01"}


def _key(value: StorageValue) -> object:
    """Compares as SQL does here: the zeros are one, NaN is one and the greatest."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _is_true(leaf: Predicate, value: StorageValue) -> bool:
    match leaf:
        case IsNull():
            return (value is None) is not leaf.negated
        case And():
            return all(_is_true(part, value) for part in leaf.operands)
        case Or():
            return any(_is_true(part, value) for part in leaf.operands)
        case _ if value is None:
            return False
        case In():
            return (_key(value) in [_key(v) for v in leaf.values]) is not leaf.negated
        case StartsWith():
            return str(value).startswith(leaf.prefix) is not leaf.negated
        case Comparison():
            low, high = _key(value), _key(leaf.value)
            tests: Mapping[str, Callable[[], bool]] = {
                "=": lambda: low == high,
                "!=": lambda: low != high,
                "<": lambda: low < high,  # type: ignore[operator]
                "<=": lambda: low <= high,  # type: ignore[operator]
                ">": lambda: low > high,  # type: ignore[operator]
                ">=": lambda: low >= high,  # type: ignore[operator]
            }
            return tests[leaf.op]()
        case Not():
            return not _is_true(leaf.operand, value)
    raise AssertionError(leaf)


def _container(
    kinds: Sequence[str],
    data_type: str,
    values: Sequence[StorageValue],
    parts: int = 1,
    **more: str,
) -> tuple[bytes, DataField]:
    item = DataField(0, "c", parse_type(data_type))
    indexes = [FileIndex(kind, "c", None, {**SMALL, **more}) for kind in kinds]
    builder = FileIndexBuilder(indexes, {"c": item})
    rows = pa.table({"c": pa.array(values, to_arrow(item.type))})
    step = -(-len(values) // parts)
    for start in range(0, len(values), step):
        builder.add(rows.slice(start, step))
    return container_bytes(indexes, builder.bodies()), item


def _rows(data: bytes, item: DataField, predicate: Predicate, count: int) -> BitMap | None:
    container = IndexContainer.open(Bytes(data), "an index")
    return matching_rows(container, predicate, {"c": item}, count)


def _leaves(values: Sequence[StorageValue]) -> st.SearchStrategy[Predicate]:
    value = st.sampled_from([each for each in values if each is not None])
    operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds(lambda op, v: Comparison("c", op, v), operators, value),
        st.builds(
            lambda found, negated: In("c", tuple(found), negated),
            st.lists(value, max_size=3),
            st.booleans(),
        ),
        st.builds(lambda negated: IsNull("c", negated), st.booleans()),
    )


@pytest.mark.parametrize("data_type", sorted(TYPES))
def test_an_index_answers_for_each_value(data_type: str) -> None:
    values, kinds = TYPES[data_type]
    rows = [None, *values, None, *reversed(values), values[0]]
    for kind in kinds:
        built, item = _container([kind], data_type, rows)
        for leaf in _every_leaf(values):
            _check(kind, data_type, rows, leaf, _rows(built, item, leaf, len(rows)))


@pytest.mark.parametrize("data_type", sorted(TYPES))
def test_an_index_of_nulls_alone_says_so(data_type: str) -> None:
    values, kinds = TYPES[data_type]
    for kind in kinds:
        built, item = _container([kind], data_type, [None] * 3, parts=2)
        assert _rows(built, item, Comparison("c", "=", values[0]), 3) == BitMap()
        for leaf in _every_leaf(values):
            _check(kind, data_type, [None] * 3, leaf, _rows(built, item, leaf, 3))


def _every_leaf(values: Sequence[StorageValue]) -> Iterator[Predicate]:
    yield from (IsNull("c"), IsNull("c", negated=True))
    for value in values:
        yield from (Comparison("c", "=", value), Comparison("c", "!=", value))
        yield from (In("c", (value, values[0])), In("c", (value, values[0]), negated=True))
        if not isinstance(value, bytes):
            yield from (Comparison("c", "<", value), Comparison("c", "<=", value))
            yield from (Comparison("c", ">", value), Comparison("c", ">=", value))


def _check(
    kind: str,
    data_type: str,
    rows: Sequence[StorageValue],
    leaf: Predicate,
    found: BitMap | None,
) -> None:
    """No matching row is left out; where the index knows each row, no other is in."""
    expected = BitMap(at for at, value in enumerate(rows) if _is_true(leaf, value))
    if found is None:
        is_asked_of_order = isinstance(leaf, Comparison) and leaf.op not in ("=", "!=")
        assert kind == "bloom-filter" or data_type == "TIMESTAMP(9)" or is_asked_of_order
        assert kind in ("bloom-filter", "bitmap") or data_type == "TIMESTAMP(9)"
        return
    assert found >= expected
    if kind in EXACT and data_type != "TIMESTAMP(9)":
        assert found == expected


@pytest.mark.modes
@settings(max_examples=300)
@given(st.data())
def test_an_index_leaves_no_matching_row_out_and_a_bitmap_no_other_in(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(sorted(TYPES)))
    values, kinds = TYPES[data_type]
    kind = data.draw(st.sampled_from(list(kinds)))
    rows = data.draw(st.lists(st.sampled_from([None, *values]), min_size=1, max_size=40))
    version = data.draw(st.sampled_from(["1", "2"]))
    built, item = _container([kind], data_type, rows, data.draw(st.integers(1, 3)), version=version)
    leaf = data.draw(_leaves(values))
    _check(kind, data_type, rows, leaf, _rows(built, item, leaf, len(rows)))


@pytest.mark.modes
@settings(max_examples=100)
@given(st.data())
def test_conditions_are_combined(data: st.DataObject) -> None:
    values, _ = TYPES["INT"]
    rows = data.draw(st.lists(st.sampled_from([None, *values]), min_size=1, max_size=30))
    kinds = data.draw(st.sampled_from([["bloom-filter", "range-bitmap"], ["bitmap", "bsi"]]))
    built, item = _container(kinds, "INT", rows)
    tree = data.draw(
        st.recursive(
            _leaves(values),
            lambda part: st.one_of(
                st.builds(lambda parts: And(tuple(parts)), st.lists(part, min_size=1, max_size=3)),
                st.builds(lambda parts: Or(tuple(parts)), st.lists(part, min_size=1, max_size=3)),
            ),
            max_leaves=6,
        )
    )
    expected = BitMap(at for at, value in enumerate(rows) if _is_true(tree, value))
    assert _rows(built, item, tree, len(rows)) == expected


def test_a_bloom_filter_excludes_most_of_what_is_not_there() -> None:
    built, item = _container(["bloom-filter"], "BIGINT", range(1000), items="1000", fpp="0.05")
    missing = range(10_000, 11_000)
    hashes = sum(_rows(built, item, Comparison("c", "=", v), 1000) is None for v in missing)
    assert 0 < hashes < 100
    assert all(_rows(built, item, Comparison("c", "=", v), 1000) is None for v in range(100))


def test_the_hashes_are_those_of_java() -> None:
    # As Paimon 2.0.0 writes them; the tests with that library compare whole indexes.
    assert _filter("BIGINT", [1, -7, 2**40]) == "0000000388ce01"
    assert _filter("DOUBLE", [0.0, -0.0, 1.5, math.nan]) == "000000038d3062"
    assert _filter("STRING", ["", "a", "x" * 33]) == "000000037849a0"


def _filter(data_type: str, values: Sequence[StorageValue]) -> str:
    built, _ = _container(["bloom-filter"], data_type, values, items="5", fpp="0.1")
    body = IndexContainer.open(Bytes(built), "an index").body("c", "bloom-filter")
    assert body is not None
    return body.hex()


def test_values_of_one_key_are_not_excluded_by_their_like() -> None:
    # An index holds timestamps in microseconds: these are two values and one key.
    built, item = _container(["bitmap", "bsi"], "TIMESTAMP(9)", [1001, 1002])
    for leaf in (
        Comparison("c", "!=", 1001),
        In("c", (1001,), negated=True),
        Comparison("c", "<", 1002),
        Comparison("c", ">", 1001),
    ):
        rows = _rows(built, item, leaf, 2)
        assert rows is None or rows == BitMap([0, 1])


def test_the_least_long_has_no_place_in_a_bit_slice_index() -> None:
    built, item = _container(["bsi", "range-bitmap"], "BIGINT", [-(2**63), 5])
    assert list(IndexContainer.open(Bytes(built), "an index").places["c"]) == ["range-bitmap"]
    assert _rows(built, item, Comparison("c", "<", 0), 2) == BitMap([0])


def test_unknown_kinds_are_left_alone() -> None:
    built, item = _container(["bitmap"], "INT", [1, 2])
    bodies = IndexContainer.open(Bytes(built), "an index").bodies()
    bodies["c"]["of tomorrow"] = b"\1\2\3"
    bodies["other"] = {"of tomorrow": None}
    extended = write_container(bodies)
    assert IndexContainer.open(Bytes(extended), "an index").bodies() == bodies
    assert _rows(extended, item, Comparison("c", "=", 2), 2) == BitMap([1])


@given(
    st.dictionaries(
        st.text(max_size=9), st.dictionaries(st.text(max_size=5), st.none() | st.binary())
    )
)
def test_a_container_is_read_as_it_was_written(
    bodies: dict[str, dict[str, bytes | None]],
) -> None:
    read = IndexContainer.open(Bytes(write_container(bodies)), "an index").bodies()
    assert read == bodies
    assert list(read) == list(bodies)


@pytest.mark.parametrize("kind", ["bloom-filter", *EXACT])
def test_what_is_cut_off_is_named(kind: str) -> None:
    values = [None, *range(-20, 20), 7, 7]
    built, item = _container([kind], "INT", values)
    leaf = Comparison("c", "=", 7)
    for length in range(len(built)):
        with pytest.raises(CorruptData, match="an index"):
            _rows(built[:length], item, leaf, len(values))
    with pytest.raises(CorruptData, match="begin"):
        IndexContainer.open(Bytes(b"x" + built[1:]), "an index")
    # The index itself, in a container that is whole: what is not needed may be missing.
    body = IndexContainer.open(Bytes(built), "an index").body("c", kind)
    assert body is not None
    expected = BitMap(at for at, value in enumerate(values) if value == 7)
    refused = 0
    for length in range(len(body)):
        cut = write_container({"c": {kind: body[:length]}})
        try:
            rows = _rows(cut, item, leaf, len(values))
        except CorruptData:
            refused += 1
        else:
            assert rows == expected or kind == "bloom-filter"
    assert refused > 4


@pytest.mark.parametrize("kind", EXACT)
def test_an_index_of_another_file_is_refused(kind: str) -> None:
    built, item = _container([kind], "INT", [1, 2, 3])
    with pytest.raises(CorruptData, match="3 rows"):
        _rows(built, item, Comparison("c", "=", 2), 4)


# Damage ---------------------------------------------------------------------------------------

FLIPPED: Mapping[str, tuple[str, Sequence[StorageValue]]] = {
    "bloom-filter": ("INT", [None, 1, 2, 70000]),
    "bitmap": ("STRING", [None, "a", "b", "a", "abcd", None]),
    "range-bitmap": ("INT", [None, -1, 0, 5, 5, 2**31 - 1]),
    "bsi": ("INT", [None, -3, 0, 5, 5]),
}


def _every_flip(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def _without_checksums(data: bytes) -> bytes:
    """The same indexes as Paimon writes them, with nothing in the bytes that it reserves."""
    [(name, kinds)] = IndexContainer.open(Bytes(data), "an index").bodies().items()
    [(kind, body)] = kinds.items()
    assert body is not None
    length = 16 + 4 + 2 + len(name) + 4 + 2 + len(kind) + 8 + 4
    head = struct.pack(">qii", 1493475289347502, 1, length) + struct.pack(">i", 1)
    head += struct.pack(">H", len(name)) + name.encode() + struct.pack(">i", 1)
    head += struct.pack(">H", len(kind)) + kind.encode() + struct.pack(">ii", length, len(body))
    return head + struct.pack(">i", 0) + body


def _answers(data: bytes, item: DataField, values: Sequence[StorageValue]) -> list[BitMap | None]:
    present = [value for value in values if value is not None]
    return [_rows(data, item, leaf, len(values)) for leaf in _every_leaf(present)]


def _check_content(data: bytes, item: DataField, values: Sequence[StorageValue]) -> None:
    schema = TableSchema(0, (item,), 0, (), (), {}, None, 0)
    column = pa.record_batch({"c": pa.array(values, to_arrow(item.type))})
    container = IndexContainer.open(Bytes(data), "an index")
    check_values(container, schema, len(values), lambda columns: [column.select(columns)])


@pytest.mark.parametrize("kind", sorted(FLIPPED))
def test_every_changed_bit_is_found_or_changes_no_answer(kind: str) -> None:
    data_type, values = FLIPPED[kind]
    built, item = _container([kind], data_type, values, items="4")
    answers = _answers(built, item, values)
    _check_content(built, item, values)
    harmless = 0
    for flipped in _every_flip(built):
        try:
            assert _answers(flipped, item, values) == answers
            harmless += 1
        except CorruptData:
            continue
    # Only the mark that says that there are checksums is not covered by them.
    assert harmless == 8 * len(b"headwater.crc32")


@pytest.mark.parametrize("kind", sorted(FLIPPED))
def test_without_checksums_a_comparison_with_the_rows_finds_what_hides_one(kind: str) -> None:
    data_type, values = FLIPPED[kind]
    built, item = _container([kind], data_type, values, items="4")
    plain = _without_checksums(built)
    answers = _answers(plain, item, values)
    assert answers == _answers(built, item, values)
    _check_content(plain, item, values)
    refused = 0
    for flipped in _every_flip(plain):
        try:
            _check_content(flipped, item, values)
        except CorruptData:
            refused += 1
            continue
        for before, after in zip(answers, _answers(flipped, item, values), strict=True):
            # A filter that lets more values through hides none; the name is the column's no more.
            assert after is None or (before is not None and before <= after)
    assert refused > len(plain)


@pytest.mark.parametrize("data_type", sorted(TYPES))
def test_indexes_of_every_type_fit_their_rows(data_type: str) -> None:
    values, kinds = TYPES[data_type]
    rows = [None, *values, None, *reversed(values), values[0]]
    for version in ("1", "2"):
        built, item = _container(kinds, data_type, rows, version=version)
        _check_content(built, item, rows)
        if kinds != ["bloom-filter"]:
            with pytest.raises(CorruptData, match="malformed"):
                _check_content(built, item, [*rows[:-1], values[1]])


def test_reserved_bytes_of_another_writer_are_left_alone() -> None:
    built, item = _container(["bitmap"], "INT", [1, 2])
    other = built.replace(b"headwater.crc32", b"somebody.crc32x")
    assert _rows(other, item, Comparison("c", "=", 2), 2) == BitMap([1])
