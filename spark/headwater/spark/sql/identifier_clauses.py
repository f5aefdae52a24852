"""``IDENTIFIER('database.table')``: names that a statement gives as values of expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.spark.errors import unlogged_errors
from headwater.spark.names import quoted
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.storage.errors import Invalid

__all__ = ["with_plain_names"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s]+)")
_VERBATIM = frozenset({"SET", "RESET", "ADD", "LIST"})


def with_plain_names(text: str, spark: SparkSession) -> str:
    """A text in which each ``IDENTIFIER`` of a constant is the name that it stands for.

    An expression without columns, such as a session variable, is a constant that Spark computes.
    What it cannot compute alone is left to Spark, such as parameters of functions.

    Args:
        text: One or more statements.
        spark: The session.

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
        if constant is None:
            constant, end = _computed(text, words, at + 1, spark)
        if constant is not None:
            pieces += [text[copied : word.start], _name(constant)]
            copied = end
    return "".join([*pieces, text[copied:]])


def _computed(
    text: str, words: Sequence[Word], opening: int, spark: SparkSession
) -> tuple[str | None, int]:
    """The value of the expression in brackets, and where the bracket ends; None if there is none.

    Args:
        text: The statement.
        words: Its words.
        opening: The index of the bracket.
        spark: The session.
    """
    depth = 0
    for word in words[opening:]:
        depth += _is(word, "(") - _is(word, ")")
        if depth == 0:
            try:
                with unlogged_errors():
                    (row,) = spark.sql(f"SELECT {text[words[opening].start : word.end]}").collect()
            except PySparkException:
                return None, 0
            value: object = row[0]
            return (value, word.end) if isinstance(value, str) else (None, 0)
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
