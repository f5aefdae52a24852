"""The user's text with the names of the catalog's tables replaced, views written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NoReturn

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from headwater.catalog.model.functions import FunctionSpec
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.spark.errors import unlogged_errors
from headwater.spark.names import quoted
from headwater.spark.session import is_connect
from headwater.spark.source.table_read import Relation
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.elsewhere import SYSTEM_TABLES_ELSEWHERE
from headwater.spark.sql.identifier_clauses import with_plain_names
from headwater.spark.sql.names import brace_escaped, brace_unescaped
from headwater.spark.sql.parser.cursor import UnsupportedSyntax
from headwater.spark.sql.query.function_calls import (
    FunctionBody,
    FunctionCalls,
    SessionFunction,
)
from headwater.spark.sql.query.metadata_columns import exclusion
from headwater.spark.sql.query.references import (
    OuterTable,
    Qualifier,
    QueryNames,
    TableReference,
    find_references,
)
from headwater.spark.sql.query.relations import Relations
from headwater.spark.sql.query.temporary_objects import refuse_temporary_functions
from headwater.spark.sql.query.view_columns import (
    QueryText,
    SchemaMode,
    chosen_columns,
    schema_mode,
)
from headwater.spark.sql.temporary_names import is_global, temporary_views
from headwater.storage.errors import Invalid, NotFound, Unsupported

__all__ = ["Spliced", "computed_name", "missing_table", "splice", "splice_expression"]

_ENGINE = "spark"


@dataclass
class Spliced:
    """A query whose tables have places, as `SparkSession.sql` fills them.

    Attributes:
        text: The query, with ``{t0}``, ``{t1}`` and so on for tables.
        relations: The tables, one for each place.
        opened: The opener of them.
        functions: Functions that read tables, to be made before the query, in this order.
    """

    text: str
    relations: list[Relation]
    opened: Relations
    functions: Sequence[SessionFunction] = ()


@dataclass
class _Splicer:
    opened: Relations
    defined: str | None = None
    """The view or function whose query is the text, if one is defined."""
    new: tuple[Identifier, FunctionSpec] | None = None
    """A function that is defined, which the text calls."""
    relations: list[Relation] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    """The views and functions around the text that is read."""
    _temporary: frozenset[str] | None = None

    @cached_property
    def functions(self) -> FunctionCalls:
        """The functions that the text calls."""
        return FunctionCalls(self.opened.context, self._function_body, self.new)

    def splice(
        self,
        text: str,
        database: str | None,
        outer: Sequence[OuterTable] | None = None,
        is_query: bool | None = None,
    ) -> str:
        text, names = self._names(text, database, outer, is_query)
        return self._written(text, names, database, outer)

    def _names(
        self,
        text: str,
        database: str | None,
        outer: Sequence[OuterTable] | None,
        is_query: bool | None,
    ) -> tuple[str, QueryNames]:
        """The text without ``IDENTIFIER`` of constants, and the names in it."""
        text = with_plain_names(text, self._compute)
        warehouse = self.opened.context.catalog.warehouse
        return text, find_references(
            text,
            self._fold,
            warehouse=warehouse,
            database=database,
            outer=outer,
            is_query=is_query,
        )

    def _reject_fields(
        self, qualifiers: Sequence[Qualifier], relations: Sequence[Relation]
    ) -> None:
        """Reject ``f.x`` in a function ``f`` where a table has a column ``f``, which goes first."""
        columns = {
            self._fold(name) for relation in relations for name in relation.schema.fieldNames()
        }
        for qualifier in qualifiers:
            table = qualifier.table
            if isinstance(table, OuterTable) and self._fold(table.names[-1]) in columns:
                raise Unsupported(
                    f"{self.objects[-1]}: '{table.names[-1]}.' before a name may be the function "
                    "or a column of a table; write the table's name or alias before the column, "
                    "and give the parameter a name that no table has"
                )

    @property
    def _compute(self) -> Callable[[str], str | None] | None:
        """Computes names that are expressions; None where they are stored, and are for all."""
        return None if self.objects else partial(computed_name, context=self.opened.context)

    def splice_expression(self, text: str, outer: Sequence[OuterTable]) -> str:
        """As `splice`, but for windows, whose values depend on which rows are read."""
        database = self.opened.context.database
        text, names = self._names(text, database, outer, None)
        if names.window is not None:
            raise Unsupported(
                f"'{names.window}': window functions are not supported in the expressions of "
                "UPDATE, DELETE, MERGE and REPLACE WHERE; compute them in a query, and MERGE its "
                "rows"
            )
        return self._written(text, names, database, outer)

    def spliced(self, text: str) -> Spliced:
        """The query with its tables and functions."""
        return Spliced(text, self.relations, self.opened, self.functions.over_tables())

    def _written(
        self,
        text: str,
        names: QueryNames,
        database: str | None,
        outer: Sequence[OuterTable] | None,
    ) -> str:
        context = self.opened.context
        if self._defines and self.defined is not None:
            refuse_temporary_functions(names.calls, context.session.spark, self.defined)
        changes: list[tuple[int, int, str]] = []
        aliases: dict[TableReference | OuterTable, str | None] = {
            table: table.alias for table in outer or ()
        }
        added: dict[int, tuple[str, ...]] = {}
        before = len(self.relations)
        for reference in names.tables:
            if self._is_sparks(reference):
                continue
            relation = self.opened.open(reference, database)
            if relation is None:
                self._refuse_unknown(reference)
                continue
            if isinstance(relation, Relation) and relation.metadata:
                added[reference.start] = relation.metadata
            alias = None
            if not reference.has_alias and not reference.is_bare:
                alias = reference.parts[-1]
                if reference in names.ambiguous:
                    # Only their databases tell them apart.
                    alias = ".".join(context.whole_name(reference.parts, database))
                aliases[reference] = alias
            text_of_relation = self._place(relation, alias)
            start = reference.start
            if isinstance(relation, ViewInfo) and reference.query_start is not None:
                start, text_of_relation = reference.query_start, f"SELECT * FROM {text_of_relation}"
            changes.append((start, reference.end, text_of_relation))
        if self.objects and self.objects[-1].startswith("function "):
            self._reject_fields(names.qualifiers, self.relations[before:])
        for star in names.stars:
            left_out = exclusion(star, added)
            if star.end is not None and left_out is not None:
                changes.append((star.end, star.end, left_out))
        changes += [
            _requalified(qualifier, aliases[qualifier.table])
            for qualifier in names.qualifiers
            if qualifier.table in aliases
            and not self._is_right(qualifier, aliases[qualifier.table])
        ]
        changes += [
            (start, end, brace_escaped(call))
            for start, end, call in self.functions.changes(
                names.calls, database, is_stored=bool(self.objects)
            )
        ]
        pieces: list[str] = []
        at = 0
        for start, end, replacement in sorted(changes):
            pieces += [brace_escaped(text[at:start]), replacement]
            at = end
        return "".join([*pieces, brace_escaped(text[at:])])

    def _is_right(self, qualifier: Qualifier, alias: str | None) -> bool:
        """Whether a qualifier is its table's alias as it stands."""
        if not qualifier.is_plain or alias is None:
            return False
        table = qualifier.table
        own = table.parts[-1] if isinstance(table, TableReference) else table.names[-1]
        return self._fold(own) == self._fold(alias)

    @cached_property
    def _fold(self) -> Callable[[str], str]:
        """Gives names that are one to the session the same form."""
        return self.opened.context.fold

    def _is_sparks(self, reference: TableReference) -> bool:
        """Whether it is a temporary view, which goes before a table of the database in use.

        Raises:
            Invalid: It is named by a view that is being defined.
        """
        defines = self._defines
        parts, context = reference.parts, self.opened.context
        if reference.function is not None:
            return False
        if is_global(parts, context):
            if defines:
                self._refuse_temporary(".".join(parts))
            return True
        if len(parts) != 1:
            return False
        if self.objects and not defines:
            return False
        if self._temporary is None:
            names = temporary_views(context.session.spark)
            self._temporary = frozenset(map(self._fold, names))
        is_temporary = self._fold(parts[0]) in self._temporary
        if is_temporary and defines:
            self._refuse_temporary(parts[0])
        return is_temporary

    @property
    def _defines(self) -> bool:
        """Whether the text that is read is the query of what is defined."""
        return self.defined is not None and self.objects == [self.defined]

    def _refuse_temporary(self, name: str) -> NoReturn:
        raise Invalid(
            f"{self.defined}: '{name}' is a temporary view of this session, which other "
            "sessions do not have; write its query, or the database before the name of a table"
        )

    def _refuse_unknown(self, reference: TableReference) -> None:
        """Refuse what Spark cannot know either, or would take for something else."""
        name = ".".join(reference.parts)
        self._refuse_metadata_table(reference.parts)
        asked = reference.function or reference.time_travel or reference.options
        if not asked and not (self.objects and len(reference.parts) == 1):
            return
        known = self.opened.missing.get(reference.parts)
        if known is not None:
            raise known
        if len(reference.parts) == 1:
            self.opened.context.full_name(reference.parts)
        raise Invalid(
            f"'{name}' is not a table of warehouse {self.opened.context.catalog.warehouse}: "
            "versions, timestamps and options are for its tables"
        )

    def _refuse_metadata_table(self, parts: tuple[str, ...]) -> None:
        """Refuse ``t.snapshots`` for a table ``t``, and say what has what Iceberg's has."""
        here = SYSTEM_TABLES_ELSEWHERE.get(parts[-1].lower())
        if here is None or len(parts) < 2:
            return
        context = self.opened.context
        of_table = context.whole_name(parts[:-1], context.database)
        if len(of_table) == 2 and context.catalog.table_exists(".".join(of_table)):
            raise Invalid(
                f"'{'.'.join(parts)}' is not a table: write `{of_table[1]}${here}`, with the "
                "database before it unless it is in use"
            )

    def _place(self, relation: Relation | ViewInfo, alias: str | None) -> str:
        if isinstance(relation, Relation):
            inner = f"{{t{len(self.relations)}}}"
            self.relations.append(relation)
        else:
            inner = self._view(relation)
        return inner if alias is None else f"({inner} AS {brace_escaped(quoted(alias))})"

    def _function_body(self, body: FunctionBody) -> tuple[str, bool]:
        before = len(self.relations)
        self.objects.append(f"function {body.function}")
        try:
            outer = body.parameters
            text = self.splice(body.text, body.function.database, outer, body.is_query)
        except UnsupportedSyntax:
            spark = self.opened.context.session.spark
            _raise_syntax_error(spark, body.text if body.is_query else f"SELECT {body.text}")
            raise
        finally:
            self.objects.pop()
        return text, len(self.relations) > before

    def _view(self, view: ViewInfo) -> str:
        name = f"view {view.identifier}"
        if name in self.objects:
            path = " -> ".join(each.partition(" ")[2] for each in (*self.objects, name))
            raise Invalid(f"{name} reads itself: {path}")
        mode = schema_mode(view)
        first = len(self.relations)
        self.objects.append(name)
        try:
            inner = self.splice(view.schema.query_for(_ENGINE), view.identifier.database)
        finally:
            self.objects.pop()
        columns = ", ".join(brace_escaped(quoted(column.name)) for column in view.schema.columns)
        if not columns or mode is SchemaMode.EVOLUTION:
            return f"(SELECT * FROM (\n{inner}\n) AS headwater_view)"
        chosen = "*"
        if not mode.evolves:
            functions = self.functions.over_tables()
            query = QueryText(inner, self.relations, 0 if functions else first, functions)
            chosen = brace_escaped(chosen_columns(view, query, self.opened.context))
        return f"(SELECT {chosen} FROM (\n{inner}\n) AS headwater_view({columns}))"


