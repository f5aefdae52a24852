"""An index that knows rows by their position in the file, and what a condition asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyroaring import BitMap

from headwater.storage.index.file_index.keys import Key, is_lossy, key_of
from headwater.storage.predicate.filter import Comparison, In, IsNull, StartsWith
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.values import StorageValue

__all__ = ["PositionIndex", "all_rows", "read_bitmap", "rows_of", "written_bitmap"]


class PositionIndex(Protocol):
    """Rows by their keys."""

    @property
    def row_count(self) -> int:
        """The file's rows."""
        ...

    def nulls(self) -> BitMap:
        """The rows that are null."""
        ...

    def among(self, keys: Sequence[Key]) -> BitMap:
        """The rows with one of the keys."""
        ...

    def above(self, key: Key, *, inclusive: bool) -> BitMap | None:
        """The rows with greater keys, null ones left out; None if the index has no order."""
        ...


def all_rows(row_count: int) -> BitMap:
    """Every row of a file."""
    return BitMap(range(row_count))


def rows_of(
    index: PositionIndex, leaf: Comparison | In | IsNull | StartsWith, data_type: AtomicType
) -> BitMap | None:
    """The rows that can fulfil a condition; None if the index cannot tell.

    No row that fulfils it is left out. Args: `data_type` is the type of the values in the file.
    """
    match leaf:
        case IsNull(negated=negated):
            nulls = index.nulls()
            return all_rows(index.row_count) - nulls if negated else nulls
        case In(values=values, negated=negated):
            return _among(index, values, data_type, negated)
        case Comparison(op="=" | "!=" as op, value=value):
            return _among(index, (value,), data_type, op == "!=")
        case Comparison(op=op, value=value):
            # Of the two zeros the one that takes in more, for they are one value.
            inclusive = op in ("<=", ">=") or is_lossy(data_type)
            wider = -0.0 if op in (">=", "<") else 0.0
            zero = isinstance(value, float) and value == 0
            key = key_of(wider if zero else value, data_type)
            upper = index.above(key, inclusive=inclusive if op in (">", ">=") else not inclusive)
            if upper is None or op in (">", ">="):
                return upper
            return all_rows(index.row_count) - upper - index.nulls()
        case StartsWith():
            return None


def _among(
    index: PositionIndex, values: Sequence[StorageValue], data_type: AtomicType, negated: bool
) -> BitMap | None:
    if negated and is_lossy(data_type):
        return None
    if any(isinstance(value, float) and value == 0 for value in values):
        values = [*values, 0.0, -0.0]
    found = index.among([key_of(value, data_type) for value in values])
    return all_rows(index.row_count) - found - index.nulls() if negated else found


def written_bitmap(rows: BitMap) -> bytes:
    """A bitmap's bytes as Java writes them: in runs, where they are shorter."""
    rows.run_optimize()
    data: bytes = rows.serialize()
    return data


def read_bitmap(data: bytes, row_count: int) -> BitMap:
    """A bitmap of rows; raises ValueError when it is none, or of more rows than there are."""
    if not data:
        raise ValueError("a bitmap without bytes")
    found = BitMap.deserialize(data)
    if found and found.max() >= row_count:
        raise ValueError(f"a bitmap with row {found.max()} of {row_count}")
    return found
