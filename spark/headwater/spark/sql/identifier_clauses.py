"""``IDENTIFIER('database.table')``: names that a statement gives as constant texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.spark.names import quoted
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["with_plain_names"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s]+)")
# After one of these only the name of a table, view, function or database can stand.
_BEFORE_A_NAME = frozenset(
    {
        "FROM", "JOIN", "TABLE", "VIEW", "FUNCTION", "INTO", "OVERWRITE", "UPDATE", "DATABASE",
        "SCHEMA", "NAMESPACE", "EXISTS", "USE", "DESCRIBE", "DESC",
    }
)  # fmt: skip
_VERBATIM = frozenset({"SET", "RESET", "ADD", "LIST"})


def with_plain_names(text: str) -> str:
    """A text in which each ``IDENTIFIER`` of a constant is the name that it stands for.

    Args:
        text: One or more statements.

    Raises:
        Invalid: A constant is no name.
        Unsupported: A table's name is to be worked out by Spark.
    """
    if "identifier" not in text.lower():
        return text
    words = read_words(text)
    pieces: list[str] = []
    copied = at = 0
    is_verbatim = False
    for at, word in enumerate(words):
        before = words[at - 1] if at else None
        if before is None or _is(before, ";"):
            is_verbatim = word.text.upper() in _VERBATIM
        if is_verbatim or word.start < copied or not _begins(words, at):
            continue
        constant, end = _constant(words, at + 2)
        if constant is not None:
            pieces += [text[copied : word.start], _name(constant)]
            copied = end
        elif before is not None and before.text.upper() in _BEFORE_A_NAME:
            raise Unsupported(
                "IDENTIFIER of an expression is not supported for a table's name: give the name "
                "as a string, as in IDENTIFIER('shop.orders')"
            )
    return "".join([*pieces, text[copied:]])


def _is(word: Word, symbol: str) -> bool:
    return word.kind is WordKind.SYMBOL and word.text == symbol


def _begins(words: Sequence[Word], at: int) -> bool:
    return (
        words[at].kind is WordKind.WORD
        and words[at].text.upper() == "IDENTIFIER"
        and at + 2 < len(words)
        and _is(words[at + 1], "(")
        and not (at and _is(words[at - 1], "."))
    )


def _constant(words: Sequence[Word], at: int) -> tuple[str | None, int]:
    """Strings with ``||`` between them up to a bracket, as one, and where the bracket ends."""
    parts: list[str] = []
    while at + 1 < len(words) and words[at].kind is WordKind.STRING:
        parts.append(words[at].text)
        if _is(words[at + 1], ")"):
            return "".join(parts), words[at + 1].end
        if not _is(words[at + 1], "||"):
            break
        at += 2
    return None, 0


def _name(constant: str) -> str:
    parts: list[str] = []
    at = 0
    while (found := _PART.match(constant, at)) is not None:
        parts.append(found[2] or found[1].replace("``", "`"))
        at = found.end() + 1
        if found.end() == len(constant):
            return ".".join(map(quoted, parts))
        if constant[found.end()] != ".":
            break
    raise Invalid(f"IDENTIFIER('{constant}'): there is no such name; write 'database.table'")
