"""The text of ``EXPLAIN``: Spark's plan, and what is read of each table."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.spark.source.table_read import TableRead

__all__ = ["command_plan", "explained", "write_plan"]

_HEADING = "== Physical Plan ==\n"

_MAX_FOOTERS = 32
"""The files of a table whose footers are read."""


def explained(plan: str, reads: Sequence[TableRead]) -> str:
    """The text that ``EXPLAIN`` gives.

    Args:
        plan: Spark's plan.
        reads: What is read of each table.
    """
    sections = [plan.rstrip("\n")]
    if reads:
        sections.append("== Tables ==\n" + "\n".join(map(_described, reads)))
    return "\n\n".join(sections) + "\n"


def command_plan(command: str, text: str) -> str:
    """The plan of a statement that computes no rows, in Spark's form.

    Args:
        command: The words that name it.
        text: The statement.
    """
    return f"{_HEADING}Execute {command}\n   +- {' '.join(text.split())}\n"


def write_plan(command: str, table: str, mode: str, plan: str | None) -> str:
    """The plan of a statement that writes rows, with the statement above the plan of its rows.

    Args:
        command: The words that name it.
        table: The table.
        mode: How the rows are written.
        plan: Spark's plan of the rows; None where none are computed.
    """
    line = f"Execute {command} {table} [{mode}]\n"
    if plan is None:
        return f"{_HEADING}{line}"
    before, heading, physical = plan.partition(_HEADING)
    if not heading:
        return f"{line}{plan}"
    tree, blank, after = physical.partition("\n\n")
    first, *others = tree.rstrip("\n").split("\n")
    nested = "\n".join([f"+- {first}", *(f"   {other}" for other in others)])
    return f"{before}{heading}{line}{nested}\n{blank and blank[1:]}{after}"


def _described(read: TableRead) -> str:
    snapshot = "" if read.snapshot_id is None else f", snapshot {read.snapshot_id}"
    every = len(read.relation.schema)
    lines = [
        f"{read.table}{snapshot}",
        f"  columns: {', '.join(read.columns)} ({len(read.columns)} of {every})",
    ]
    if read.relation.cached is not None:
        return "\n".join([*lines, "  rows: those of CACHE TABLE"])
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
    groups = read.row_groups(_MAX_FOOTERS)
    if groups.files:
        some = "" if groups.files == read.files else f", in the first {groups.files} files"
        lines.append(f"  row groups: {groups.wanted} of {groups.total}, by their statistics{some}")
    return "\n".join(lines)
