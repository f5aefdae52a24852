"""Values that rows of the log leave out, taken from earlier rows of the same key.

An update leaves out long values that it does not change, or all that it does not change. Between
two changes of a key in the log the source's row is as the first one has left it. So what the second
one leaves out is what the first one has: also where the key changes, as the row before the update
has the old key then. What the first change of a key leaves out is not here. Each row gets a copy of
the value, so that the size of all copies is limited; the other rows are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.rows.kinds import RowKind

__all__ = ["completed"]

_MAX_FILLED_BYTES = 64 << 20

_Places = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


def completed(
    rows: pa.Table, kinds: npt.NDArray[np.int8], has: dict[str, _Flags], keys: Sequence[pa.Array]
) -> pa.Table:
    """Rows in which values are filled in that earlier rows have.

    Args:
        rows: The rows of a table, in the order of the log. A row after an update follows the one
            before it, if the log has that.
        kinds: Their kinds.
        has: Which rows have a column's value, by the columns' names. The values that are filled in
            are noted in it.
        keys: The rows' keys, a column each.
    """
    earlier = _earlier(kinds, _numbered(keys))
    left_bytes = _MAX_FILLED_BYTES
    for name, flags in has.items():
        if flags.all():
            continue
        places = _value_rows(earlier, flags)
        index = rows.column_names.index(name)
        (filled,) = np.nonzero(~flags & (places >= 0))
        sizes = np.cumsum(_sizes(rows.column(index))[places[filled]])
        places[filled[sizes > left_bytes]] = -1
        left_bytes -= int(sizes[sizes <= left_bytes].max(initial=0))
        has[name] = places >= 0
        values = rows.column(index).take(pa.array(places, mask=~has[name]))
        rows = rows.set_column(index, rows.field(index), values)
    return rows


def _sizes(column: pa.ChunkedArray) -> _Places:
    """How many bytes the values of a column have, about; 0 where all have the same width."""
    type_ = column.type
    if pa.types.is_list(type_):
        lengths = _counts(pc.list_value_length(column))
        bytes_of_one: int = column.nbytes // max(int(lengths.sum()), 1) + 1
        return lengths * bytes_of_one
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _counts(pc.binary_length(column))
    return np.zeros(len(column), np.int64)


def _counts(lengths: pa.ChunkedArray) -> _Places:
    counts: _Places = np.asarray(pc.fill_null(lengths, 0)).astype(np.int64)
    return counts


def _earlier(kinds: npt.NDArray[np.int8], keys: _Places) -> _Places:
    """The row that has what each row leaves out, if that has it; -1 where there is none."""
    order = np.argsort(keys, kind="stable")
    is_same = keys[order[1:]] == keys[order[:-1]]
    earlier = np.full(len(kinds), -1)
    earlier[order[1:][is_same]] = order[:-1][is_same]
    is_left = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
    is_after_left = (earlier >= 0) & is_left[earlier]
    (before,) = np.nonzero(kinds == RowKind.UPDATE_BEFORE)
    is_new = kinds == RowKind.INSERT
    is_new[before + 1] = keys[before] != keys[before + 1]
    # A row that comes to be where one is already: the log does not say what it is.
    unclear = np.isin(keys, keys[is_new & is_after_left])
    earlier[~is_after_left | is_new | unclear] = -1
    earlier[before + 1] = before
    return earlier


def _value_rows(earlier: _Places, has: _Flags) -> _Places:
    """The row whose value each row has: itself, or the next earlier one that has it; or -1."""
    count = len(has)
    # The last one stands for no row.
    places = np.append(
        np.where(has, np.arange(count), np.where(earlier < 0, count, earlier)), count
    )
    while True:
        further = places[places]
        if (further == places).all():
            break
        places = further
    value_rows: _Places = places[:-1]
    has_value = np.append(has, False)[value_rows]
    return np.where(has_value, value_rows, -1)


def _numbered(keys: Sequence[pa.Array]) -> _Places:
    """A number for each row, the same for equal keys."""
    numbers = np.zeros(len(keys[0]), np.int64)
    for column in keys:
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        numbers = np.unique(numbers * (codes.max() + 1) + codes, return_inverse=True)[1]
    return numbers
