"""The names in a query: the tables that it reads, and the columns that say which table they are of.

Names that ``WITH`` defines and the parameters of lambda functions hide others where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headwater.spark.sql.parser.cursor import Cursor, UnsupportedSyntax
from headwater.spark.sql.parser.queries import QueryParser
from headwater.spark.sql.parser.tokens import Token, tokenize
from headwater.spark.sql.parser.tree import (
    Call,
    ColumnName,
    CommonTable,
    Expression,
    From,
    Lambda,
    Name,
    Query,
    QueryBody,
    Relation,
    Select,
    SetOperation,
    Star,
    Subquery,
    TableName,
    expressions_of,
)
from headwater.spark.sql.query.metadata_columns import Star as MetadataStar
from headwater.spark.sql.query.metadata_columns import hidden_column
from headwater.spark.sql.query.table_clauses import (
    TimeTravel,
    change_query,
    constant,
    table_options,
    time_travel,
)
from headwater.storage.errors import Invalid, Unsupported

__all__ = [
    "FunctionCall",
    "OuterTable",
    "Qualifier",
    "QueryNames",
    "TableReference",
    "find_references",
    "names_columns",
    "parse_query",
]


@dataclass(slots=True, eq=False)
class TableReference:
    """One location where a query reads a table.

    Attributes:
        parts: The parts of the name.
        start, end: The offsets to be replaced: the name and the clauses after it.
        is_bare: Whether it stands after ``TABLE``, where it has no alias.
        query_start: The offset of that word where the two are a query; None in an argument.
        has_alias: Whether the query gives it an alias.
        time_travel: The version or timestamp that is read, if the query says one.
        options: The options that the query sets.
        function: The option that a table function of Paimon's stands for, and its value.
        metadata: The metadata columns that the query names of it.
    """

    parts: tuple[str, ...]
    start: int = 0
    end: int = 0
    is_bare: bool = False
    query_start: int | None = None
    has_alias: bool = False
    time_travel: TimeTravel | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    function: tuple[str, str] | None = None
    metadata: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class OuterTable:
    """A table around an expression: the one that a statement changes, or a merge's source.

    Attributes:
        names: Its alias, or the parts of its qualified name if it has none.
        has_alias: Whether the statement gives it an alias.
        alias: What its columns are qualified with when the expression runs; None for nothing.
        metadata: The metadata columns that the expression names of it.
    """

    names: tuple[str, ...]
    has_alias: bool
    alias: str | None
    metadata: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Qualifier:
    """``database.table`` before a column.

    Attributes:
        table: The table that it means.
        start, end: Its offsets, without the column's; with it where ``IDENTIFIER`` has both.
        column: The names after it, where ``IDENTIFIER`` has both.
        column_start: The offset of what follows the dot after it.
        is_plain: Whether it is the table's own name or alias, which Spark understands.
    """

    table: TableReference | OuterTable
    start: int
    end: int
    column: tuple[str, ...]
    column_start: int
    is_plain: bool


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call.

    Attributes:
        parts: The parts of the function's name.
        start, end: The name's offsets.
        close: The offset after its brackets.
        constants: The values of its arguments; None for those that are not constants.
        lacks_alias: Whether it is a relation or a column without an alias.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    close: int
    constants: tuple[str | None, ...]
    lacks_alias: bool


@dataclass(slots=True)
class QueryNames:
    """The names in a query.

    Attributes:
        tables: The tables that it reads, in the order of the text.
        calls: The functions that it calls.
        qualifiers: The qualifiers before columns and stars.
        ambiguous: The tables without an alias whose own name other relations of the query have.
        stars: The stars beside metadata columns.
        window: A call of a window function in an expression, outside its subqueries.
    """

    tables: list[TableReference]
    calls: list[FunctionCall]
    qualifiers: list[Qualifier]
    ambiguous: frozenset[TableReference]
    stars: list[MetadataStar]
    window: str | None = None


def parse_query(text: str) -> tuple[Query, list[Token]]:
    """The tree of one query, and its tokens.

    Raises:
        Invalid: A quotation or a comment is not closed.
        UnsupportedSyntax: It cannot be read.
    """
    tokens = tokenize(text)
    cursor = Cursor(text, tokens)
    query = QueryParser(cursor).query()
    if not cursor.at_end:
        raise cursor.unexpected("the end of the query")
    return query, tokens


def find_references(
    text: str,
    fold: Callable[[str], str] = str.lower,
    *,
    warehouse: str | None = None,
    database: str | None = None,
    outer: Sequence[OuterTable] | None = None,
    is_query: bool | None = None,
) -> QueryNames:
    """Find the names in a query or an expression.

    Args:
        text: One query or one expression.
        fold: Maps names that are equal in the session to the same text.
        warehouse, database: Those of names without.
        outer: The tables around it; None without any.
        is_query: Whether it is a query; None if it is one where there are no tables around it.

    Raises:
        Invalid: A clause after a name, or an argument of a table function, cannot be read; or a
            metadata column may be of several tables.
        Unsupported: The query cannot be read, or a table function does not exist here.
    """
    window: str | None = None
    try:
        if outer is None if is_query is None else is_query:
            query, tokens = parse_query(text)
            resolver = _Resolver(text, tokens, fold, (warehouse, database))
            resolver.outer_query(query, outer or ())
        else:
            expression, tokens = _parse_expression(text)
            resolver = _Resolver(text, tokens, fold, (warehouse, database))
            window = resolver.expression(expression, outer or ())
    except RecursionError:
        raise UnsupportedSyntax(
            f"'{text[:40]}…' is nested too deeply: write parts of it as views or as queries of WITH"
        ) from None
    resolver.finish()
    tables = sorted(resolver.tables, key=lambda table: table.start)
    return QueryNames(
        tables, resolver.calls, resolver.qualifiers, resolver.ambiguous(), resolver.stars, window
    )


def names_columns(text: str) -> bool:
    """Whether a query is known to have no ``*`` among its columns."""
    body: QueryBody = parse_query(text)[0]
    while not isinstance(body, Select):
        if isinstance(body, SetOperation):
            if body.is_pipe:
                return False
            body = body.operands[0]
        else:
            body = body.body
    return bool(body.columns) and not any(_has_star(column) for column in body.columns)


def _has_star(expression: Expression) -> bool:
    return any(isinstance(item, Star) for item in expression.items)


def _parse_expression(text: str) -> tuple[Expression, list[Token]]:
    tokens = tokenize(text)
    cursor = Cursor(text, tokens)
    expression = QueryParser(cursor).expressions.expression()
    if not cursor.at_end:
        raise cursor.unexpected("the end of the expression")
    return expression, tokens


@dataclass(slots=True)
class _Source:
    """An entry of a ``FROM``: its names, folded, and the table that it reads, if it does."""

    names: tuple[str, ...]
    table: TableReference | OuterTable | None
    has_alias: bool
    inner: tuple[TableReference, ...] = ()
    """The tables of relations in brackets, which have an alias together."""

    @property
    def written(self) -> str:
        """The name as the query has it."""
        if isinstance(self.table, TableReference) and not self.has_alias:
            return ".".join(self.table.parts)
        return ".".join(self.names) or "a query"

    def is_called(self, qualifier: Sequence[str]) -> bool:
        """Whether columns may have the qualifier, in which a database may be left out."""
        if self.has_alias:
            return self.names == tuple(qualifier)
        count = len(qualifier)
        return 0 < count <= len(self.names) and self.names[-count:] == tuple(qualifier)


@dataclass(slots=True, eq=False)
class _Scope:
    """The relations that the columns of a ``SELECT`` may be of."""

    parent: _Scope | None
    sources: list[_Source] = field(default_factory=list)
    stars: list[Star] = field(default_factory=list)
    uses_all_columns: bool = False
    keeps_columns: bool = False
    names_metadata: bool = False


class _Resolver:
    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        fold: Callable[[str], str],
        namespace: tuple[str | None, str | None],
    ) -> None:
        self.tables: list[TableReference] = []
        self.calls: list[FunctionCall] = []
        self.qualifiers: list[Qualifier] = []
        self.stars: list[MetadataStar] = []
        self._text, self._tokens, self._fold = text, tokens, fold
        self._namespace = tuple(fold(part) for part in namespace if part is not None)
        self._is_complete = None not in namespace
        self._scopes: list[_Scope] = []
        self._names: dict[str, set[tuple[str, ...]]] = {}
        self._sources: dict[int, list[_Source]] = {}
        self._whole_columns: set[int] = set()

    def finish(self) -> None:
        """Collect the stars beside metadata columns, once all columns are known.

        Raises:
            Invalid: Metadata columns are named where all columns of a table count.
        """
        for scope in self._scopes:
            if not scope.names_metadata:
                continue
            if scope.uses_all_columns:
                raise Invalid(
                    "a NATURAL JOIN, PIVOT or UNPIVOT is by all columns of a table, and metadata "
                    "columns are not among them: read the table in a subquery that names its "
                    "columns"
                )
            if scope.keeps_columns:
                self.stars.append(MetadataStar(None, _tables_of(scope.sources), False))
            for star in scope.stars:
                sources = scope.sources
                if star.qualifier is not None:
                    parts = [self._fold(part) for part in star.qualifier.parts]
                    sources = [source for source in sources if source.is_called(parts)]
                end = self._tokens[star.end - 1].end
                self.stars.append(MetadataStar(end, _tables_of(sources), not star.has_except))

    def outer_query(self, query: Query, outer: Iterable[OuterTable]) -> None:
        """Resolve the names in a query with tables around it."""
        self.query(query, self._outer_scope(outer), frozenset())

    def expression(self, expression: Expression, outer: Iterable[OuterTable]) -> str | None:
        """Resolve the names in an expression with tables around it.

        Returns:
            A call of a window function in it, whose value depends on which rows are read.
        """
        self._expressions([expression], self._outer_scope(outer) or _Scope(None), frozenset())
        window = next(_window_calls(expression), None)
        if window is None:
            return None
        return self._text[self._tokens[window.start].start : self._tokens[window.end - 1].end]

    def _outer_scope(self, outer: Iterable[OuterTable]) -> _Scope | None:
        scope: _Scope | None = None
        for table in outer:
            scope = scope or _Scope(None)
            names = tuple(map(self._fold, table.names))
            self._add_source(scope, _Source(names, table, table.has_alias))
        return scope

    def ambiguous(self) -> frozenset[TableReference]:
        """The tables without an alias whose own name other relations have, in any scope.

        Where a column names its table's database, they need aliases that no other relation has.
        """
        if all(qualifier.is_plain for qualifier in self.qualifiers):
            return frozenset()
        return frozenset(
            table
            for table in self.tables
            if not table.has_alias and len(self._names[self._fold(table.parts[-1])]) > 1
        )

    def _add_source(self, scope: _Scope, source: _Source) -> None:
        scope.sources.append(source)
        if source.names:
            # Equal aliases are those of different relations.
            key = (*source.names, str(len(self._names))) if source.has_alias else source.names
            self._names.setdefault(source.names[-1], set()).add(key)

    # Queries

    def query(self, query: Query, parent: _Scope | None, known: frozenset[str]) -> _Scope:
        """Resolve the names in a query.

        Args:
            query: The query.
            parent: The scope around it.
            known: The names that ``WITH`` gives around it, folded.
        """
        known = self._common_tables(query.common_tables, query.is_recursive, parent, known)
        scope = self._body(query.body, parent, known)
        self._expressions(query.expressions, scope, known)
        return scope

    def _common_tables(
        self,
        tables: Iterable[CommonTable],
        is_recursive: bool,
        parent: _Scope | None,
        known: frozenset[str],
    ) -> frozenset[str]:
        for table in tables:
            after = known | {self._fold(table.name.parts[0])}
            self.query(table.query, parent, after if is_recursive else known)
            known = after
        return known

    def _body(self, body: QueryBody, parent: _Scope | None, known: frozenset[str]) -> _Scope:
        if isinstance(body, Query):
            return self.query(body, parent, known)
        if isinstance(body, Select):
            return self._select(body, self._scope(parent), known)
        scope = self._body(body.operands[0], parent, known)
        for before, operand in pairwise(body.operands):
            if not body.is_pipe or not isinstance(operand, Select):
                self._body(operand, parent, known)
                continue
            if not (isinstance(before, Select) and before.keeps_columns):
                # Its columns are not those of tables any more.
                scope = self._scope(parent)
            self._select(operand, scope, known)
            scope.keeps_columns &= operand.keeps_columns
        # After UNION and its like, columns have no qualifiers.
        return scope if body.is_pipe else self._scope(parent)

    def _scope(self, parent: _Scope | None) -> _Scope:
        scope = _Scope(parent)
        self._scopes.append(scope)
        return scope

    def _select(self, select: Select, scope: _Scope, known: frozenset[str]) -> _Scope:
        if select.source is not None:
            # FROM t SELECT … SELECT …: all read the same rows.
            sources = self._sources.get(id(select.source))
            if sources is None:
                before = len(scope.sources)
                self._from(select.source, scope, known)
                self._sources[id(select.source)] = scope.sources[before:]
            else:
                scope.sources += sources
            scope.uses_all_columns |= select.source.uses_all_columns
        if select.keeps_columns and not select.columns and select.source is not None:
            scope.keeps_columns |= not scope.stars
        for column in select.columns:
            scope.stars += _stars(column)
            match column.items:
                case [Call(start=column.start, end=column.end) as call] if (
                    column.has_alias is False
                ):
                    self._whole_columns.add(id(call))
                case _:
                    pass
        self._expressions(select.columns, scope, known)
        self._expressions(select.expressions, scope, known)
        return scope

    def _from(self, source: From, scope: _Scope, known: frozenset[str]) -> None:
        for relation in source.relations:
            self._relation(relation, scope, known)
        self._expressions(source.expressions, scope, known)

    def _relation(self, relation: Relation, scope: _Scope, known: frozenset[str]) -> None:
        names: tuple[str, ...] = ()
        if relation.alias is not None:
            names = (self._fold(relation.alias),)
        table: TableReference | None = None
        match relation.source:
            case TableName() as named:
                table, own = self._table(named, known, has_alias=bool(names))
                names = names or own
            case Query() as query:
                self.query(query, scope if relation.is_lateral else scope.parent, known)
            case Call() as call:
                table = self._table_function(call, has_alias=bool(names))
                if table is None:
                    self._call(call, scope, known, frozenset(), lacks_alias=not names)
            case From() as inner if not names:
                self._from(inner, scope, known)
                scope.uses_all_columns |= inner.uses_all_columns
                return
            case From() as inner:
                within = self._scope(scope.parent)
                self._from(inner, within, known)
                scope.uses_all_columns |= inner.uses_all_columns
                tables = tuple(_tables(within.sources))
                self._add_source(scope, _Source(names, None, True, tables))
                return
            case expressions:
                self._expressions(expressions, scope, known)
        self._add_source(scope, _Source(names, table, relation.alias is not None))

    def _table(
        self, named: TableName, known: frozenset[str], *, has_alias: bool
    ) -> tuple[TableReference | None, tuple[str, ...]]:
        if not isinstance(named.name, Name):
            raise Unsupported(
                "IDENTIFIER of an expression is not supported for a table's name: give the name "
                "as a string, as in IDENTIFIER('shop.orders')"
            )
        parts = named.name.parts
        folded = tuple(self._fold(part) for part in parts)
        if len(parts) == 1 and folded[0] in known:
            if named.time_travel is not None or named.options is not None:
                raise Invalid(
                    f"'{parts[0]}' is a query of WITH, which has no versions and options: write "
                    "them after the table that it reads"
                )
            return None, folded
        tokens = self._tokens
        query_start = named.query_start
        table = TableReference(
            parts,
            tokens[named.name.start].start,
            tokens[named.end - 1].end,
            is_bare=named.is_bare,
            query_start=None if query_start is None else tokens[query_start].start,
            has_alias=has_alias,
        )
        if named.is_stream:
            raise Unsupported(
                f"STREAM {'.'.join(parts)} is not supported: a stream is read with "
                "readStream.format('headwater')"
            )
        if named.time_travel is not None:
            table.time_travel = time_travel(named.time_travel, self._text, tokens)
        if named.options is not None:
            table.options = table_options(self._text, tokens[slice(*named.options)])
        self.tables.append(table)
        missing = 3 - len(folded)
        if 0 < missing <= 2 and self._is_complete:
            folded = (*self._namespace[:missing], *folded)
        return table, folded

    def _table_function(self, call: Call, *, has_alias: bool) -> TableReference | None:
        query = change_query(call, self._tokens)
        if query is None:
            return None
        start, end = self._tokens[call.start].start, self._tokens[call.end - 1].end
        table = TableReference(
            query.parts, start, end, has_alias=has_alias, is_bare=True, function=query.option
        )
        self.tables.append(table)
        return table

    # Expressions

    def _expressions(
        self,
        expressions: Iterable[Expression],
        scope: _Scope,
        known: frozenset[str],
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Resolve the names in expressions, in which the parameters of lambdas hide columns."""
        for expression in expressions:
            for item in expression.items:
                match item:
                    case ColumnName(name=name):
                        if self._fold(name.parts[0]) not in hidden:
                            self._column(name, scope)
                    case Star(qualifier=name) if name is not None:
                        self._qualifier(name, len(name.parts), scope)
                    case Call():
                        self._call(item, scope, known, hidden)
                    case Subquery(query=query):
                        self.query(query, scope, known)
                    case Lambda(parameters=parameters, body=body):
                        inner = hidden.union(map(self._fold, parameters))
                        self._expressions([body], scope, known, inner)
                    case _:
                        pass

    def _call(
        self,
        call: Call,
        scope: _Scope,
        known: frozenset[str],
        hidden: frozenset[str],
        *,
        lacks_alias: bool = False,
    ) -> None:
        if isinstance(call.name, Name) and call.has_brackets:
            is_whole = lacks_alias or id(call) in self._whole_columns
            self.calls.append(self._function_call(call, call.name, is_whole))
        self._expressions(expressions_of(call), scope, known, hidden)
        for argument in call.tables:
            if isinstance(argument.source, Query):
                self.query(argument.source, scope, known)
            else:
                self._table(argument.source, known, has_alias=False)

    def _function_call(self, call: Call, name: Name, lacks_alias: bool) -> FunctionCall:
        tokens = self._tokens
        return FunctionCall(
            name.parts,
            tokens[name.start].start,
            tokens[name.end - 1].end,
            tokens[call.close - 1].end,
            tuple(constant(argument, tokens) for argument in call.arguments),
            lacks_alias,
        )

    def _column(self, name: Name, scope: _Scope) -> None:
        parts = name.parts
        if len(parts) > 1:
            self._qualifier(name, len(parts) - 1, scope)
        for index, part in enumerate(parts):
            column = hidden_column(part)
            if column is not None:
                self._metadata_column(column, parts[: index + 1], scope)
                return

    def _qualifier(self, name: Name, count: int, scope: _Scope) -> None:
        """Find the table that the first parts of a name mean; the longest such name is it."""
        folded = [self._fold(part) for part in name.parts]
        around: _Scope | None = scope
        while around is not None:
            for length in range(min(count, 3), 0, -1):
                tables = [
                    source.table for source in around.sources if source.is_called(folded[:length])
                ]
                if not tables:
                    continue
                if len(tables) > 1 and isinstance(tables[0], OuterTable):
                    raise Invalid(
                        f"column {'.'.join(name.parts)} may be of the table or of the source, both "
                        f"called '{name.parts[length - 1]}': write the database before it, or give "
                        "one of them an alias"
                    )
                self._add_qualifier(tables[0], name, length, scope)
                return
            around = around.parent

    def _add_qualifier(
        self, table: TableReference | OuterTable | None, name: Name, length: int, scope: _Scope
    ) -> None:
        """Note that the first parts of a name mean a table."""
        if table is None:
            return
        if isinstance(table, OuterTable):
            self._reject_capture(table, name, scope)
        last = name.ends[length - 1]
        is_whole = last == name.end
        self.qualifiers.append(
            Qualifier(
                table,
                self._tokens[name.start].start,
                self._tokens[last - 1].end,
                name.parts[length:] if is_whole else (),
                self._tokens[last - 1].end if is_whole else self._tokens[last + 1].start,
                length == 1,
            )
        )

    def _reject_capture(self, table: OuterTable, name: Name, scope: _Scope) -> None:
        """Reject a column of a table around the expression that a subquery would take for its own.

        Raises:
            Unsupported: A relation of the subquery is called like that table, or any of them may
                have such a column.
        """
        around: _Scope | None = scope
        while around is not None and around.parent is not None:
            for source in around.sources:
                is_renamed = isinstance(source.table, TableReference) and not source.has_alias
                if table.alias is None or (
                    not is_renamed and source.is_called([self._fold(table.alias)])
                ):
                    raise Unsupported(
                        f"column {'.'.join(name.parts)} in a subquery is not supported here, as a "
                        "table of the subquery may have such a column: give the tables of the "
                        "subquery other aliases, or write the condition without it"
                    )
            around = around.parent

    def _metadata_column(self, column: str, parts: Sequence[str], scope: _Scope) -> None:
        qualifier = [self._fold(part) for part in parts[:-1]]
        around: _Scope | None = scope
        while around is not None:
            sources = around.sources
            if qualifier:
                sources = [source for source in sources if source.is_called(qualifier)]
            if len(sources) > 1 and not isinstance(sources[0].table, OuterTable):
                tables = ", ".join(source.written for source in sources)
                raise Invalid(
                    f"column {parts[-1]} may be of any of {tables}: write the name of one table "
                    "before it"
                )
            if sources:
                table = sources[0].table
                # Changes have no metadata columns, as Spark says.
                if isinstance(table, TableReference) and table.function is not None:
                    return
                if table is not None:
                    around.names_metadata = True
                    if column not in table.metadata:
                        table.metadata.append(column)
                return
            around = around.parent


def _tables(sources: Iterable[_Source]) -> Iterator[TableReference]:
    for source in sources:
        if isinstance(source.table, TableReference):
            yield source.table
        yield from source.inner


def _tables_of(sources: Iterable[_Source]) -> tuple[int, ...]:
    return tuple(table.start for table in _tables(sources))


def _stars(expression: Expression) -> Iterable[Star]:
    """The stars of a column, but for those that count rows."""
    for item in expression.items:
        if isinstance(item, Star):
            yield item
        elif isinstance(item, Call) and not _counts(item):
            for argument in item.arguments:
                yield from _stars(argument)


def _window_calls(expression: Expression) -> Iterator[Call]:
    """The calls with ``OVER`` in an expression, but for those of subqueries."""
    for item in expression.items:
        if isinstance(item, Lambda):
            yield from _window_calls(item.body)
        elif isinstance(item, Call):
            if item.is_window:
                yield item
            for inner in expressions_of(item):
                yield from _window_calls(inner)


def _counts(call: Call) -> bool:
    return isinstance(call.name, Name) and call.name.parts[-1].casefold() == "count"
