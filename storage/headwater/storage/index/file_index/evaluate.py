"""The rows of a data file that its indexes do not exclude.

Indexes only ever say "this row cannot match": what they know nothing of stays, and the rows that
stay are filtered as always. Source: ``FileIndexPredicate.java``, ``FileIndexEvaluator.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap

from headwater.storage.index.file_index.bit_slices import BitSliceReader
from headwater.storage.index.file_index.bitmap import BitmapReader
from headwater.storage.index.file_index.bloom_filter import BloomFilterReader
from headwater.storage.index.file_index.container import IndexContainer
from headwater.storage.index.file_index.positions import PositionIndex, rows_of
from headwater.storage.index.file_index.range_bitmap import RangeBitmapReader
from headwater.storage.predicate.filter import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    without_not,
)
from headwater.storage.schema.file_indexes import (
    BIT_SLICES,
    BITMAP,
    BLOOM_FILTER,
    RANGE_BITMAP,
)
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import StorageValue

__all__ = ["POSITION_READERS", "matching_rows"]

POSITION_READERS: Mapping[str, type[BitmapReader | RangeBitmapReader | BitSliceReader]] = {
    BITMAP: BitmapReader,
    RANGE_BITMAP: RangeBitmapReader,
    BIT_SLICES: BitSliceReader,
}
"""The readers of indexes that hold the positions of rows, by the type of the index."""


def matching_rows(
    container: IndexContainer,
    predicate: Predicate,
    columns: Mapping[str, DataField],
    row_count: int,
) -> BitMap | None:
    """The rows that may match; None means all of them.

    Args:
        container: The file's indexes.
        predicate: The condition for wanted rows, on present names.
        columns: The columns as the file has them, by present name: those alone whose values the
            condition may be asked of as they stand in the file.
        row_count: The file's rows.

    Raises:
        CorruptData: An index is malformed, or of another number of rows.
    """
    return _Evaluation(container, columns, row_count).rows(without_not(predicate))


@dataclass
class _Evaluation:
    container: IndexContainer
    columns: Mapping[str, DataField]
    row_count: int
    _filters: dict[str, BloomFilterReader | None] = field(default_factory=dict)
    _positions: dict[tuple[str, str], PositionIndex | None] = field(default_factory=dict)

    def rows(self, predicate: Predicate) -> BitMap | None:
        match predicate:
            case And():
                matching: BitMap | None = None
                for part in predicate.operands:
                    matching = _both(matching, self.rows(part))
                    if matching is not None and not matching:
                        return matching
                return matching
            case Or():
                return self._either(predicate)
            case Constant():
                return None if predicate.value is True else BitMap()
            case Not():
                return self.rows(without_not(predicate))
            case In(values=(), negated=False):
                return BitMap()
        stored = self.columns.get(predicate.column)
        if stored is None or not isinstance(stored.type, AtomicType):
            return None
        matching = None
        for kind in self.container.places.get(stored.name, {}):
            if kind == BLOOM_FILTER:
                matching = _both(matching, self._by_filter(predicate, stored.name, stored.type))
            elif kind in POSITION_READERS:
                matching = _both(
                    matching, self._by_position(predicate, stored.name, stored.type, kind)
                )
        return matching

    def _either(self, predicate: Or) -> BitMap | None:
        matching = BitMap()
        for part in predicate.operands:
            rows = self.rows(part)
            if rows is None:
                return None
            matching |= rows
        return matching

    def _by_filter(
        self, leaf: Comparison | In | IsNull | StartsWith, name: str, data_type: AtomicType
    ) -> BitMap | None:
        values: Sequence[StorageValue]
        match leaf:
            case Comparison(op="=", value=value):
                values = (value,)
            case In(negated=False):
                values = leaf.values
            case _:
                return self._of_no_row(leaf, name, BLOOM_FILTER)
        try:
            if name not in self._filters:
                body = self.container.body(name, BLOOM_FILTER)
                self._filters[name] = None if body is None else BloomFilterReader(body, data_type)
            reader = self._filters[name]
            return None if reader is not None and reader.may_hold(values) else BitMap()
        except (ValueError, IndexError, struct.error) as error:
            raise self.container.malformed(name, BLOOM_FILTER, error) from error

    def _by_position(
        self,
        leaf: Comparison | In | IsNull | StartsWith,
        name: str,
        data_type: AtomicType,
        kind: str,
    ) -> BitMap | None:
        try:
            if (name, kind) not in self._positions:
                body = self.container.body(name, kind)
                self._positions[name, kind] = (
                    None if body is None else POSITION_READERS[kind](body, data_type)
                )
            reader = self._positions[name, kind]
            if reader is None:
                return self._of_no_row(leaf, name, kind)
            if reader.row_count != self.row_count:
                raise ValueError(f"it is of {reader.row_count} rows, the file of {self.row_count}")
            return rows_of(reader, leaf, data_type)
        except (ValueError, IndexError, struct.error) as error:
            raise self.container.malformed(name, kind, error) from error

    def _of_no_row(
        self, leaf: Comparison | In | IsNull | StartsWith, name: str, kind: str
    ) -> BitMap | None:
        """The answer of an index that was given no row (``EmptyFileIndexReader``)."""
        if self.container.places[name][kind] is not None:
            return None
        is_asked_of_nulls = isinstance(leaf, IsNull) and not leaf.negated
        return None if is_asked_of_nulls else BitMap()


def _both(one: BitMap | None, other: BitMap | None) -> BitMap | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
