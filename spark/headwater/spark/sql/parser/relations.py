"""The parser of relations: what stands after ``FROM`` and ``JOIN``."""

from __future__ import annotations

from collections.abc import Callable

from headwater.spark.sql.parser.cursor import END, Cursor
from headwater.spark.sql.parser.expressions import ExpressionParser
from headwater.spark.sql.parser.tree import (
    Expression,
    From,
    IdentifierClause,
    Name,
    Relation,
    TableName,
    TimeTravelClause,
)

__all__ = ["RelationParser"]

_VERSIONS = frozenset({"VERSION", "SYSTEM_VERSION"})
_TIMESTAMPS = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
_JOIN_WORDS = frozenset(
    {"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF"}
)
_MAX_JOIN_WORDS = 4
_AFTER_TABLE = _JOIN_WORDS | {
    "AS", "CLUSTER", "DISTRIBUTE", "EXCEPT", "FOR", "GROUP", "HAVING", "INTERSECT", "JOIN",
    "LATERAL", "LIMIT", "MINUS", "OFFSET", "ON", "ORDER", "PIVOT", "QUALIFY", "SELECT", "SORT",
    "TABLESAMPLE", "UNION", "UNPIVOT", "USING", "WHERE", "WINDOW", "WITH",
}  # fmt: skip
_NOT_TABLES = frozenset({"FROM", "WHERE", "SELECT", "JOIN", "ON", "GROUP", "ORDER", "HAVING"})
"""Words that are a table's name in backquotes only, as Spark may take them for a clause."""


