"""Minimum, maximum and null count of a column in a stripe of an ORC file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from headwater.storage.formats.orc_messages import Message, signed, unpacked
from headwater.storage.formats.orc_tail import OrcTail
from headwater.storage.formats.protocol import ColumnStatistics
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.values import StorageValue

__all__ = ["column_range"]

_BOOLEAN, _STRING, _DECIMAL, _DATE, _VARCHAR = 0, 7, 14, 15, 16
_INTEGERS = (1, 2, 3, 4)
_NUMBER_OF_VALUES = 1
_Ends = tuple[StorageValue, StorageValue]


def column_range(
    tail: OrcTail, stripe: int, column: str, data_type: AtomicType
) -> ColumnStatistics | None:
    """The statistics of a top-level column; None when the file has none of it.

    Text is bounded where it is not padded, numbers where they are whole or decimal, which an order
    without NaN has; of other types the nulls alone are known.
    """
    found = tail.statistics(stripe, column)
    if found is None:
        return None
    rows = tail.stripes[stripe].row_count
    (values,) = found.get(_NUMBER_OF_VALUES, [0])[-1:]
    if not isinstance(values, int) or values > rows:
        return None
    low, high = None, None
    known = _BY_KIND.get(tail.kind(column))
    if known is not None and data_type.root in known[1]:
        part = tail.statistics_part(found, known[0])
        if part is not None and values:
            low, high = known[2](part, data_type, values)
    return ColumnStatistics(low, high, rows - values, rows)


def _whole_numbers(part: Message, data_type: AtomicType, values: int) -> _Ends:
    parts = (each for number in (1, 2) for each in part.get(number, []))
    ends = [signed(each) for each in parts if isinstance(each, int)]
    return (ends[0], ends[1]) if len(ends) == 2 else (None, None)


def _texts(part: Message, data_type: AtomicType, values: int) -> _Ends:
    ends = [each for number in (1, 2) for each in part.get(number, []) if isinstance(each, bytes)]
    if len(ends) != 2:
        return None, None
    try:
        return ends[0].decode(), ends[1].decode()
    except UnicodeDecodeError:
        return None, None


def _decimals(part: Message, data_type: AtomicType, values: int) -> _Ends:
    low, high = _texts(part, data_type, values)
    if not isinstance(low, str) or not isinstance(high, str):
        return None, None
    try:
        return Decimal(low), Decimal(high)
    except InvalidOperation:
        return None, None


def _booleans(part: Message, data_type: AtomicType, values: int) -> _Ends:
    counts = list(unpacked(part.get(1, [])))
    return (counts[0] == values, counts[0] > 0) if counts else (None, None)


_Reader = Callable[[Message, AtomicType, int], _Ends]
_NUMBERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.TIME)
# By the column's kind in the file: the field of its statistics, its types, and their reader.
_BY_KIND: Mapping[int, tuple[int, tuple[Root, ...], _Reader]] = {
    **dict.fromkeys(_INTEGERS, (2, _NUMBERS, _whole_numbers)),
    _STRING: (4, (Root.VARCHAR,), _texts),
    _VARCHAR: (4, (Root.VARCHAR,), _texts),
    _BOOLEAN: (5, (Root.BOOLEAN,), _booleans),
    _DECIMAL: (6, (Root.DECIMAL,), _decimals),
    _DATE: (7, (Root.DATE,), _whole_numbers),
}
