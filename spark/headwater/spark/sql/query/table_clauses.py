"""The clauses that follow tables' names in a query, and Paimon's table functions.

sqlglot does not know them, or does not keep them: they are found word by word, and blanked before
it reads the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.spark.sql.elsewhere import CHANGES_FUNCTION
from headwater.spark.sql.statement import Word, WordKind, options_hint
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["CLAUSE_WORDS", "Moment", "TableClauses", "TableFunction"]

_CHANGE_FUNCTIONS: Mapping[str, str] = {
    "paimon_incremental_query": "incremental-between",
    "paimon_incremental_between_timestamp": "incremental-between-timestamp",
    "paimon_incremental_to_auto_tag": "incremental-to-auto-tag",
}
"""Paimon's table functions, and the option that each stands for."""
_OF_GLOBAL_INDEXES = frozenset({"vector_search", "hybrid_search", "full_text_search"})

_VERSIONS = frozenset({"VERSION", "SYSTEM_VERSION"})
_TIMES = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
# What goes on with a value where a name without AS would be an alias.
_OPERATORS = frozenset(
    {"AND", "OR", "DIV", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "IS", "AT", "COLLATE"}
)
CLAUSE_WORDS = frozenset(
    {
        "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL",
        "CROSS", "NATURAL", "ON", "USING", "UNION", "INTERSECT", "EXCEPT", "MINUS", "LATERAL",
        "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "AS", "SORT", "DISTRIBUTE", "CLUSTER",
        "OFFSET", "SEMI", "ANTI", "SELECT",
    }
)  # fmt: skip
"""Words that begin what comes after a table or a value, and so are no alias of it."""
# What may follow a column that is called ``of``.
_AFTER_AN_ALIAS = frozenset({"FROM", ",", ")", ";"})
_BEFORE_A_TABLE = frozenset({"FROM", "JOIN", "LATERAL"})
_UNIT = re.compile(r"(YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?")
_ANY_HINT = re.compile(r"/\*\+\s*OPTIONS\b", re.IGNORECASE)


@dataclass(frozen=True)
class Moment:
    """``VERSION AS OF`` or ``TIMESTAMP AS OF`` after a name.

    Attributes:
        by_version: True for a version.
        text: The version, or the expression of the timestamp as its user wrote it.
    """

    by_version: bool
    text: str


