"""Values of Spark's options, which are all text."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.errors import Invalid
from headwater.storage.options import parse_boolean

__all__ = ["boolean_value", "integer_value"]


def boolean_value(options: Mapping[str, str], key: str) -> bool | None:
    """An option that is true or false; raises Invalid when it is neither."""
    text = options.get(key)
    return None if text is None else parse_boolean(text, key)


def integer_value(options: Mapping[str, str], key: str) -> int | None:
    """An option that is a whole number; raises Invalid when it is none."""
    text = options.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"option '{key}' must be an integer, not '{text}'") from None
