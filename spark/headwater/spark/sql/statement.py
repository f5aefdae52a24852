"""The words of a SQL statement, read from left to right.

Statements that Spark itself does not know (``CALL``, tags, branches) and those whose every clause
must be understood before anything is done (DDL) are read here word by word. What is Spark's own to
read (queries, expressions, types) is cut out of the user's text as it stands and never rewritten,
so that it keeps its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from headwater.spark.names import quoted
from headwater.spark.sql.parser.tokens import (
    Token,
    TokenType,
    location,
    string_value,
    tokenize,
)
from headwater.storage.errors import Invalid

__all__ = [
    "Statement",
    "Word",
    "WordKind",
    "options_hint",
    "read_words",
    "split_statements",
]

_SUFFIX = re.compile(r"(?:[lLsSyY]|[bB]?[dD]|[fF])$")
"""The letters after a number that say its type."""
_TABLE_HINT = re.compile(r"\s*/\*\+\s*OPTIONS\b.*?\*/", re.IGNORECASE | re.DOTALL)
_OPTIONS = re.compile(r"\s*/\*\+\s*OPTIONS\s*(\(.*?\))\s*\*/", re.IGNORECASE | re.DOTALL)
# What follows is Spark's to read as it stands.
_VERBATIM = frozenset({"SET", "RESET", "ADD", "LIST"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class WordKind(Enum):
    """The kinds of words."""

    WORD = auto()
    QUOTED_NAME = auto()
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()


@dataclass(frozen=True)
class Word:
    """A word, a name, a constant or a symbol.

    Attributes:
        kind: One of them.
        text: A name without its quotes, a string's value; else as it is written.
        start, end: Its place in the text.
        characters: A string's characters as they are written, escapes and all; else empty.
        strings: The values of the strings side by side that make up one; else empty.
    """

    kind: WordKind
    text: str
    start: int
    end: int
    characters: str = ""
    strings: tuple[str, ...] = ()

    @property
    def is_name(self) -> bool:
        """Whether it can be a name."""
        return self.kind in (WordKind.WORD, WordKind.QUOTED_NAME)


_KINDS = {
    TokenType.WORD: WordKind.WORD,
    TokenType.QUOTED_NAME: WordKind.QUOTED_NAME,
    TokenType.SYMBOL: WordKind.SYMBOL,
}


def split_statements(text: str) -> list[Statement]:
    """The statements of a text, which semicolons part; empty ones are left out.

    A name such as ``t$snapshots`` may stand without quotes, which it has afterwards.

    Raises:
        Invalid: A quotation or a comment has no end, or a name has a ``$`` or ``@`` too many.
    """
    words = read_words(text)
    quoted_text = _with_quotes(text, words)
    if quoted_text != text:
        text, words = quoted_text, read_words(quoted_text)
    statements: list[Statement] = []
    current: list[Word] = []
    for word in words:
        if word.kind is not WordKind.SYMBOL or word.text != ";":
            current.append(word)
        elif current:
            statements.append(Statement(text, current))
            current = []
    if current:
        statements.append(Statement(text, current))
    return statements


def options_hint(text: str, start: int) -> tuple[dict[str, str], re.Match[str]] | None:
    """The options of a hint ``/*+ OPTIONS('key' = 'value') */`` at a place, and the hint itself."""
    hint = _OPTIONS.match(text, start)
    return None if hint is None else (split_statements(hint[1])[0].properties(), hint)


def _with_quotes(text: str, words: Sequence[Word]) -> str:
    """A text in which names with ``$`` are quoted.

    Spark reads no ``$`` outside of quotes but in what `_VERBATIM` begins, so that nothing else
    can be meant.
    """
    pieces: list[str] = []
    copied = at = 0
    begins = True
    while at < len(words):
        if begins and words[at].text.upper() in _VERBATIM:
            while at < len(words) and words[at].text != ";":
                at += 1
            continue
        begins = words[at].kind is WordKind.SYMBOL and words[at].text == ";"
        first, last = at, _end_of_name(words, at)
        at = last + 1
        if last > first or _has_dollar(words[first]):
            name = "".join(word.text for word in words[first:at])
            pieces += [text[copied : words[first].start], quoted(name)]
            copied = words[last].end
        _refuse_mark(text, words, first, at)
    return "".join([*pieces, text[copied:]])


def _has_dollar(word: Word) -> bool:
    """Whether a word is a name such as ``orders$files``, and not a variable to be put in."""
    return word.kind is WordKind.WORD and "$" in word.text and "${" not in word.text


def _end_of_name(words: Sequence[Word], at: int) -> int:
    """The place of the last word of a name such as ``t$branch_b$files``."""
    while (
        words[at].is_name
        and at + 2 < len(words)
        and words[at + 1].text == "$"
        and words[at + 1].kind is WordKind.SYMBOL
        and words[at + 2].kind is WordKind.WORD
        and words[at].end == words[at + 1].start
        and words[at + 1].end == words[at + 2].start
    ):
        at += 2
    return at


def _refuse_mark(text: str, words: Sequence[Word], first: int, at: int) -> None:
    """Refuse a ``$`` or ``@`` at the end of a name, where Spark would say no more than a place."""
    if at == len(words) or not words[at - 1].is_name:
        return
    mark = words[at]
    if mark.kind is not WordKind.SYMBOL or mark.start != words[at - 1].end:
        return
    if mark.text[0] not in "$@" or text[mark.start : mark.end + 1] == "${":
        return
    follows = at + 1 < len(words) and words[at + 1].start == mark.end
    written = text[words[first].start : words[at + 1].end if follows else mark.end]
    raise Invalid(
        f"'{written}' is not a name: one with '{mark.text[0]}' and other signs stands in "
        "backquotes, as `orders$branch_a-b`; an earlier state of a table is orders VERSION AS OF 3"
    )


def read_words(text: str) -> list[Word]:
    """The words of a text; comments and hints are left out.

    Raises:
        Invalid: A quotation or a comment has no end.
    """
    words: list[Word] = []
    tokens = iter(tokenize(text))
    for token in tokens:
        if token.keyword == "/*+":
            while token.keyword != "*/":
                token = next(tokens)
        elif token.type in (TokenType.STRING, TokenType.DOUBLE_QUOTED):
            previous = words[-1] if words else None
            if previous is not None and _begins_binary(previous, token):
                written = text[previous.start : token.end]
                words[-1] = Word(WordKind.SYMBOL, written, previous.start, token.end)
            else:
                _add_string(words, token)
        elif token.type is TokenType.NUMBER:
            number = _SUFFIX.sub("", token.text)
            words.append(Word(WordKind.NUMBER, number, token.start, token.end))
        elif token.keyword in (">>", ">>>"):
            # In types they close several brackets.
            offsets = range(token.start, token.end)
            words += [Word(WordKind.SYMBOL, ">", offset, offset + 1) for offset in offsets]
        else:
            words.append(Word(_KINDS[token.type], token.text, token.start, token.end))
    return words


def _begins_binary(word: Word, token: Token) -> bool:
    """Whether a word and a string are one constant, as in ``X'1F'``."""
    is_prefix = word.kind is WordKind.WORD and word.text in ("X", "x")
    return is_prefix and word.end == token.start


def _add_string(words: list[Word], token: Token) -> None:
    """Add a string to the words; strings side by side are one."""
    value, characters = string_value(token), string_value(token, keeps_escapes=True)
    start = token.start
    strings: tuple[str, ...] = (value,)
    if words and words[-1].kind is WordKind.STRING:
        previous = words.pop()
        start, strings = previous.start, (*previous.strings, value)
        value, characters = previous.text + value, previous.characters + characters
    words.append(Word(WordKind.STRING, value, start, token.end, characters, strings))


class Statement:
    """One statement, and the place up to which it has been read.

    The methods whose names say what they read move on past it; each raises Invalid, saying what is
    there and what was expected, when something else is there.

    Args:
        source: The text that the statement is a part of.
        words: Its words.

    Attributes:
        type_names: The names of types that the session takes for others.
        keeps_escapes: Whether the session takes a backslash in a string for itself, as it does with
            ``spark.sql.parser.escapedStringLiterals``; not where names and properties are given.
        fold: Gives names of columns that are one to the session the same form.
    """

    def __init__(self, source: str, words: Sequence[Word]) -> None:
        self.type_names: Mapping[str, str] = {}
        self.keeps_escapes = False
        self.fold: Callable[[str], str] = str.casefold
        self._source = source
        self._words = list(words)
        self._at = 0

    def __repr__(self) -> str:
        return f"Statement({self.text!r})"

    @property
    def text(self) -> str:
        """The whole statement as its user wrote it."""
        return self._between(0, len(self._words))

    @property
    def at_end(self) -> bool:
        """True when all of it has been read."""
        return self._at == len(self._words)

    def mark(self) -> int:
        """The present place, to which `reset` goes back."""
        return self._at

    def reset(self, mark: int) -> None:
        """Go back to a place that was marked."""
        self._at = mark

    def since(self, mark: int) -> str:
        """The text read since a place was marked, as its user wrote it."""
        return self._between(mark, self._at)

    def hint(self) -> dict[str, str]:
        """The options of a hint that follows what has been read; empty where there is none."""
        hint = options_hint(self._source, self._words[self._at - 1].end) if self._at else None
        return {} if hint is None else hint[0]

    def peek(self, *keywords: str) -> bool:
        """Whether these keywords, in capitals, or symbols come next."""
        words = self._words[self._at : self._at + len(keywords)]
        return len(words) == len(keywords) and all(
            word.kind in (WordKind.WORD, WordKind.SYMBOL) and word.text.upper() == keyword
            for word, keyword in zip(words, keywords, strict=True)
        )

    def accept(self, *keywords: str) -> bool:
        """Read these keywords or symbols if they come next, and say whether they did."""
        there = self.peek(*keywords)
        if there:
            self._at += len(keywords)
        return there

    def expect(self, *keywords: str) -> None:
        """Read these keywords or symbols."""
        if not self.accept(*keywords):
            raise self.unexpected(" ".join(keywords))

    def name(self) -> str:
        """Read a name, quoted or not, as it is written."""
        word = self._next()
        if word is None or word.kind not in (WordKind.WORD, WordKind.QUOTED_NAME):
            raise self.unexpected("a name")
        self._at += 1
        return word.text

    def name_parts(self) -> tuple[str, ...]:
        """Read names with dots between them."""
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        return tuple(parts)

    def string(self) -> str:
        """Read a string."""
        word = self._next()
        if word is None or word.kind is not WordKind.STRING:
            raise self.unexpected("a string in quotes")
        self._at += 1
        return word.text

    def peek_string(self) -> bool:
        """Whether a string comes next."""
        word = self._next()
        return word is not None and word.kind is WordKind.STRING

    def integer(self) -> int:
        """Read an integer."""
        sign = -1 if self.accept("-") else 1
        word = self._next()
        if word is None or word.kind is not WordKind.NUMBER or not word.text.isdecimal():
            raise self.unexpected("an integer")
        self._at += 1
        return sign * int(word.text)

    def properties(self) -> dict[str, str]:
        """Read ``('key' = 'value', other.key = 3)``; the sign between the two may be left out."""
        self.expect("(")
        values: dict[str, str] = {}
        while not self.accept(")"):
            if values:
                self.expect(",")
            word = self._next()
            key = self.string() if self.peek_string() else ".".join(self.name_parts())
            value: str | None = None
            if not self.accept("=") and word is not None and len(word.strings) == 2:
                key, value = word.strings
            if key in values:
                raise Invalid(f"the key '{key}' stands twice in {self._excerpt()}")
            values[key] = self.constant() if value is None else value
        return values

    def keys(self) -> list[str]:
        """Read ``('key', other.key)``."""
        self.expect("(")
        keys: list[str] = []
        while not self.accept(")"):
            if keys:
                self.expect(",")
            keys.append(self.string() if self.peek_string() else ".".join(self.name_parts()))
        if not keys:
            raise Invalid("() names no key")
        return keys

    def constant(self) -> str:
        """Read a string, a number, TRUE or FALSE; its value as text."""
        sign = "-" if self.accept("-") else ""
        word = self._next()
        if word is not None:
            number = word.kind is WordKind.NUMBER
            truth = word.kind is WordKind.WORD and word.text.upper() in ("TRUE", "FALSE")
            if number or (not sign and (truth or word.kind is WordKind.STRING)):
                self._at += 1
                return sign + (word.text.lower() if truth else word.text)
        raise self.unexpected("a string, a number, TRUE or FALSE")

    def literal(self) -> str:
        """Read a constant of an expression, as `constant` does one of a clause."""
        word = self._next()
        text = self.constant()
        kept = word.characters if word is not None and self.keeps_escapes else ""
        return kept or text

    def until(self, *keywords: str) -> str:
        """Read up to one of these keywords or symbols outside brackets and CASE, or the end.

        Returns:
            What was read, as its user wrote it; empty if there was nothing.
        """
        start, depth, cases = self._at, 0, 0
        while (word := self._next()) is not None:
            symbol = word.text if word.kind is WordKind.SYMBOL else ""
            plain = word.kind in (WordKind.WORD, WordKind.SYMBOL)
            keyword = word.text.upper() if plain else ""
            if depth == 0 and not cases and plain and keyword in keywords:
                break
            # The word after a dot is a column's name.
            named = self._at > start and self._words[self._at - 1].text == "."
            if keyword == "CASE" and not named:
                cases += 1
            elif keyword == "END" and not named:
                cases = max(cases - 1, 0)
            if symbol in _OPENING:
                depth += 1
            elif symbol in _CLOSING:
                if depth == 0:
                    break
                depth -= 1
            self._at += 1
        return self._between(start, self._at)

    def bracketed(self) -> str:
        """Read a pair of round brackets; what stands between them, as its user wrote it."""
        self.expect("(")
        inner = self.until()
        self.expect(")")
        return inner

    def rest(self) -> str:
        """Read all that is left, as its user wrote it."""
        start, self._at = self._at, len(self._words)
        return self._between(start, self._at)

    def end(self) -> None:
        """Refuse anything that is left."""
        if not self.at_end:
            raise self.unexpected("the end of the statement")

    def unexpected(self, expected: str) -> Invalid:
        """An error that says where the statement is not what it must be."""
        word = self._next()
        actual = "the statement ends" if word is None else f"there is {self._excerpt()}"
        position = len(self._source) if word is None else word.start
        where = location(self._source, position)
        return Invalid(f"{where}: {actual} where {expected} is expected")

    def _next(self) -> Word | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _between(self, start: int, end: int) -> str:
        """The text from one word up to another, with the hint that follows a table's name.

        Comments are left out of the words, and such a hint changes what is read.
        """
        if start >= end:
            return ""
        last = self._words[end - 1].end
        hint = _TABLE_HINT.match(self._source, last)
        return self._source[self._words[start].start : last if hint is None else hint.end()]

    def _excerpt(self) -> str:
        text = self._between(self._at, min(self._at + 4, len(self._words)))
        return f"'{text}'" if text else "the statement"
