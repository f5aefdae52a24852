"""Running SQL scripts, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias
from weakref import WeakKeyDictionary

import pyspark.sql.types as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.errors import own_errors
from headwater.spark.sql.context import Answer, SqlContext
from headwater.spark.sql.execute_immediate import (
    Immediate,
    assign,
    computed_arguments,
    read_immediate,
    read_values,
)
from headwater.spark.sql.parameters import Arguments
from headwater.spark.sql.parser.expressions import QUERY_WORDS
from headwater.spark.sql.parser.tokens import tokenize
from headwater.spark.sql.script.conditions import (
    CANCELED_STATES,
    ConditionError,
    Failure,
    check_conditions,
    condition_of,
    handler,
)
from headwater.spark.sql.script.parser import parse_script
from headwater.spark.sql.script.rows import Rows, materialized
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
from headwater.spark.sql.script.variables import Change, Scope, Variables
from headwater.spark.sql.statement import Statement, read_words
from headwater.spark.types import sql_type_text
from headwater.storage.errors import HeadwaterError, Invalid

__all__ = ["RunStatement", "run_script"]

RunStatement: TypeAlias = Callable[[str, Arguments | None], Answer]
"""Runs a statement that stands alone, with values of its parameters."""

_locks: WeakKeyDictionary[SparkSession, Lock] = WeakKeyDictionary()
"""Scripts of one session take turns, as they use the session's variables."""


def run_script(text: str, run: RunStatement, context: SqlContext) -> DataFrame | None:
    """Run a script.

    Args:
        text: The script.
        run: Runs its statements.
        context: The user's.

    Returns:
        The rows of the last query that ran; None if none did.

    Raises:
        Invalid: The script is not as it must be, before anything is run.
        HeadwaterError, PySparkException: That of a statement, for which there is no handler.
    """
    script = parse_script(text)
    check_conditions(script.conditions, context.session.spark)
    with _locks.setdefault(context.session.spark, Lock()):
        variables = Variables(context.session.spark, context.fold)
        runner = _Runner(run, context, variables)
        try:
            runner.compound(script.compound)
        finally:
            variables.close()
    return runner.result


class _Jump(Exception):
    """Goes to the end of a labelled statement, or to the next turn of a loop."""

    def __init__(self, label: str, *, iterates: bool) -> None:
        super().__init__(label)
        self.label, self.iterates = label, iterates


@dataclass(eq=False)
class _Cursor:
    """A cursor, and its rows while it is open."""

    declared: DeclareCursor
    rows: Rows | None = None


@dataclass(eq=False)
class _Block:
    """A compound statement that runs."""

    compound: Compound
    scope: Scope
    cursors: dict[str, _Cursor] = field(default_factory=dict)


class _Exit(Exception):
    """Goes to the end of a compound statement, whose handler runs there."""

    def __init__(self, block: _Block, chosen: Handler) -> None:
        super().__init__("EXIT HANDLER")
        self.block, self.handler = block, chosen


