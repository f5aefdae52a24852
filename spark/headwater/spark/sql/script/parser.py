"""The parser of SQL scripts, by the rules of Spark's grammar (``SqlBaseParser.g4``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from headwater.spark.sql.parser.cursor import Cursor
from headwater.spark.sql.parser.queries import QueryParser
from headwater.spark.sql.parser.tokens import Token, location, string_value, tokenize
from headwater.spark.sql.script.tree import (
    Body,
    Case,
    CloseCursor,
    Compound,
    DeclareCursor,
    DeclareVariables,
    FetchCursor,
    For,
    Handler,
    If,
    Iterate,
    Leave,
    Loop,
    OpenCursor,
    Repeat,
    ScriptStatement,
    SetVariables,
    Simple,
    SqlText,
    While,
)
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["Script", "begins_script", "parse_script"]

MAX_NESTING = 80
_STATE = re.compile(r"[0-9A-Z]{5}")
_FORBIDDEN_LABELS = frozenset({"builtin", "local", "session", "system"})
_LABELLED = frozenset({"BEGIN", "WHILE", "REPEAT", "LOOP", "FOR"})
_ENDS_BODY = frozenset({"END", "ELSEIF", "ELSE", "UNTIL", "WHEN"})
_UNKNOWN = {
    "SIGNAL": "raise an error in a query with raise_error('…')",
    "RESIGNAL": "leave the handler out to let the error end the script",
    "GET": "an error's condition is what the handler is declared for",
    "RETURN": "LEAVE the labelled statement",
}
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Script:
    """A script.

    Attributes:
        compound: Its statement.
        conditions: The names of conditions that handlers are for and that it does not declare.
    """

    compound: Compound
    conditions: tuple[str, ...]


def begins_script(text: str) -> bool:
    """Whether SQL text is a script, and not one statement."""
    if "begin" not in text.lower():
        return False
    tokens = tokenize(text)
    return bool(tokens) and tokens[0].keyword == "BEGIN"


def parse_script(text: str) -> Script:
    """The tree of a script.

    Raises:
        Invalid: Declarations, labels or handlers are not as they must be, or it is nested too
            deeply.
        UnsupportedSyntax: It cannot be read.
    """
    parser = _Parser(text, tokenize(text))
    return Script(parser.script(), tuple(sorted(parser.conditions)))


class _Parser:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text, self._tokens = text, tokens
        self._cursor = Cursor(text, tokens)
        self._queries = QueryParser(self._cursor)
        self._labels: list[tuple[str, bool]] = []
        """Labels in force, and whether each is a loop's."""
        self._names: list[str] = []
        """Variables of ``FOR`` in force."""
        self._declared: list[set[str]] = []
        """The conditions that compound statements declare, from the outermost one."""
        self.conditions: set[str] = set()
        """The other conditions that handlers are for."""
        self._depth = 0

    def script(self) -> Compound:
        compound = self._compound(None)
        while self._cursor.accept(";"):
            pass
        if not self._cursor.at_end:
            raise self._cursor.unexpected("the end of the script")
        return compound

    def _invalid(self, token: Token, reason: str) -> Invalid:
        return Invalid(f"the script cannot be run: {location(self._text, token.start)}: {reason}")

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._invalid(
                self._cursor.token(),
                f"its statements are nested more than {MAX_NESTING} deep; split the script",
            )
        yield
        self._depth -= 1

    def _since(self, start: int) -> SqlText:
        return SqlText(self._text, self._tokens[start : self._cursor.index])

    def _expression(self) -> SqlText:
        start = self._cursor.index
        self._queries.expressions.expression()
        return self._since(start)

    def _query(self) -> SqlText:
        start = self._cursor.index
        if not self._queries.at_query():
            raise self._cursor.unexpected("a query")
        self._queries.query()
        return self._since(start)

    def _listed(self, read: Callable[[], _Item]) -> tuple[_Item, ...]:
        items = [read()]
        while self._cursor.accept(","):
            items.append(read())
        return tuple(items)

    def _parts(self) -> tuple[str, ...]:
        return self._queries.expressions.multipart_name().parts

    # Statements

    def _body(self) -> Body:
        """Read statements, each with a semicolon after it."""
        statements: list[ScriptStatement] = []
        while not statements or self._cursor.keyword() not in _ENDS_BODY:
            if self._cursor.peek("DECLARE"):
                raise self._invalid(
                    self._cursor.token(),
                    "DECLARE is only allowed at the beginning of BEGIN … END, as variables, "
                    "conditions, then cursors, then handlers",
                )
            statements.append(self._statement())
            self._cursor.expect(";")
        return tuple(statements)

    def _statement(self) -> ScriptStatement:
        cursor = self._cursor
        with self._nested():
            keyword = cursor.keyword()
            if cursor.at_name() and cursor.keyword(1) == ":":
                return self._labelled()
            if keyword in _LABELLED:
                return self._block(None)
            match keyword:
                case "IF":
                    return self._if()
                case "CASE":
                    return self._case()
                case "LEAVE" | "ITERATE":
                    return self._jump()
                case "SET" if not self._sets_catalog():
                    return self._set()
                case "OPEN":
                    return self._open()
                case "FETCH":
                    return self._fetch()
                case "CLOSE":
                    cursor.index += 1
                    return CloseCursor(self._parts())
            return self._simple()

    def _sets_catalog(self) -> bool:
        return self._cursor.peek("SET", "CATALOG") and self._cursor.keyword(2) != "="

    def _simple(self) -> Simple:
        cursor = self._cursor
        start = cursor.index
        keyword = cursor.keyword()
        if keyword in _UNKNOWN and (keyword != "GET" or cursor.keyword(1) == "DIAGNOSTICS"):
            raise Unsupported(
                f"{location(self._text, cursor.token().start)}: {keyword} is not supported in "
                f"scripts, as in Spark; {_UNKNOWN[keyword]}"
            )
        if keyword in _ENDS_BODY or keyword == ";" or (not cursor.at_name() and keyword != "("):
            raise cursor.unexpected("a statement")
        if keyword == "RESET":
            raise self._invalid(
                cursor.token(), "RESET is not allowed in scripts; write EXECUTE IMMEDIATE 'RESET …'"
            )
        if cursor.peek("DROP", "TEMPORARY", "VARIABLE") or cursor.peek("DROP", "TEMP", "VARIABLE"):
            raise self._invalid(
                cursor.token(),
                "DROP TEMPORARY VARIABLE is not allowed in scripts; write EXECUTE IMMEDIATE "
                "'DROP TEMPORARY VARIABLE …'",
            )
        while cursor.keyword() != ";":
            if cursor.at_end:
                raise cursor.unexpected(";")
            cursor.index += 1
        return Simple(self._since(start))

    def _labelled(self) -> ScriptStatement:
        cursor = self._cursor
        token = cursor.token()
        cursor.index += 2
        if cursor.keyword() not in _LABELLED:
            raise cursor.unexpected("BEGIN, WHILE, REPEAT, LOOP or FOR after a label")
        label = self._new_name(token)
        self._labels.append((label, cursor.keyword() != "BEGIN"))
        statement = self._block(label)
        self._labels.pop()
        return statement

    def _new_name(self, token: Token) -> str:
        """The folded name of a label or of a variable of ``FOR``."""
        name = token.text.lower()
        if name in _FORBIDDEN_LABELS:
            raise self._invalid(
                token, f"'{token.text}' cannot be the name of a label or a FOR variable; rename it"
            )
        if name in self._names or name in [label for label, _ in self._labels]:
            raise self._invalid(
                token,
                f"label or FOR variable '{token.text}' exists around this statement; rename one",
            )
        return name

    def _block(self, label: str | None) -> ScriptStatement:
        match self._cursor.keyword():
            case "BEGIN":
                return self._compound(label)
            case "WHILE":
                return self._while(label)
            case "REPEAT":
                return self._repeat(label)
            case "LOOP":
                return self._loop(label)
            case _:
                return self._for(label)

    def _end(self, label: str | None, *words: str) -> None:
        """Read ``END words [label]``."""
        cursor = self._cursor
        cursor.expect("END", *words)
        if not cursor.at_name():
            return
        token = cursor.token()
        cursor.index += 1
        if label is None:
            raise self._invalid(
                token, f"end label '{token.text}' has no label at the beginning; remove it"
            )
        if token.text.lower() != label:
            raise self._invalid(
                token, f"end label '{token.text}' does not match the label '{label}'"
            )

    def _while(self, label: str | None) -> While:
        self._cursor.expect("WHILE")
        condition = self._expression()
        self._cursor.expect("DO")
        body = self._body()
        self._end(label, "WHILE")
        return While(label, condition, body)

    def _repeat(self, label: str | None) -> Repeat:
        self._cursor.expect("REPEAT")
        body = self._body()
        self._cursor.expect("UNTIL")
        condition = self._expression()
        self._end(label, "REPEAT")
        return Repeat(label, condition, body)

    def _loop(self, label: str | None) -> Loop:
        self._cursor.expect("LOOP")
        body = self._body()
        self._end(label, "LOOP")
        return Loop(label, body)

    def _for(self, label: str | None) -> For:
        cursor = self._cursor
        cursor.expect("FOR")
        variable: str | None = None
        if cursor.at_name() and cursor.keyword(1) == "AS":
            variable = self._new_name(cursor.token())
            cursor.index += 2
        query = self._query()
        cursor.expect("DO")
        start = cursor.index
        if variable is not None:
            self._names.append(variable)
        body = self._body()
        if variable is not None:
            self._names.pop()
        words = frozenset(
            token.text.lower() for token in self._tokens[start : cursor.index] if token.is_name
        )
        self._end(label, "FOR")
        return For(label, variable, query, body, words)

    def _if(self) -> If:
        cursor = self._cursor
        branches: list[tuple[SqlText, Body]] = []
        cursor.expect("IF")
        while True:
            condition = self._expression()
            cursor.expect("THEN")
            branches.append((condition, self._body()))
            if not cursor.accept("ELSEIF"):
                break
        otherwise = self._body() if cursor.accept("ELSE") else ()
        cursor.expect("END", "IF")
        return If(tuple(branches), otherwise)

    def _case(self) -> If | Case:
        cursor = self._cursor
        cursor.expect("CASE")
        value = None if cursor.peek("WHEN") else self._expression()
        branches: list[tuple[SqlText, Body]] = []
        cursor.expect("WHEN")
        while True:
            condition = self._expression()
            cursor.expect("THEN")
            branches.append((condition, self._body()))
            if not cursor.accept("WHEN"):
                break
        otherwise = self._body() if cursor.accept("ELSE") else ()
        cursor.expect("END", "CASE")
        if value is None:
            return If(tuple(branches), otherwise)
        return Case(value, tuple(branches), otherwise)

    def _jump(self) -> Leave | Iterate:
        cursor = self._cursor
        word = cursor.keyword()
        cursor.index += 1
        token = cursor.token()
        label = cursor.identifier().lower()
        is_loop = dict(self._labels).get(label)
        if is_loop is None:
            raise self._invalid(
                token, f"{word} {token.text}: no statement around it has this label"
            )
        if word == "LEAVE":
            return Leave(label)
        if not is_loop:
            raise self._invalid(
                token, f"ITERATE {token.text}: the label must be a loop's, not that of BEGIN … END"
            )
        return Iterate(label)

    def _set(self) -> SetVariables:
        cursor = self._cursor
        start = cursor.index
        cursor.expect("SET")
        if cursor.keyword() in ("VAR", "VARIABLE") and cursor.keyword(1) not in ("=", "."):
            cursor.index += 1
        if cursor.accept("("):
            targets = self._listed(self._parts)
            cursor.expect(")", "=", "(")
            query = self._query()
            cursor.expect(")")
            return SetVariables(targets, (query,), True, self._since(start))
        assignments = self._listed(self._assignment)
        names, values = zip(*assignments, strict=True)
        return SetVariables(tuple(names), tuple(values), False, self._since(start))

    def _assignment(self) -> tuple[tuple[str, ...], SqlText]:
        parts = self._parts()
        self._cursor.expect("=")
        return parts, self._expression()

    def _open(self) -> OpenCursor:
        cursor = self._cursor
        cursor.expect("OPEN")
        name = self._parts()
        if not cursor.accept("USING"):
            return OpenCursor(name, None)
        start = cursor.index
        while cursor.keyword() != ";" and not cursor.at_end:
            cursor.index += 1
        if cursor.index == start:
            raise cursor.unexpected("a value")
        return OpenCursor(name, self._since(start))

    def _fetch(self) -> FetchCursor:
        cursor = self._cursor
        start = cursor.index
        cursor.expect("FETCH")
        if not cursor.accept("NEXT", "FROM") and cursor.keyword(1) not in ("INTO", "."):
            cursor.expect("FROM")
        name = self._parts()
        cursor.expect("INTO")
        return FetchCursor(name, self._listed(self._parts), self._since(start))

    # Compound statements

    def _compound(self, label: str | None) -> Compound:
        cursor = self._cursor
        cursor.expect("BEGIN")
        if cursor.peek("ATOMIC"):
            raise Unsupported(
                "BEGIN ATOMIC is not supported: what a script has done stays when a later "
                "statement fails; write BEGIN"
            )
        cursor.accept("NOT", "ATOMIC")
        compound = Compound(label)
        self._declared.append(compound.conditions)
        while cursor.peek("DECLARE"):
            token = cursor.token()
            cursor.index += 1
            self._declaration(compound, token)
            cursor.expect(";")
        if not cursor.peek("END"):
            compound.body = self._body()
        self._declared.pop()
        self._end(label)
        return compound

    def _declaration(self, compound: Compound, token: Token) -> None:
        cursor = self._cursor
        if cursor.keyword() in ("EXIT", "CONTINUE") and cursor.keyword(1) == "HANDLER":
            compound.handlers.append(self._handler(compound, token))
            return
        is_sensitive = cursor.keyword(1) in ("ASENSITIVE", "INSENSITIVE")
        if cursor.keyword(1 + is_sensitive) == "CURSOR":
            if compound.handlers:
                raise self._invalid(token, "cursors must be declared before handlers")
            compound.cursors.append(self._cursor_declaration(compound, token))
            return
        if compound.cursors or compound.handlers:
            raise self._invalid(
                token, "variables and conditions must be declared before cursors and handlers"
            )
        if cursor.keyword(1) == "CONDITION":
            self._condition(compound, token)
        else:
            compound.variables.append(self._variables(token))

    def _variables(self, token: Token) -> DeclareVariables:
        cursor = self._cursor
        if cursor.peek("OR", "REPLACE"):
            raise self._invalid(
                token, "DECLARE OR REPLACE: a script's variables cannot be replaced; use SET"
            )
        if cursor.keyword() == "VARIABLE" and cursor.at_name(1):
            cursor.index += 1
        names: list[str] = []
        for parts in self._listed(self._parts):
            if len(parts) > 1:
                raise self._invalid(
                    token, f"variable {'.'.join(parts)} must be declared without a qualifier"
                )
            names += parts
        start = cursor.index
        kind: SqlText | None = None
        if cursor.keyword() not in ("DEFAULT", "=", ";"):
            self._queries.expressions.data_type()
            kind = self._since(start)
        default: SqlText | None = None
        if cursor.accept("DEFAULT") or cursor.accept("="):
            default = self._expression()
        if kind is None and default is None:
            raise cursor.unexpected("a type or DEFAULT")
        return DeclareVariables(tuple(names), kind, default)

    def _cursor_declaration(self, compound: Compound, token: Token) -> DeclareCursor:
        cursor = self._cursor
        name = cursor.identifier()
        _ = cursor.accept("ASENSITIVE") or cursor.accept("INSENSITIVE")
        cursor.expect("CURSOR", "FOR")
        if name.lower() in [other.name.lower() for other in compound.cursors]:
            raise self._invalid(token, f"cursor {name} is declared twice")
        declared = DeclareCursor(name, self._query())
        cursor.accept("FOR", "READ", "ONLY")
        return declared

    def _condition(self, compound: Compound, token: Token) -> None:
        cursor = self._cursor
        name = cursor.identifier().upper()
        cursor.expect("CONDITION")
        if cursor.accept("FOR", "SQLSTATE"):
            self._state()
        if name in compound.conditions:
            raise self._invalid(token, f"condition {name} is declared twice")
        compound.conditions.add(name)

    def _state(self) -> str:
        cursor = self._cursor
        cursor.accept("VALUE")
        if not cursor.at_string():
            raise cursor.unexpected("a SQLSTATE in quotes")
        token = cursor.token()
        cursor.index += 1
        state = string_value(token).upper()
        if _STATE.fullmatch(state) is None or state[:2] in ("00", "01", "XX"):
            raise self._invalid(
                token,
                f"SQLSTATE '{state}' must be five letters A-Z or digits, and not begin with 00, "
                "01 or XX",
            )
        return state

    def _handler(self, compound: Compound, token: Token) -> Handler:
        cursor = self._cursor
        exits = cursor.keyword() == "EXIT"
        cursor.index += 1
        cursor.expect("HANDLER", "FOR")
        values = self._listed(self._condition_value)
        if len(set(values)) < len(values):
            raise self._invalid(token, "a handler is declared twice for the same condition")
        kinds = {kind for kind, _ in values}
        if kinds & {"SQLEXCEPTION", "NOT FOUND"} and kinds & {"name", "state"}:
            raise self._invalid(
                token,
                "a handler for SQLEXCEPTION or NOT FOUND cannot be for other conditions too; "
                "declare another handler",
            )
        with self._nested():
            body = self._handler_body()
        names = frozenset(value for kind, value in values if kind == "name")
        self.conditions |= names.difference(*self._declared)
        handler = Handler(
            exits,
            names,
            frozenset(value for kind, value in values if kind == "state"),
            "NOT FOUND" in kinds,
            "SQLEXCEPTION" in kinds,
            body,
        )
        for other in compound.handlers:
            if (
                handler.conditions & other.conditions
                or handler.states & other.states
                or (handler.handles_not_found and other.handles_not_found)
                or (handler.handles_exceptions and other.handles_exceptions)
            ):
                raise self._invalid(token, "two handlers are declared for the same condition")
        return handler

    def _handler_body(self) -> ScriptStatement:
        cursor = self._cursor
        if cursor.at_name() and cursor.keyword(1) == ":" and cursor.keyword(2) == "BEGIN":
            return self._labelled()
        if cursor.peek("BEGIN"):
            return self._compound(None)
        if cursor.peek("SET") and not self._sets_catalog():
            return self._set()
        if cursor.keyword() in _LABELLED | {"IF", "CASE", "LEAVE", "ITERATE", "DECLARE"}:
            raise cursor.unexpected("BEGIN or a SQL statement in a handler")
        return self._simple()

    def _condition_value(self) -> tuple[str, str]:
        cursor = self._cursor
        if cursor.accept("SQLSTATE"):
            return "state", self._state()
        if cursor.accept("SQLEXCEPTION"):
            return "SQLEXCEPTION", ""
        if cursor.accept("NOT", "FOUND"):
            return "NOT FOUND", ""
        return "name", ".".join(self._parts()).upper()