class RelationParser:
    """Reads relations.

    Args:
        cursor: The statement's.
        expressions: Its parser of expressions.
        alias: Reads an alias if one comes next; its text.
    """

    def __init__(
        self, cursor: Cursor, expressions: ExpressionParser, alias: Callable[[], str | None]
    ) -> None:
        self._cursor = cursor
        self._expressions = expressions
        self._alias = alias

    def from_clause(self) -> From:
        """Read the relations after ``FROM``."""
        source = From()
        self._relation(source)
        while self._cursor.accept(","):
            self._relation(source)
        self.lateral_views(source)
        self._pivots(source)
        return source

    def only(self, table: TableName) -> From:
        """A ``FROM`` of one table."""
        return From([Relation(table, table.name.start, table.end)])

    def lateral_views(self, source: From) -> None:
        """Read ``LATERAL VIEW [OUTER] function(…) name [AS columns]``, if any come next."""
        cursor = self._cursor
        while cursor.accept("LATERAL", "VIEW"):
            cursor.accept("OUTER")
            start = cursor.index
            call = self._expressions.call(self._expressions.multipart_name(), start)
            source.expressions.append(Expression(start, cursor.index, [call]))
            if cursor.keyword() != "AS":
                self._alias()
            if self._alias() is not None:
                while cursor.accept(","):
                    cursor.identifier()

    def extensions(self, source: From) -> None:
        """Read the joins and pivots that come next."""
        while True:
            if self._at_join():
                self._join(source)
            elif not self._pivots(source) and not self._bins(source):
                return

    def alias_with_columns(self) -> str | None:
        """Read an alias and the names of columns after it, if they come next."""
        cursor = self._cursor
        alias = self._alias()
        if alias is not None and cursor.keyword() == "(":
            cursor.skip_brackets()
        return alias

    def sample(self) -> None:
        """Read ``TABLESAMPLE (…) [REPEATABLE (…)]`` if it comes next."""
        cursor = self._cursor
        if cursor.keyword() != "TABLESAMPLE":
            return
        cursor.index += 1
        _ = cursor.accept("SYSTEM") or cursor.accept("BERNOULLI")
        cursor.skip_brackets()
        if cursor.accept("REPEATABLE"):
            cursor.skip_brackets()

    def hint(self) -> None:
        """Read a hint, ``/*+ … */``."""
        cursor = self._cursor
        cursor.expect("/*+")
        while not cursor.accept("*/"):  # The lexer has seen it.
            cursor.index += 1

    def _relation(self, source: From) -> None:
        is_lateral = self._accept_lateral()
        source.relations.append(self._primary(is_lateral=is_lateral))
        self.extensions(source)

    def _accept_lateral(self) -> bool:
        cursor = self._cursor
        return cursor.keyword(1) != "VIEW" and cursor.accept("LATERAL")

    def _at_join(self) -> bool:
        for ahead in range(_MAX_JOIN_WORDS + 1):
            keyword = self._cursor.keyword(ahead)
            if keyword == "JOIN":
                return True
            if keyword not in _JOIN_WORDS:
                return False
        return False

    def _join(self, source: From) -> None:
        cursor = self._cursor
        while cursor.keyword() != "JOIN":
            source.uses_all_columns |= cursor.keyword() == "NATURAL"
            cursor.index += 1
        cursor.index += 1
        is_lateral = self._accept_lateral()
        source.relations.append(self._primary(is_lateral=is_lateral))
        if cursor.peek("MATCH_CONDITION", "("):
            cursor.index += 2
            source.expressions.append(self._expressions.expression())
            cursor.expect(")")
        if cursor.accept("ON"):
            source.expressions.append(self._expressions.expression())
        elif cursor.accept("USING"):
            cursor.skip_brackets()
        elif cursor.keyword() in ("APPROX", "EXACT") and cursor.keyword(1) == "NEAREST":
            cursor.index += 2
            if cursor.at_number():
                cursor.index += 1
            cursor.expect("BY")
            cursor.identifier()
            source.expressions.append(self._expressions.expression())

    def _pivots(self, source: From) -> bool:
        """Read ``PIVOT`` and ``UNPIVOT``, and return whether there is one."""
        start = self._cursor.index
        while True:
            if self._cursor.peek("PIVOT", "("):
                self._pivot(source)
            elif self._cursor.keyword() == "UNPIVOT" and self._cursor.keyword(1) in (
                "(",
                "INCLUDE",
                "EXCLUDE",
            ):
                self._unpivot(source)
            else:
                return self._cursor.index > start

    def _pivot(self, source: From) -> None:
        cursor = self._cursor
        source.uses_all_columns = True
        cursor.expect("PIVOT", "(")
        source.expressions += self._expressions.named_expressions()
        cursor.expect("FOR")
        if cursor.keyword() == "(":
            cursor.skip_brackets()
        else:
            cursor.identifier()
        cursor.expect("IN", "(")
        source.expressions += self._expressions.named_expressions()
        cursor.expect(")", ")")
        self._alias()

    def _unpivot(self, source: From) -> None:
        cursor = self._cursor
        source.uses_all_columns = True
        cursor.index += 1
        if cursor.keyword() in ("INCLUDE", "EXCLUDE"):
            cursor.index += 1
            cursor.expect("NULLS")
        cursor.skip_brackets()
        self._alias()

    def _bins(self, source: From) -> bool:
        """Read ``BIN BY (…)``, and return whether there is one."""
        cursor = self._cursor
        if not cursor.peek("BIN", "BY", "("):
            return False
        cursor.index += 2
        cursor.skip_brackets()
        self._alias()
        source.uses_all_columns = True
        return True

    # What is read

    def _primary(self, *, is_lateral: bool) -> Relation:
        cursor = self._cursor
        start = cursor.index
        relation = Relation([], start, start, is_lateral=is_lateral)
        if cursor.keyword() == "(":
            self._bracket(relation)
        elif cursor.keyword() == "VALUES" and self._is_constant(1):
            cursor.index += 1
            relation.source = self._expressions.expressions()
        elif cursor.keyword() == "STREAM" and self._at_streamed():
            self._stream(relation)
        elif cursor.peek("JSON_TABLE", "("):
            self._json_table(relation)
        else:
            self._named(relation)
        if isinstance(relation.source, TableName):
            self._table_clauses(relation.source)
        elif cursor.accept("WITH", "ORDINALITY"):
            pass
        self.sample()
        if cursor.accept("IDENTIFIED", "BY"):
            cursor.identifier()
        if cursor.keyword() == "WATERMARK" and cursor.keyword(1) not in (END, ",", ")"):
            self._watermark()
        relation.alias = self.alias_with_columns()
        relation.end = cursor.index
        return relation

    def _is_constant(self, ahead: int) -> bool:
        """Whether the values of rows come next, and not the alias of a table."""
        cursor = self._cursor
        if cursor.at_name(ahead):
            return cursor.keyword(ahead + 1) in ("(", ".") or cursor.at_string(ahead + 1)
        return cursor.keyword(ahead) in ("", "(", "-", "+", "?", ":")

    def _at_streamed(self) -> bool:
        """Whether ``STREAM`` has a table after it, and is not one itself."""
        cursor = self._cursor
        is_name = cursor.at_name(1) and cursor.keyword(1) not in _AFTER_TABLE
        return is_name or cursor.keyword(1) == "("

    def _bracket(self, relation: Relation) -> None:
        cursor = self._cursor
        query = self._expressions.query_in_brackets()
        if query is not None:
            relation.source = query
            return
        cursor.index += 1
        inner = From()
        self._relation(inner)
        cursor.expect(")")
        relation.source = inner

    def _stream(self, relation: Relation) -> None:
        cursor = self._cursor
        cursor.index += 1
        bracket = cursor.accept("(")
        self._named(relation)
        if bracket:
            cursor.expect(")")
        if isinstance(relation.source, TableName):
            relation.source.is_stream = True
            relation.source.end = cursor.index

    def _named(self, relation: Relation) -> None:
        """A table or a table function."""
        cursor = self._cursor
        start = cursor.index
        if cursor.keyword() in _NOT_TABLES:
            raise cursor.unexpected("the name of a table")
        name: Name | IdentifierClause = self._expressions.name_or_clause()
        if cursor.keyword() == "(":
            relation.source = self._expressions.call(name, start)
        else:
            relation.source = TableName(name, cursor.index)

    def _json_table(self, relation: Relation) -> None:
        cursor = self._cursor
        start = cursor.index
        cursor.index += 2
        expression = self._expressions.expression()
        cursor.index = start + 1
        cursor.skip_brackets()
        relation.source = [Expression(start, cursor.index, expression.items)]

    def _table_clauses(self, table: TableName) -> None:
        """What may follow a table's name: its version, its options."""
        cursor = self._cursor
        while True:
            if self._at_time_travel():
                if table.time_travel is not None:
                    raise cursor.unexpected("one version or timestamp")
                table.time_travel = self._time_travel()
            elif cursor.keyword() == "@":
                raise cursor.unexpected("VERSION AS OF")
            elif cursor.peek("CHANGES", "FROM"):
                raise cursor.unexpected("a table function for changes")
            elif cursor.peek("WITH", "(") and table.options is None:
                start = cursor.index
                cursor.index += 1
                cursor.skip_brackets()
                table.options = (start + 1, cursor.index)
            elif cursor.peek("/*+", "OPTIONS") and table.options is None:
                start = cursor.index
                self.hint()
                table.options = (start + 2, cursor.index - 1)
            else:
                break
            table.end = cursor.index

    def _at_time_travel(self) -> bool:
        cursor = self._cursor
        ahead = int(cursor.keyword() == "FOR")
        is_word = cursor.keyword(ahead) in _VERSIONS | _TIMESTAMPS
        return is_word and (cursor.keyword(ahead + 1), cursor.keyword(ahead + 2)) == ("AS", "OF")

    def _time_travel(self) -> TimeTravelClause:
        cursor = self._cursor
        start = cursor.index
        cursor.accept("FOR")
        by_version = cursor.keyword() in _VERSIONS
        cursor.index += 3
        value = self._expressions.expression(is_value=True)
        return TimeTravelClause(by_version, value, start, cursor.index)

    def _watermark(self) -> None:
        cursor = self._cursor
        cursor.index += 1
        self._expressions.expression()
        self._alias()
        cursor.expect("DELAY", "OF")
        self._expressions.expression()
