"""Values of Kafka Connect as columns of the lake."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates
from headwater.cdc.kafka.connect_types import ConnectType
from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.types.data_type import ArrayType, DataType, to_arrow

__all__ = ["arrow_base", "column_values"]

_PLACEHOLDER = "__debezium_unavailable_value"
_UUID = "io.debezium.data.Uuid"
# Java's UUID.nameUUIDFromBytes of the placeholder, an item of arrays of UUIDs.
_PLACEHOLDER_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
# As text: also what an option of the connector makes of bytes.
_PLACEHOLDER_TEXTS = (
    _PLACEHOLDER,
    _PLACEHOLDER.encode().hex(),
    base64.b64encode(_PLACEHOLDER.encode()).decode(),
)
# Also hstore as JSON, and arrays without a schema.
_PLACEHOLDERS = pa.array(
    [
        *_PLACEHOLDER_TEXTS,
        *(f'["{text}"]' for text in (*_PLACEHOLDER_TEXTS, _PLACEHOLDER_UUID)),
        json.dumps({_PLACEHOLDER: _PLACEHOLDER}, separators=(",", ":")),
        json.dumps(list(_PLACEHOLDER.encode()), separators=(",", ":")),
    ]
)
_MAX_BYTES = {16: 38, 32: 76}
_MILLIS_PER_DAY = 86_400_000
_ARROW = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "json": pa.string(),
    "bytes": pa.binary(),
}
# The lake has microseconds.
_LONG_FRACTION = r"(\.\d{6})\d{1,3}"
# A year of four digits: others are infinity, or beyond the lake.
_INSTANT = r"^\d{4}-\d{2}-\d{2}T"


def arrow_base(type_: ConnectType) -> pa.DataType | None:
    """The Arrow type of values as they are sent; None for arrays and structs."""
    return _ARROW.get(type_.base)


def column_values(
    values: pa.Array, type_: ConnectType, lake: DataType, bad_dates: BadDates
) -> pa.Array:
    """Values as the lake's column has them.

    Args:
        values: The values as they are sent, see `arrow_base`.
        type_: What they are.
        lake: The lake's type.
        bad_dates: What to do with dates that the lake does not have.

    Raises:
        Invalid: A value cannot be in the lake.
    """
    target = to_arrow(lake)
    try:
        return _meant(values, type_, lake, bad_dates).cast(target)
    except HeadwaterError:
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pl.exceptions.PolarsError) as error:
        raise Invalid(f"a value of type '{type_}' cannot be {lake}: {error}") from error


def _meant(values: pa.Array, type_: ConnectType, lake: DataType, bad_dates: BadDates) -> pa.Array:
    if type_.base in ("string", "json", "bytes"):
        _check_available(values, type_)
    if type_.is_decimal:
        return _decimal_column(values, type_, lake)
    if type_.is_variable_decimal:
        return _variable_decimals(values)
    if type_.is_geometry:
        return _geometries(values)
    if type_.base == "array" and type_.item is not None and isinstance(lake, ArrayType):
        if type_.item.base.startswith(("int", "float")):
            _check_items_available(values)
        items = column_values(values.flatten(), type_.item, lake.element, bad_dates)
        offsets = pa.array(np.asarray(values.offsets), pa.int32())
        mask = values.is_null() if values.null_count else None
        first = offsets[0].as_py() if len(offsets) else 0
        return pa.ListArray.from_arrays(pc.subtract(offsets, first), items, mask=mask)
    make = _BY_NAME.get(type_.name.rpartition(".")[2]) if type_.name else None
    if type_.name == "io.debezium.time.ZonedTimestamp":
        return _instants(values, bad_dates)
    return values if make is None else make(values)


def _check_available(values: pa.Array, type_: ConnectType) -> None:
    """Raise Invalid if a value was left out of the source's log, and is not here."""
    if type_.base == "bytes":
        is_left_out = pc.equal(values, pa.scalar(_PLACEHOLDER.encode(), values.type))
    else:
        is_left_out = pc.is_in(values, _PLACEHOLDERS)
        if type_.name == _UUID:
            is_left_out = pc.or_(is_left_out, pc.equal(values, _PLACEHOLDER_UUID))
    if pc.any(is_left_out).as_py():
        raise _unavailable()


def _check_items_available(values: pa.Array) -> None:
    """Raise Invalid if an array of numbers was left out: it has the placeholder's bytes."""
    mark = list(_PLACEHOLDER.encode())
    (places,) = np.nonzero(pc.fill_null(pc.equal(pc.list_value_length(values), len(mark)), False))
    if len(places) and mark in values.take(pa.array(places)).to_pylist():
        raise _unavailable()


def _unavailable() -> Invalid:
    return Invalid(
        "a row lacks a long value (TOAST) that its update left as it was, and Kafka cannot be "
        "asked for it; set REPLICA IDENTITY FULL at the source"
    )


def _instants(values: pa.Array, bad_dates: BadDates) -> pa.Array:
    is_instant = pc.match_substring_regex(values, _INSTANT)
    if bad_dates is BadDates.NULL:
        values = pc.if_else(pc.fill_null(is_instant, False), values, None)
    elif not pc.all(pc.fill_null(is_instant, True), min_count=0).as_py():
        wrong = values.filter(pc.fill_null(pc.invert(is_instant), False))[0]
        raise Invalid(
            f"the lake does not have the instant '{wrong}'; choose the option bad-dates: null"
        )
    if pc.any(pc.match_substring_regex(values, _LONG_FRACTION)).as_py():
        values = pc.replace_substring_regex(values, _LONG_FRACTION, r"\1")
    return values.cast(pa.timestamp("us", "UTC"))


