"""The syntax tree of a query: its relations, expressions and the names in them.

Nodes know where they stand as indices of tokens: ``start`` is the first token's, ``end`` the one
after the last. Expressions keep the names, calls and subqueries in them, in their order; operators
and their precedence are left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Call",
    "ColumnName",
    "CommonTable",
    "Expression",
    "ExpressionItem",
    "From",
    "IdentifierClause",
    "Lambda",
    "Name",
    "Query",
    "QueryBody",
    "Relation",
    "Select",
    "SetOperation",
    "Star",
    "Subquery",
    "TableArgument",
    "TableName",
    "TimeTravelClause",
    "expressions_of",
]


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one part or of several with dots between them.

    Attributes:
        parts: The parts without quotes.
        start, end: Its tokens.
        ends: The index after each part, of which one may be ``IDENTIFIER('…')``.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    ends: tuple[int, ...] = ()


@dataclass(slots=True)
class ColumnName:
    """A name in an expression: a column with its qualifiers and fields, or a session variable."""

    name: Name


@dataclass(slots=True)
class Star:
    """A ``*``.

    Attributes:
        qualifier: The name before it, if it has one.
        start, end: Its tokens, with those of ``EXCEPT (…)``.
        has_except: Whether it leaves columns out.
    """

    qualifier: Name | None
    start: int
    end: int
    has_except: bool = False


@dataclass(slots=True)
class Call:
    """A function call.

    Attributes:
        name: The function's; ``IDENTIFIER(…)`` in place of one, or of a table function.
        start, end: Its tokens, with those of ``OVER``, ``FILTER`` and the like.
        close: The index after its brackets.
        arguments: The arguments.
        tables: ``TABLE`` arguments.
        clauses: The expressions of ``OVER``, ``FILTER`` and the like.
        has_brackets: False for ``current_date`` and its like.
        is_window: Whether it has an ``OVER``.
    """

    name: Name | IdentifierClause
    start: int
    end: int
    arguments: list[Expression] = field(default_factory=list)
    tables: list[TableArgument] = field(default_factory=list)
    clauses: list[Expression] = field(default_factory=list)
    close: int = 0
    has_brackets: bool = True
    is_window: bool = False


@dataclass(slots=True)
class Subquery:
    """A query in an expression, without its brackets."""

    query: Query


@dataclass(slots=True)
class Lambda:
    """``(x, y) -> expression``."""

    parameters: tuple[str, ...]
    body: Expression


@dataclass(slots=True)
class IdentifierClause:
    """``IDENTIFIER(expression)``, which stands for a name."""

    expression: Expression
    start: int
    end: int


ExpressionItem: TypeAlias = ColumnName | Star | Call | Subquery | Lambda | IdentifierClause


@dataclass(slots=True)
class Expression:
    """An expression.

    Attributes:
        start, end: Its tokens.
        items: The names, calls and subqueries in it, in their order; those in the arguments of a
            call are the call's.
        has_alias: Whether an alias follows it; None where none can.
    """

    start: int
    end: int
    items: list[ExpressionItem] = field(default_factory=list)
    has_alias: bool | None = None


@dataclass(frozen=True, slots=True)
class TimeTravelClause:
    """``VERSION AS OF …`` or ``TIMESTAMP AS OF …`` after a table's name.

    Attributes:
        by_version: Whether it is a version.
        value: The version or the timestamp.
        start, end: The clause's tokens.
    """

    by_version: bool
    value: Expression
    start: int
    end: int


@dataclass(slots=True)
class TableName:
    """The name of a table, a view or a common table expression where a relation stands.

    Attributes:
        name: The name.
        time_travel: The version or the timestamp of the table.
        options: The tokens of ``WITH ('key' = …)`` or of a hint ``OPTIONS``, brackets included.
        end: The index after these clauses.
        is_bare: Whether it stands after ``TABLE``, where it has no alias.
        query_start: The index of that word where the two are a query; None in an argument.
        is_stream: Whether ``STREAM`` stands before it.
    """

    name: Name | IdentifierClause
    end: int
    time_travel: TimeTravelClause | None = None
    options: tuple[int, int] | None = None
    is_bare: bool = False
    query_start: int | None = None
    is_stream: bool = False


@dataclass(slots=True)
class TableArgument:
    """``TABLE t`` or ``TABLE (query)`` in the brackets of a table function."""

    source: TableName | Query
    clauses: list[Expression] = field(default_factory=list)


@dataclass(slots=True)
class Relation:
    """One entry of ``FROM`` or ``JOIN``.

    Attributes:
        source: What is read: a table's name, a query, a table function, ``VALUES`` or relations
            in brackets.
        start, end: Its tokens, with its alias.
        alias: The alias; None where it has none.
        is_lateral: Whether it sees the relations before it.
    """

    source: TableName | Query | Call | list[Expression] | From
    start: int
    end: int
    alias: str | None = None
    is_lateral: bool = False


@dataclass(slots=True)
class From:
    """The relations of a ``FROM`` clause, with joins.

    Attributes:
        relations: The relations, in their order.
        expressions: The conditions of joins, the arguments of ``LATERAL VIEW``, ``PIVOT`` and the
            like.
        uses_all_columns: Whether there is a ``NATURAL JOIN``, a ``PIVOT`` or an ``UNPIVOT``.
    """

    relations: list[Relation] = field(default_factory=list)
    expressions: list[Expression] = field(default_factory=list)
    uses_all_columns: bool = False


@dataclass(slots=True)
class Select:
    """One ``SELECT``, ``VALUES``, ``TABLE`` or ``FROM``, or the operator after a ``|>``.

    Attributes:
        start, end: Its tokens.
        columns: The expressions of the columns.
        source: Its ``FROM``; None without one.
        expressions: Those of ``WHERE``, ``GROUP BY`` and the like.
        keeps_columns: Whether its columns are all of those that it reads, without a ``*``.
    """

    start: int
    end: int = 0
    keeps_columns: bool = False
    columns: list[Expression] = field(default_factory=list)
    source: From | None = None
    expressions: list[Expression] = field(default_factory=list)


@dataclass(slots=True)
class SetOperation:
    """The operands of ``UNION`` and its like; or a query and what follows it after a ``|>``.

    Attributes:
        operands: The queries, from left to right.
        is_pipe: Whether each operand after the first reads the rows of the one before it.
    """

    operands: list[QueryBody]
    is_pipe: bool = False


QueryBody: TypeAlias = "Select | SetOperation | Query"


@dataclass(slots=True)
class CommonTable:
    """A query named by ``WITH``."""

    name: Name
    query: Query


@dataclass(slots=True)
class Query:
    """A query.

    Attributes:
        start, end: Its tokens.
        body: What it reads.
        common_tables: Those named by ``WITH``.
        is_recursive: Whether they may read themselves.
        expressions: Those of ``ORDER BY``, ``LIMIT`` and the like.
    """

    start: int
    end: int
    body: QueryBody
    common_tables: list[CommonTable] = field(default_factory=list)
    is_recursive: bool = False
    expressions: list[Expression] = field(default_factory=list)


def expressions_of(call: Call) -> Iterator[Expression]:
    """The expressions in a call: its arguments and its clauses."""
    yield from call.arguments
    yield from call.clauses
    for table in call.tables:
        yield from table.clauses
