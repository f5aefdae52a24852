"""An option map, and the kinds of values in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from headwater.storage.errors import Invalid
from headwater.storage.options.quantities import parse_integer

__all__ = ["OptionMap", "is_true", "parse_boolean"]

_Choice = TypeVar("_Choice", bound=StrEnum)


def parse_boolean(text: str, key: str) -> bool:
    """The value of an option that is true or false; raises Invalid for any other text."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise Invalid(f"option '{key}' must be true or false, not '{text}'")


def is_true(options: Mapping[str, str], key: str) -> bool:
    """True if an option is true.

    It is false where it is missing, and for a text that is neither true nor false: this is for
    questions that must have an answer for every table, whatever another client wrote into it.
    """
    return options.get(key, "").strip().lower() == "true"


@dataclass(frozen=True)
class OptionMap:
    """Options of a table.

    Attributes:
        raw: The map itself.
    """

    raw: Mapping[str, str]

    def _integer(self, key: str, default: int) -> int:
        text = self.raw.get(key)
        return default if text is None else parse_integer(text, key)

    def _boolean(self, key: str, default: bool) -> bool:
        text = self.raw.get(key)
        return default if text is None else parse_boolean(text, key)

    def _choice(self, key: str, default: _Choice) -> _Choice:
        text = self.raw.get(key)
        if text is None:
            return default
        kind = type(default)
        try:
            return kind(text.strip().lower())
        except ValueError:
            names = ", ".join(kind)
            raise Invalid(f"option '{key}' must be one of {names}; not '{text}'") from None

    def _word(self, key: str) -> str | None:
        text = self.raw.get(key)
        return None if text is None else text.strip().lower()

    def _by_level(self, key: str) -> dict[int, str]:
        """An option such as ``0:avro,3:parquet``."""
        found: dict[int, str] = {}
        for item in filter(str.strip, self.raw.get(key, "").split(",")):
            level, colon, value = item.partition(":")
            if not colon or not level.strip().isdecimal() or not value.strip():
                raise Invalid(
                    f"option '{key}': '{item.strip()}' is not a level and a value such as '0:avro'"
                )
            found[int(level)] = value.strip().lower()
        return found

    def _names(self, key: str) -> tuple[str, ...]:
        text = self.raw.get(key)
        return () if text is None else tuple(name.strip() for name in text.split(","))

    def _name_part(self, key: str, default: str) -> str:
        text = self.raw.get(key, default)
        if "/" in text:
            raise Invalid(f"option '{key}' begins the names of files; '{text}' has a '/' in it")
        return text
