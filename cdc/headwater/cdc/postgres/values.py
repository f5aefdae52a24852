"""PostgreSQL's values in their text form as the lake has them, a column at a time.

The text is what the types' output functions write in a session with the settings of
``server.SESSION``: that of COPY, of a query's result in text form, and of pgoutput.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates
from headwater.cdc.columns.gather import validity_bitmap
from headwater.cdc.columns.value_text import null_flags
from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.postgres.array_text import split_arrays
from headwater.cdc.postgres.types import Family, SourceType, holds, parse_source_type
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import ArrayType, DataType, to_arrow
from headwater.storage.types.padded_text import padded_array

__all__ = ["can_be_spaced", "lake_values"]

_MAX_SHOWN_CHARACTERS = 100
_A_DAY = "1970-01-01"
_UTC = "+00"
# Of dates and times: those without a day, before the year 1, or with a year of five digits.
_BAD_TIMES = r"infinity|BC$|^\d{5}|^24:"
_BAD_NUMBERS = r"NaN|Infinity"
# Values that are read from their text one by one, and have a fixed number of bytes.
_PARSED = frozenset(
    {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DECIMAL, Root.FLOAT, Root.DOUBLE}
    | {Root.DATE, Root.TIMESTAMP}
)
_LENGTHS = frozenset({Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY})

_Convert = Callable[[pa.Array], pa.Array]


def can_be_spaced(column: SourceColumn) -> bool:
    """Whether a column's values may have nulls between them, see `spaced_column`.

    Their conversion costs little more then, and the texts need not be copied for it.
    """
    return isinstance(column.type, AtomicType) and column.type.root in _PARSED


def lake_values(
    values: pa.Array, column: SourceColumn, bad_values: BadDates = BadDates.FAIL
) -> pa.Array:
    """Convert a column's values.

    Args:
        values: The values in their text form, ``binary`` in UTF-8 or ``string``.
        column: The column.
        bad_values: What to do with infinite dates and times, those outside of the years 1 to 9999,
            24:00:00, and with numbers that are infinite or NaN, where the lake's type lacks them.

    Returns:
        The values in the Arrow form of the column's type in the lake; CHAR is padded as the lake
        has it.

    Raises:
        Invalid: The lake does not have a value; the column and the value are named.
        Unsupported: The lake's type does not hold values of the source's type.
    """
    source = parse_source_type(column.source_type)
    if not holds(column.type, source):
        raise Unsupported(
            f"cannot convert column '{column.name}': {column.source_type} of the source does not "
            f"become {column.type} of the lake; drop the table of the lake and read it again"
        )
    if can_be_spaced(column) and not pa.types.is_string(values.type):
        # What is not UTF-8 is not a number or time either.
        text = values.view(pa.string())
    else:
        text = _text(values, column)
    return _Conversion(column, bad_values).apply(text, source, column.type)


def _text(values: pa.Array, column: SourceColumn) -> pa.Array:
    if pa.types.is_string(values.type):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Invalid(
            f"column '{column.name}' has a value that is not UTF-8; correct it at the source"
        ) from error


class _Conversion:
    """The conversion of values of a column, or of the elements of its arrays."""

    def __init__(self, column: SourceColumn, bad_values: BadDates) -> None:
        self._column, self._bad_values = column, bad_values

    def apply(self, text: pa.Array, source: SourceType, type_: DataType) -> pa.Array:
        if isinstance(type_, ArrayType):
            return self._arrays(text, source, type_)
        assert isinstance(type_, AtomicType)
        converted = text if source.is_array else self._atomic(text, source, type_)
        self._check_length(converted, source, type_)
        return padded_array(converted, type_)

    def _atomic(self, text: pa.Array, source: SourceType, type_: AtomicType) -> pa.Array:
        family, target = source.family, to_arrow(type_)
        match type_.root:
            case Root.CHAR | Root.VARCHAR:
                return _flags_text(text) if family is Family.BOOLEAN else text
            case Root.BOOLEAN:
                return pc.equal(text, "1" if family is Family.BITS else "t")
            case Root.BINARY | Root.VARBINARY if family is Family.BYTES:
                return _hex_bytes(text)
            case Root.BINARY | Root.VARBINARY if family is Family.BITS:
                return _bit_bytes(text, type_)
            case Root.TIME:
                return self._checked(text, lambda part: _times(part, target), _BAD_TIMES)
            case Root.TIMESTAMP_LTZ:
                return self._checked(text, lambda part: _instants(part, target), _BAD_TIMES)
            case Root.DATE | Root.TIMESTAMP:
                return self._checked(text, lambda part: pc.cast(part, target), _BAD_TIMES)
            case Root.FLOAT | Root.DOUBLE:
                stored = pa.float32() if family is Family.FLOAT else target
                return self._checked(text, lambda part: pc.cast(part, stored), None).cast(target)
            case _:
                return self._checked(text, lambda part: pc.cast(part, target), _BAD_NUMBERS)

    def _checked(self, text: pa.Array, convert: _Convert, bad: str | None) -> pa.Array:
        """Convert values, whose bad ones are looked for only if some cannot be converted."""
        try:
            return convert(text)
        except pa.ArrowInvalid as error:
            text = _text(text.view(pa.binary()), self._column)
            is_bad = pc.match_substring_regex(text, bad) if bad is not None else None
            if is_bad is None or not pc.any(is_bad).as_py():
                raise self._does_not_hold(_first_rejected(text, convert)) from error
        if self._bad_values is BadDates.FAIL:
            raise self._does_not_hold(text.filter(is_bad)[0].as_py(), or_null=True)
        return self._checked(pc.if_else(is_bad, pa.scalar(None, pa.string()), text), convert, None)

    def _arrays(self, text: pa.Array, source: SourceType, type_: ArrayType) -> pa.Array:
        parts = split_arrays(text, self._delimiter(source))
        if parts.is_bad.any():
            value = text[int(np.argmax(parts.is_bad))].as_py()
            raise Invalid(
                f"column '{self._column.name}' has the array '{_shortened(value)}', and arrays of "
                "the lake have one dimension that begins at 1; change the value at the source, or "
                "choose the type_mapping array-to-string"
            )
        elements = self.apply(parts.elements, source.element, type_.element)
        buffers = [validity_bitmap(null_flags(text)), pa.py_buffer(parts.offsets)]
        list_type = to_arrow(type_)
        elements = elements.cast(list_type.value_type)
        return pa.Array.from_buffers(list_type, len(text), buffers, children=[elements])

    @staticmethod
    def _delimiter(source: SourceType) -> str:
        # The only type of the server whose arrays have another one.
        return ";" if source.name == "box" else ","

    def _check_length(self, values: pa.Array, source: SourceType, type_: AtomicType) -> None:
        """Check that values fit, where the lake's type may be narrower than the source's."""
        if type_.root not in _LENGTHS or type_.length == MAX_LENGTH:
            return
        if source.arguments and source.arguments[0] <= type_.length and not source.is_array:
            return
        is_text = pa.types.is_string(values.type)
        lengths = pc.utf8_length(values) if is_text else pc.binary_length(values)
        is_long = pc.greater(lengths, type_.length)
        if pc.any(is_long).as_py():
            value = values.filter(is_long)[0].as_py()
            raise self._does_not_hold(value if is_text else f"\\x{value.hex()}")

    def _does_not_hold(self, value: str, *, or_null: bool = False) -> Invalid:
        remedy = "change the value at the source, or the column's type"
        if or_null:
            remedy = "change the value at the source, or choose 'null' for such values"
        column = self._column
        return Invalid(
            f"column '{column.name}' of type {column.source_type} has the value "
            f"'{_shortened(value)}', which {column.type} of the lake does not hold; {remedy}"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"


def _first_rejected(values: pa.Array, convert: _Convert) -> str:
    """The first value that cannot be converted, found by halving the values."""
    while len(values) > 1:
        half = values.slice(0, len(values) // 2)
        try:
            convert(half)
        except pa.ArrowInvalid:
            values = half
        else:
            values = values.slice(len(half))
    return str(values[0].as_py())


def _flags_text(text: pa.Array) -> pa.Array:
    """Booleans as the server casts them to text."""
    return pc.if_else(pc.equal(text, "t"), "true", "false")


def _times(text: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow reads a time of day with its date alone.
    instants = pc.cast(pc.binary_join_element_wise(_A_DAY, text, " "), pa.timestamp("ms"))
    return pc.cast(instants, target)


def _instants(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Timestamps with the offset of UTC; Arrow takes twice as long for those with an offset."""
    if not pc.all(pc.ends_with(text, _UTC), min_count=0).as_py():
        # It takes offsets of any zone, and rejects what is not a timestamp.
        return pc.cast(text, target)
    local = pc.cast(
        pc.binary_slice(text.view(pa.binary()), 0, -len(_UTC)).view(pa.string()),
        pa.timestamp(target.unit),
    )
    return local.view(target)


def _hex_bytes(text: pa.Array) -> pa.Array:
    r"""Bytes, which are written as ``\x`` and two hexadecimal digits for each."""
    digits = pl.Series(text).str.slice(2)
    return digits.str.decode("hex").to_arrow().cast(pa.binary())


def _bit_bytes(text: pa.Array, type_: AtomicType) -> pa.Array:
    """Bits as big-endian numbers, with zeros before them."""
    rows, width = len(text), type_.length
    padded = pc.utf8_lpad(pc.fill_null(text, ""), 8 * width, "0")
    characters = np.frombuffer(padded.buffers()[2] or b"", np.uint8)[: rows * 8 * width]
    data = np.packbits(characters.reshape(rows, 8 * width) == ord("1"), axis=1)
    nulls = null_flags(text)
    bounds: npt.NDArray[np.int32] = np.arange(rows + 1, dtype=np.int32) * width
    buffers = [validity_bitmap(nulls), pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
