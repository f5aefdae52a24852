"""``EXPLAIN``: Spark's plan, and what of each table the query reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from headwater.spark.session import is_connect
from headwater.spark.source.table_read import TableRead

__all__ = ["explained"]

_MOST_FOOTERS = 32
"""The files of a table whose footers are read."""


def explained(frame: DataFrame, mode: str, reads: Sequence[TableRead]) -> str:
    """The text that ``EXPLAIN`` gives.

    Args:
        frame: The query.
        mode: As `DataFrame.explain` takes it.
        reads: The query's reads.
    """
    sections = [_plan(frame, mode).rstrip("\n")]
    if reads:
        sections.append("== Tables ==\n" + "\n".join(map(_described, reads)))
    return "\n\n".join(sections) + "\n"


def _plan(frame: DataFrame, mode: str) -> str:
    asked: Any = frame
    if is_connect(frame.sparkSession):
        return str(asked._explain_string(mode=mode))  # Spark Connect's
    execution = asked._jdf.queryExecution()
    return str(asked._sc._jvm.PythonSQLUtils.explainString(execution, mode))


def _described(read: TableRead) -> str:
    snapshot = "" if read.snapshot_id is None else f", snapshot {read.snapshot_id}"
    every = len(read.relation.schema)
    lines = [
        f"{read.table}{snapshot}",
        f"  columns: {', '.join(read.columns)} ({len(read.columns)} of {every})",
    ]
    if read.rows is None:
        by_spark = "files: chosen by Spark, see PartitionFilters and PushedFilters above"
        planned = "metadata: read when the query was planned"
        lines.append(f"  {planned if read.relation.format_table is None else by_spark}")
        return "\n".join(lines)
    workers = read.files - read.native_files
    lines += [
        f"  condition: {read.where or 'none'}",
        f"  files: {read.files} of {read.files_of_table} "
        f"({read.native_files} by Spark's Parquet scan, {workers} by Python workers)",
        f"  bytes: {read.bytes} of {read.bytes_of_table}",
        f"  rows: {read.row_count} of {read.row_count_of_table}, before merging and filters",
    ]
    groups = read.row_groups(_MOST_FOOTERS)
    if groups.files:
        some = "" if groups.files == read.files else f", in the first {groups.files} files"
        lines.append(f"  row groups: {groups.wanted} of {groups.total}, by their statistics{some}")
    return "\n".join(lines)
