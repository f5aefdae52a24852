"""Options that all kinds of sources have, read in one way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeVar

from headwater.storage.errors import Invalid

__all__ = ["parse_choices", "url_options"]

_Choice = TypeVar("_Choice", bound=StrEnum)


def parse_choices(text: str, choices: type[_Choice]) -> frozenset[_Choice]:
    """Read the option ``type_mapping``, names with commas between them; Invalid.

    Args:
        text: The names.
        choices: Those that the kind of source has.
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    known = {choice.value: choice for choice in choices}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid(
            f"type_mapping '{unknown[0]}' is not known; the names are {', '.join(sorted(known))}"
        )
    return frozenset(known[name] for name in names)


def url_options(
    options: Mapping[str, str | tuple[str, ...]], known: Collection[str]
) -> Mapping[str, str]:
    """The options of a URL, each of which it has once.

    Args:
        options: The options; one that the URL has twice has several values.
        known: The names that there are.

    Raises:
        Invalid: An option is not known, or is there twice.
    """
    texts: dict[str, str] = {}
    for name, value in options.items():
        if name not in known:
            raise Invalid(f"the option '{name}' is not known")
        if not isinstance(value, str):
            raise Invalid(f"the option '{name}' is there twice")
        texts[name] = value
    return texts
