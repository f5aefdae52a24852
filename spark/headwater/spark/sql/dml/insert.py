"""``INSERT INTO``, ``INSERT OVERWRITE`` and ``INSERT INTO … REPLACE WHERE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.char_columns import with_stored_texts
from headwater.spark.explained_write import planned_from
from headwater.spark.literal import literal
from headwater.spark.names import column_of
from headwater.spark.schema_merging import SchemaMerging
from headwater.spark.source.format_table import is_format_table
from headwater.spark.source.table_read import TableRead
from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.ddl.columns import read_value
from headwater.spark.sql.dml.parts import Expressions, Target, counted
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.statements import HANDLERS as QUERY
from headwater.spark.sql.session_options import paimon_settings, table_to_change
from headwater.spark.sql.statement import Statement, read_words, split_statements
from headwater.spark.types import spark_type, sql_type_text
from headwater.spark.write.change_commit import insert_rows
from headwater.spark.write.evolve import ADDS_COLUMNS, merge_columns
from headwater.spark.write.format_table import write_format_rows
from headwater.spark.write.partition_moments import in_session_zone
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.spark.write.update import replace_where
from headwater.spark.write.upsert import upsert_rows
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.rows.partition import static_partition
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.values import arrow_scalar

__all__ = ["HANDLERS", "Insert", "planned_inserts"]

Insert: TypeAlias = Callable[[], pa.Table]
"""Runs an insert whose query is planned."""
_QUERY = QUERY[("WITH",)]
_QUERIES = ("SELECT", "VALUES", "TABLE", "FROM", "WITH")
# The value of a partition column that the rows give.
_OPEN = object()
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_OVERWRITE_OPTION = "dynamic-partition-overwrite"


def _after_source(statement: Statement, context: SqlContext) -> Answer:
    """``WITH … INSERT …``, ``FROM t INSERT INTO a SELECT … INSERT INTO b SELECT …``, or a query.

    All rows are those of before the first insert; each insert is a commit of its own.
    """
    inserts = planned_inserts(statement, context)
    if not inserts:
        return _QUERY(statement, context)
    return pa.concat_tables([insert() for insert in inserts])


def planned_inserts(statement: Statement, context: SqlContext) -> list[Insert]:
    """The inserts after ``WITH …`` or ``FROM …``, whose queries are planned; none for a query."""
    whole = Statement(statement.text, read_words(statement.text))
    source = whole.until("INSERT")
    inserts: list[Insert] = []
    if not (whole.peek("INSERT", "INTO") or whole.peek("INSERT", "OVERWRITE")):
        return inserts
    reads: list[TableRead] = []
    while not whole.at_end:
        whole.expect("INSERT")
        text = f"INSERT {whole.until('INSERT')}"
        inserts.append(_planned(Statement(text, read_words(text)), context, source))
        reads += context.last_query
    context.last_query = tuple(reads)
    return inserts


def _insert(statement: Statement, context: SqlContext) -> pa.Table:
    return _planned(statement, context)()


def _planned(statement: Statement, context: SqlContext, prefix: str = "") -> Insert:
    """``INSERT INTO | OVERWRITE [TABLE] name [PARTITION (…)] [(columns)] [BY NAME] query``.

    Args:
        statement: The statement.
        context: The user's.
        prefix: The text before it that belongs to its query.

    Returns:
        The insert, whose query is planned.
    """
    statement.expect("INSERT")
    overwrites = statement.accept("OVERWRITE")
    if not overwrites:
        statement.expect("INTO")
    if statement.peek("DIRECTORY") or statement.peek("LOCAL", "DIRECTORY"):
        raise Unsupported("INSERT OVERWRITE DIRECTORY writes no table of the catalog")
    statement.accept("TABLE")
    table = table_to_change(context, statement.name_parts(), statement.hint())
    if not overwrites and statement.accept("REPLACE", "WHERE"):
        condition = statement.until(*_QUERIES)
        rows = _Rows(table, context).positional(_query(statement, prefix, context, table, None))
        target = Target(table, table.identifier.name, False, context.catalog.warehouse, True)

        def replaced() -> pa.Table:
            with Expressions(context, target) as expressions:
                text = expressions.text(condition)
                counts = replace_where(context.session, table, rows, text)
            return counted(counts, "deleted", "inserted")

        return replaced
    fixed: dict[str, object] = {}
    if statement.accept("PARTITION"):
        named = _partition(statement, table)
        fixed = in_session_zone(context.session.spark, table.schema, named)
        fixed = with_stored_texts(context.session.spark, table.schema, fixed)
    if statement.peek("IF"):
        raise Unsupported(
            f"table {table.name}: INSERT OVERWRITE … IF NOT EXISTS is not supported; ask for the "
            "partition first"
        )
    columns: list[str] | None = None
    by_name = statement.accept("BY", "NAME")
    if not by_name and statement.peek("(") and not _begins_query(statement):
        columns = _columns(statement, table)
    if by_name:
        given = _query(statement, prefix, context, table, None)
        merging = SchemaMerging.parse(paimon_settings(context))
        if merging is not None:
            with planned_from(context.session, given, table.name, ADDS_COLUMNS):
                table = merge_columns(table, given.schema, merging)
        rows = _Rows(table, context, fixed, fills=merging is not None).by_name(given)
    else:
        made = _Rows(table, context, fixed)
        wanted = made.wanted if columns is None else columns
        rows = made.positional(_query(statement, prefix, context, table, wanted), columns)
    if is_format_table(table):
        return _of_files(context, table, rows, fixed, overwrites=overwrites)
    if not overwrites and table.schema.table_options.upsert_keys:
        return lambda: counted(upsert_rows(context.session, table, rows), "updated", "inserted")
    if not overwrites:
        return lambda: counted(insert_rows(context.session, table, rows), "inserted")
    known = {name: value for name, value in fixed.items() if value is not _OPEN}
    # One partition that is named is replaced, by no rows, too.
    is_one = bool(known) and known.keys() >= set(table.schema.partition_keys)
    dynamic = not is_one and _is_dynamic(table, context)
    return lambda: counted(
        insert_rows(
            context.session,
            table,
            rows,
            overwrite=True,
            partition=known if known and not dynamic else None,
            dynamic=dynamic if not known or dynamic else None,
        ),
        "inserted",
    )


def _of_files(
    context: SqlContext,
    table: Table,
    rows: DataFrame,
    fixed: Mapping[str, object],
    *,
    overwrites: bool,
) -> Insert:
    """The insert into a format table, whose partitions that are named are replaced as a whole."""
    known = {name: value for name, value in fixed.items() if value is not _OPEN}
    dynamic = not known and bool(table.schema.partition_keys) and _is_dynamic(table, context)
    return lambda: counted(
        write_format_rows(
            context.session, table, rows, overwrite=overwrites, partition=known, dynamic=dynamic
        ),
        "inserted",
    )


def _is_dynamic(table: Table, context: SqlContext) -> bool:
    """Whether only partitions that there are rows for are replaced."""
    text = table.schema.options.get(_OVERWRITE_OPTION)
    if text is not None:
        return table.schema.table_options.dynamic_partition_overwrite
    mode = context.session.spark.conf.get(_OVERWRITE_MODE) or "static"
    return mode.lower() == "dynamic"


def _begins_query(statement: Statement) -> bool:
    return any(statement.peek("(", word) for word in (*_QUERIES, "("))


def _query(
    statement: Statement,
    prefix: str,
    context: SqlContext,
    table: Table,
    columns: Sequence[str] | None,
) -> DataFrame:
    """The rows of what is left of the statement."""
    if statement.at_end:
        raise statement.unexpected("a query")
    text = statement.rest()
    if columns is not None and split_statements(text)[0].peek("VALUES"):
        text = _with_defaults(text, table, columns)
    return query_frame(f"{prefix} {text}" if prefix else text, context)


def _with_defaults(text: str, table: Table, columns: Sequence[str]) -> str:
    """``VALUES`` with the defaults of columns in the places of the word DEFAULT."""
    (words,) = split_statements(text)
    words.expect("VALUES")
    rows: list[str] = []
    changed = False
    while True:
        values: list[str] = []
        single = not words.accept("(")
        while True:
            value = words.until(",")
            if value.upper() == "DEFAULT":
                changed = True
                name = columns[len(values)] if len(values) < len(columns) else columns[-1]
                value = _default_text(table, name)
            values.append(value)
            if single or not words.accept(","):
                break
        if not single:
            words.expect(")")
        rows.append(f"({', '.join(values)})")
        if not words.accept(","):
            break
    return f"VALUES {', '.join(rows)} {words.rest()}" if changed else text


def _default_text(table: Table, name: str) -> str:
    item = table.schema.column(name)
    kind = sql_type_text(spark_type(item.type))
    if item.default_value is None:
        return f"CAST(NULL AS {kind})"
    text = item.default_value
    if not isinstance(item.type, AtomicType):
        return f"CAST(({text}) AS {kind})"
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{escaped}' AS {kind})"


def _column(table: Table, name: str) -> str:
    column = column_of(name, list(table.schema.field_by_name))
    if column is None:
        raise NotFound(
            f"table {table.name} has no column '{name}'; its columns are "
            f"{', '.join(table.schema.field_by_name)}",
            resource_type=ResourceType.COLUMN,
            resource_name=name,
        )
    return column


def _columns(statement: Statement, table: Table) -> list[str]:
    statement.expect("(")
    names: list[str] = []
    while not statement.accept(")"):
        if names:
            statement.expect(",")
        name = _column(table, statement.name())
        if name in names:
            raise Invalid(f"table {table.name}: column '{name}' is named twice")
        names.append(name)
    return names


def _partition(statement: Statement, table: Table) -> dict[str, object]:
    """``(a = 'x', b)``: the values of partition columns, or `_OPEN`."""
    statement.expect("(")
    values: dict[str, object] = {}
    while not statement.accept(")"):
        if values:
            statement.expect(",")
        name = _column(table, statement.name())
        if name not in table.schema.partition_keys:
            raise Invalid(f"table {table.name}: '{name}' is not a partition column")
        if name in values:
            raise Invalid(f"table {table.name}: partition column '{name}' is named twice")
        values[name] = read_value(statement) if statement.accept("=") else _OPEN
    return values


class _Rows:
    """Brings a query's rows to a table's columns.

    Args:
        table: The table.
        context: The user's.
        fixed: Values of partition columns, which the query then lacks.
        fills: Whether fields are null that a struct of rows by name lacks.
    """

    def __init__(
        self,
        table: Table,
        context: SqlContext,
        fixed: Mapping[str, object] | None = None,
        *,
        fills: bool = False,
    ) -> None:
        self._table = table
        self._spark = context.session.spark
        self._fills = fills
        given = {name: value for name, value in (fixed or {}).items() if value is not _OPEN}
        # Also rejects what is not a value of a column.
        self._fixed = static_partition(table.storage, given) if given else {}
        self.wanted = [name for name in table.schema.field_by_name if name not in self._fixed]

    def positional(self, rows: DataFrame, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows whose columns stand for these of the table, in this order."""
        names = self.wanted if columns is None else list(columns)
        for name in names:
            if name in self._fixed:
                raise Invalid(
                    f"table {self._table.name}: column '{name}' has a value in PARTITION, and is "
                    "named again"
                )
        if len(rows.columns) != len(names):
            problem = "many" if len(rows.columns) > len(names) else "few"
            raise Invalid(
                f"table {self._table.name}: the query has too {problem} columns: "
                f"{len(rows.columns)} ({', '.join(rows.columns)}), where {len(names)} are needed "
                f"({', '.join(names)})"
            )
        assignment = StoreAssignment(self._spark, self._table.name, by_position=True)
        return self._assigned(rows, names, assignment)

    def by_name(self, rows: DataFrame) -> DataFrame:
        """The rows whose columns have the names of the table's."""
        names = [_column(self._table, name) for name in rows.columns]
        if len(set(names)) < len(names) or self._fixed.keys() & set(names):
            raise Invalid(f"table {self._table.name}: the query gives a column twice")
        assignment = StoreAssignment(self._spark, self._table.name, fills=self._fills)
        return self._assigned(rows, names, assignment)

    def _assigned(
        self, rows: DataFrame, names: Sequence[str], assignment: StoreAssignment
    ) -> DataFrame:
        places = [f"_headwater_{at}" for at in range(len(names))]
        schema = self._table.schema
        columns = [
            assignment.assigned(
                sf.col(place), item.dataType, spark_type(schema.column(name).type), name
            ).alias(name)
            for place, name, item in zip(places, names, rows.schema.fields, strict=True)
        ]
        for name, value in self._fixed.items():
            kind = schema.column(name).type
            columns.append(literal(arrow_scalar(value, kind), spark_type(kind)).alias(name))
        # Rows are told apart by their partitions before their other columns are filled in.
        absent = set(schema.partition_keys).difference(names, self._fixed)
        columns += [sf.expr(_default_text(self._table, name)).alias(name) for name in absent]
        return rows.toDF(*places).select(columns)


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("INSERT",): _insert,
    ("WITH",): _after_source,
    ("FROM",): _after_source,
}
