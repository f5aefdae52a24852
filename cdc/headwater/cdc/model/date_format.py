"""Times as text, by patterns of Java's ``DateTimeFormatter``."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid

__all__ = ["date_text", "strftime_format"]

_FIELDS = {
    **{"yyyy": "%Y", "uuuu": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"},
    "DDD": "%j",
}
_TOKEN = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z'\[\]{}#]")


def date_text(instants: pa.Array, pattern: str) -> pa.Array:
    """Times as text.

    Args:
        instants: Times without a zone.
        pattern: The pattern, see `strftime_format`.
    """
    seconds = pc.floor_temporal(instants, unit="second").cast(pa.timestamp("s"))
    return pc.strftime(seconds, format=strftime_format(pattern))


def strftime_format(pattern: str) -> str:
    """A pattern as C and Arrow write it.

    Raises:
        Invalid: It has parts that depend on the language, or that Arrow does not have.
    """
    result, end = "", 0
    while end < len(pattern):
        token = _TOKEN.match(pattern, end)
        text = token[0] if token is not None else pattern[end]
        is_field = token is not None and token[1] is not None
        if token is None or (is_field and text not in _FIELDS):
            raise Invalid(
                f"the pattern '{pattern}' of a time has '{text}', which is not supported; use "
                f"{', '.join(_FIELDS)}, other characters, and text between apostrophes"
            )
        literal = text if token[2] is None else token[2].replace("''", "'") or "'"
        result += _FIELDS[text] if is_field else literal.replace("%", "%%")
        end = token.end()
    return result
