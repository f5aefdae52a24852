"""The words of a statement as MySQL and MariaDB read them, and a cursor over them.

sqlglot's tokenizer does not serve here: it drops executable comments (``/*!50000 … */``), nests
plain ones, splits names that start with a digit, and does not follow the session's ``sql_mode``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from headwater.cdc.model.tables import TableName


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a session of the source writes statements.

    Attributes:
        mariadb: Whether the source is MariaDB, which also executes ``/*M! … */``.
        ansi_quotes: Whether ``sql_mode`` has ANSI_QUOTES: ``"x"`` is a name, not a string.
        backslash_escapes: Whether ``sql_mode`` lacks NO_BACKSLASH_ESCAPES.
        lower_case_names: Whether ``lower_case_table_names`` is not 0: databases and tables are
            compared, and are in the log's TABLE_MAP events, in lower case.
    """

    mariadb: bool = False
    ansi_quotes: bool = False
    backslash_escapes: bool = True
    lower_case_names: bool = False


class TokenType(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED_NAME = "quoted name"
    STRING = "string"
    BITS = "bits"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end of statement"


class Token(NamedTuple):
    """A token; `text` is without quotes and escapes, `start` and `end` are offsets."""

    type: TokenType
    text: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """A word in capitals; empty for all else, so that a quoted name is never a keyword."""
        is_keyword = self.type is TokenType.WORD and self.text.isascii()
        return self.text.upper() if is_keyword else ""


class UnclearSyntaxError(Exception):
    """A statement that the grammar does not cover; always caught by `interpret`."""


def words(text: str) -> tuple[str, ...]:
    """Split a list of keywords at its spaces."""
    return tuple(text.split())


_WORD = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
# The longest statement that is read, in characters: a table with 8192 partitions has fewer.
MAX_STATEMENT_LENGTH = 2 * 1024 * 1024

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
# Words that no name can be unless it is quoted, or follows a dot.
_RESERVED = words(
    "ADD ALTER ANALYZE AS BY CHANGE CHARACTER CHECK COLLATE COLUMN CONSTRAINT CONVERT CREATE "
    "DEFAULT DELETE DROP EXISTS FOREIGN FROM FULLTEXT GRANT GROUP IF IGNORE IN INDEX INSERT "
    "INTO IS KEY KEYS LIKE LOCK NOT NULL ON OPTIMIZE OR ORDER PARTITION PRIMARY REFERENCES "
    "RENAME REPLACE REVOKE SELECT SET SPATIAL TABLE TO TRIGGER UNIQUE UPDATE USE USING VALUES "
    "WHERE WITH"
)


@lru_cache(maxsize=8)
def _pattern(syntax: Syntax) -> re.Pattern[str]:
    escape = r"|\\." if syntax.backslash_escapes else ""
    plain = r"[^'\\]" if syntax.backslash_escapes else "[^']"
    single = rf"'(?:{plain}+|''{escape})*+'"
    double = single.replace("'", '"')
    name = r"`(?:[^`]+|``)*+`"
    if syntax.ansi_quotes:
        name += r'|"(?:[^"]+|"")*+"'
    strings = single if syntax.ansi_quotes else f"{single}|{double}"
    executable = "/[*]M?!" if syntax.mariadb else "/[*]!"
    # MySQL 9 has routines in other languages between these; MariaDB has names that begin with $.
    dollars = "" if syntax.mariadb else r"|(?P<dollars>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"
    return re.compile(
        rf"(?P<blank>[\s\x00-\x1f]+|\#[^\n]*|--(?=[\s\x00-\x1f]|$)[^\n]*)"
        rf"|(?P<open>{executable}(?:\d{{5,6}})?)"
        r"|(?P<comment>/[*].*?[*]/)|(?P<close>[*]/)|(?P<unclosed>/[*])"
        rf"|(?P<bits>[bBxX]{single}|0[xX][0-9a-fA-F]+(?!{_WORD})|0b[01]+(?!{_WORD}))"
        rf"|(?P<string>[nN]?(?:{strings}))|(?P<name>{name})"
        rf"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!{_WORD}))"
        rf"{dollars}|(?P<word>{_WORD}+)|(?P<quote>['\"`])|(?P<symbol>.)",
        re.DOTALL,
    )


def tokenize(sql: str, syntax: Syntax) -> list[Token]:
    """Split a statement into tokens; the last one is the end.

    The content of an executable comment counts as code whatever version it names: the server that
    wrote the log had turned the others into plain comments (``sql_lex.cc``).

    Raises:
        UnclearSyntaxError: The statement is too long, or a string, a quoted name or a comment has
            no end.
    """
    if len(sql) > MAX_STATEMENT_LENGTH:
        raise UnclearSyntaxError(
            f"the statement has {len(sql)} characters, more than {MAX_STATEMENT_LENGTH}"
        )
    tokens: list[Token] = []
    in_executable = False
    for match in _pattern(syntax).finditer(sql):
        group, text = match.lastgroup, match.group()
        if group == "open":
            if in_executable:
                raise UnclearSyntaxError("an executable comment is inside of another one")
            in_executable = True
        elif group == "close" and in_executable:
            in_executable = False
        elif group in ("unclosed", "quote"):
            raise UnclearSyntaxError(f"{text} at offset {match.start()} is not closed")
        elif group not in ("blank", "comment"):
            tokens += _tokens(group or "symbol", text, match.start(), syntax)
    if in_executable:
        raise UnclearSyntaxError("an executable comment is not closed")
    tokens.append(Token(TokenType.END, "", len(sql), len(sql)))
    return tokens


def _tokens(group: str, text: str, start: int, syntax: Syntax) -> list[Token]:
    if group == "close":
        return [
            Token(TokenType.SYMBOL, symbol, start + index, start + index + 1)
            for index, symbol in enumerate(text)
        ]
    end = start + len(text)
    if group == "name":
        return [Token(TokenType.QUOTED_NAME, _unquoted(text, escapes=False), start, end)]
    if group == "string":
        string = text[1:] if text[0] in "nN" else text
        value = _unquoted(string, escapes=syntax.backslash_escapes)
        return [Token(TokenType.STRING, value, start, end)]
    if group == "dollars":
        return [Token(TokenType.STRING, text, start, end)]
    return [Token(TokenType[group.upper()], text, start, end)]


def _unquoted(text: str, *, escapes: bool) -> str:
    quote, inner = text[0], text[1:-1]
    pattern = rf"{quote}{quote}|\\(.)" if escapes else quote * 2

    def value(match: re.Match[str]) -> str:
        escaped = match.group(1) if escapes else None
        if escaped is None:
            return quote
        return match.group() if escaped in "%_" else _ESCAPES.get(escaped, escaped)

    return re.sub(pattern, value, inner, flags=re.DOTALL)


class Cursor:
    """A place in the tokens of a statement, with what most clauses need to be read.

    Attributes:
        tables: The tables named so far, for the report of a statement that is not understood.
    """

    def __init__(self, sql: str, database: str | None, syntax: Syntax) -> None:
        self._sql = sql
        self._database = database
        self._syntax = syntax
        self._tokens = tokenize(sql, syntax)
        self._index = 0
        self.tables: list[TableName] = []

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._index]

    @property
    def rest(self) -> list[Token]:
        """The tokens that have not been read, with the end."""
        return self._tokens[self._index :]

    def unclear(self, expected: str) -> UnclearSyntaxError:
        """An error at the next token."""
        token = self.token
        if token.type is TokenType.END:
            return UnclearSyntaxError(f"expected {expected}, got the end of the statement")
        excerpt = self._sql[token.start : token.start + 40]
        return UnclearSyntaxError(f"expected {expected}, got {excerpt!r} at offset {token.start}")

    def advance(self) -> Token:
        """Read the next token; the end stays where it is."""
        token = self.token
        if token.type is not TokenType.END:
            self._index += 1
        return token

    def at(self, *words: str) -> bool:
        """Whether these keywords or symbols come next."""
        if self._index + len(words) > len(self._tokens):
            return False
        tokens = self._tokens[self._index : self._index + len(words)]
        return all(
            word == (token.text if token.type is TokenType.SYMBOL else token.keyword)
            for word, token in zip(words, tokens, strict=True)
        )

    def at_any(self, *words: str) -> bool:
        """Whether one of these keywords or symbols comes next."""
        return any(self.at(word) for word in words)

    def at_end(self) -> bool:
        """Whether only semicolons are left."""
        index = self._index
        while self._tokens[index].type is TokenType.SYMBOL and self._tokens[index].text == ";":
            index += 1
        return self._tokens[index].type is TokenType.END

    def take(self, *words: str) -> bool:
        """Read these keywords or symbols if they come next."""
        if not self.at(*words):
            return False
        self._index += len(words)
        return True

    def take_any(self, *words: str) -> str:
        """Read one of these keywords or symbols if one comes next; empty if not."""
        return next((word for word in words if self.take(word)), "")

    def expect(self, *words: str) -> None:
        """Read these keywords or symbols.

        Raises:
            UnclearSyntaxError: Something else comes next.
        """
        if not self.take(*words):
            raise self.unclear(" ".join(words))

    def expect_end(self) -> None:
        """Check that the statement ends here."""
        if not self.at_end():
            raise self.unclear("the end of the statement")

    def at_name(self) -> bool:
        """Whether a name comes next."""
        token = self.token
        if token.type is TokenType.WORD:
            return token.keyword not in _RESERVED
        return token.type is TokenType.QUOTED_NAME

    def name(self, what: str = "a name") -> str:
        """Read a name of a column, a key, a partition…"""
        if not self.at_name():
            raise self.unclear(what)
        return self.advance().text

    def names(self, what: str = "a name") -> tuple[str, ...]:
        """Read names separated by commas."""
        names = [self.name(what)]
        while self.take(","):
            names.append(self.name(what))
        return tuple(names)

    def table(self) -> TableName:
        """Read a table's name; one without a database is in the session's."""
        name = self.name("a table")
        database = self._database
        if self.take("."):
            if self.token.type not in (TokenType.WORD, TokenType.QUOTED_NAME):
                raise self.unclear("a table")
            database, name = name, self.advance().text
        if not database:
            raise UnclearSyntaxError(f"table {name} has no database, and the session has none")
        if self._syntax.lower_case_names:
            database, name = database.lower(), name.lower()
        table = TableName(database, name)
        self.tables.append(table)
        return table

    def database_name(self) -> str:
        """Read a database's name."""
        name = self.name("a database")
        return name.lower() if self._syntax.lower_case_names else name

    def tables_list(self) -> tuple[TableName, ...]:
        """Read tables separated by commas."""
        tables = [self.table()]
        while self.take(","):
            tables.append(self.table())
        return tuple(tables)

    def string(self) -> str:
        """Read a string; adjacent ones are one."""
        if self.token.type is not TokenType.STRING:
            raise self.unclear("a string")
        parts = [self.advance().text]
        while self.token.type is TokenType.STRING:
            parts.append(self.advance().text)
        return "".join(parts)

    def group(self) -> str:
        """Read from one parenthesis to its partner, and return the text between them."""
        start = self.token.end
        self.expect("(")
        depth = 1
        while depth:
            token = self.token
            if token.type is TokenType.END:
                raise self.unclear(")")
            depth += self.at("(") - self.at(")")
            self.advance()
        return self._sql[start : token.start]

    def skip_until(self, *words: str) -> None:
        """Read up to one of these keywords or symbols outside of parentheses, or to the end."""
        while not self.at_end() and not self.at_any(*words):
            if self.at("("):
                self.group()
            else:
                self.advance()

    def skip_to_end(self) -> None:
        """Read the rest of the statement."""
        self._index = len(self._tokens) - 1

    def text_since(self, start: int) -> str:
        """The statement's text from an offset to the last token that was read."""
        return self._sql[start : self._tokens[self._index - 1].end]
