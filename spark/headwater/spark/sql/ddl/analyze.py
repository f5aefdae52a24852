"""``ANALYZE TABLE``: statistics of a table's rows, or of a format table's partitions."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headwater.catalog.table.table import Table
from headwater.spark.source.format_table import is_format_table
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.columns import read_partition
from headwater.spark.sql.ddl.partitions import partition_values, refuse_directories
from headwater.spark.sql.names import column_name, database_name, object_identifier
from headwater.spark.sql.session_options import named_table
from headwater.spark.sql.statement import Statement
from headwater.spark.write.format_table import measure_partitions
from headwater.storage.errors import Invalid, NotFound, Unsupported

__all__ = ["HANDLERS"]

_LOG = logging.getLogger(__name__)


def _analyze(statement: Statement, context: SqlContext) -> None:
    """``ANALYZE TABLE t COMPUTE STATISTICS [NOSCAN | FOR COLUMNS a, b | FOR ALL COLUMNS]``.

    Of a format table: ``ANALYZE TABLE t [PARTITION (a = 1, b)] COMPUTE STATISTICS [NOSCAN]``.
    """
    statement.expect("ANALYZE", "TABLE")
    table = named_table(context, str(object_identifier(statement, context)))
    if is_format_table(table):
        _analyze_partitions(statement, table, context)
        return
    if statement.peek("PARTITION"):
        raise Unsupported(
            f"ANALYZE TABLE {table.name} PARTITION is not supported: its commits keep the numbers "
            "of partitions, which SHOW TABLE EXTENDED … PARTITION shows; leave PARTITION out for "
            "the statistics of the table"
        )
    statement.expect("COMPUTE", "STATISTICS")
    columns: list[str] | None = []
    reads = not statement.accept("NOSCAN")
    if reads and statement.accept("FOR", "ALL", "COLUMNS"):
        columns = None
    elif reads and statement.accept("FOR", "COLUMNS"):
        fields = table.schema.fields
        columns = [column_name(fields, statement.name())]
        while statement.accept(","):
            columns.append(column_name(fields, statement.name()))
    statement.end()
    table.analyze(columns, reads=reads, executor=context.session.executor)


def _analyze_partitions(statement: Statement, table: Table, context: SqlContext) -> None:
    refuse_directories(table, "ANALYZE TABLE")
    partition: dict[str, str | None] = {}
    if statement.peek("PARTITION"):
        partition = read_partition(statement, table.schema.partition_fields)
    statement.expect("COMPUTE", "STATISTICS")
    counts_rows = not statement.accept("NOSCAN")
    if statement.peek("FOR"):
        raise Unsupported(
            f"table {table.name}: statistics of a format table are of its partitions, not of "
            "columns; leave FOR … COLUMNS out"
        )
    statement.end()
    values = partition_values(context, table, partition)
    measure_partitions(context.session, table, values, counts_rows=counts_rows)


def _analyze_all(statement: Statement, context: SqlContext) -> None:
    """``ANALYZE TABLES [{FROM | IN} d] COMPUTE STATISTICS [NOSCAN]``.

    As in Spark, a table that cannot be analysed is logged, and the others are.
    """
    statement.expect("ANALYZE", "TABLES")
    if statement.accept("IN") or statement.accept("FROM"):
        database = database_name(statement, context)
    elif context.database is not None:
        database = context.database
    else:
        raise Invalid("no database is in use: write IN database, or USE a database first")
    statement.expect("COMPUTE", "STATISTICS")
    reads = not statement.accept("NOSCAN")
    statement.end()
    for name in context.catalog.list_tables(database):
        try:
            table = named_table(context, f"{database}.{name}")
            if is_format_table(table):
                refuse_directories(table, "ANALYZE TABLE")
                values = partition_values(context, table, {})
                measure_partitions(context.session, table, values, counts_rows=reads)
            else:
                table.analyze([], reads=reads, executor=context.session.executor)
        except (Invalid, NotFound, Unsupported) as error:
            _LOG.warning("ANALYZE TABLES: table %s.%s is left out: %s", database, name, error)


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("ANALYZE", "TABLE"): _analyze,
    ("ANALYZE", "TABLES"): _analyze_all,
}
