"""The parser of queries: ``WITH``, ``SELECT``, ``FROM``, set operations and pipes."""

from __future__ import annotations

from headwater.spark.sql.parser.cursor import END, Cursor
from headwater.spark.sql.parser.expressions import PIPE_WORDS, QUERY_WORDS, ExpressionParser
from headwater.spark.sql.parser.relations import RelationParser
from headwater.spark.sql.parser.tree import (
    CommonTable,
    Expression,
    From,
    Name,
    Query,
    QueryBody,
    Select,
    SetOperation,
    TableArgument,
    TableName,
)
from headwater.storage.errors import Invalid

__all__ = ["QueryParser"]

_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})
_NOT_ALIASES = frozenset(
    {
        "ANTI", "CROSS", "EXCEPT", "FULL", "INNER", "INTERSECT", "JOIN", "LATERAL", "LEFT",
        "NATURAL", "ON", "RIGHT", "SEMI", "MINUS", "UNION", "USING", "FROM", "WHERE", "HAVING",
        "THEN", "WHEN", "ELSE", "END", "AND", "OR", "SET", "SELECT", "VALUES", "INSERT", "RETURN",
        "DO", "FOR", "WITH",
    }
)  # fmt: skip
"""Words that are an alias after ``AS`` only."""
_BEFORE_BY = frozenset({"GROUP", "ORDER", "CLUSTER", "DISTRIBUTE", "SORT", "PARTITION", "BIN"})
_BEFORE_BRACKET = frozenset({"PIVOT", "UNPIVOT", "TABLESAMPLE"})
_BEFORE_WORD = {
    "ASOF": "JOIN",
    "MATCH_CONDITION": "(",
    "APPROX": "NEAREST",
    "EXACT": "NEAREST",
}
_BEFORE_VALUE = frozenset({"LIMIT", "OFFSET", "QUALIFY"})
_AFTER_ALIAS = frozenset({END, ",", ")", "FROM", "WHERE", "|>", ";"})
_TRANSFORM_CLAUSES = frozenset({"USING", "RECORDWRITER"})


