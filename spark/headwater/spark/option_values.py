"""Values of Spark's options and settings, which are all text."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.errors import Invalid
from headwater.storage.options import parse_boolean

__all__ = ["boolean_value", "integer_value", "is_true"]


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


def is_true(text: str | None, *, default: bool = False) -> bool:
    """True if a setting that Spark itself knows, and so has checked, is true.

    Args:
        text: The setting; None where it is not set.
        default: The answer for one that is not set.
    """
    return default if text is None else text.strip().lower() == "true"