def _days(values: pa.Array) -> pa.Array:
    return values.cast(pa.int32()).view(pa.date32())


def _day_time(values: pa.Array) -> pa.Array:
    is_outside = pc.or_(pc.less(values, 0), pc.greater_equal(values, _MILLIS_PER_DAY))
    if pc.any(is_outside).as_py():
        raise Invalid(
            "a time is not within a day; let the connector send text, or leave the column out"
        )
    return values.cast(pa.int32()).view(pa.time32("ms"))


def _clock_text(digits: int) -> Callable[[pa.Array], pa.Array]:
    """Times as text: ``-838:59:59.000000``, also beyond a day."""

    def make(values: pa.Array) -> pa.Array:
        unit = 10**digits
        numbers = pl.Series(values.cast(pa.int64()))
        frame = pl.select(n=numbers)
        size = pl.col("n").abs()
        seconds = size // unit
        text = pl.concat_str(
            pl.when(pl.col("n") < 0).then(pl.lit("-")).otherwise(pl.lit("")),
            (seconds // 3600).cast(pl.String).str.zfill(2),
            pl.lit(":"),
            (seconds // 60 % 60).cast(pl.String).str.zfill(2),
            pl.lit(":"),
            (seconds % 60).cast(pl.String).str.zfill(2),
            pl.lit("."),
            (size % unit).cast(pl.String).str.zfill(digits),
        )
        return frame.select(text.alias("t")).get_column("t").to_arrow().cast(pa.string())

    return make


def _timestamps(unit: str) -> Callable[[pa.Array], pa.Array]:
    return lambda values: values.cast(pa.int64()).view(pa.timestamp(unit))


_BY_NAME: dict[str, Callable[[pa.Array], pa.Array]] = {
    "Date": _days,
    "Time": _day_time,
    "MicroTime": _clock_text(6),
    "NanoTime": _clock_text(9),
    "Timestamp": _timestamps("ms"),
    "MicroTimestamp": _timestamps("us"),
    "NanoTimestamp": _timestamps("ns"),
}


# Decimals ---------------------------------------------------------------------------------------


def _decimal_column(values: pa.Array, type_: ConnectType, lake: DataType) -> pa.Array:
    target = to_arrow(lake)
    if not pa.types.is_decimal(target):
        return _decimals(values, 32, type_.scale).cast(pa.string())
    return _decimals(values, 16, type_.scale)


def _decimals(values: pa.Array, width: int, scale: int) -> pa.Array:
    """Numbers in two's complement, the highest byte first, as decimals with all digits there are.

    Args:
        values: Their bytes.
        width: How many bytes the decimals have.
        scale: How many digits are behind the point.
    """
    filled = pc.fill_null(values, b"").cast(pa.large_binary())
    lengths = pc.binary_length(filled).to_numpy()
    if lengths.max(initial=0) > width:
        raise Invalid(f"a decimal has more than {width} bytes")
    _, bounds, content = filled.buffers()
    octets = np.zeros((len(filled), width), np.uint8)
    if content is not None and len(filled):
        ends = np.frombuffer(bounds, np.int64)[filled.offset : filled.offset + len(filled) + 1]
        data = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
        starts = ends[:-1] - ends[0]
        (holding,) = np.nonzero(lengths)
        octets[holding[data[starts[holding]] >= 0x80]] = 0xFF
        octets[np.arange(width) >= width - lengths[:, None]] = data
    words = pa.py_buffer(np.ascontiguousarray(octets[:, ::-1]))
    make = pa.decimal128 if width == 16 else pa.decimal256
    decimal = make(_MAX_BYTES[width], scale)
    made = pa.Array.from_buffers(decimal, len(values), [None, words])
    made = pc.if_else(values.is_valid(), made, pa.scalar(None, decimal))
    made.validate(full=True)
    return made


def _variable_decimals(values: pa.Array) -> pa.Array:
    """Decimals whose scale is beside them, as text."""
    scales, numbers = values.field("scale"), values.field("value")
    numbers = pc.if_else(values.is_valid(), numbers, None)
    text = pa.nulls(len(values), pa.string())
    for scale in pc.unique(scales).drop_null().to_pylist():
        if scale < 0:
            raise Invalid(f"a decimal has the scale {scale}; expected 0 or more")
        mask = pc.fill_null(pc.equal(scales, scale), False)
        text = pc.if_else(mask, _decimals(numbers, 32, scale).cast(pa.string()), text)
    return text


def _geometries(values: pa.Array) -> pa.Array:
    """Geometries as MySQL has them: the SRID in four bytes, the lowest first, and the WKB."""
    wkb = pc.if_else(values.is_valid(), values.field("wkb"), None)
    srid = np.asarray(pc.fill_null(values.field("srid").cast(pa.int32()), 0)).astype("<i4")
    heads = pa.Array.from_buffers(pa.binary(4), len(srid), [None, pa.py_buffer(srid.tobytes())])
    return pc.binary_join_element_wise(heads.cast(pa.binary()), wkb.cast(pa.binary()), b"")
