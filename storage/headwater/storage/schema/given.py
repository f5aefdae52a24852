"""Names and options as a caller gives them, where Python would take other values without a word."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.storage.errors import Invalid

__all__ = ["given_names", "given_options", "given_texts"]


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
    return given_texts(options, "option")


def given_texts(values: Mapping[Any, Any], what: str) -> dict[str, str]:
    """Texts by name.

    Args:
        values: The texts.
        what: The argument's name, or that of one of them, for errors.

    Raises:
        Invalid: A name or a value is no text.
    """
    for name, value in values.items():
        wrong = name if not isinstance(name, str) else value
        if not isinstance(wrong, str):
            raise Invalid(
                f"{what} {name!r} is the {type(wrong).__name__} {reprlib.repr(wrong)}: names and "
                "values are text, such as 'true' and '4'"
            )
    return dict(values)
