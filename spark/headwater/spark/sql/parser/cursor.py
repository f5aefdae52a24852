"""A position in the tokens of a statement, from which parsers read on."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from headwater.spark.sql.parser.tokens import Token, TokenType, string_value
from headwater.storage.errors import Unsupported

__all__ = ["END", "Cursor", "UnsupportedSyntax"]

END = "end of statement"
"""The keyword of what comes after the last token."""
_END = Token(TokenType.SYMBOL, "", END, -1, -1)
_EXCERPT_TOKENS = 4


class UnsupportedSyntax(Unsupported):
    """What the parser does not understand, whether or not Spark does."""


class Cursor:
    """Reads tokens from left to right.

    Args:
        text: The SQL text.
        tokens: Its tokens.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.index = 0
        self._tokens = tokens
        self._count = len(tokens)
        self._lines: list[int] | None = None

    @property
    def at_end(self) -> bool:
        """Whether all tokens have been read."""
        return self.index >= self._count

    def token(self, ahead: int = 0) -> Token:
        """The next token, or one after it; one without text past the end."""
        index = self.index + ahead
        return self._tokens[index] if index < self._count else _END

    def keyword(self, ahead: int = 0) -> str:
        """The next word in capitals or symbol; empty for names in quotes and for constants.

        Past the last token it is `END`.
        """
        index = self.index + ahead
        return self._tokens[index].keyword if index < self._count else END

    def peek(self, *keywords: str) -> bool:
        """Whether these words, in capitals, or symbols come next."""
        return all(self.keyword(ahead) == keyword for ahead, keyword in enumerate(keywords))

    def accept(self, *keywords: str) -> bool:
        """Read these words or symbols if they come next, and return whether they did."""
        comes = self.peek(*keywords)
        if comes:
            self.index += len(keywords)
        return comes

    def accept_any(self, keywords: frozenset[str]) -> bool:
        """Read one of these words or symbols if it comes next, and return whether it did."""
        comes = self.keyword() in keywords
        self.index += comes
        return comes

    def expect(self, *keywords: str) -> None:
        """Read these words or symbols.

        Raises:
            UnsupportedSyntax: Something else comes next.
        """
        if not self.accept(*keywords):
            raise self.unexpected(" ".join(keywords))

    def at_name(self, ahead: int = 0) -> bool:
        """Whether a token that can be an identifier comes next."""
        return self.token(ahead).is_name

    def at_string(self, ahead: int = 0) -> bool:
        """Whether a string comes next."""
        return self.token(ahead).type in (TokenType.STRING, TokenType.DOUBLE_QUOTED)

    def at_number(self, ahead: int = 0) -> bool:
        """Whether a number comes next."""
        return self.token(ahead).type is TokenType.NUMBER

    def identifier(self) -> str:
        """Read an identifier; its text without quotes.

        ``IDENTIFIER('name')`` is one, too.

        Raises:
            UnsupportedSyntax: Something else comes next.
        """
        if not self.at_name():
            raise self.unexpected("a name")
        token = self.token()
        if self.at_named_string():
            name = string_value(self.token(2))
            self.index += 4
            return name
        self.index += 1
        return token.text

    def at_named_string(self) -> bool:
        """Whether ``IDENTIFIER('…')`` comes next."""
        return self.peek("IDENTIFIER", "(") and self.at_string(2) and self.keyword(3) == ")"

    def skip_brackets(self) -> None:
        """Read a pair of round brackets and all that is in it.

        Raises:
            UnsupportedSyntax: No bracket comes next, or it is not closed.
        """
        self.expect("(")
        depth = 1
        while depth:
            if self.at_end:
                raise self.unexpected(")")
            keyword = self.keyword()
            depth += (keyword == "(") - (keyword == ")")
            self.index += 1

    def unexpected(self, expected: str) -> UnsupportedSyntax:
        """The error that the statement has something else here than it must have."""
        token = self.token()
        if self.at_end:
            offset, actual = len(self.text), "the statement ends"
        else:
            last = self.token(min(_EXCERPT_TOKENS, self._count - self.index) - 1)
            offset, actual = token.start, f"there is '{self.text[token.start : last.end]}'"
        if self._lines is None:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1] + 1
        return UnsupportedSyntax(
            f"line {line}, column {column}: {actual} where {expected} is expected; "
            "write it in another way"
        )