class _Runner:
    def __init__(self, run: RunStatement, context: SqlContext, variables: Variables) -> None:
        self.result: DataFrame | None = None
        self._run_alone, self._variables = run, variables
        self._context, self._spark = context, context.session.spark
        self._fold = context.fold
        self._blocks: list[_Block] = []
        """The compound statements around the one that runs whose handlers and cursors it has."""

    # Compound statements and handlers

    def compound(self, compound: Compound) -> None:
        """Run a compound statement."""
        scope = self._variables.enter(compound.label)
        block = _Block(compound, scope)
        around = self._blocks
        self._blocks = [*around, block]
        try:
            self._block(block, around)
        except _Jump as jump:
            if jump.iterates or jump.label != compound.label:
                raise
        finally:
            self._blocks = around
            for cursor in block.cursors.values():
                if cursor.rows is not None:
                    cursor.rows.close()
            self._variables.leave(scope)

    def _block(self, block: _Block, around: list[_Block]) -> None:
        try:
            self._declare(block)
            self._body(block.compound.body)
        except _Exit as end:
            if end.block is not block:
                raise
            self._blocks = around
            self._statement(end.handler.body)

    def _declare(self, block: _Block) -> None:
        for declaration in block.compound.variables:
            with self._handled():
                self._declare_variables(declaration, block.scope)
        for cursor in block.compound.cursors:
            block.cursors[self._fold(cursor.name)] = _Cursor(cursor)

    def _declare_variables(self, declaration: DeclareVariables, scope: Scope) -> None:
        folded = list(map(self._fold, declaration.names))
        if len(set(folded)) < len(folded):
            raise ConditionError(
                f"variables {', '.join(declaration.names)} cannot be declared: a name stands "
                "twice; remove one",
                "DUPLICATE_VARIABLE_NAME_INSIDE_DECLARE",
                "42734",
            )
        kind = "" if declaration.type is None else declaration.type.text
        default = "NULL"
        for name in declaration.names:
            if declaration.default is not None:
                changes = self._variables.prepare(declaration.default.tokens)
                default = declaration.default.replaced(changes)
            self._variables.declare(scope, name, f"{kind} DEFAULT {default}", f"({default})")

    @contextmanager
    def _handled(self) -> Iterator[None]:
        """Let the handlers in force handle an error of a block."""
        try:
            yield
        except (HeadwaterError, PySparkException, Py4JJavaError) as error:
            self._handle(error)

    def _handle(self, error: Failure) -> None:
        condition = condition_of(error)
        if condition.state in CANCELED_STATES:
            raise error
        for index in range(len(self._blocks) - 1, -1, -1):
            block = self._blocks[index]
            chosen = handler(block.compound.handlers, condition)
            if chosen is None:
                continue
            if chosen.exits:
                raise _Exit(block, chosen) from error
            self._continue(index, chosen)
            return
        # What is only a notice goes unnoticed.
        if not condition.state.startswith("02"):
            raise error

    def _continue(self, index: int, chosen: Handler) -> None:
        """Run a handler with what it sees, and go on."""
        blocks, scopes = self._blocks, self._variables.scopes
        self._blocks = blocks[:index]
        self._variables.scopes = scopes[: scopes.index(blocks[index].scope) + 1]
        try:
            self._statement(chosen.body)
        finally:
            self._blocks, self._variables.scopes = blocks, scopes

    # Statements

    def _body(self, body: Body) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: ScriptStatement) -> None:
        match statement:
            case Compound():
                self.compound(statement)
            case If():
                self._if(statement)
            case Case():
                self._case(statement)
            case While() | Repeat() | Loop():
                self._loop(statement)
            case For():
                self._for(statement)
            case Leave(label=label):
                raise _Jump(label, iterates=False)
            case Iterate(label=label):
                raise _Jump(label, iterates=True)
            case Simple():
                with self._handled():
                    self._simple(statement.sql)
            case SetVariables():
                with self._handled():
                    self._set(statement)
            case OpenCursor():
                with self._handled():
                    self._open(statement)
            case FetchCursor():
                with self._handled():
                    self._fetch(statement)
            case CloseCursor(name=name):
                with self._handled():
                    self._close(name)

    def _simple(self, sql: SqlText) -> None:
        sees_locals = not _is_for_all(sql)
        text = sql.replaced(self._variables.prepare(sql.tokens, sees_locals=sees_locals))
        if sql.keyword == "EXECUTE":
            self._execute_immediate(text)
            return
        self._keep(text, self._run_alone(text, None))

    def _keep(self, text: str, answer: Answer) -> None:
        """Keep the rows of a query, which are computed now, as variables change."""
        keyword = tokenize(text)[0].keyword
        if isinstance(answer, DataFrame) and (
            keyword in QUERY_WORDS or (keyword == "EXECUTE" and answer.columns)
        ):
            self.result = materialized(answer)

    def _execute_immediate(self, text: str) -> None:
        statement = Statement(text, read_words(text))
        immediate = read_immediate(statement, self._context)
        # Its statement does not see the script's variables.
        self._variables.prepare(tokenize(immediate.text), sees_locals=False)
        answer = self._run_alone(immediate.text, immediate.arguments)
        if not immediate.targets:
            self._keep(immediate.text, answer)
            return
        if not isinstance(answer, DataFrame):
            raise Invalid("EXECUTE IMMEDIATE … INTO: the statement gives no rows; leave INTO out")
        rows = materialized(answer)
        self._variables.prepare(tokenize(", ".join(immediate.targets)))
        assign(rows, self._targets(immediate), self._spark)

    def _targets(self, immediate: Immediate) -> list[str]:
        names = [tokenize(target) for target in immediate.targets]
        parts = [[token.text for token in tokens if token.is_name] for tokens in names]
        return [self._variables.target(each) for each in parts]

    def _set(self, statement: SetVariables) -> None:
        changes = self._variables.prepare(statement.sql.tokens)
        targets = [self._variables.target(parts) for parts in statement.targets]
        values = [
            self._variables.default_of(parts)
            if value.text.upper() == "DEFAULT"
            else value.replaced(_within(value, changes))
            for parts, value in zip(statement.targets, statement.values, strict=False)
        ]
        if statement.is_query:
            query = statement.values[0]
            text = query.replaced(_within(query, changes))
            self._run_alone(f"SET VARIABLE ({', '.join(targets)}) = ({text})", None)
            return
        assignments = map(" = ".join, zip(targets, values, strict=True))
        self._run_alone(f"SET VARIABLE {', '.join(assignments)}", None)

    # Conditions

    def _condition(self, condition: SqlText) -> bool | None:
        """Whether a condition is true; None where a handler has handled an error of it."""
        with self._handled():
            changes = self._variables.prepare(condition.tokens)
            return self._truth(condition.replaced(changes), condition.text)
        return None

    def _truth(self, text: str, written: str) -> bool:
        frame = self._run_alone(f"SELECT ({text})", None)
        assert isinstance(frame, DataFrame)
        kind = frame.schema.fields[0].dataType
        if not isinstance(kind, st.BooleanType):
            raise ConditionError(
                f"condition {written} cannot be tested: its type is {kind.simpleString()}, "
                "expected BOOLEAN; write a comparison",
                "INVALID_BOOLEAN_STATEMENT",
                "22546",
            )
        with own_errors():
            return bool(frame.collect()[0][0])

    def _if(self, statement: If) -> None:
        for condition, body in statement.branches:
            is_true = self._condition(condition)
            if is_true is None:
                return
            if is_true:
                self._body(body)
                return
        self._body(statement.otherwise)

    def _case(self, statement: Case) -> None:
        location: str | None = None
        chosen: Body = statement.otherwise
        is_handled = True
        with self._handled():
            location = self._stored(statement.value)
            for value, body in statement.branches:
                changes = self._variables.prepare(value.tokens)
                if location is not None and self._truth(
                    f"{location} = ({value.replaced(changes)})", value.text
                ):
                    chosen = body
                    break
            is_handled = False
        if location is not None:
            self._variables.forget(location)
        if not is_handled:
            self._body(chosen)

    def _stored(self, value: SqlText) -> str | None:
        """A hidden variable with the value of an expression; None for one without a type."""
        text = value.replaced(self._variables.prepare(value.tokens))
        frame = self._run_alone(f"SELECT ({text})", None)
        assert isinstance(frame, DataFrame)
        kind = frame.schema.fields[0].dataType
        if isinstance(kind, st.NullType):
            return None
        location = self._variables.hidden(sql_type_text(kind))
        assign(materialized(frame), [location], self._spark)
        return location

    # Loops

    def _loop(self, loop: While | Repeat | Loop) -> None:
        while True:
            if isinstance(loop, While) and not self._condition(loop.condition):
                return
            if not self._turn(loop.label, loop.body):
                return
            if isinstance(loop, Repeat):
                # None, too, ends the loop.
                is_done = self._condition(loop.condition)
                if is_done is None or is_done:
                    return

    def _turn(self, label: str | None, body: Body) -> bool:
        """Run the statements of a loop once, and return whether it goes on."""
        try:
            self._body(body)
        except _Jump as jump:
            if jump.label != label:
                raise
            return jump.iterates
        return True

    def _for(self, loop: For) -> None:
        rows: Rows | None = None
        with self._handled():
            rows = self._rows(loop.query)
            self._check_columns(rows.columns)
        if rows is None:
            return
        scope = self._variables.enter(loop.variable)
        try:
            places = self._declare_columns(rows, loop.words, scope)
            while (values := rows.next()) is not None:
                self._variables.assign(scope, {name: values[at] for name, at in places.items()})
                if not self._turn(loop.label, loop.body):
                    return
        finally:
            self._variables.leave(scope)
            rows.close()

    def _declare_columns(self, rows: Rows, words: frozenset[str], scope: Scope) -> dict[str, int]:
        """Declare variables for the columns that a loop's statements name.

        Returns:
            The number of the column of each.
        """
        places: dict[str, int] = {}
        for index, (name, kind) in enumerate(zip(rows.columns, rows.types, strict=True)):
            if name.lower() in words:
                self._variables.declare(scope, name, kind)
                places[name] = index
        return places

    def _check_columns(self, columns: Sequence[str]) -> None:
        folded = list(map(self._fold, columns))
        for name in columns:
            if folded.count(self._fold(name)) > 1:
                raise ConditionError(
                    f"FOR cannot run: column {name} stands twice in its query; give one an alias",
                    "VARIABLE_ALREADY_EXISTS",
                    "42723",
                )

    def _rows(self, query: SqlText, arguments: Arguments | None = None) -> Rows:
        text = query.replaced(self._variables.prepare(query.tokens))
        frame = self._run_alone(text, arguments)
        assert isinstance(frame, DataFrame)
        return Rows(materialized(frame), self._spark, self._variables)

    # Cursors

    def _cursor(self, name: tuple[str, ...]) -> _Cursor:
        key = self._fold(name[-1])
        for block in reversed(self._blocks):
            is_block = len(name) == 1 or block.compound.label == name[0].lower()
            if len(name) <= 2 and is_block and key in block.cursors:
                return block.cursors[key]
        raise ConditionError(
            f"cursor {'.'.join(name)} is not declared around this statement; "
            f"DECLARE {name[-1]} CURSOR FOR a query",
            "CURSOR_NOT_FOUND",
            "42883",
        )

    def _open_rows(self, name: tuple[str, ...]) -> tuple[_Cursor, Rows]:
        cursor = self._cursor(name)
        if cursor.rows is None:
            raise ConditionError(
                f"cursor {'.'.join(name)} is not open; OPEN it first", "CURSOR_NOT_OPEN", "24501"
            )
        return cursor, cursor.rows

    def _open(self, statement: OpenCursor) -> None:
        cursor = self._cursor(statement.name)
        if cursor.rows is not None:
            raise ConditionError(
                f"cursor {'.'.join(statement.name)} is open; CLOSE it first",
                "CURSOR_ALREADY_OPEN",
                "24502",
            )
        arguments: Arguments | None = None
        if statement.arguments is not None:
            sql = statement.arguments
            values = sql.replaced(self._variables.prepare(sql.tokens))
            arguments = computed_arguments(
                read_values(Statement(values, read_words(values))),
                cursor.declared.query.text,
                self._context,
            )
        cursor.rows = self._rows(cursor.declared.query, arguments)

    def _fetch(self, statement: FetchCursor) -> None:
        _, rows = self._open_rows(statement.name)
        self._variables.prepare(statement.sql.tokens)
        targets = [self._variables.target(parts) for parts in statement.targets]
        count = len(rows.columns)
        values = rows.next()
        if values is None:
            raise ConditionError(
                f"cursor {'.'.join(statement.name)} has no more rows; declare a handler for NOT "
                "FOUND",
                "CURSOR_NO_MORE_ROWS",
                "02000",
            )
        if len(targets) == 1 and count > 1:
            self._fetch_struct(targets[0], values)
            return
        if len(targets) != count:
            raise _arity(statement.name, len(targets), count)
        assignments = map(" = ".join, zip(targets, values, strict=True))
        self._run_alone(f"SET VARIABLE {', '.join(assignments)}", None)

    def _fetch_struct(self, target: str, values: Sequence[str]) -> None:
        frame = self._run_alone(f"SELECT {target}", None)
        assert isinstance(frame, DataFrame)
        kind = frame.schema.fields[0].dataType
        if not isinstance(kind, st.StructType) or len(kind) != len(values):
            width = len(kind) if isinstance(kind, st.StructType) else 1
            raise _arity((target,), width, len(values))
        self._run_alone(f"SET VARIABLE {target} = struct({', '.join(values)})", None)

    def _close(self, name: tuple[str, ...]) -> None:
        cursor, rows = self._open_rows(name)
        rows.close()
        cursor.rows = None


def _is_for_all(sql: SqlText) -> bool:
    """Whether a statement defines a view or function of the catalog, which has no variables."""
    words = [token.keyword for token in sql.tokens[:4] if token.keyword not in ("OR", "REPLACE")]
    return words[0] in ("CREATE", "ALTER") and words[1] in ("VIEW", "FUNCTION")


def _arity(name: Sequence[str], variables: int, columns: int) -> ConditionError:
    return ConditionError(
        f"cursor {'.'.join(name)} cannot be fetched: {variables} variables or fields for "
        f"{columns} columns; name one for each",
        "ASSIGNMENT_ARITY_MISMATCH",
        "42802",
    )


def _within(sql: SqlText, changes: Sequence[Change]) -> list[Change]:
    """The changes of a part of a statement."""
    start, end = sql.tokens[0].start, sql.tokens[-1].end
    return [change for change in changes if start <= change[0] and change[1] <= end]
