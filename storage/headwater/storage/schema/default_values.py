"""Defaults of columns: text that is cast to the column's type, as a value of a STRING would be.

Source: ``DefaultValueUtils.java``.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import MAX_LENGTH, DataType, VariantType
from headwater.storage.types.local_time import Zone, utc

__all__ = ["check_default_value", "default_value"]

_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)


def check_default_value(column: str, data_type: DataType, text: str | None) -> None:
    """Refuse a default that is no value of the column's type; raises Invalid.

    Text of nested types is taken as it is: what reads it knows its form.
    """
    if text is not None and isinstance(data_type, VariantType):
        raise Invalid(f"column '{column}': the default '{text}' is no value of {data_type}")
    if text is not None and isinstance(data_type, AtomicType):
        default_value(f"column '{column}'", data_type, text, utc)


def default_value(where: str, data_type: AtomicType, text: str, zone: Zone) -> pa.Scalar:
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
    reason = Invalid(
        f"{where}: the default '{text}' is no value of {data_type}; change the default, or "
        "remove it"
    )
    try:
        value = cast(pa.array([text]), _STRING, replace(data_type, nullable=True), zone)[0]
    except (Invalid, Unsupported) as error:
        raise reason from error
    if not value.is_valid:
        raise reason
    return value