class QueryParser:
    """Reads queries, and what queries are made of.

    Args:
        cursor: The statement's.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.expressions = ExpressionParser(cursor, self.query, self._table_argument, self.alias)
        self.relations = RelationParser(cursor, self.expressions, self.alias)

    def at_query(self) -> bool:
        """Whether what comes next can only be a query."""
        ahead = 0
        while self._cursor.keyword(ahead) == "(":
            ahead += 1
        return self._cursor.keyword(ahead) in QUERY_WORDS

    def query(self) -> Query:
        """Read a query.

        Raises:
            UnsupportedSyntax: It cannot be read.
        """
        cursor = self._cursor
        start = cursor.index
        common_tables: list[CommonTable] = []
        is_recursive = False
        if cursor.keyword() == "WITH":
            common_tables, is_recursive = self.common_tables()
        body = self.term()
        expressions = self._organization()
        return Query(start, cursor.index, body, common_tables, is_recursive, expressions)

    def common_tables(self) -> tuple[list[CommonTable], bool]:
        """Read ``WITH [RECURSIVE] name [(columns)] AS (query), …``."""
        cursor = self._cursor
        cursor.expect("WITH")
        is_recursive = cursor.keyword() == "RECURSIVE" and cursor.at_name(1)
        cursor.index += is_recursive
        tables: list[CommonTable] = []
        while True:
            start = cursor.index
            name = Name((cursor.identifier(),), start, cursor.index)
            if self._at_columns():
                cursor.skip_brackets()
            if cursor.accept("MAX", "RECURSION", "LEVEL"):
                cursor.index += 1 + (cursor.keyword() == ":")
            cursor.accept("AS")
            cursor.expect("(")
            tables.append(CommonTable(name, self.query()))
            cursor.expect(")")
            if not cursor.accept(","):
                return tables, is_recursive

    def _at_columns(self) -> bool:
        """Whether the columns of a query of ``WITH`` come next, which may be called ``from``."""
        cursor = self._cursor
        if cursor.keyword() != "(":
            return False
        end = self.expressions.end_of_names()
        if end is None:
            return cursor.keyword(1) not in QUERY_WORDS
        return cursor.keyword(end) in ("AS", "(", "MAX")

    def term(self) -> QueryBody:
        """Read queries that set operations or pipes join."""
        cursor = self._cursor
        body = self._primary()
        while True:
            keyword = cursor.keyword()
            is_pipe = keyword == "|>" or (keyword == "|" and cursor.keyword(1) in PIPE_WORDS)
            cursor.index += is_pipe
            if cursor.keyword() in _SET_OPERATIONS:
                cursor.index += 1
                self._quantifier()
                operand, is_pipe = self._primary(), False
            elif is_pipe:
                operand = self._pipe_operator()
            else:
                return body
            # In one list, as thousands of them may follow each other.
            if not (isinstance(body, SetOperation) and body.is_pipe == is_pipe):
                body = SetOperation([body], is_pipe)
            body.operands.append(operand)

    def alias(self) -> str | None:
        """Read an alias if one comes next."""
        cursor = self._cursor
        if cursor.keyword() == "AS" and cursor.at_name(1):
            cursor.index += 1
            return cursor.identifier()
        if not cursor.at_name() or not self._is_alias():
            return None
        return cursor.identifier()

    def _is_alias(self) -> bool:
        cursor = self._cursor
        keyword, following = cursor.keyword(), cursor.keyword(1)
        if keyword in _NOT_ALIASES:
            return False
        if keyword in _BEFORE_BY:
            return following != "BY"
        if keyword in _BEFORE_BRACKET:
            return following not in ("(", "INCLUDE", "EXCLUDE", "SYSTEM", "BERNOULLI")
        if keyword in _BEFORE_WORD:
            return following != _BEFORE_WORD[keyword]
        if keyword in _BEFORE_VALUE:
            return following in _AFTER_ALIAS
        if keyword == "WINDOW":
            return not self._at_windows()
        return keyword != "AS"

    def _primary(self) -> QueryBody:
        cursor = self._cursor
        keyword = cursor.keyword()
        if keyword == "(":
            query = self.expressions.query_in_brackets()
            if query is None:
                raise cursor.unexpected("a query")
            return query
        select = Select(cursor.index)
        if keyword == "SELECT":
            self._select(select)
        elif keyword == "TABLE":
            cursor.index += 1
            table = self._bare_table()
            table.query_start = select.start
            select.source = self.relations.only(table)
            select.keeps_columns = True
        elif keyword == "VALUES":
            cursor.index += 1
            select.expressions = self.expressions.expressions()
            self.relations.alias_with_columns()
        elif keyword == "FROM":
            cursor.index += 1
            select.source = self.relations.from_clause()
            if cursor.keyword() in ("SELECT", "MAP", "REDUCE"):
                return self._from_statement(select)
            select.keeps_columns = True
        elif keyword in ("MAP", "REDUCE"):
            cursor.index += 1
            self._quantifier()
            select.columns = self.expressions.expressions()
            self._transform()
            self._rest_of_select(select)
        else:
            raise cursor.unexpected("a query")
        select.end = cursor.index
        return select

    def _from_statement(self, select: Select) -> QueryBody:
        """``FROM t SELECT … SELECT …``, whose rows are those of all of them."""
        cursor = self._cursor
        bodies: list[QueryBody] = []
        while cursor.keyword() in ("SELECT", "MAP", "REDUCE"):
            body = Select(select.start, source=select.source)
            if cursor.keyword() == "SELECT":
                self._select(body, has_source=True)
            else:
                cursor.index += 1
                self._quantifier()
                body.columns = self.expressions.expressions()
                self._transform()
                self._rest_of_select(body, has_source=True)
            body.expressions += self._organization()
            body.end = cursor.index
            bodies.append(body)
        return bodies[0] if len(bodies) == 1 else SetOperation(bodies)

    def _select(self, select: Select, *, has_source: bool = False) -> None:
        cursor = self._cursor
        cursor.expect("SELECT")
        self._hints()
        if self._at_transform():
            cursor.index += 2
            self._quantifier()
            select.columns = self.expressions.expressions()
            cursor.expect(")")
            self._transform()
        else:
            self._quantifier()
            select.columns = self.expressions.named_expressions()
        self._rest_of_select(select, has_source=has_source)

    def _hints(self) -> None:
        cursor = self._cursor
        while cursor.keyword() == "/*+":
            if cursor.keyword(1) == "OPTIONS":
                raise Invalid(
                    "the hint OPTIONS cannot follow SELECT: write it after the name of a table, as "
                    "in FROM t /*+ OPTIONS('key' = 'value') */"
                )
            self.relations.hint()

    def _quantifier(self) -> None:
        cursor = self._cursor
        if cursor.keyword() in ("DISTINCT", "ALL") and cursor.keyword(1) not in _AFTER_ALIAS:
            cursor.index += 1

    def _at_transform(self) -> bool:
        cursor = self._cursor
        if not cursor.peek("TRANSFORM", "("):
            return False
        start = cursor.index
        cursor.index += 1
        cursor.skip_brackets()
        keyword = cursor.keyword()
        is_transform = keyword in _TRANSFORM_CLAUSES or cursor.peek("ROW", "FORMAT")
        cursor.index = start
        return is_transform

    def _transform(self) -> None:
        """Read the clauses of a script: ``ROW FORMAT``, ``USING 'script' AS (columns)``."""
        cursor = self._cursor
        self._row_format()
        if cursor.accept("RECORDWRITER"):
            cursor.index += 1
        cursor.expect("USING")
        while cursor.at_string():
            cursor.index += 1
        if cursor.accept("AS"):
            if cursor.keyword() == "(":
                cursor.skip_brackets()
            else:
                self._columns_of_script()
        self._row_format()
        if cursor.accept("RECORDREADER"):
            cursor.index += 1

    def _columns_of_script(self) -> None:
        cursor = self._cursor
        while True:
            cursor.identifier()
            ends = cursor.keyword() in ("ROW", "RECORDREADER")
            if cursor.at_name() and self._is_alias() and not ends:
                self.expressions.data_type()
            if not cursor.accept(","):
                return

    def _row_format(self) -> None:
        cursor = self._cursor
        if not cursor.accept("ROW", "FORMAT"):
            return
        if cursor.accept("SERDE"):
            cursor.index += 1
            if cursor.accept("WITH", "SERDEPROPERTIES"):
                cursor.skip_brackets()
            return
        cursor.expect("DELIMITED")
        while cursor.keyword() in ("FIELDS", "COLLECTION", "MAP", "LINES", "NULL", "ESCAPED"):
            while not cursor.at_string():
                cursor.identifier()
            cursor.index += 1

    def _rest_of_select(self, select: Select, *, has_source: bool = False) -> None:
        """Read what follows the columns of a ``SELECT``."""
        cursor = self._cursor
        if not has_source and cursor.accept("FROM"):
            select.source = self.relations.from_clause()
        source = select.source or From()
        self.relations.lateral_views(source)
        if select.source is None and source.expressions:
            select.source = source
        self._where(select.expressions)
        self._group_by(select.expressions)
        if cursor.accept("HAVING"):
            select.expressions.append(self.expressions.expression())
        self._windows(select.expressions)
        if cursor.keyword() == "QUALIFY":
            cursor.index += 1
            select.expressions.append(self.expressions.expression())
        select.end = cursor.index

    def _where(self, expressions: list[Expression]) -> None:
        if self._cursor.accept("WHERE"):
            expressions.append(self.expressions.expression())

    def _group_by(self, expressions: list[Expression]) -> None:
        cursor = self._cursor
        if not cursor.accept("GROUP", "BY"):
            return
        while True:
            expressions += self._grouping()
            if not cursor.accept(","):
                break
        if cursor.accept("WITH"):
            if not cursor.accept("ROLLUP"):
                cursor.expect("CUBE")
        elif cursor.accept("GROUPING", "SETS"):
            expressions += self._grouping_sets()

    def _grouping(self) -> list[Expression]:
        cursor = self._cursor
        if cursor.accept("GROUPING", "SETS"):
            return self._grouping_sets()
        if cursor.keyword() in ("ROLLUP", "CUBE") and cursor.keyword(1) == "(":
            cursor.index += 1
            return self._grouping_sets()
        if cursor.accept("(", ")"):
            return []
        expression = self.expressions.expression()
        # Only `|> AGGREGATE` has aliases here.
        if cursor.keyword() != "GROUPING":
            self.alias()
        return [expression]

    def _grouping_sets(self) -> list[Expression]:
        cursor = self._cursor
        cursor.expect("(")
        expressions: list[Expression] = []
        while not cursor.accept(")"):
            expressions += self._grouping()
            cursor.accept(",")
        return expressions

    def _windows(self, expressions: list[Expression]) -> None:
        cursor = self._cursor
        if not self._at_windows():
            return
        cursor.index += 1
        while True:
            cursor.identifier()
            cursor.expect("AS")
            expressions += self.expressions.window()
            if not cursor.accept(","):
                return

    def _at_windows(self) -> bool:
        cursor = self._cursor
        named = cursor.keyword(2) == "AS" or cursor.keyword(1) == "IDENTIFIER"
        return cursor.keyword() == "WINDOW" and cursor.at_name(1) and named

    def _organization(self) -> list[Expression]:
        """``ORDER BY``, ``CLUSTER BY``, ``DISTRIBUTE BY``, ``SORT BY``, ``LIMIT``, ``OFFSET``."""
        cursor = self._cursor
        expressions: list[Expression] = []
        if cursor.accept("ORDER", "BY"):
            expressions += self.expressions.sort_items()
        if cursor.accept("CLUSTER", "BY"):
            expressions += self.expressions.expressions()
        if cursor.accept("DISTRIBUTE", "BY"):
            expressions += self.expressions.expressions()
        if cursor.accept("SORT", "BY"):
            expressions += self.expressions.sort_items()
        self._windows(expressions)
        if cursor.accept("LIMIT") and not cursor.accept("ALL"):
            expressions.append(self.expressions.expression())
        if cursor.accept("OFFSET"):
            expressions.append(self.expressions.expression())
        return expressions

    def _bare_table(self) -> TableName:
        name = self.expressions.name_or_clause()
        return TableName(name, self._cursor.index, is_bare=True)

    def _table_argument(self) -> TableArgument:
        cursor = self._cursor
        if cursor.keyword() == "(":
            query = self.expressions.query_in_brackets()
            if query is None:
                cursor.index += 1
                argument = TableArgument(self._bare_table())
                cursor.expect(")")
            else:
                argument = TableArgument(query)
        else:
            argument = TableArgument(self._bare_table())
        if cursor.accept("WITH", "SINGLE", "PARTITION"):
            self._argument_order(argument)
        elif cursor.keyword() in ("PARTITION", "DISTRIBUTE") and cursor.keyword(1) == "BY":
            cursor.index += 2
            argument.clauses.append(self.expressions.expression())
            self._argument_order(argument)
        return argument

    def _argument_order(self, argument: TableArgument) -> None:
        cursor = self._cursor
        if cursor.keyword() not in ("ORDER", "SORT") or cursor.keyword(1) != "BY":
            return
        cursor.index += 2
        if cursor.keyword() != "(":
            # A comma is the one before the next argument.
            argument.clauses.append(self.expressions.expression())
            _ = cursor.accept("ASC") or cursor.accept("DESC")
        else:
            cursor.index += 1
            argument.clauses += self.expressions.sort_items()
            cursor.expect(")")
        if cursor.accept("NULLS"):
            cursor.index += 1

    # Pipes

    def _pipe_operator(self) -> Select:
        cursor = self._cursor
        keyword = cursor.keyword()
        select = Select(cursor.index, keeps_columns=keyword not in ("SELECT", "AGGREGATE"))
        if keyword == "SELECT":
            cursor.index += 1
            self._hints()
            self._quantifier()
            select.columns = self.expressions.named_expressions()
            self._group_by(select.expressions)
            self._windows(select.expressions)
        elif keyword == "EXTEND":
            cursor.index += 1
            select.expressions = self.expressions.named_expressions()
        elif keyword == "SET":
            cursor.index += 1
            self._assignments(select)
        elif keyword == "DROP":
            cursor.index += 1
            self.expressions.multipart_name()
            while cursor.accept(","):
                self.expressions.multipart_name()
        elif keyword == "AS":
            cursor.index += 1
            cursor.identifier()
        elif keyword == "AGGREGATE":
            cursor.index += 1
            if cursor.keyword() not in ("GROUP", "|>", ")", END):
                select.expressions = self.expressions.named_expressions()
            self._group_by(select.expressions)
        else:
            self._pipe_clause(select)
        select.end = cursor.index
        return select

    def _pipe_clause(self, select: Select) -> None:
        """``WHERE``, joins, ``PIVOT``, ``TABLESAMPLE`` or ``ORDER BY`` after a ``|>``."""
        cursor = self._cursor
        start = cursor.index
        self._where(select.expressions)
        source = From()
        self.relations.extensions(source)
        if source.relations or source.expressions or source.uses_all_columns:
            select.source = source
        select.expressions += self._organization()
        self.relations.sample()
        if cursor.index == start:
            raise cursor.unexpected("the operator of a pipe")

    def _assignments(self, select: Select) -> None:
        cursor = self._cursor
        while True:
            self.expressions.multipart_name()
            cursor.expect("=")
            select.expressions.append(self.expressions.expression())
            if not cursor.accept(","):
                return
