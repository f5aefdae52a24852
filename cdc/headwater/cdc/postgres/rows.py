"""Rows in messages of pgoutput, decoded to Arrow columns of the text that the log has.

A value has no fixed place, so where a value begins follows from the one before it. The rows of many
messages are walked in lock step instead: the i-th value of every row is one NumPy step. Then the
text of each column is taken out of the log by Arrow, all rows at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns import (
    BadDates,
    LogBytes,
    Nulls,
    Offsets,
    binary_column,
    spaced_column,
    values_at_even_places,
)
from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.postgres.messages import BODY_AT, Kind
from headwater.cdc.postgres.packed_rows import PackedRows, RowsSlab
from headwater.cdc.postgres.relations import Relation, ReplicaIdentity
from headwater.cdc.postgres.values import can_be_spaced
from headwater.cdc.source.log_batches import LoggedRows
from headwater.storage.errors import CorruptData
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import to_arrow

__all__ = ["Convert", "DecodedRows", "LogTableRows", "decode_rows"]

Convert = Callable[[pa.Array, SourceColumn, BadDates], pa.Array]
"""Makes values of the lake from PostgreSQL's text of a column, an array of ``binary``."""

_Flags = npt.NDArray[np.bool_]

# After the kind and the table's OID: which tuple follows, how many columns it has, and these.
_TUPLE_AT = BODY_AT + 5
_TUPLE_HEAD = 3
_NEW, _OLD, _KEY = ord("N"), ord("O"), ord("K")
_TEXT, _NULL, _UNCHANGED = ord("t"), ord("n"), ord("u")
# Of the eight bytes from the kind on: all but the OID.
_HEAD_MASK = np.uint64(int.from_bytes(bytes.fromhex("ff00000000ffffff"), sys.byteorder))
# The kind of a value, and the length of its text.
_TEXT_HEAD = 5
_LENGTH_SHIFT, _LENGTH_BITS, _LENGTH_MASK = np.uint64(24), np.uint64(32), np.uint64(0xFFFFFFFF)
_TEXT_WORD = np.uint64(_TEXT << 56)
# Flags that fit in the codes of sets of columns.
_MAX_CODE_BITS = 62


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Decoded rows of one table, in the order of the log.

    Attributes:
        columns: The text of each of the table's columns, as ``binary``, and of those that are to be
            spaced as of `spaced_column`; a value that the log leaves out is null.
        kinds: The row kind of each row, as ``int8`` (`RowKind`). An update is the row after it,
            with the row before it where the log has that, or its key.
        column_sets: The columns that rows have, by name.
        column_set: The index in `column_sets` of each row, as ``int32``; None where every row has
            every column.
    """

    columns: Sequence[pa.Array]
    kinds: pa.Array
    column_sets: tuple[frozenset[str], ...] = ()
    column_set: pa.Array | None = None


@dataclass(frozen=True)
class LogTableRows:
    """Rows of a table in one shape, in the order of the log, as the log has them.

    Attributes:
        relation: The table, as the log describes it, with the replica identity of these rows.
        rows: The rows.
        convert: Makes values of the lake from the log's text.
    """

    relation: Relation
    rows: PackedRows
    convert: Convert

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns that the log has."""
        return self.relation.column_names

    @property
    def has_rows_before(self) -> bool:
        """Whether the log has rows as they were before updates, and all columns of deleted ones."""
        return self.relation.identity is ReplicaIdentity.FULL

    @property
    def size(self) -> int:
        """Their bytes in the log."""
        return self.rows.size

    def parts(self, size: int) -> Iterator[LogTableRows]:
        """The rows in parts of at least some bytes, in their order; no update is divided."""
        return (replace(self, rows=part) for part in self.rows.parts(size))

    def decoded(
        self, table: SourceTable, bad_dates: BadDates, changed: Sequence[str] = ()
    ) -> Iterator[LoggedRows]:
        """Decode the rows.

        Args:
            table: The table, with the types that its columns have in the lake. A column that the
                log does not have is left out of all rows.
            bad_dates: What to do with dates that the lake does not have.
            changed: Not used: rows before updates are there where the key changed, or all columns
                identify rows.

        Raises:
            CorruptData, Invalid, Unsupported: A value cannot be in the lake.
        """
        schema = pa.schema(
            [pa.field(column.name, to_arrow(column.type)) for column in table.columns]
        )
        places = {name: index for index, name in enumerate(self.relation.column_names)}
        lacks_some = any(column.name not in places for column in table.columns)
        spaced = {column.name for column in table.columns if can_be_spaced(column)}
        for slab in self.rows.slabs():
            decoded = decode_rows(self.relation, slab, spaced)
            columns = []
            for column, field in zip(table.columns, schema, strict=True):
                if column.name not in places:
                    columns.append(pa.nulls(len(decoded.kinds), field.type))
                    continue
                values = self.convert(decoded.columns[places[column.name]], column, bad_dates)
                columns.append(values_at_even_places(values) if column.name in spaced else values)
            column_sets, column_set = decoded.column_sets, decoded.column_set
            if lacks_some and column_set is None:
                column_sets = (frozenset(places),)
                column_set = pa.array(np.zeros(len(decoded.kinds), np.int32))
            rows = pa.Table.from_arrays(columns, schema=schema)
            yield LoggedRows(rows, decoded.kinds, column_sets, column_set)


