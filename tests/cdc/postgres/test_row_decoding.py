"""Rows in messages of pgoutput, as a server writes them, against the rows they were made from."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cdc.postgres.logs import Row, as_text, plain_rows

from headwater.cdc.model.tables import TableName
from headwater.cdc.postgres.copy_messages import MessageChunk
from headwater.cdc.postgres.messages import Kind, Message, RowRun, frame
from headwater.cdc.postgres.packed_rows import PackedRows
from headwater.cdc.postgres.relations import (
    Relation,
    RelationColumn,
    ReplicaIdentity,
    parse_relation,
)
from headwater.cdc.postgres.rows import LogTableRows, decode_rows
from headwater.cdc.postgres.values import lake_values
from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import AtomicType, Root

OID, OTHER_OID = 16_400, 16_500
NAME = TableName("public", "t")
PADDING = bytes(64)
BIGINT = AtomicType(Root.BIGINT)
INSERT, BEFORE = RowKind.INSERT, RowKind.UPDATE_BEFORE
AFTER, DELETE = RowKind.UPDATE_AFTER, RowKind.DELETE


def wire_message(content: bytes) -> bytes:
    return b"d" + struct.pack(">I", len(content) + 4) + content


def chunk_of(*messages: bytes, slack: int = 0) -> MessageChunk:
    """Messages in a buffer that has more bytes after them."""
    ends = np.cumsum([len(message) for message in messages], dtype=np.int64)
    data = memoryview(b"".join((*messages, PADDING, bytes(slack))))
    return MessageChunk(data[: ends[-1] + len(PADDING)], ends)


class _Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = _Unchanged()
Value = str | None | _Unchanged
Values = Sequence[Value]


@dataclass(frozen=True)
class Change:
    """A change of a row as a message has it.

    Attributes:
        kind: The message: I, U or D.
        old: The row before it; of a key the values of the key.
        new: The row after it.
        is_key: Whether the old row is a key.
        tag: How the message calls the old row, which is what the identity of a whole table makes of
            it; None as it is.
    """

    kind: str
    old: Values | None
    new: Values | None
    is_key: bool = False
    tag: str | None = None

    def message(self, oid: int = OID) -> bytes:
        body = self.kind.encode() + struct.pack(">I", oid)
        if self.old is not None:
            tag = self.tag or ("K" if self.is_key else "O")
            body += tag.encode() + _tuple(self.old)
        if self.new is not None:
            body += b"N" + _tuple(self.new)
        return wire_message(b"w" + b"\xff" * 24 + body)

    def rows(self, relation: Relation) -> list[tuple[RowKind, Row]]:
        """What is to be decoded of it."""
        names = relation.column_names
        old, new = dict(zip(names, self.old or (), strict=False)), {}
        if self.is_key:
            old = {column.name: old[column.name] for column in relation.columns if column.is_key}
        if self.new is not None:
            new = dict(zip(names, self.new, strict=True))
            new = {
                key: old.get(key, value) if value is UNCHANGED else value
                for key, value in new.items()
            }
        kinds = {"I": (INSERT,), "U": (BEFORE, AFTER), "D": (DELETE,)}[self.kind]
        both = [row for row, is_there in ((old, self.old), (new, self.new)) if is_there is not None]
        return [
            (kind, {key: value for key, value in row.items() if not isinstance(value, _Unchanged)})
            for kind, row in zip(kinds[-len(both) :], both, strict=True)
        ]


def _tuple(values: Values) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(map(_value, values))


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        data = value.encode()
        return b"t" + struct.pack(">I", len(data)) + data
    return b"n" if value is None else b"u"


def relation_of(
    columns: int, keys: int = 1, identity: ReplicaIdentity = ReplicaIdentity.DEFAULT
) -> Relation:
    return Relation(
        OID,
        NAME,
        identity,
        tuple(RelationColumn(f"c{index}", 25, -1, index < keys) for index in range(columns)),
    )


def packed(messages: Sequence[bytes], slab_bytes: int, chunk: int, slack: int = 0) -> PackedRows:
    """The rows of one table among messages, cut into chunks."""
    rows = PackedRows(slab_bytes)
    for first in range(0, len(messages), chunk):
        some = messages[first : first + chunk]
        for run in frame(chunk_of(*some, slack=slack), "the test"):
            assert isinstance(run, RowRun)
            if run.oid == OID:
                rows.add(run)
    return rows


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.just("x" * 300)
VALUES = st.none() | TEXTS
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1).map(str)


@st.composite
def changes(
    draw: st.DrawFn, columns: int, keys: int, is_key: bool, value: st.SearchStrategy[str | None]
) -> Change:
    whole = st.lists(value, min_size=columns, max_size=columns)
    partial = st.lists(value | st.just(UNCHANGED), min_size=columns, max_size=columns)
    kind, tag = draw(st.sampled_from("IUD")), draw(st.sampled_from("OK"))
    if kind == "I":
        return Change(kind, None, draw(whole))
    old = draw(whole)
    if is_key:
        # The server writes nulls for the columns that are not of the key.
        old = [value if index < keys else None for index, value in enumerate(old)]
    if kind == "D":
        return Change(kind, old, None, is_key, tag)
    if draw(st.booleans()):
        return Change(kind, None, draw(partial))
    return Change(kind, old, draw(partial), is_key, tag)


@st.composite
def tables_with_changes(
    draw: st.DrawFn, value: st.SearchStrategy[str | None] = VALUES
) -> tuple[Relation, list[Change]]:
    columns = draw(st.sampled_from([0, 1, 2, 3, 5, 9]))
    keys = draw(st.integers(0, columns))
    identity = draw(st.sampled_from([ReplicaIdentity.DEFAULT, ReplicaIdentity.FULL]))
    is_key = identity is ReplicaIdentity.DEFAULT
    written = draw(st.lists(changes(columns, keys, is_key, value), max_size=12))
    return relation_of(columns, keys, identity), written


@given(tables_with_changes(), st.integers(1, 500), st.integers(1, 8), st.integers(0, 500))
@example((relation_of(0), [Change("I", None, ())]), 1, 1, 0)
@example((relation_of(2), [Change("U", ("1", None), ("1", UNCHANGED), is_key=True)]), 1000, 1, 0)
def test_rows_are_decoded_as_they_were_written(
    table: tuple[Relation, list[Change]], slab_bytes: int, chunk: int, slack: int
) -> None:
    relation, written = table
    rows = packed([change.message() for change in written], slab_bytes, chunk, slack)
    expected = [row for change in written for row in change.rows(relation)]
    assert list(plain_rows(LogTableRows(relation, rows, as_text))) == expected


@given(tables_with_changes(NUMBERS), st.integers(1, 500), st.integers(1, 8))
@example(
    (
        relation_of(2, 0, ReplicaIdentity.FULL),
        [Change("I", None, ("1", "2")), Change("U", ("3", "4"), (UNCHANGED, "5"))],
    ),
    500,
    8,
)
def test_numbers_are_decoded_as_they_were_written(
    table: tuple[Relation, list[Change]], slab_bytes: int, chunk: int
) -> None:
    relation, written = table
    rows = packed([change.message() for change in written], slab_bytes, chunk)
    expected = [row for change in written for row in change.rows(relation)]
    decoded = plain_rows(LogTableRows(relation, rows, lake_values), "bigint", BIGINT)
    assert [
        (kind, {key: None if value is None else str(value) for key, value in row.items()})
        for kind, row in decoded
    ] == expected


@given(st.lists(st.sets(st.integers(0, 199), max_size=3), max_size=20))
@example([{index} for index in range(200)])
def test_rows_of_many_columns_lack_any_of_them(lacking: list[set[int]]) -> None:
    """More columns than bits in a word."""
    relation = relation_of(200, 0)
    written = [
        Change("U", None, [UNCHANGED if index in some else str(index) for index in range(200)])
        for some in lacking
    ]
    rows = packed([change.message() for change in written], 1 << 20, 8)
    expected = [row for change in written for row in change.rows(relation)]
    assert list(plain_rows(LogTableRows(relation, rows, as_text))) == expected


@given(st.lists(st.tuples(st.booleans(), TEXTS), max_size=30), st.integers(1, 10))
def test_rows_of_other_tables_among_them_are_left_out(
    written: list[tuple[bool, str]], chunk: int
) -> None:
    messages = [
        Change("I", None, [text]).message(OID if is_ours else OTHER_OID)
        for is_ours, text in written
    ]
    rows = packed(messages, 1 << 20, chunk)
    assert list(plain_rows(LogTableRows(relation_of(1), rows, as_text))) == [
        (INSERT, {"c0": text}) for is_ours, text in written if is_ours
    ]


@given(st.lists(st.lists(st.text("ab", max_size=40), max_size=5), max_size=8), st.integers(1, 200))
def test_rows_of_transactions_are_joined_in_their_order(
    transactions: list[list[str]], slab_bytes: int
) -> None:
    rows = PackedRows(slab_bytes)
    for texts in transactions:
        messages = [Change("I", None, [text]).message() for text in texts]
        rows.extend(packed(messages, slab_bytes, 2))
    expected = [text for texts in transactions for text in texts]
    assert rows.size == sum(len(Change("I", None, [text]).message()) for text in expected)
    assert list(plain_rows(LogTableRows(relation_of(1), rows, as_text))) == [
        (INSERT, {"c0": text}) for text in expected
    ]


def test_columns_that_rows_lack_are_named_once_for_all_of_their_kind() -> None:
    written = [
        Change("I", None, ("1", "a", "b")),
        Change("U", None, ("1", UNCHANGED, "b")),
        Change("U", ("1", None, None), ("2", UNCHANGED, None), is_key=True),
        Change("D", ("2", None, None), None, is_key=True),
    ]
    (slab,) = packed([change.message() for change in written], 1 << 20, 8).slabs()
    decoded = decode_rows(relation_of(3), slab)
    assert decoded.column_set is not None
    sets = [sorted(decoded.column_sets[index]) for index in decoded.column_set.to_pylist()]
    every, without, key = ["c0", "c1", "c2"], ["c0", "c2"], ["c0"]
    assert sets == [every, without, key, without, key]
    assert len(decoded.column_sets) == 3


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Change("I", None, ("a",)).message(), "expected 2 columns, got 1"),
        (Change("I", None, ("a", "b", "c")).message(), "expected 2 columns, got 3"),
        (Change("I", ("a", "b"), None).message(), "neither a new nor an old row"),
        (Change("D", None, ("a", "b")).message(), "neither a new nor an old row"),
        (Change("U", ("a", "b"), ("a",)).message(), "expected 2 columns, got 1"),
        (Change("U", ("a", "b"), None).message(), "no new row"),
        (Change("I", None, ("a", "b")).message() + b"n", "ends before its message"),
        (Change("I", None, ("a", "b")).message()[:-1], "ends before its message, or after it"),
        (Change("I", None, ("a", "b")).message().replace(b"t", b"b"), "neither text nor null"),
        (
            Change("I", None, ("a", "b")).message()[:-5] + b"\xff\xff\xff\xffb",
            "outside|ends before",
        ),
    ],
)
def test_rows_that_are_not_of_the_table_are_refused(message: bytes, reason: str) -> None:
    (slab,) = packed([message], 1 << 20, 1).slabs()
    with pytest.raises(CorruptData, match=reason):
        decode_rows(relation_of(2), slab)


def test_unknown_messages_are_refused() -> None:
    """Nothing is passed over: not a prepared transaction, nor one that is streamed."""
    for kind in b"bPKrpScE?":
        message = wire_message(b"w" + bytes(24) + bytes([kind]) + bytes(20))
        with pytest.raises(Unsupported, match="is not known"):
            list(frame(chunk_of(message), "the test"))


def test_the_end_of_a_transaction_that_was_rolled_back() -> None:
    """PostgreSQL 18 sends it also where it has sent no rows of the transaction."""
    message = wire_message(b"w" + bytes(24) + b"A" + bytes(8))
    (aborted,) = frame(chunk_of(message), "the test")
    assert isinstance(aborted, Message)
    assert aborted.kind == Kind.STREAM_ABORT


def test_a_message_of_another_stream_is_refused() -> None:
    for content in (b"d" + bytes(40), b"w" + bytes(24)):
        with pytest.raises(CorruptData, match="the test sent a message"):
            list(frame(chunk_of(wire_message(content)), "the test"))


@given(
    st.sampled_from("dnfi"),
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
            st.integers(0, 2**32 - 1),
            st.integers(-1, 2**31 - 1),
            st.booleans(),
        ),
        max_size=5,
    ),
)
def test_descriptions_of_tables_are_read_as_they_were_written(
    identity: str, columns: list[tuple[str, int, int, bool]]
) -> None:
    body = b"R" + struct.pack(">I", OID) + b"public\0t\0" + identity.encode()
    body += struct.pack(">H", len(columns))
    for column, type_oid, modifier, is_key in columns:
        body += bytes([is_key]) + column.encode() + b"\0" + struct.pack(">Ii", type_oid, modifier)
    message = wire_message(b"w" + bytes(24) + body)
    (found,) = frame(chunk_of(message), "the test")
    assert isinstance(found, Message)
    relation = parse_relation(found.body)
    assert relation == Relation(
        OID, NAME, ReplicaIdentity(identity), tuple(RelationColumn(*column) for column in columns)
    )
    for cut in range(1, len(body)):
        with pytest.raises(CorruptData):
            parse_relation(memoryview(body[:cut]))