def splice(
    text: str,
    context: SqlContext,
    defined: str | None = None,
    new: tuple[Identifier, FunctionSpec] | None = None,
) -> Spliced:
    """Put the catalog's tables into a query.

    Args:
        text: One query, without a semicolon.
        context: The user's.
        defined: The view or function that is defined: what it reads must be there for all. It is
            the query, unless it is the new function.
        new: A function that is defined, which the query calls.

    Raises:
        Invalid: A clause cannot be read, a view reads itself, or it reads a temporary view.
        NotFound: A table, view, snapshot or tag does not exist.
        Unsupported: It asks for what Headwater does not read.
        ParseException: Spark's own, for what it does not understand either.
    """
    splicer = _Splicer(Relations(context), defined, new)
    if defined is not None and new is None:
        splicer.objects.append(defined)
    try:
        spliced = splicer.splice(text, context.database)
    except UnsupportedSyntax:
        _raise_syntax_error(context.session.spark, text)
        raise
    return splicer.spliced(spliced)


def splice_expression(text: str, context: SqlContext, outer: Sequence[OuterTable]) -> Spliced:
    """Put the catalog's tables into the subqueries of an expression, as `splice` does.

    Args:
        text: One expression.
        context: The user's.
        outer: The tables around it, which are told what metadata columns it names of them.

    Raises:
        Unsupported: As `splice`; or it has a window function outside of its subqueries.
    """
    splicer = _Splicer(Relations(context))
    try:
        spliced = splicer.splice_expression(text, outer)
    except UnsupportedSyntax:
        with unlogged_errors():
            sf.expr(text)  # Spark's own error, if it is not one to Spark either.
        raise
    return splicer.spliced(spliced)


