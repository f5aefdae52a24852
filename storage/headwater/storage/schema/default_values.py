"""Defaults of columns: text that is cast to the column's type, as a value of a STRING would be.

Source: ``DefaultValueUtils.java``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema.nested_defaults import nested_value
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import MAX_LENGTH, DataType, VariantType
from headwater.storage.types.local_time import Zone, utc

__all__ = ["check_default_value", "default_value"]

_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)
_UNQUOTED = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)


def check_default_value(column: str, data_type: DataType, text: str | None) -> None:
    """Refuse a default that is no value of the column's type; raises Invalid.

    Text of arrays, maps and structs is taken as it is: Spark keeps expressions in it, which it
    evaluates, and other engines read it by rules of their own.
    """
    if text is not None and isinstance(data_type, VariantType):
        raise Invalid(f"column '{column}': the default '{text}' is no value of {data_type}")
    if text is not None and isinstance(data_type, AtomicType):
        default_value(f"column '{column}'", data_type, text, utc)


def default_value(where: str, data_type: DataType, text: str, zone: Zone) -> pa.Scalar:
    """The value, in the type's Arrow form, that a column's default stands for.

    Args:
        where: The column's name in error messages.
        data_type: Its type.
        text: The default, in quotes or not.
        zone: Of local times, see `cast`.

    Raises:
        Invalid: The text is no value of the type.
    """
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    refusal = f"{where}: the default '{text}' is no value of {data_type}"
    remedy = "change the default, or remove it"
    if not isinstance(data_type, AtomicType):
        try:
            return nested_value(data_type, text, partial(_cast_part, zone, text))[0]
        except (ValueError, Invalid, Unsupported) as error:
            raise Invalid(f"{refusal} ({error}); {remedy}") from error
    try:
        value = _cast(zone, data_type, text)[0]
    except (Invalid, Unsupported) as error:
        raise Invalid(f"{refusal}; {remedy}") from error
    if not value.is_valid:
        raise Invalid(f"{refusal}; {remedy}")
    return value


def _cast(zone: Zone, data_type: DataType, text: str) -> pa.Array:
    return cast(pa.array([text]), _STRING, replace(data_type, nullable=True), zone)


def _cast_part(zone: Zone, whole: str, data_type: DataType, text: str) -> pa.Array:
    """A part of a nested default.

    Spark evaluates arguments of functions: a bare word there is no text to it.
    """
    if "(" in whole and isinstance(data_type, AtomicType) and data_type.root in _UNQUOTED:
        raise ValueError(f"{text} as {data_type} means another thing to each engine")
    return _cast(zone, data_type, text)
