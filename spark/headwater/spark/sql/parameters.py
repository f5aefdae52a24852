"""Parameters of a statement, ``:name`` and ``?``, and the constants that take their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.spark.sql.constants import Constants
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.storage.errors import Invalid

__all__ = ["Arguments", "has_named_parameters", "with_arguments"]

Arguments = Mapping[str, object] | Sequence[object]
"""Values of parameters: by name for ``:name``, in their order for ``?``."""


def with_arguments(text: str, arguments: Arguments, constants: Constants) -> str:
    """A statement with constants in the places of its parameters.

    A parameter stands where a constant can stand, as in Spark.

    Args:
        text: The statement.
        arguments: Values by name or in order.
        constants: Writes them.

    Raises:
        Invalid: A parameter has no value, a value no parameter, or one of no type of SQL.
    """
    if isinstance(arguments, str | bytes) or not isinstance(arguments, Mapping | Sequence):
        raise Invalid(
            f"args: a dict of values by name or a list of values is expected, not {arguments!r}"
        )
    by_name = isinstance(arguments, Mapping)
    values = arguments if isinstance(arguments, Mapping) else dict(enumerate(arguments))
    written = {
        key: constants.constant(value, f"args: the value of {_spelled(key)}")
        for key, value in values.items()
    }
    pieces: list[str] = []
    used: set[object] = set()
    copied = 0
    for place, (start, end, name) in enumerate(_parameters(text)):
        if by_name != (name is not None):
            raise Invalid(
                f"{text[start:end]} in the statement: a dict of args has values for :name, "
                "and a list for ?"
            )
        key = place if name is None else name
        if key not in written:
            raise Invalid(f"args has no value for {_spelled(key)} of the statement")
        used.add(key)
        pieces += [text[copied:start], written[key]]
        copied = end
    for key in written:
        if key not in used:
            raise Invalid(f"args has a value for {_spelled(key)}, which the statement has not")
    return "".join([*pieces, text[copied:]])


def has_named_parameters(text: str) -> bool:
    """Whether a statement has parameters ``:name``."""
    return any(name is not None for _, _, name in _parameters(text))


def _spelled(key: object) -> str:
    return f"? number {key + 1}" if isinstance(key, int) else f":{key}"


def _parameters(text: str) -> list[tuple[int, int, str | None]]:
    """The places where parameters begin and end, and their names; None for those without."""
    words = read_words(text)
    parameters: list[tuple[int, int, str | None]] = []
    for at, word in enumerate(words):
        if word.kind is not WordKind.SYMBOL:
            continue
        if word.text.startswith("?"):
            marks = len(word.text) - len(word.text.lstrip("?"))
            parameters += [
                (word.start + mark, word.start + mark + 1, None) for mark in range(marks)
            ]
        elif word.text == ":" and _names_one(words, at):
            parameters.append((word.start, words[at + 1].end, words[at + 1].text))
    return parameters


def _names_one(words: Sequence[Word], at: int) -> bool:
    """True unless a colon parts a VARIANT and its field, or a field of a STRUCT and its type."""
    if at + 1 == len(words) or not words[at + 1].is_name or words[at].end != words[at + 1].start:
        return False
    before = words[at - 1] if at else None
    if before is None or before.end != words[at].start:
        return True
    return before.kind is WordKind.SYMBOL and before.text not in (")", "]", "}")
