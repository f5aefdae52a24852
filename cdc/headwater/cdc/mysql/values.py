"""Columns of MySQL and MariaDB as Arrow columns: their types, widths and values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc import columns
from headwater.cdc.columns import BadDates, Cells, DateRule, LogBytes, Nulls, Offsets
from headwater.cdc.columns.decimals import decimal_type, packed_decimal_width
from headwater.cdc.columns.temporal import packed_fraction_width
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.mysql.binary_json import json_text
from headwater.cdc.mysql.charsets import charset_of_collation
from headwater.cdc.mysql.compression import inflate_value
from headwater.cdc.mysql.table_map import ColumnShape, ColumnType
from headwater.storage.errors import CorruptData
from headwater.storage.types.data_type import to_arrow

_T = ColumnType
_INTEGER_BYTES = {_T.TINY: 1, _T.SHORT: 2, _T.INT24: 3, _T.LONG: 4, _T.LONGLONG: 8}
_TIME_BYTES = {_T.TIMESTAMP2: 4, _T.DATETIME2: 5, _T.TIME2: 3}
_COMPRESSED = frozenset({_T.MARIADB_VARCHAR_COMPRESSED, _T.MARIADB_BLOB_COMPRESSED})
_STRINGS = frozenset({_T.VARCHAR, _T.VAR_STRING, _T.STRING, _T.MARIADB_VARCHAR_COMPRESSED})
_BLOBS = frozenset({_T.BLOB, _T.GEOMETRY, _T.JSON, _T.VECTOR, _T.MARIADB_BLOB_COMPRESSED})
_TEXT_OR_BYTES = _STRINGS | _COMPRESSED | {_T.BLOB}
_DATES = frozenset({_T.DATE, _T.DATETIME2, _T.TIMESTAMP2})
_OTHER_TYPES = {
    _T.DATE: pa.date32(),
    _T.YEAR: pa.int16(),
    _T.TIMESTAMP2: pa.timestamp("us", "UTC"),
    _T.DATETIME2: pa.timestamp("us"),
    _T.TIME2: pa.duration("us"),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.ENUM: pa.string(),
    _T.SET: pa.string(),
    _T.JSON: pa.string(),
    _T.GEOMETRY: pa.binary(),
    _T.VECTOR: pa.binary(),
}


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How values without an equal in Arrow are decoded.

    Args:
        bad_dates: What becomes of dates that the lake does not have, such as 0000-00-00.
        text_dates: Names of the columns whose dates become ``string``, so that each of them is
            kept as the source shows it.
        types: Names of columns with the Arrow types that they are decoded to, where that is as easy
            as their own and has all of their values.
    """

    bad_dates: BadDates = BadDates.FAIL
    text_dates: frozenset[str] = frozenset()
    types: frozenset[tuple[str, pa.DataType]] = frozenset()

    @staticmethod
    def for_table(table: SourceTable, bad_dates: BadDates = BadDates.FAIL) -> DecodeOptions:
        """The options for a table of the lake, with its types.

        Each date of the columns that are text in the lake is kept.
        """
        types = {column.name: to_arrow(column.type) for column in table.columns}
        texts = (name for name, type_ in types.items() if pa.types.is_string(type_))
        wanted = (
            (name, type_)
            for name, type_ in types.items()
            if pa.types.is_integer(type_) or pa.types.is_timestamp(type_)
        )
        return DecodeOptions(bad_dates, frozenset(texts), frozenset(wanted))


def arrow_type(column: ColumnShape, options: DecodeOptions | None = None) -> pa.DataType:
    """The Arrow type that a column is decoded to.

    ======================================  ==========================================
    TINYINT, SMALLINT, MEDIUMINT, INT, …    ``int8`` to ``int64``, ``uint8`` to ``uint64``
    BIT(1), BIT(n)                          ``bool``, ``binary`` (big-endian)
    FLOAT, DOUBLE                           ``float32``, ``float64``
    DECIMAL(p, s)                           ``decimal128(p, s)``, beyond 38 digits ``decimal256``
    DATE, YEAR                              ``date32``, ``int16``
    TIME                                    ``duration[us]``
    DATETIME, TIMESTAMP                     ``timestamp[us]``, ``timestamp[us, UTC]``
    CHAR, VARCHAR, TEXT, ENUM, SET, JSON    ``string``
    BINARY, VARBINARY, BLOB, GEOMETRY       ``binary``
    ======================================  ==========================================

    DATE, DATETIME and TIMESTAMP are ``string`` if the options say so. Integers may have a wider
    type, and whole seconds be ``timestamp[ms]``.
    """
    if options is None:
        return _own_type(column)
    if column.type in _DATES and column.name in options.text_dates:
        return pa.string()
    wanted = dict(options.types).get(column.name)
    return _own_type(column) if wanted is None or not _is_as_easy(column, wanted) else wanted


