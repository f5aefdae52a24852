"""JSON read in slices: a large text holds up no other thread for longer than a slice takes.

Python's own decoder keeps the interpreter to itself until it has read a text to its end, and 16 MB
of brackets take it seconds.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from json import JSONDecodeError

__all__ = ["SLICE_CHARACTERS", "SlicedJson", "check_count", "decode", "unique"]

SLICE_CHARACTERS = 4096
"""The longest object or array that is left to Python's decoder as a whole."""

_DEEPEST = 100
_skip_space = re.compile(r"[ \t\n\r]*").match


def unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of a JSON text; raises ValueError where two of its members have one name.

    Of such members one parser takes the first and another the last, so that what is checked might
    not be what is stored and read.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"an object has the name '{counts.most_common(1)[0][0]}' twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=unique)


def decode(text: str, slice_characters: int = SLICE_CHARACTERS) -> object:
    """The value of a JSON text, as `json.loads` reads it; see `unique`.

    Args:
        text: The text.
        slice_characters: The longest object or array that is read at once.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or has a number of too many digits.
    """
    sliced = SlicedJson(text, slice_characters)
    value, end = sliced.value(sliced.skip(0))
    end = sliced.skip(end)
    if end != len(text):
        raise JSONDecodeError("Extra data", text, end)
    return value


def check_count(text: str, most: int) -> None:
    """Refuse a text of which one could see without reading it that it has too many values.

    Args:
        text: The text.
        most: The largest number of commas, brackets and braces together.

    Raises:
        ValueError: There are more.
    """
    if text.count(",") + text.count("[") + text.count("{") > most:
        raise ValueError(
            f"it has more than {most} commas, brackets and braces; send less at a time"
        )


class SlicedJson:
    """A text of which values are read from any place.

    Args:
        text: The text.
        slice_characters: The longest object or array that is read at once.
        decoder: Reads the slices.
    """

    def __init__(
        self,
        text: str,
        slice_characters: int = SLICE_CHARACTERS,
        decoder: json.JSONDecoder = _DECODER,
    ) -> None:
        self._text = text
        self._slice_characters = slice_characters
        self._decoder = decoder

    def skip(self, at: int) -> int:
        """The place of what comes after white space."""
        found = _skip_space(self._text, at)
        assert found is not None
        return found.end()

    def value(self, at: int, depth: int = 0) -> tuple[object, int]:
        """The value that begins at a place, and the place of its end.

        Raises:
            ValueError: There is none, or one that is too deep or too long a number.
        """
        first = self._text[at : at + 1]
        if first not in ("{", "["):
            return self._read(self._text, at)
        if depth >= _DEEPEST:
            raise JSONDecodeError(f"Nested deeper than {_DEEPEST} levels", self._text, at)
        part = self._text[at : at + self._slice_characters]
        try:
            value, length = self._read(part, 0)
        except (ValueError, RecursionError):
            # It is longer than that, or wrong, which is found where it is.
            return self._object(at, depth) if first == "{" else self._array(at, depth)
        return value, at + length

    def _read(self, text: str, at: int) -> tuple[object, int]:
        value: object
        value, end = self._decoder.raw_decode(text, at)
        return value, end

    def _object(self, at: int, depth: int) -> tuple[object, int]:
        text, found = self._text, dict[str, object]()
        at = self.skip(at + 1)
        if text[at : at + 1] == "}":
            return found, at + 1
        while True:
            if text[at : at + 1] != '"':
                raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            key, at = self._read(text, at)
            at = self.skip(at)
            if text[at : at + 1] != ":":
                raise JSONDecodeError("Expecting ':' delimiter", text, at)
            if key in found:
                raise ValueError(f"an object has the name '{key}' twice")
            found[str(key)], at = self.value(self.skip(at + 1), depth + 1)
            at = self.skip(at)
            if text[at : at + 1] == "}":
                return found, at + 1
            at = self._comma(at)

    def _array(self, at: int, depth: int) -> tuple[object, int]:
        text, found = self._text, list[object]()
        at = self.skip(at + 1)
        if text[at : at + 1] == "]":
            return found, at + 1
        while True:
            value, at = self.value(at, depth + 1)
            found.append(value)
            at = self.skip(at)
            if text[at : at + 1] == "]":
                return found, at + 1
            at = self._comma(at)

    def _comma(self, at: int) -> int:
        if self._text[at : at + 1] != ",":
            raise JSONDecodeError("Expecting ',' delimiter", self._text, at)
        return self.skip(at + 1)
