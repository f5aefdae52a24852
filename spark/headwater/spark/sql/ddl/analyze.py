"""``ANALYZE TABLE``: statistics of a table's rows, or of a format table's partitions."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.table.table import Table
from headwater.spark.source.format_table import is_format_table
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.columns import read_partition
from headwater.spark.sql.ddl.partitions import partition_values, refuse_directories
from headwater.spark.sql.names import column_name, object_identifier
from headwater.spark.sql.session_options import named_table
from headwater.spark.sql.statement import Statement
from headwater.spark.write.format_table import measure_partitions
from headwater.storage.errors import Unsupported

__all__ = ["HANDLERS"]


def _analyze(statement: Statement, context: SqlContext) -> None:
    """``ANALYZE TABLE t COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]``.

    Of a format table: ``ANALYZE TABLE t [PARTITION (a = 1, b)] COMPUTE STATISTICS [NOSCAN]``.
    """
    statement.expect("ANALYZE", "TABLE")
    table = named_table(context, str(object_identifier(statement, context)))
    if is_format_table(table):
        _analyze_partitions(statement, table, context)
        return
    if statement.peek("PARTITION"):
        raise Unsupported("ANALYZE TABLE … PARTITION is not supported: statistics are of a table")
    statement.expect("COMPUTE", "STATISTICS")
    columns: list[str] | None = []
    if statement.accept("NOSCAN"):
        raise Unsupported(
            "ANALYZE TABLE … NOSCAN is not supported: leave NOSCAN out, and the rows are counted"
        )
    if statement.accept("FOR", "ALL", "COLUMNS"):
        columns = None
    elif statement.accept("FOR", "COLUMNS"):
        fields = table.schema.fields
        columns = [column_name(fields, statement.name())]
        while statement.accept(","):
            columns.append(column_name(fields, statement.name()))
    statement.end()
    table.analyze(columns, executor=context.session.executor)


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


HANDLERS: Mapping[tuple[str, ...], Handler] = {("ANALYZE", "TABLE"): _analyze}
