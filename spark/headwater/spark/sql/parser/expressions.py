"""The parser of expressions: where they end, and the names, calls and subqueries in them."""

from __future__ import annotations

from collections.abc import Callable

from headwater.spark.names import parts_of
from headwater.spark.sql.parser.cursor import END, Cursor, UnsupportedSyntax
from headwater.spark.sql.parser.tokens import string_value
from headwater.spark.sql.parser.tree import (
    Call,
    ColumnName,
    Expression,
    ExpressionItem,
    IdentifierClause,
    Lambda,
    Name,
    Query,
    Star,
    Subquery,
    TableArgument,
)

__all__ = ["PIPE_WORDS", "QUERY_WORDS", "ExpressionParser"]

_PREFIXES = frozenset({"NOT", "!", "-", "+", "~"})
_COMPARISONS = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", "!>", ">", ">=", "!<"})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "DIV", "&", "|", "^", "||", "<<", ">>", ">>>"})
_PREDICATES = frozenset({"BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"})
_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE", "UNKNOWN"})
_WITHOUT_BRACKETS = frozenset(
    {
        "CURRENT_DATE", "CURRENT_PATH", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER",
        "LOCALTIME", "SESSION_USER", "USER",
    }
)  # fmt: skip
"""Functions that need no brackets."""
_WITH_UNIT = frozenset(
    {
        "DATEADD", "DATE_ADD", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "TIMEDIFF", "TIMESTAMPDIFF",
    }
)  # fmt: skip
"""Functions whose first argument may be a unit."""
_UNITS = frozenset(
    {
        "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND",
        "MILLISECOND", "MICROSECOND",
    }
)  # fmt: skip
_INTERVAL_UNITS = _UNITS | {f"{unit}S" for unit in _UNITS} | {"NANOSECOND", "NANOSECONDS"}
_SEPARATORS = {
    "SUBSTR": frozenset({"FROM", "FOR"}),
    "SUBSTRING": frozenset({"FROM", "FOR"}),
    "TRIM": frozenset({"FROM"}),
    "OVERLAY": frozenset({"PLACING", "FROM", "FOR"}),
    "POSITION": frozenset({"IN"}),
    "EXTRACT": frozenset({"FROM"}),
}
"""The words between the arguments of some functions."""
_TRIM_SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
PIPE_WORDS = frozenset(
    {
        "SELECT", "EXTEND", "SET", "DROP", "AS", "WHERE", "AGGREGATE", "PIVOT", "UNPIVOT", "JOIN",
        "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "TABLESAMPLE",
        "UNION", "EXCEPT", "MINUS", "INTERSECT", "ORDER", "CLUSTER", "DISTRIBUTE", "SORT", "LIMIT",
        "OFFSET", "WINDOW",
    }
)  # fmt: skip
"""The words that follow the sign of a pipe, which may also be ``|``."""
QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "("})
"""What begins a query."""
_AFTER_OPERAND = _COMPARISONS | _ARITHMETIC | {END, ",", ")", "]", "FROM", "AS", "AND", "OR", "|>"}
"""What may follow a column whose name is also a keyword."""


