"""Single values: partition values, keys, statistics and the literals of predicates.

A "storage value" is None or: BOOLEAN bool; TINYINT to BIGINT int; FLOAT and DOUBLE float; CHAR and
VARCHAR str; BINARY and VARBINARY bytes; DECIMAL decimal.Decimal with the type's scale; DATE int
days; TIME int milliseconds; TIMESTAMP and TIMESTAMP_LTZ int in the unit of the type's precision
(<= 3 milliseconds, <= 6 microseconds, above nanoseconds), since the epoch.

The text of partition values follows ``InternalRowPartitionComputer.java`` and ``TypeUtils.java``.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation, localcontext
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import TableOptions
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType, timestamp_unit, to_arrow
from headwater.storage.types.float_text import float_text

__all__ = [
    "INTEGER_BITS",
    "StorageValue",
    "arrow_scalar",
    "is_blank",
    "is_kindred",
    "nanoseconds_of",
    "object_text",
    "parse_moment",
    "parse_partition_text",
    "parse_time_of_day",
    "partition_text",
    "storage_value",
    "units_per_second",
]

StorageValue: TypeAlias = "bool | int | float | str | bytes | Decimal | None"

INTEGER_BITS: Mapping[Root, int] = {
    Root.TINYINT: 8,
    Root.SMALLINT: 16,
    Root.INT: 32,
    Root.BIGINT: 64,
    Root.DATE: 32,
    Root.TIME: 32,
    Root.TIMESTAMP: 64,
    Root.TIMESTAMP_LTZ: 64,
}
"""The bits of the types whose storage values are integers."""
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DATE = dt.date(1970, 1, 1)
_UNITS_PER_SECOND: Mapping[str, int] = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_IS_BINARY: Sequence[Callable[[pa.DataType], bool]] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
_MILLIS_PER_DAY = 86_400_000


def units_per_second(data_type: AtomicType) -> int:
    """The number of units of a TIMESTAMP's storage value in a second."""
    return _UNITS_PER_SECOND[timestamp_unit(data_type.precision)]


def storage_value(value: object, data_type: DataType) -> StorageValue:
    """A value as storage holds it.

    Args:
        value: A Python value, an Arrow scalar, a storage value (which stays as it is), or None.
        data_type: The type it must be of.

    Raises:
        Invalid: The value is not of the type, or would lose digits.
    """
    if isinstance(value, pa.Scalar):
        return _from_scalar(value, data_type)
    if value is None:
        return None
    if not isinstance(data_type, AtomicType) or data_type.root is Root.BLOB:
        raise Invalid(f"a single value of type {data_type} is not supported")
    try:
        converted = _from_python(value, data_type)
    except ValueError:  # such as pandas' NaT, which is a datetime to Python
        converted = None
    if converted is None:
        raise Invalid(f"{value!r} is not a value of type {data_type}")
    return converted


def arrow_scalar(value: object, data_type: DataType) -> pa.Scalar:
    """A value that `storage_value` accepts, as a scalar of the type's Arrow form.

    Raises:
        Invalid: As `storage_value`.
    """
    return pa.scalar(storage_value(value, data_type), to_arrow(data_type))


_KINDRED: Mapping[Root, Sequence[Callable[[pa.DataType], bool]]] = {
    Root.BOOLEAN: (pa.types.is_boolean,),
    Root.TINYINT: (pa.types.is_integer,),
    Root.SMALLINT: (pa.types.is_integer,),
    Root.INT: (pa.types.is_integer,),
    Root.BIGINT: (pa.types.is_integer,),
    Root.FLOAT: (pa.types.is_floating, pa.types.is_integer),
    Root.DOUBLE: (pa.types.is_floating, pa.types.is_integer),
    Root.DECIMAL: (pa.types.is_decimal, pa.types.is_integer),
    Root.CHAR: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Root.VARCHAR: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Root.BINARY: _IS_BINARY,
    Root.VARBINARY: _IS_BINARY,
    Root.BLOB: _IS_BINARY,
    Root.DATE: (pa.types.is_date,),
    Root.TIME: (pa.types.is_time,),
    Root.TIMESTAMP: (pa.types.is_timestamp,),
    Root.TIMESTAMP_LTZ: (pa.types.is_timestamp,),
}


