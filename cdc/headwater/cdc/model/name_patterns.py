"""Paimon's regular expressions of names, as far as Java and Python read them alike."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.storage.errors import Invalid

__all__ = ["NamePattern"]

# A regular expression of Java that has other parts may mean something else in Python.
_TOKEN = re.compile(
    r"""
      [^\\^$.|?*+()\[\]{}]          # a character that stands for itself
    | \\[^A-Za-z0-9\s]              # one that is escaped
    | \\[dDwW]                      # a class of ASCII characters
    | [.|)]
    | \((?:\?:|(?!\?))              # a group
    | \[\^?(?:[A-Za-z0-9_$ ]-[A-Za-z0-9_$ ]|[A-Za-z0-9_$ ]|\\[^A-Za-z0-9\s])+\]
    | (?:[*+?]|\{\d+(?:,\d*)?\})\??(?![*+?{])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class NamePattern:
    """A regular expression that must match all of a name, as in Paimon's ``including_tables``.

    Attributes:
        text: The expression.
        expression: It, as Python has it.
    """

    text: str
    expression: re.Pattern[str]

    @staticmethod
    def parse(option: str, text: str) -> NamePattern:
        """Read the value of an option; Invalid."""
        end = 0
        while end < len(text):
            token = _TOKEN.match(text, end)
            if token is None:
                raise Invalid(
                    f"option '{option}' is '{text}': '{text[end : end + 8]}' is not a part of a "
                    "regular expression that Java and Python read alike; use letters, '.', '*', "
                    "'+', '?', '|', groups, simple classes and escaped characters"
                )
            end = token.end()
        try:
            return NamePattern(text, re.compile(text, re.ASCII))
        except re.error as error:
            raise Invalid(
                f"option '{option}' is '{text}', which is not a regular expression: {error}; "
                "separate names with '|', such as 'orders|order_.*'"
            ) from None

    def matches(self, name: str) -> bool:
        """Whether all of a name matches."""
        return self.expression.fullmatch(name) is not None