@dataclass(frozen=True)
class TableFunction:
    """A call of a table function of Paimon's, which reads changes.

    Attributes:
        parts: The parts of the table's name.
        start, end: The call's place in the text.
        option: The option of the table that it stands for, and its value.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    option: tuple[str, str]


class TableClauses:
    """The clauses after tables' names, which sqlglot does not know or keep, and table functions."""

    def __init__(self, text: str, words: Sequence[Word]) -> None:
        self._text = text
        self._words = words
        self._moments: dict[int, tuple[Moment, int]] = {}
        self._options: dict[int, tuple[Mapping[str, str], int]] = {}
        self.functions: list[TableFunction] = []
        # Spark itself ignores hints that it does not know.
        strings = [(word.start, word.end) for word in words if word.kind is not WordKind.SYMBOL]
        self._hints = {
            found.start()
            for found in _ANY_HINT.finditer(text)
            if not any(start <= found.start() < end for start, end in strings)
        }
        at = 0
        while at < len(words):
            at = self._moment(at) or self._with_options(at) or self._function(at) or at + 1

    def blanked(self) -> str:
        """The text with blanks for the clauses, so that all else stands where it stood."""
        text = self._text
        spans = [(start, end) for start, (_, end) in self._moments.items()]
        spans += [(start, end) for start, (_, end) in self._options.items()]
        for start, end in spans:
            text = text[:start] + " " * (end - start) + text[end:]
        for function in self.functions:
            length = function.end - function.start
            text = text[: function.start] + "f()".ljust(length) + text[function.end :]
        return text

    def after(self, end: int) -> tuple[Moment | None, Mapping[str, str], int]:
        """The moment and the options that follow a name, and where they end."""
        moment: Moment | None = None
        options: Mapping[str, str] = {}
        while (start := self._next_start(end)) is not None:
            if start in self._options and not options:
                options, end = self._options.pop(start)
            elif start in self._moments and moment is None:
                moment, end = self._moments.pop(start)
            else:
                break
        found = options_hint(self._text, end)
        if found is not None and not options:
            options, hint = found
            end = hint.end()
            self._hints.discard(hint.start() + hint[0].index("/"))
        return moment, options, end

    def unread(self) -> str | None:
        """A clause that followed no name."""
        for start, (_, end) in (*self._moments.items(), *self._options.items()):
            return self._text[start:end]
        return "/*+ OPTIONS" if self._hints else None

    def _next_start(self, end: int) -> int | None:
        return next((word.start for word in self._words if word.start >= end), None)

    def _is(self, at: int, *keywords: str) -> bool:
        found = self._words[at : at + len(keywords)]
        return len(found) == len(keywords) and all(
            word.kind is not WordKind.STRING
            and word.kind is not WordKind.QUOTED_NAME
            and word.text.upper() == keyword
            for word, keyword in zip(found, keywords, strict=True)
        )

    def _moment(self, at: int) -> int | None:
        """``[FOR] VERSION AS OF 1``, ``[FOR] TIMESTAMP AS OF expression``."""
        words, start = self._words, at
        if at == 0 or not (words[at - 1].is_name or words[at - 1].text == ")"):
            return None
        if self._is(at, "FOR"):
            at += 1
        if at >= len(words) or not self._is(at + 1, "AS", "OF"):
            return None
        word, at = words[at].text.upper(), at + 3
        if at >= len(words):
            return None
        if word in _VERSIONS and words[at].kind in (WordKind.STRING, WordKind.NUMBER):
            moment, end = Moment(True, _constant(words[at])), at + 1
        elif word in _TIMES:
            end = self._end_of_value(at)
            if end == at:
                return None
            moment = Moment(False, self._text[words[at].start : words[end - 1].end])
        elif word in _VERSIONS and words[at].text.upper() not in _AFTER_AN_ALIAS:
            raise Invalid(
                f"{word} AS OF {self._text[words[at].start : words[at].end]}…: a version is a "
                "snapshot's id, or a tag's name in quotes"
            )
        else:
            return None
        self._moments[words[start].start] = (moment, words[end - 1].end)
        return end

    def _end_of_value(self, at: int) -> int:
        """The place after a value expression."""
        words, depth, cases = self._words, 0, 0
        complete = False
        while at < len(words):
            word = words[at]
            upper = word.text.upper() if word.kind is WordKind.WORD else ""
            if depth or cases:
                complete = True
            elif upper in CLAUSE_WORDS or word.text in (",", ";", "|>") or word.text == ")":
                break
            elif complete and upper in _OPERATORS | {"NOT"}:
                complete = False
            elif word.kind is WordKind.SYMBOL:
                complete = word.text == "]"
            elif upper == "INTERVAL":
                at = self._end_of_interval(at + 1)
                complete = True
                continue
            elif upper in ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "NOT"):
                complete = False
            elif complete:
                break
            else:
                complete = True
            if word.text in ("(", "[") and word.kind is WordKind.SYMBOL:
                depth += 1
            elif word.text in (")", "]") and word.kind is WordKind.SYMBOL:
                depth -= 1
            elif upper == "CASE":
                cases += 1
            elif upper == "END":
                cases -= 1
            at += 1
        return at

    def _end_of_interval(self, at: int) -> int:
        words = self._words
        while at < len(words):
            if words[at].text in ("-", "+"):
                at += 1
                continue
            if words[at].kind not in (WordKind.NUMBER, WordKind.STRING):
                break
            at += 1
            if at < len(words) and _UNIT.fullmatch(words[at].text.upper()):
                at += 1
                if self._is(at, "TO"):
                    at += 2
            following = words[at].kind if at < len(words) else None
            if following not in (WordKind.NUMBER, WordKind.STRING):
                break
        return at

    def _with_options(self, at: int) -> int | None:
        """``WITH ('key' = 'value', …)`` after a name."""
        words, start = self._words, at
        if at == 0 or not words[at - 1].is_name or not self._is(at, "WITH", "("):
            return None
        options: dict[str, str] = {}
        at += 2
        while at < len(words) and words[at].text != ")":
            if options:
                if not self._is(at, ","):
                    return None
                at += 1
            key, at = self._key(at)
            if self._is(at, "="):
                at += 1
            if key is None or at >= len(words):
                return None
            if words[at].kind not in (WordKind.STRING, WordKind.NUMBER, WordKind.WORD):
                return None
            if key in options:
                raise Invalid(f"the option '{key}' stands twice after a table")
            options[key] = words[at].text
            at += 1
        if at >= len(words) or not options:
            return None
        self._options[words[start].start] = (options, words[at].end)
        return at + 1

    def _key(self, at: int) -> tuple[str | None, int]:
        words = self._words
        if at >= len(words):
            return None, at
        if words[at].kind is WordKind.STRING:
            return words[at].text, at + 1
        if words[at].kind not in (WordKind.WORD, WordKind.QUOTED_NAME):
            return None, at
        start = at
        while at + 2 < len(words) and words[at + 1].text in (".", "-"):
            at += 2
        return self._text[words[start].start : words[at].end].replace("`", ""), at + 1

    def _function(self, at: int) -> int | None:
        """A table function of Paimon's, whose arguments are constants."""
        words = self._words
        name = words[at].text.lower()
        of_table = at > 0 and words[at - 1].text.upper() in _BEFORE_A_TABLE
        if of_table and name in _OF_GLOBAL_INDEXES and self._is(at + 1, "("):
            raise Unsupported(
                f"{name} is not supported: it searches a global index, and Headwater reads none"
            )
        if of_table and name == CHANGES_FUNCTION and self._is(at + 1, "("):
            raise Unsupported(
                f"{name} is not supported; instead: paimon_incremental_query('t', 2, 5), which "
                "gives what came after snapshot 2 up to snapshot 5"
            )
        if name not in _CHANGE_FUNCTIONS or not self._is(at + 1, "("):
            return None
        arguments: list[str] = []
        end = at + 2
        while end < len(words) and words[end].text != ")":
            if arguments:
                if not self._is(end, ","):
                    break
                end += 1
            sign = ""
            if end < len(words) and words[end].text == "-":
                sign, end = "-", end + 1
            if end >= len(words) or words[end].kind not in (WordKind.STRING, WordKind.NUMBER):
                break
            arguments.append(sign + _constant(words[end]))
            end += 1
        count = 2 if name == "paimon_incremental_to_auto_tag" else 3
        if end >= len(words) or words[end].text != ")" or len(arguments) != count:
            wanted = "a table's name and a tag" if count == 2 else "a table's name, start and end"
            raise Invalid(f"{name} takes {wanted}, each a constant")
        value = ",".join(arguments[1:])
        parts = tuple(arguments[0].replace("`", "").split("."))
        option = (_CHANGE_FUNCTIONS[name], value)
        self.functions.append(TableFunction(parts, words[at].start, words[end].end, option))
        return end + 1


def _constant(word: Word) -> str:
    return word.text.rstrip("lL") if word.kind is WordKind.NUMBER else word.text