class ExpressionParser:
    """Reads expressions.

    Args:
        cursor: The statement's.
        query: Reads a query.
        table_argument: Reads what stands after ``TABLE`` in the brackets of a table function.
        alias: Reads an alias if one comes next; its text.
    """

    def __init__(
        self,
        cursor: Cursor,
        query: Callable[[], Query],
        table_argument: Callable[[], TableArgument],
        alias: Callable[[], str | None],
    ) -> None:
        self._cursor = cursor
        self._query = query
        self._table_argument = table_argument
        self._alias = alias
        # An argument of POSITION ends at the first IN.
        self._separators: frozenset[str] = frozenset()
        self._queries: dict[int, tuple[Query, int] | None] = {}

    def expression(self, *, is_value: bool = False) -> Expression:
        """Read an expression.

        Args:
            is_value: Whether it ends before ``AND``, ``OR``, ``NOT`` and predicates.

        Raises:
            UnsupportedSyntax: It cannot be read.
        """
        start = self._cursor.index
        items: list[ExpressionItem] = []
        self._operand(items)
        while self._operator(items, is_value=is_value):
            self._operand(items)
        return Expression(start, self._cursor.index, items)

    def expressions(self) -> list[Expression]:
        """Read expressions with commas between them."""
        expressions = [self.expression()]
        while self._cursor.accept(","):
            expressions.append(self.expression())
        return expressions

    def named_expressions(self) -> list[Expression]:
        """Read expressions, which may have aliases, with commas between them."""
        expressions = [self._named_expression()]
        while self._cursor.accept(","):
            expressions.append(self._named_expression())
        return expressions

    def sort_items(self) -> list[Expression]:
        """Read the expressions of ``ORDER BY``."""
        items: list[Expression] = []
        while True:
            items.append(self.expression())
            _ = self._cursor.accept("ASC") or self._cursor.accept("DESC")
            if self._cursor.accept("NULLS") and not self._cursor.accept("FIRST"):
                self._cursor.expect("LAST")
            if not self._cursor.accept(","):
                return items

    def multipart_name(self) -> Name:
        """Read a name of one part or of several."""
        cursor = self._cursor
        start = cursor.index
        parts = [cursor.identifier()]
        ends = [cursor.index]
        while cursor.keyword() == "." and cursor.at_name(1):
            cursor.index += 1
            parts.append(cursor.identifier())
            ends.append(cursor.index)
        return Name(tuple(parts), start, cursor.index, tuple(ends))

    def name_or_clause(self) -> Name | IdentifierClause:
        """Read a name, or ``IDENTIFIER(expression)`` in its place."""
        # With a dot after it, IDENTIFIER('…') is one part of a name.
        is_part = self._cursor.at_named_string() and self._cursor.keyword(4) == "."
        if not self._at_clause() or is_part:
            return self.multipart_name()
        clause = self._identifier_clause()
        return self._named_by_string(clause) or clause

    def end_of_names(self) -> int | None:
        """How many tokens a list of names in brackets has that comes next; None if none does."""
        cursor, ahead = self._cursor, 1
        while cursor.at_name(ahead):
            ahead += 1
            if cursor.keyword(ahead) == ")":
                return ahead + 1
            if cursor.keyword(ahead) not in (",", "."):
                return None
            ahead += 1
        return None

    def data_type(self) -> None:
        """Read a data type."""
        cursor = self._cursor
        interval = cursor.keyword() == "INTERVAL"
        cursor.identifier()
        if cursor.accept("<>"):
            return
        if cursor.keyword() == "<":
            self._skip_angles()
        if cursor.keyword() == "(":
            cursor.skip_brackets()
        if interval and cursor.accept_any(_INTERVAL_UNITS) and cursor.accept("TO"):
            cursor.index += 1
        _ = cursor.accept("WITH", "LOCAL", "TIME", "ZONE") or cursor.accept(
            "WITHOUT", "TIME", "ZONE"
        )
        if cursor.accept("COLLATE"):
            self.multipart_name()

    def window(self) -> list[Expression]:
        """Read a window: a name, or its definition in brackets."""
        cursor = self._cursor
        if not cursor.accept("("):
            cursor.identifier()
            return []
        expressions: list[Expression] = []
        if cursor.at_name() and cursor.keyword(1) == ")":
            cursor.index += 1
        if any(map(cursor.accept, ("CLUSTER", "PARTITION", "DISTRIBUTE"))):
            cursor.expect("BY")
            expressions += self.expressions()
        if any(map(cursor.accept, ("ORDER", "SORT"))):
            cursor.expect("BY")
            expressions += self.sort_items()
        if any(map(cursor.accept, ("RANGE", "ROWS"))):
            between = cursor.accept("BETWEEN")
            expressions += self._frame_bound()
            if between:
                cursor.expect("AND")
                expressions += self._frame_bound()
        cursor.expect(")")
        return expressions

    def query_in_brackets(self) -> Query | None:
        """Read a query in brackets if one comes next, brackets included."""
        cursor = self._cursor
        start = cursor.index
        if cursor.keyword() != "(" or cursor.keyword(1) not in QUERY_WORDS:
            return None
        # A bracket in brackets is tried as a query and then as an expression, each of them once.
        if start not in self._queries:
            self._queries[start] = self._try_query()
        result = self._queries[start]
        if result is None:
            cursor.index = start
            return None
        query, cursor.index = result
        return query

    def _try_query(self) -> tuple[Query, int] | None:
        cursor = self._cursor
        separators, self._separators = self._separators, frozenset()
        cursor.index += 1
        is_certain = cursor.keyword() == "SELECT"
        try:
            query = self._query()
            cursor.expect(")")
        except UnsupportedSyntax:
            if is_certain:
                raise
            return None
        finally:
            self._separators = separators
        return query, cursor.index

    def _named_expression(self) -> Expression:
        cursor = self._cursor
        expression = self.expression()
        if cursor.keyword() == "(" or cursor.peek("AS", "("):
            cursor.accept("AS")
            cursor.skip_brackets()
            expression.has_alias = True
        else:
            expression.has_alias = self._alias() is not None
        return expression

    def _frame_bound(self) -> list[Expression]:
        cursor = self._cursor
        expressions: list[Expression] = []
        if not (cursor.accept("UNBOUNDED") or cursor.accept("CURRENT", "ROW")):
            expressions.append(self.expression())
        _ = cursor.accept("PRECEDING") or cursor.accept("FOLLOWING")
        return expressions

    def _skip_angles(self) -> None:
        cursor, depth = self._cursor, 0
        while True:
            if cursor.at_end:
                raise cursor.unexpected(">")
            keyword = cursor.keyword()
            cursor.index += 1
            if keyword == "<":
                depth += 1
            elif keyword.strip(">") == "":
                depth -= len(keyword)
                if depth <= 0:
                    return

    # Operators

    def _operator(self, items: list[ExpressionItem], *, is_value: bool) -> bool:
        """Read what may follow an operand, and return whether another operand comes next."""
        cursor = self._cursor
        while True:
            keyword = cursor.keyword()
            if keyword in _COMPARISONS or keyword in _ARITHMETIC:
                if keyword == "|" and cursor.keyword(1) in PIPE_WORDS:
                    return False
                cursor.index += 1
                return True
            if is_value or keyword in self._separators:
                return False
            if keyword in ("AND", "OR"):
                cursor.index += 1
                return True
            if keyword == "IS":
                if self._is_predicate():
                    return True
                continue
            negated = keyword in ("NOT", "!")
            if cursor.keyword(negated) not in _PREDICATES:
                return False
            cursor.index += negated
            if self._predicate(items):
                return True

    def _is_predicate(self) -> bool:
        """``IS [NOT] NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM operand``."""
        cursor = self._cursor
        cursor.index += 1
        _ = cursor.accept("NOT") or cursor.accept("!")
        if cursor.accept("DISTINCT", "FROM"):
            return True
        if not cursor.accept_any(_CONSTANTS):
            raise cursor.unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return False

    def _predicate(self, items: list[ExpressionItem]) -> bool:
        """Read a predicate's keyword, and its list; return whether an operand comes next."""
        cursor = self._cursor
        keyword = cursor.keyword()
        cursor.index += 1
        if keyword in ("LIKE", "ILIKE"):
            quantified = cursor.keyword() in ("ANY", "SOME", "ALL") and cursor.keyword(1) == "("
            cursor.index += quantified
            if not quantified:
                return True
        elif keyword != "IN":
            return True
        query = self.query_in_brackets()
        if query is not None:
            items.append(Subquery(query))
            return False
        cursor.expect("(")
        if not cursor.accept(")"):
            self._inner(items)
            cursor.expect(")")
        return False

    def _inner(self, items: list[ExpressionItem]) -> None:
        """Read expressions in brackets, whose items are those of the expression around them."""
        separators, self._separators = self._separators, frozenset()
        for expression in self.named_expressions():
            items += expression.items
        self._separators = separators

    # Operands

    def _operand(self, items: list[ExpressionItem]) -> None:
        cursor = self._cursor
        while cursor.keyword() in _PREFIXES:
            if cursor.keyword() == "NOT" and cursor.keyword(1) in _AFTER_OPERAND - {"-", "+"}:
                break
            cursor.index += 1
        self._primary(items)
        while self._postfix(items):
            pass

    def _postfix(self, items: list[ExpressionItem]) -> bool:
        cursor = self._cursor
        keyword = cursor.keyword()
        if keyword == "[":
            cursor.index += 1
            items += self._nested().items
            cursor.expect("]")
        elif keyword == "." and cursor.at_name(1):
            cursor.index += 1
            cursor.identifier()
        elif keyword == "::":
            cursor.index += 1
            self.data_type()
        elif keyword == ":" and (cursor.at_name(1) or cursor.keyword(1) == "["):
            # The field of a VARIANT; the brackets and points after it are read as others are.
            cursor.index += 1 + cursor.at_name(1)
        elif keyword == "COLLATE":
            cursor.index += 1
            self.multipart_name()
        elif keyword == "ESCAPE" and cursor.at_string(1):
            cursor.index += 2
        else:
            return False
        return True

    def _primary(self, items: list[ExpressionItem]) -> None:
        cursor = self._cursor
        keyword = cursor.keyword()
        if cursor.at_number():
            cursor.index += 1
        elif cursor.at_string():
            while cursor.at_string():
                cursor.index += 1
        elif keyword == "?":
            cursor.index += 1
        elif keyword == ":" and cursor.at_name(1):
            cursor.index += 2
        elif keyword == "(":
            self._bracket(items)
        elif keyword == "*":
            cursor.index += 1
            items.append(self._star(None, cursor.index - 1))
        elif cursor.at_name():
            if not (keyword and self._special(keyword, items)):
                self._named(items)
        else:
            raise cursor.unexpected("an expression")

    def _bracket(self, items: list[ExpressionItem]) -> None:
        """A query, the parameters of a lambda function, or expressions."""
        cursor = self._cursor
        query = self.query_in_brackets()
        if query is not None:
            items.append(Subquery(query))
            return
        start = cursor.index
        names = self._lambda_names()
        if names is not None:
            items.append(Lambda(names, self.expression()))
            return
        cursor.index = start + 1
        self._inner(items)
        cursor.expect(")")

    def _lambda_names(self) -> tuple[str, ...] | None:
        cursor = self._cursor
        cursor.index += 1
        names: list[str] = []
        while cursor.at_name():
            names.append(cursor.identifier())
            if cursor.accept(")", "->"):
                return tuple(names)
            if not cursor.accept(","):
                break
        return None

    def _star(self, qualifier: Name | None, start: int) -> Star:
        cursor = self._cursor
        has_except = cursor.peek("EXCEPT", "(")
        if has_except:
            cursor.index += 1
            has_except = self.end_of_names() is not None
            if has_except:
                cursor.skip_brackets()
            else:
                cursor.index -= 1
        return Star(qualifier, start, cursor.index, has_except)

    def _special(self, keyword: str, items: list[ExpressionItem]) -> bool:
        """Read what a keyword begins; False if the word is a name."""
        cursor = self._cursor
        following = cursor.keyword(1)
        if cursor.at_string(1) and keyword not in ("INTERVAL", "CASE"):
            # A literal with its type, as DATE '2026-01-01' or X'1F'.
            cursor.index += 2
        elif keyword == "CASE" and following not in _AFTER_OPERAND - {"-", "+"}:
            self._case(items)
        elif keyword in ("CAST", "TRY_CAST") and following == "(":
            cursor.index += 2
            items += self._nested().items
            cursor.expect("AS")
            self.data_type()
            cursor.expect(")")
        elif keyword == "INTERVAL" and self._at_interval_value(1):
            self._interval()
        elif keyword == "EXISTS" and following == "(":
            cursor.index += 1
            query = self.query_in_brackets()
            if query is None:
                cursor.index -= 1
                return False
            items.append(Subquery(query))
        elif keyword in ("NULL", "TRUE", "FALSE") and following not in (".", "("):
            cursor.index += 1
        elif keyword in _WITHOUT_BRACKETS and following not in ("(", ".", "->"):
            name = Name((cursor.token().text,), cursor.index, cursor.index + 1)
            items.append(Call(name, cursor.index, cursor.index + 1, has_brackets=False))
            cursor.index += 1
        else:
            return False
        return True

    def _nested(self) -> Expression:
        """Read an expression in which the words between a call's arguments are as elsewhere."""
        separators, self._separators = self._separators, frozenset()
        expression = self.expression()
        self._separators = separators
        return expression

    def _case(self, items: list[ExpressionItem]) -> None:
        cursor = self._cursor
        cursor.index += 1
        if cursor.keyword() != "WHEN":
            items += self._nested().items
        while cursor.accept("WHEN"):
            items += self._nested().items
            cursor.expect("THEN")
            items += self._nested().items
        if cursor.accept("ELSE"):
            items += self._nested().items
        cursor.expect("END")

    def _at_interval_value(self, ahead: int) -> bool:
        cursor = self._cursor
        ahead += cursor.keyword(ahead) in ("+", "-")
        return (
            cursor.at_number(ahead)
            or cursor.at_string(ahead)
            or cursor.keyword(ahead) in ("?", ":")
        )

    def _interval(self) -> None:
        """``INTERVAL 1 DAY 2 HOURS``, ``INTERVAL '1-2' YEAR TO MONTH``, ``INTERVAL '1 day'``."""
        cursor = self._cursor
        cursor.index += 1
        while self._at_interval_value(0):
            start = cursor.index
            cursor.index += cursor.keyword() in ("+", "-")
            cursor.index += 1 + (cursor.keyword() == ":")
            if not cursor.accept_any(_INTERVAL_UNITS):
                # A text without a unit says its own; a number here is what comes after.
                if start > 0 and cursor.keyword(start - cursor.index - 1) != "INTERVAL":
                    cursor.index = start
                return
            if cursor.accept("TO"):
                cursor.index += 1

    def _at_clause(self) -> bool:
        return self._cursor.peek("IDENTIFIER", "(")

    def _identifier_clause(self) -> IdentifierClause:
        cursor = self._cursor
        start = cursor.index
        cursor.index += 2
        expression = self._nested()
        cursor.expect(")")
        return IdentifierClause(expression, start, cursor.index)

    def _named_by_string(self, clause: IdentifierClause) -> Name | None:
        """The name that a constant string stands for; None for any other expression."""
        cursor = self._cursor
        expression = clause.expression
        if expression.end != expression.start + 1:
            return None
        ahead = expression.start - cursor.index
        if not cursor.at_string(ahead):
            return None
        parts = parts_of(string_value(cursor.token(ahead)))
        return Name(parts, clause.start, clause.end, (clause.end,) * len(parts))

    def _named(self, items: list[ExpressionItem]) -> None:
        """A column, a star, a lambda function or a call."""
        cursor = self._cursor
        start = cursor.index
        if cursor.keyword(1) == "->":
            parameter = cursor.identifier()
            cursor.index += 1
            items.append(Lambda((parameter,), self.expression()))
            return
        if self._at_clause():
            clause = self.name_or_clause()
            if isinstance(clause, IdentifierClause):
                items.append(self.call(clause, start) if cursor.keyword() == "(" else clause)
                return
            name = clause
        else:
            name = self.multipart_name()
        if cursor.keyword() == "(":
            items.append(self.call(name, start))
        elif cursor.peek(".", "*"):
            cursor.index += 2
            items.append(self._star(name, start))
        else:
            items.append(ColumnName(name))

    # Calls

    def call(self, name: Name | IdentifierClause, start: int) -> Call:
        """Read the arguments and clauses of a call whose name has been read."""
        cursor = self._cursor
        call = Call(name, start, start)
        function = name.parts[0].upper() if isinstance(name, Name) and len(name.parts) == 1 else ""
        cursor.expect("(")
        separators, self._separators = self._separators, _SEPARATORS.get(function, frozenset())
        if cursor.keyword() != ")":
            if cursor.keyword() in ("DISTINCT", "ALL") and cursor.keyword(1) not in (")", ",", "."):
                cursor.index += 1
            self._skip_first_word(function)
            self._arguments(call, has_aliases=function == "STRUCT")
        self._separators = separators
        cursor.expect(")")
        call.close = cursor.index
        self._call_clauses(call)
        call.end = cursor.index
        return call

    def _skip_first_word(self, function: str) -> None:
        cursor = self._cursor
        if function == "EXTRACT" and cursor.keyword(1) == "FROM":
            cursor.index += 2
        elif function == "TRIM":
            if cursor.keyword() in _TRIM_SIDES and cursor.keyword(1) not in _AFTER_OPERAND - {
                "FROM",
                "-",
                "+",
            }:
                cursor.index += 1
            if cursor.keyword() == "FROM":
                cursor.index += 1
        elif function in _WITH_UNIT and cursor.keyword() in _UNITS and cursor.keyword(1) == ",":
            cursor.index += 2

    def _arguments(self, call: Call, *, has_aliases: bool) -> None:
        cursor = self._cursor
        while True:
            if cursor.at_name() and cursor.keyword(1) == "=>":
                cursor.index += 2
            if cursor.keyword() == "TABLE" and (cursor.at_name(1) or cursor.keyword(1) == "("):
                cursor.index += 1
                call.tables.append(self._table_argument())
            else:
                argument = self.expression()
                if has_aliases:
                    self._alias()
                call.arguments.append(argument)
            if cursor.keyword() in self._separators:
                cursor.index += 1
            elif not cursor.accept(","):
                break
        if cursor.keyword() in ("IGNORE", "RESPECT") and cursor.keyword(1) == "NULLS":
            cursor.index += 2

    def _call_clauses(self, call: Call) -> None:
        cursor = self._cursor
        if cursor.accept("WITHIN", "GROUP"):
            cursor.expect("(", "ORDER", "BY")
            call.clauses += self.sort_items()
            cursor.expect(")")
        if cursor.peek("FILTER", "(") and cursor.keyword(2) == "WHERE":
            cursor.index += 3
            call.clauses.append(self.expression())
            cursor.expect(")")
        if cursor.keyword() in ("IGNORE", "RESPECT") and cursor.keyword(1) == "NULLS":
            cursor.index += 2
        if cursor.keyword() == "OVER" and (cursor.keyword(1) == "(" or cursor.at_name(1)):
            cursor.index += 1
            call.is_window = True
            call.clauses += self.window()