def is_kindred(arrow: pa.DataType, data_type: AtomicType) -> bool:
    """Whether an Arrow type's values mean the same in a Paimon type, if they fit into it.

    Arrow itself casts more: text to numbers, and local timestamps to instants as if they were UTC.
    """
    if pa.types.is_null(arrow):
        return True
    if pa.types.is_timestamp(arrow) and (arrow.tz is None) != (data_type.root is Root.TIMESTAMP):
        return False
    return any(is_kind(arrow) for is_kind in _KINDRED[data_type.root])


def _from_scalar(scalar: pa.Scalar, data_type: DataType) -> StorageValue:
    if not scalar.is_valid:
        return None
    if pa.types.is_dictionary(scalar.type):
        return _from_scalar(scalar.value, data_type)
    if not isinstance(data_type, AtomicType) or data_type.root is Root.BLOB:
        raise Invalid(f"a single value of type {data_type} is not supported")
    if not is_kindred(scalar.type, data_type):
        raise Invalid(f"{scalar!r} is not a value of type {data_type}")
    try:
        cast = scalar.cast(to_arrow(data_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Invalid(f"{scalar!r} is not a value of type {data_type}: {error}") from error
    if data_type.root in (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return int(cast.value)
    plain = cast.as_py()
    assert isinstance(plain, bool | int | float | str | bytes | Decimal)
    return plain


def _from_python(value: object, data_type: AtomicType) -> StorageValue:
    match data_type.root:
        case Root.BOOLEAN:
            return bool(value) if isinstance(value, bool | np.bool_) else None
        case Root.FLOAT | Root.DOUBLE:
            return _floating(value, data_type)
        case Root.CHAR | Root.VARCHAR:
            return str(value) if isinstance(value, str) else None
        case Root.BINARY | Root.VARBINARY:
            return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None
        case Root.DECIMAL:
            return _decimal(value, data_type)
        case Root.DATE if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return (value - _EPOCH_DATE).days
        case Root.TIME if isinstance(value, dt.time):
            if value.tzinfo is not None or value.microsecond % 1000:
                return None
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return seconds * 1000 + value.microsecond // 1000
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ if isinstance(value, dt.datetime):
            return _timestamp(value, data_type)
        case _:
            return _integer(value, INTEGER_BITS[data_type.root])


def _integer(value: object, bits: int) -> int | None:
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        return None
    number = operator.index(value)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None


def _floating(value: object, data_type: AtomicType) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
        if data_type.root is Root.FLOAT:
            # What a FLOAT column gives back is the nearest single-precision number.
            (number,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return None
    return number


def _decimal(value: object, data_type: AtomicType) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    with localcontext() as context:
        context.prec = 100
        try:
            exact = Decimal(value)
            scaled = exact.quantize(Decimal(1).scaleb(-data_type.scale))
        except InvalidOperation:
            return None
    digits = scaled.as_tuple().digits
    if scaled != exact or (scaled and len(digits) > data_type.precision):
        return None
    return scaled if scaled else abs(scaled)


def _timestamp(value: dt.datetime, data_type: AtomicType) -> int | None:
    local = data_type.root is Root.TIMESTAMP
    if (value.tzinfo is None) != local:
        return None
    naive = value if local else value.astimezone(dt.UTC).replace(tzinfo=None)
    number, lost = divmod(nanoseconds_of(naive) * units_per_second(data_type), 10**9)
    return None if lost else _integer(number, 64)


def nanoseconds_of(local: dt.datetime) -> int:
    """Nanoseconds between the epoch and a datetime without time zone, pandas' own included."""
    micros = (local - _EPOCH) // dt.timedelta(microseconds=1)
    return micros * 1000 + int(getattr(local, "nanosecond", 0))


# Partition values as text ---------------------------------------------------------------------


def partition_text(value: object, field: DataField, options: TableOptions) -> str:
    """A partition value as it stands in a directory name (unescaped) and in a partition spec.

    Null and blank values are named by ``partition.default-name``. With ``partition.legacy-name``
    (Paimon's default) a DATE is its day number and a TIMESTAMP is ISO text with a ``T``.

    Args:
        value: A storage value, or what `storage_value` accepts.
        field: The partition column.
        options: The table's options.

    Raises:
        Invalid: The value is not of the column's type.
        Unsupported: Paimon gives such a value no name that another process could repeat.
    """
    text = _text(storage_value(value, field.type), field, options.legacy_partition_name)
    return options.partition_default_name if text is None or is_blank(text) else text


def is_blank(text: str) -> bool:
    """Whether a text has no character but Java's whitespace."""
    return all(_is_java_whitespace(character) for character in text)


def _text(value: StorageValue, field: DataField, legacy: bool) -> str | None:
    if value is None:
        return None
    data_type = field.type
    assert isinstance(data_type, AtomicType)
    match data_type.root, value:
        case Root.BOOLEAN, bool():
            return "true" if value else "false"
        case ((Root.CHAR | Root.VARCHAR), str()):
            return value
        case ((Root.FLOAT | Root.DOUBLE), float()):
            return float_text(value, single=data_type.root is Root.FLOAT)
        case Root.DECIMAL, Decimal():
            return format(value, "f")
        case Root.DATE, int() if not legacy:
            return _date_text(value, field)
        case Root.TIME, int() if not legacy:
            return _time_text(value, data_type.precision)
        case Root.TIMESTAMP_LTZ, int() if not legacy:
            raise Unsupported(
                f"partition column '{field.name}' is {data_type}: without partition.legacy-name "
                "its directories depend on each writer's time zone"
            )
        case ((Root.TIMESTAMP | Root.TIMESTAMP_LTZ), int()):
            return _timestamp_text(value, data_type, field, legacy)
        case ((Root.BINARY | Root.VARBINARY), bytes()) if not legacy:
            try:
                return value.decode()
            except UnicodeDecodeError:
                pass
        case _, int() if not isinstance(value, bool):
            return str(value)
    raise Unsupported(
        f"partition column '{field.name}' is {data_type}: Paimon has no stable directory name for "
        f"the value {value!r}"
    )


def object_text(value: StorageValue, data_type: DataType) -> str:
    """A value as the ``toString`` of Paimon's own object gives it; ``null`` for None.

    A DATE is its day number, a TIMESTAMP is ISO text with a ``T``. Java gives the address of bytes
    and of nested values: bytes are shown in hexadecimal digits instead.
    """
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex()
    text = _text(value, DataField(0, "value", data_type), True)
    return "null" if text is None else text


def _is_java_whitespace(character: str) -> bool:
    # Character.isWhitespace: not str.isspace, which has U+0085 and the no-break spaces too.
    if character in "\t\n\v\f\r\x1c\x1d\x1e\x1f":
        return True
    return unicodedata.category(character) in ("Zs", "Zl", "Zp") and character not in (
        "\u00a0\u2007\u202f"
    )


def _date_text(days: int, field: DataField) -> str:
    try:
        return (_EPOCH_DATE + dt.timedelta(days)).isoformat()
    except OverflowError:
        raise Unsupported(
            f"partition column '{field.name}': day {days} is outside the years 1 to 9999"
        ) from None


def _time_text(millis: int, precision: int) -> str:
    seconds, fraction = divmod(millis % _MILLIS_PER_DAY, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if precision == 0:
        return text
    return f"{text}.{(f'{fraction:03}'.rstrip('0') or '0')[:precision]}"


def _timestamp_text(value: int, data_type: AtomicType, field: DataField, legacy: bool) -> str:
    per_second = units_per_second(data_type)
    seconds, fraction = divmod(value, per_second)
    nanos = fraction * (10**9 // per_second)
    days, second = divmod(seconds, 86_400)
    date = _date_text(days, field)
    minutes = f"{second // 3600:02}:{second // 60 % 60:02}"
    digits = f"{nanos:09}"
    if not legacy:
        kept = digits.rstrip("0").ljust(data_type.precision, "0")
        return f"{date} {minutes}:{second % 60:02}" + (f".{kept}" if kept else "")
    # LocalDateTime.toString: the shortest of minutes, seconds, milli-, micro- and nanoseconds.
    if nanos:
        while digits.endswith("000"):
            digits = digits[:-3]
        return f"{date}T{minutes}:{second % 60:02}.{digits}"
    return f"{date}T{minutes}" + (f":{second % 60:02}" if second % 60 else "")


_NUMERIC = re.compile(r"-?\d+", re.ASCII)
_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)
_MOMENT = re.compile(
    r"(?P<date>\d{1,4}-\d{1,2}-\d{1,2})(?:[ T](?P<time>\d{1,2}:[\d:.]+))?"
    r"(?P<zone> ?(?:Z|UTC|(?P<sign>[+-])(?P<hours>\d{1,2}):(?P<minutes>\d{2})))?",
    re.ASCII,
)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})


def parse_partition_text(text: str, data_type: DataType, options: TableOptions) -> StorageValue:
    """The storage value that a partition spec's text stands for; the default name reads as null.

    Dates and times may be written as numbers (legacy names) or as ISO text.

    Raises:
        Invalid: The text is not a value of the type.
    """
    if text == options.partition_default_name:
        return None
    return _parsed(text, data_type)


def value_named_as_null(field: DataField, options: TableOptions) -> StorageValue:
    """The value of a partition column whose text is ``partition.default-name``; None if none has.

    Its partition would have the directory and the name of the null partition.
    """
    name = options.partition_default_name
    try:
        value = _parsed(name, field.type)
        same = partition_text(value, field, options) == name
    except (Invalid, Unsupported):
        return None
    return value if same else None


def _parsed(text: str, data_type: DataType) -> StorageValue:
    if not isinstance(data_type, AtomicType):
        raise Invalid(f"a column of type {data_type} cannot be a partition column")
    try:
        return storage_value(_parse_text(text, data_type), data_type)
    except (ValueError, ArithmeticError, Invalid):
        raise Invalid(f"partition value '{text}' is not a value of type {data_type}") from None


def _parse_text(text: str, data_type: AtomicType) -> object:
    if data_type.root in (Root.FLOAT, Root.DOUBLE, Root.DECIMAL) and "_" in text:
        raise ValueError(text)  # Python would read 1_000 as a number.
    match data_type.root:
        case Root.CHAR | Root.VARCHAR:
            return text
        case Root.BINARY | Root.VARBINARY:
            return text.encode()
        case Root.BOOLEAN:
            if text.lower() in _TRUE:
                return True
            if text.lower() in _FALSE:
                return False
            raise ValueError(text)
        case Root.FLOAT | Root.DOUBLE:
            return float(text)
        case Root.DECIMAL:
            return Decimal(text)
        case Root.DATE if not _NUMERIC.fullmatch(text):
            return _parse_date(text)
        case Root.TIME if not _NUMERIC.fullmatch(text):
            return parse_time_of_day(text) // 10**6
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return _parse_timestamp(text, data_type)
        case _:
            if not _NUMERIC.fullmatch(text):
                raise ValueError(text)
            return int(text)


def _parse_date(text: str) -> dt.date:
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise ValueError(text)
    return dt.date(int(parts[1]), int(parts[2]), int(parts[3]))


def _parse_time(text: str) -> tuple[int, int]:
    """Seconds of the day, and nanoseconds."""
    parts = _TIME.fullmatch(text)
    if parts is None:
        raise ValueError(text)
    hour, minute, second = int(parts[1]), int(parts[2]), int(parts[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    return (hour * 60 + minute) * 60 + second, int((parts[4] or "0").ljust(9, "0"))


def _parse_timestamp(text: str, data_type: AtomicType) -> int:
    per_second = units_per_second(data_type)
    if _NUMERIC.fullmatch(text):
        # A number counts in units of the type's own precision.
        number, lost = divmod(int(text) * per_second, 10**data_type.precision)
        if lost:
            raise ValueError(text)
        return int(number)
    nanos, zoned = parse_moment(text)
    number, lost = divmod(nanos * per_second, 10**9)
    if lost or zoned:
        raise ValueError(text)
    return number


def parse_moment(text: str) -> tuple[int, bool]:
    """Read ``yyyy-MM-dd[ HH:mm[:ss[.fraction]]][zone]``, with a space or ``T`` between.

    The zone is ``Z``, ``UTC`` or an offset such as ``+02:00``; without one the text is taken as
    UTC.

    Returns:
        Nanoseconds since the epoch, and whether the text has a zone.

    Raises:
        ValueError: The text is not a timestamp.
    """
    parts = _MOMENT.fullmatch(text.strip())
    if parts is None:
        raise ValueError(f"'{text}' is not a date or timestamp")
    days = (_parse_date(parts["date"]) - _EPOCH_DATE).days
    second, nanos = _parse_time(parts["time"]) if parts["time"] else (0, 0)
    offset = 0
    if parts["hours"]:
        if int(parts["hours"]) > 18 or int(parts["minutes"]) > 59:
            raise ValueError(f"'{text}' has no valid time zone")
        offset = (int(parts["hours"]) * 60 + int(parts["minutes"])) * 60
        offset = -offset if parts["sign"] == "-" else offset
    return (days * 86_400 + second - offset) * 10**9 + nanos, parts["zone"] is not None


def parse_time_of_day(text: str) -> int:
    """Nanoseconds since midnight of ``HH:mm[:ss[.fraction]]``; ValueError if it is not one."""
    second, nanos = _parse_time(text.strip())
    return second * 10**9 + nanos