class _Tuples(NamedTuple):
    """The tuples of messages, in the order of the log.

    Attributes:
        offsets: Where each one's values begin.
        kinds: The row kind of each.
        is_key: Which have the columns of the replica identity only; None if none.
        after: Those after an update that follow the one before it; None if none.
        ends: Where each message's last tuple must end.
        last: The last tuple of each message; None is each tuple.
    """

    offsets: Offsets
    kinds: npt.NDArray[np.int8]
    is_key: Nulls
    after: Offsets | None
    ends: Offsets
    last: Offsets | None


class _Values(NamedTuple):
    """The values of a column.

    Attributes:
        offsets: Where each one's text begins.
        lengths: How many bytes it has.
        is_null: Which have none; None if all have.
        is_unchanged: Which of these the log leaves out, as an update did not change them.
    """

    offsets: Offsets
    lengths: npt.NDArray[np.int64]
    is_null: Nulls
    is_unchanged: Nulls


def decode_rows(relation: Relation, slab: RowsSlab, spaced: Collection[str] = ()) -> DecodedRows:
    """Decode rows of one table.

    Args:
        relation: The table when these rows were sent, see `LogTableRows`.
        slab: The messages, in the order of the log.
        spaced: The columns whose texts are not to be copied.

    Raises:
        CorruptData: The rows are not of this table.
    """
    log = LogBytes(slab.data)
    try:
        tuples = _find_tuples(relation, log, slab.ends)
        return _decode(relation, log, tuples, spaced)
    except IndexError as error:
        raise log.outside() from error


def _find_tuples(relation: Relation, log: LogBytes, ends: Offsets) -> _Tuples:
    """Find the tuples of messages: one each, but two in an update that has the row before it."""
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    tuples = starts + _TUPLE_AT
    heads = log.view("u8")[starts + BODY_AT]
    heads &= _HEAD_MASK
    if (heads == _insert_head(relation)).all():
        kinds = np.full(len(starts), RowKind.INSERT, np.int8)
        return _Tuples(tuples + _TUPLE_HEAD, kinds, None, None, ends, None)
    data, counts = log.view("u1"), log.view(">u2")
    message, tag = data[starts + BODY_AT], data[tuples]
    is_insert, is_update = message == Kind.INSERT, message == Kind.UPDATE
    is_new = tag == _NEW
    is_old = (tag == _OLD) | (tag == _KEY)
    fits = is_insert & is_new | is_update & (is_new | is_old) | (message == Kind.DELETE) & is_old
    if not fits.all():
        raise _wrong(relation, "a message has neither a new nor an old row where one is expected")
    kinds = np.where(
        is_insert, RowKind.INSERT, np.where(is_update, RowKind.UPDATE_AFTER, RowKind.DELETE)
    ).astype(np.int8)
    # The tag is that of the whole table's identity, also where its partitions have another one.
    is_key = is_old & (relation.identity is not ReplicaIdentity.FULL)
    after = last = None
    (double,) = np.nonzero(is_update & is_old)
    if len(double):
        kinds[double] = RowKind.UPDATE_BEFORE
        _check_counts(relation, counts[tuples[double] + 1])
        second = tuples[double] + _TUPLE_HEAD
        for _ in relation.columns:
            second = _next_values(data, log.view(">u8"), second)
        if (data[second] != _NEW).any():
            raise _wrong(relation, "an update has no new row after the old one")
        # Each goes after the tuple that was found for its message.
        tuples = np.insert(tuples, double + 1, second)
        kinds = np.insert(kinds, double + 1, RowKind.UPDATE_AFTER)
        is_key = np.insert(is_key, double + 1, False)
        after = double + 1 + np.arange(len(double))
        last = np.arange(len(starts)) + np.cumsum(is_update & is_old)
    _check_counts(relation, counts[tuples + 1])
    has_keys = is_key if is_key.any() else None
    return _Tuples(tuples + _TUPLE_HEAD, kinds, has_keys, after, ends, last)


def _insert_head(relation: Relation) -> np.uint64:
    """What a message with a new row of the table begins with, as `_HEAD_MASK` leaves it."""
    head = bytes((Kind.INSERT, 0, 0, 0, 0, _NEW)) + len(relation.columns).to_bytes(2, "big")
    return np.uint64(int.from_bytes(head, sys.byteorder))


