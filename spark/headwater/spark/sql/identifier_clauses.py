"""``IDENTIFIER('database.table')``: names that a statement gives as values of expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from headwater.spark.names import quoted
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.storage.errors import Invalid

__all__ = ["with_plain_names"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s]+)")
_VERBATIM = frozenset({"SET", "RESET", "ADD", "LIST"})


def with_plain_names(text: str, compute: Callable[[str], str | None] | None = None) -> str:
    """A text in which each ``IDENTIFIER`` of a constant is the name that it stands for.

    Args:
        text: One or more statements.
        compute: The value of an expression without columns, such as a session variable; None for
            one that is left to Spark. Without it, only strings are constants.

    Raises:
        Invalid: A constant is not a name.
    """
    if "identifier" not in text.lower():
        return text
    words = read_words(text)
    pieces: list[str] = []
    copied = 0
    is_verbatim = False
    for at, word in enumerate(words):
        if at == 0 or _is(words[at - 1], ";"):
            is_verbatim = word.text.upper() in _VERBATIM
        if is_verbatim or word.start < copied or not _begins(words, at):
            continue
        constant, end = _constant(words, at + 2)
        if constant is None and compute is not None:
            constant, end = _computed(text, words, at + 1, compute)
        if constant is not None:
            pieces += [text[copied : word.start], _name(constant)]
            copied = end
    return "".join([*pieces, text[copied:]])


def _computed(
    text: str, words: Sequence[Word], opening: int, compute: Callable[[str], str | None]
) -> tuple[str | None, int]:
    """The value of the expression in brackets, and where the bracket ends; None if there is none.

    Args:
        text: The statement.
        words: Its words.
        opening: The index of the bracket.
        compute: Computes the expression.
    """
    depth = 0
    for word in words[opening:]:
        depth += _is(word, "(") - _is(word, ")")
        if depth == 0:
            return compute(text[words[opening].end : word.start]), word.end
    return None, 0


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
