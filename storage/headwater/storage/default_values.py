"""Defaults of columns: text that must be a value of the column's type.

Source: ``DefaultValueUtils.java`` and the casts from text in ``BinaryStringUtils.java``.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation

from headwater.storage.errors import Invalid
from headwater.storage.types import AtomicType, DataType, Root

__all__ = ["check_default_value"]

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_BOOLEANS = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_WHOLE = re.compile(r"\s*([+-]?\d+)(?:\.\d*)?\s*", re.ASCII)
_REAL = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?[fd]?\s*", re.ASCII | re.IGNORECASE)
_NOT_A_NUMBER = frozenset({"nan", "infinity", "+infinity", "-infinity"})
_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{1,9})?)?", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)


def check_default_value(column: str, data_type: DataType, text: str | None) -> None:
    """Refuse a default that is no value of the column's type; raises Invalid.

    Text of nested types is taken as it is: what reads it knows its form.
    """
    if text is None or not isinstance(data_type, AtomicType):
        return
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    if not _is_value(data_type, text):
        raise Invalid(
            f"column '{column}': the default '{text}' is no value of {data_type}; change the "
            "default, or remove it"
        )


def _is_value(data_type: AtomicType, text: str) -> bool:
    match data_type.root:
        case Root.BOOLEAN:
            return text.lower() in _BOOLEANS
        case Root.TINYINT | Root.SMALLINT | Root.INT | Root.BIGINT:
            whole = _WHOLE.fullmatch(text)
            limit = 1 << (_BITS[data_type.root] - 1)
            return whole is not None and -limit <= int(whole[1]) < limit
        case Root.FLOAT | Root.DOUBLE:
            return _REAL.fullmatch(text) is not None or text.strip().lower() in _NOT_A_NUMBER
        case Root.DECIMAL:
            return _is_decimal(text, data_type.precision - data_type.scale)
        case Root.DATE:
            return _NUMBER.fullmatch(text) is not None or _is_date(text)
        case Root.TIME:
            return _NUMBER.fullmatch(text) is not None or _is_time(text)
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            if data_type.root is Root.TIMESTAMP and _NUMBER.fullmatch(text):
                return True
            day, separator, time = text.strip().replace("T", " ", 1).partition(" ")
            return _is_date(day) and (not separator or _is_time(time))
        case _:
            return True


def _is_decimal(text: str, whole_digits: int) -> bool:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return False
    return number.is_finite() and abs(number) < Decimal(10) ** whole_digits


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    try:
        return found is not None and bool(date(*(int(part) for part in found.groups())))
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return found is not None and all(
        int(part or 0) < limit for part, limit in zip(found.groups(), (24, 60, 60), strict=True)
    )