def computed_name(text: str, context: SqlContext) -> str | None:
    """The value of an expression that stands for a name; None where it is Spark's to find out.

    Args:
        text: The expression.
        context: The user's.
    """
    try:
        spliced = splice_expression(text, context, ())
        if spliced.relations:
            return None
        expression = brace_unescaped(spliced.text)
        with unlogged_errors():
            (row,) = context.session.spark.sql(f"SELECT ({expression})").collect()
    except (UnsupportedSyntax, PySparkException):
        return None
    value: object = row[0]
    return value if isinstance(value, str) else None


def _requalified(qualifier: Qualifier, alias: str | None) -> tuple[int, int, str]:
    """The change that gives a column the alias of its table, or no qualifier."""
    if alias is None:
        column = brace_escaped(".".join(map(quoted, qualifier.column)))
        return qualifier.start, qualifier.column_start, column
    names = ".".join(map(quoted, (alias, *qualifier.column)))
    return qualifier.start, qualifier.end, brace_escaped(names)


def _raise_syntax_error(spark: SparkSession, text: str) -> None:
    """Raise Spark's own error if a query is not one to Spark either; nothing is run."""
    with unlogged_errors():
        if not is_connect(spark):
            session: Any = spark._jsparkSession
            session.sessionState().sqlParser().parsePlan(text)
            return
        try:
            spark.sql(f"EXPLAIN {text}")
        except ParseException:
            raise
        except PySparkException:
            pass  # That is about what the query names.


def missing_table(spliced: Spliced, message: str) -> NotFound | None:
    """The catalog's own error for a table that Spark did not find either."""
    for parts, error in spliced.opened.missing.items():
        if ".".join(map(quoted, parts)) in message:
            return error
    return None
