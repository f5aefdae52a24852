"""Tokens of Spark SQL, by the rules of Spark's own lexer (``SqlBaseLexer.g4``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from headwater.spark.names import quoted
from headwater.storage.errors import Invalid

__all__ = ["Token", "TokenType", "location", "string_value", "tokenize", "with_backquotes"]


class TokenType(Enum):
    """Token types."""

    WORD = auto()
    QUOTED_NAME = auto()
    STRING = auto()
    DOUBLE_QUOTED = auto()
    NUMBER = auto()
    SYMBOL = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a name, a constant or a symbol.

    Attributes:
        type: The token's type.
        text: A name without its backquotes, a symbol, or else the token as it is written.
        keyword: A word in capitals, or a symbol; empty for names in quotes and for constants.
        start, end: The token's offsets in the SQL text.
    """

    type: TokenType
    text: str
    keyword: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether the token can be an identifier."""
        return self.type in (TokenType.WORD, TokenType.QUOTED_NAME)


# The longest alternative first, as Spark's lexer takes the longest match. A number with a point is
# one only where neither a letter nor a digit follows (`isValidDecimal`).
_NUMBER_END = r"(?![A-Za-z0-9_])"
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<bracketed>/\*(?!\+))
    | (?P<string>'(?:[^'\\]|\\.|'')*' | [rR]'[^']*' | [rR]"[^"]*")
    | (?P<double_quoted>"(?:[^"\\]|\\.|"")*")
    | (?P<name>`(?:[^`]|``)*`)
    | (?P<number>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[fFdD]|[bB][dD])?NUMBER_END
        | \d+(?:[eE][+-]?\d+)?(?:[fFdD]|[bB][dD])?NUMBER_END
        | \d+[lLsSyY]NUMBER_END)
    | (?P<dollar_quoted>\$(?P<tag>[A-Za-z_]\w*)?\$)
    | (?P<word>\w*(?:\$\{[^{}]*\}\w*)+ | [^\W\d_]+://[\w/\-.?=&\#%]+ | \w+(?:\$[^\W\d]\w*)*)
    | (?P<symbol><=>|>>>|/\*\+|\*/|\|>|\|\||::|->|=>|==|<>|!=|!<|!>|<=|>=|<<|>>|.)
    """.replace("NUMBER_END", _NUMBER_END),
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
# As Spark reads them; any other escaped character is itself, and \% and \_ stay as they are.
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_KEPT = frozenset("%_")
_QUOTES = {"'": "a string", '"': "a string or name in double quotes", "`": "a name in backquotes"}


def tokenize(text: str) -> list[Token]:
    """Split SQL text into tokens; blanks and comments are left out, hints are kept.

    A name such as ``orders$snapshots``, which Spark only reads in backquotes, is one word; so is
    ``${variable}``, whose value Spark puts in.

    Raises:
        Invalid: A quotation or a comment has no end.
    """
    tokens: list[Token] = []
    hint: int | None = None
    position, length = 0, len(text)
    while position < length:
        match = _TOKEN.match(text, position)
        assert match is not None  # The last alternative matches any character.
        start, position = position, match.end()
        match match.lastgroup:
            case "blank" | "comment":
                continue
            case "bracketed":
                position = _comment_end(text, start)
                continue
            case "word":
                word = match[0]
                token = Token(TokenType.WORD, word, word.upper(), start, position)
            case "name":
                name = match[0][1:-1].replace("``", "`")
                token = Token(TokenType.QUOTED_NAME, name, "", start, position)
            case "string":
                token = Token(TokenType.STRING, match[0], "", start, position)
            case "double_quoted":
                token = Token(TokenType.DOUBLE_QUOTED, match[0], "", start, position)
            case "number":
                token = Token(TokenType.NUMBER, match[0], "", start, position)
            case "tag" | "dollar_quoted" if (end := _dollar_quote_end(text, match)) > 0:
                position = end
                token = Token(TokenType.STRING, text[start:position], "", start, position)
            case _:
                token = _symbol(text, match[0], start)
                position = token.end
                if token.keyword in ("/*+", "*/"):
                    hint = start if token.keyword == "/*+" else None
        tokens.append(token)
    if hint is not None:
        raise _unreadable(text, hint, "a hint is not closed; add the */ it lacks")
    return tokens


def string_value(token: Token, *, keeps_escapes: bool = False) -> str:
    """The value of a string token.

    Args:
        token: A string, or what stands in double quotes.
        keeps_escapes: Whether backslashes are characters like others, as they are with
            ``spark.sql.parser.escapedStringLiterals``.
    """
    written = token.text
    if written[0] in "rR":
        return written[2:-1]
    if written[0] == "$":
        return written.split("$", 2)[2].rsplit("$", 2)[0]
    quote, inner = written[0], written[1:-1]
    inner = inner.replace(quote * 2, quote)
    return inner if keeps_escapes or "\\" not in inner else _ESCAPE.sub(_unescaped, inner)


def location(text: str, offset: int) -> str:
    """The line and the column of an offset, for messages."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


def with_backquotes(text: str) -> str:
    """SQL text whose names in double quotes stand in backquotes, as any session reads them.

    Raises:
        Invalid: A quotation or a comment is not closed.
    """
    pieces: list[str] = []
    copied = 0
    for token in tokenize(text):
        if token.type is TokenType.DOUBLE_QUOTED:
            name = token.text[1:-1].replace('""', '"')
            pieces += [text[copied : token.start], quoted(name)]
            copied = token.end
    return "".join([*pieces, text[copied:]])


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) > 1:
        return chr(int(escaped, 8) if escaped[0] in "0123" else int(escaped[1:], 16))
    return match[0] if escaped in _KEPT else _ESCAPED.get(escaped, escaped)


def _symbol(text: str, symbol: str, start: int) -> Token:
    unclosed = _QUOTES.get(symbol)
    if unclosed is not None:
        raise _unreadable(text, start, f"{unclosed} is not closed; add a {symbol}")
    if symbol[0] == "$":
        symbol = "$"  # No string begins here, as none ends later.
    return Token(TokenType.SYMBOL, symbol, symbol, start, start + len(symbol))


def _comment_end(text: str, start: int) -> int:
    """The offset after a bracketed comment, in which other ones may stand."""
    depth, position = 0, start
    while True:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            raise _unreadable(text, start, "a comment is not closed; add the */ it lacks")
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
        if depth == 0:
            return position


def _dollar_quote_end(text: str, match: re.Match[str]) -> int:
    """The offset after the ``$$`` or ``$tag$`` that ends a string; 0 if it has no end."""
    end = text.find(match[0], match.end())
    return end + len(match[0]) if end >= 0 else 0


def _unreadable(text: str, offset: int, reason: str) -> Invalid:
    return Invalid(f"the SQL text cannot be read: {location(text, offset)}: {reason}")