def _check_counts(relation: Relation, counts: npt.NDArray[np.uint16]) -> None:
    if (counts != len(relation.columns)).any():
        other = counts[counts != len(relation.columns)][0]
        raise _wrong(relation, f"expected {len(relation.columns)} columns, got {other}")


def _next_values(
    data: npt.NDArray[np.uint8], words: npt.NDArray[np.uint64], offsets: Offsets
) -> Offsets:
    """Where the value after each value begins."""
    lengths = (words[offsets].astype(np.uint64) >> _LENGTH_SHIFT) & _LENGTH_MASK
    is_text = data[offsets] == _TEXT
    return offsets + np.where(is_text, lengths.view(np.int64) + _TEXT_HEAD, 1)


def _decode(
    relation: Relation, log: LogBytes, tuples: _Tuples, spaced: Collection[str]
) -> DecodedRows:
    columns: list[pa.Array] = []
    # The columns that some rows lack, and which rows.
    lacking: dict[int, _Flags] = {}
    offsets = tuples.offsets
    for index, column in enumerate(relation.columns):
        values, offsets = _read_values(relation, log, offsets)
        is_spaced = column.name in spaced
        make = spaced_column if is_spaced else binary_column
        texts = make(log, values.offsets, values.is_null, values.lengths)
        missing = values.is_unchanged
        if tuples.is_key is not None and not column.is_key:
            missing = tuples.is_key if missing is None else missing | tuples.is_key
        if values.is_unchanged is not None and tuples.after is not None:
            assert missing is not None
            step = 2 if is_spaced else 1
            texts, missing = _from_before(texts, step, missing, values.is_unchanged, tuples.after)
        columns.append(texts)
        if missing is not None and missing.any():
            lacking[index] = missing
    ends = offsets if tuples.last is None else offsets[tuples.last]
    if (ends != tuples.ends).any():
        raise _wrong(relation, "a row ends before its message, or after it")
    sets, chosen = _column_sets(relation, lacking)
    return DecodedRows(columns, pa.array(tuples.kinds), sets, chosen)


def _read_values(relation: Relation, log: LogBytes, offsets: Offsets) -> tuple[_Values, Offsets]:
    """Find the values of a column, and where those of the next one begin."""
    words = log.view("u8")[offsets]
    if sys.byteorder == "little":
        words.byteswap(inplace=True)
    # The length follows the kind: with the kind taken away, only that of text leaves it alone.
    words ^= _TEXT_WORD
    words >>= _LENGTH_SHIFT
    if words.max(initial=0) <= _LENGTH_MASK:
        begin = offsets + _TEXT_HEAD
        lengths = words.view(np.int64)
        return _Values(begin, lengths, None, None), begin + lengths
    kinds = (words >> _LENGTH_BITS) ^ _TEXT
    lengths = (words & _LENGTH_MASK).view(np.int64)
    is_text = kinds == _TEXT
    is_unchanged = kinds == _UNCHANGED
    if not (is_text | is_unchanged | (kinds == _NULL)).all():
        raise _wrong(relation, "a value is neither text nor null")
    lengths *= is_text
    begin = offsets + 1
    begin += (_TEXT_HEAD - 1) * is_text
    return (
        _Values(begin, lengths, ~is_text, is_unchanged if is_unchanged.any() else None),
        begin + lengths,
    )


def _from_before(
    texts: pa.Array, step: int, missing: _Flags, is_unchanged: _Flags, after: Offsets
) -> tuple[pa.Array, _Flags]:
    """Take values that an update did not change from the row before it, where that has them."""
    filled = after[is_unchanged[after] & ~missing[after - 1]]
    if not len(filled):
        return texts, missing
    places = np.arange(len(texts))
    places[step * filled] -= step
    missing = missing.copy()
    missing[filled] = False
    return texts.take(pa.array(places)), missing


def _column_sets(
    relation: Relation, lacking: dict[int, _Flags]
) -> tuple[tuple[frozenset[str], ...], pa.Array | None]:
    """The sets of columns that rows have, and the set of each row."""
    if not lacking:
        return (), None
    codes = np.zeros(len(next(iter(lacking.values()))), np.int64)
    bits = 0
    for missing in lacking.values():
        if bits >= _MAX_CODE_BITS:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            bits = int(codes.max()).bit_length()
        codes = 2 * codes + missing
        bits += 1
    _, examples, chosen = np.unique(codes, return_index=True, return_inverse=True)
    sets = tuple(
        frozenset(
            column.name
            for index, column in enumerate(relation.columns)
            if index not in lacking or not lacking[index][row]
        )
        for row in examples.tolist()
    )
    return sets, pa.array(chosen.astype(np.int32))


def _wrong(relation: Relation, why: str) -> CorruptData:
    return CorruptData(
        f"cannot decode rows of {relation.name}: {why}; they do not fit the description of the "
        "table before them: read the log again"
    )