def _is_as_easy(column: ColumnShape, wanted: pa.DataType) -> bool:
    """Whether a column is as easily decoded to a type that it does not have, without a loss."""
    if column.type in _INTEGER_BYTES:
        bits = 8 * _INTEGER_BYTES[column.type] + column.unsigned
        return bool(pa.types.is_signed_integer(wanted) and wanted.bit_width >= bits)
    if column.type in (_T.DATETIME2, _T.TIMESTAMP2) and not column.length:
        return bool(wanted == pa.timestamp("ms", _own_type(column).tz))
    return False


def _own_type(column: ColumnShape) -> pa.DataType:
    if column.type in _INTEGER_BYTES:
        size = max(_INTEGER_BYTES[column.type], 4 if column.type is _T.INT24 else 1)
        return pa.from_numpy_dtype(np.dtype(f"{'u' if column.unsigned else 'i'}{size}"))
    if column.type is _T.NEWDECIMAL:
        return decimal_type(column.precision, column.scale)
    if column.type is _T.BIT:
        return pa.bool_() if column.length == 1 else pa.binary()
    if column.type in _TEXT_OR_BYTES:
        return pa.binary() if column.is_binary else pa.string()
    return _OTHER_TYPES[column.type]


def length_width(column: ColumnShape) -> int:
    """How many bytes the length before a value takes; 0 for a type of fixed width."""
    if column.type in _STRINGS:
        return 1 if column.length < 256 else 2
    return column.length if column.type in _BLOBS else 0


def fixed_width(column: ColumnShape) -> int:
    """How many bytes a value of a type of fixed width takes."""
    if column.type in _INTEGER_BYTES:
        return _INTEGER_BYTES[column.type]
    if column.type in _TIME_BYTES:
        return _TIME_BYTES[column.type] + packed_fraction_width(column.length)
    if column.type is _T.NEWDECIMAL:
        return packed_decimal_width(column.precision, column.scale)
    if column.type is _T.BIT:
        return (column.length + 7) // 8
    return {_T.DATE: 3, _T.YEAR: 1}.get(column.type, column.length)


def decode_fixed(
    column: ColumnShape, cells: Cells, nulls: Nulls, options: DecodeOptions
) -> pa.Array:
    """Decode a column of a fixed width.

    Args:
        column: The column.
        cells: The bytes of each value.
        nulls: Which of them are null.
        options: How values without an equal in Arrow are decoded.

    Returns:
        An array of `arrow_type`.
    """
    if column.type in _DATES:
        return _dates(column, cells, nulls, options)
    width = fixed_width(column)
    match column.type:
        case _T.FLOAT | _T.DOUBLE:
            return columns.float_column(cells, nulls, width)
        case _T.NEWDECIMAL:
            return columns.decimal_column(cells, nulls, column.precision, column.scale)
        case _T.YEAR:
            return columns.year_column(cells, nulls)
        case _T.TIME2:
            return columns.time_column(cells, nulls, column.length)
        case _T.BIT:
            return _bits(column, cells, nulls)
        case _T.ENUM:
            return _enum(column, cells, nulls)
        case _T.SET:
            return _set(column, cells, nulls)
    type_ = arrow_type(column, options)
    return columns.integer_column(cells, nulls, width, signed=not column.unsigned, type_=type_)


