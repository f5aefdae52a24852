"""Names and options as a caller gives them, where Python would take other values without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headwater.storage.errors import Invalid

__all__ = ["given_names", "given_options"]


def given_names(names: Iterable[Any], what: str) -> tuple[str, ...]:
    """Names of columns.

    Args:
        names: The names.
        what: The argument's name, for errors.

    Raises:
        Invalid: They are one text, whose letters would be taken for names, or one is no text.
    """
    if isinstance(names, str | bytes):
        raise Invalid(f"{what} is a list of names: write [{names!r}]")
    found = tuple(names)
    for name in found:
        if not isinstance(name, str):
            raise Invalid(f"{what} is a list of names, and {name!r} is none")
    return found


def given_options(options: Mapping[Any, Any]) -> dict[str, str]:
    """Options of a table; raises Invalid if one is no text, which other engines need."""
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise Invalid(
                f"option {key!r} is the {type(value).__name__} {value!r}: names and values of "
                "options are text, such as 'true' and '4'"
            )
    return dict(options)
