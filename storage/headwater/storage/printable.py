"""Text that is safe to print: control, format and separator characters escaped.

Such a character can move a terminal's cursor, begin another line of a log, or show a name in
another order than it is written in. No new name has one, but files and tables of other engines may.
"""

from __future__ import annotations

import re

__all__ = ["has_unprintable", "printable", "printable_json"]

# Categories Cc, Cf, Cs, Zl and Zp of Unicode. The joiners U+200C and U+200D are left out: they are
# part of words, and of emoji.
_UNPRINTABLE = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u2064\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]"
)


def has_unprintable(text: str) -> bool:
    """Whether a text has a control, format or separator character that must not be in a name."""
    return _UNPRINTABLE.search(text) is not None


def printable(text: str, keep: str = "") -> str:
    r"""A text with such characters escaped as Python writes them: ``\x1b``, ``\u202e``.

    Args:
        text: The text.
        keep: Characters to leave as they are, such as line feeds.
    """
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text
    )


def printable_json(text: str) -> str:
    r"""A JSON text with such characters in its strings escaped: the same values, as ``\u202e``."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    # Beyond 16 bits JSON writes both halves of a surrogate pair.
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4))