def decode_variable(
    column: ColumnShape,
    log: LogBytes,
    offsets: Offsets,
    nulls: Nulls,
    lengths: npt.NDArray[np.int64],
) -> pa.Array:
    """Decode a column of strings or bytes.

    Args:
        column: The column.
        log: The bytes.
        offsets: Where each value begins, after its length.
        nulls: Which of them are null.
        lengths: How many bytes each value has; 0 where it is null.

    Returns:
        An array of `arrow_type`.
    """
    if column.type is _T.JSON:
        return _json(columns.binary_column(log, offsets, nulls, lengths))
    if column.type in _COMPRESSED:
        return _inflated(column, columns.binary_column(log, offsets, nulls, lengths))
    if column.type is _T.STRING and column.is_binary:
        return columns.fixed_binary_column(log, offsets, nulls, lengths, column.length)
    if arrow_type(column) == pa.binary():
        return columns.binary_column(log, offsets, nulls, lengths)
    charset = charset_of_collation(column.collation)
    return columns.text_column(log, offsets, nulls, lengths, charset)


def _dates(column: ColumnShape, cells: Cells, nulls: Nulls, options: DecodeOptions) -> pa.Array:
    is_text = column.name in options.text_dates
    rule = DateRule(column.name, options.bad_dates)
    match column.type:
        case _T.DATE if is_text:
            return columns.date_text_column(cells, nulls)
        case _T.DATE:
            return columns.date_column(cells, nulls, rule)
        case _T.DATETIME2 if is_text:
            return columns.datetime_text_column(cells, nulls, column.length)
        case _T.DATETIME2:
            unit = arrow_type(column, options).unit
            return columns.datetime_column(cells, nulls, column.length, rule, unit)
    if is_text:
        return columns.timestamp_text_column(cells, nulls, column.length)
    unit = arrow_type(column, options).unit
    return columns.timestamp_column(cells, nulls, column.length, rule, unit)


def _bits(column: ColumnShape, cells: Cells, nulls: Nulls) -> pa.Array:
    if column.length == 1:
        flags = pa.array(cells.read("u1") & 1).cast(pa.bool_())
        return flags if nulls is None else pc.if_else(pa.array(nulls), None, flags)
    return columns.cell_bytes_column(cells, nulls, fixed_width(column))


def _enum(column: ColumnShape, cells: Cells, nulls: Nulls) -> pa.Array:
    """A value is the index of its name from 1 on; 0 is the empty string of a wrong value."""
    index = cells.read(f"<u{column.length}", to="i4")
    if nulls is not None:
        index[nulls] = 0
    largest = int(index.max(initial=0))
    if largest > len(column.values):
        raise CorruptData(
            f"cannot decode column {column.name}: an ENUM of {len(column.values)} values has the "
            f"value {largest}; read the log again from its source"
        )
    names = pa.array(["", *column.values], pa.string())
    return names.take(columns.primitive_array(index, pa.int32(), nulls))


def _set(column: ColumnShape, cells: Cells, nulls: Nulls) -> pa.Array:
    """A value has one bit for each name, which are joined by commas."""
    masks = columns.unsigned_integers(cells, column.length)
    if nulls is not None:
        masks[nulls] = 0
    distinct, index = np.unique(masks, return_inverse=True)
    if len(distinct) and int(distinct[-1]) >> len(column.values):
        raise CorruptData(
            f"cannot decode column {column.name}: a SET of {len(column.values)} values has the "
            f"value {int(distinct[-1]):#x}; read the log again from its source"
        )
    names = [
        pc.if_else(pa.array((distinct >> np.uint64(bit)) & np.uint64(1) == 1), name, None)
        for bit, name in enumerate(column.values)
    ]
    # Arrow drops rows that have nulls only, so each begins with an empty string and a comma. The
    # server, too, writes no comma after names that are empty, if no other is before them.
    first = pa.array([""] * len(distinct), pa.string())
    joined = pc.binary_join_element_wise(first, *names, ",", null_handling="skip")
    texts = pc.utf8_ltrim(joined, ",")
    return texts.take(columns.primitive_array(index.astype(np.int32), pa.int32(), nulls))


def _inflated(column: ColumnShape, values: pa.Array) -> pa.Array:
    """Values of a compressed column of MariaDB. Each is a stream of its own."""
    inflated = pa.array(
        [value and inflate_value(value, column.name) for value in values.to_pylist()], pa.binary()
    )
    if column.is_binary:
        return inflated
    return columns.decode_text(inflated, charset_of_collation(column.collation))


def _json(values: pa.Array) -> pa.Array:
    texts = [None if value is None else json_text(value) for value in values.to_pylist()]
    return pa.array(texts, pa.string())
