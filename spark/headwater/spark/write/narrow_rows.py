"""Hand rows to Python workers in batches whose bytes Spark need not count.

Spark asks, after each row, how many bytes its batch has by then, for which it goes through all
columns (`spark.sql.execution.arrow.maxBytesPerBatch`). That takes longer than to fill the batch.
A batch of so many rows, none of which is wide, cannot be too large. So the rows of a write go to
its tasks in a copy of the session that counts rows alone. Wide rows are marked on their way, and
their values are left out; a task that finds one gives up, and the write starts over in the user's
session, by Spark's own limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as st
from pyspark.sql import DataFrame, Row

from headwater.spark.names import quoted
from headwater.spark.session import release_frame
from headwater.spark.session_copy import (
    BATCH_BYTES_SETTING,
    NARROW_BATCH_ROWS,
    SessionCopy,
    interruptible,
)
from headwater.spark.source.task_frame import TASK_NUMBER

__all__ = ["WideRow", "narrow_rows", "rows_of_copy", "with_wide_marked"]

# Batches of such rows have at most the 64 MiB that Spark would limit them to.
_NARROW_BYTES = (1 << 26) // NARROW_BATCH_ROWS
_WIDE = "_headwater_wide"
# The bytes of a value of any type without a size of its own, at most.
_FIXED_BYTES = 16
_FIXED = (
    st.BooleanType,
    st.NumericType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
    st.DayTimeIntervalType,
    st.YearMonthIntervalType,
    st.NullType,
)


class WideRow(Exception):
    """A row came that is too wide for batches whose bytes nobody counts."""


def with_wide_marked(df: DataFrame) -> DataFrame | None:
    """The rows with one more column, which tells of wide ones, whose values of any size are null.

    Args:
        df: The rows.

    Returns:
        None if the rows are for the user's session, with Spark's limit of a batch: their width
        cannot be told, the user has set the limit, other Python functions take part, somebody
        observes the rows, names differ in case alone, or Spark Connect has no copies of sessions.
    """
    if getattr(df, "_jdf", None) is None or _has_own_limit(df) or _is_the_users(df):
        return None
    if len({_WIDE, *(name.casefold() for name in df.columns)}) <= len(df.columns):
        # Spark may not tell them apart.
        return None
    fixed = 0
    sized: dict[str, str] = {}
    for column in df.schema.fields:
        size = _size(quoted(column.name), column.dataType)
        if size is None:
            return None
        if isinstance(size, int):
            fixed += size
        else:
            sized[column.name] = size
    if fixed > _NARROW_BYTES // 2:
        return None
    names = [quoted(name) for name in df.columns]
    if not sized:
        return df.selectExpr(*names, f"FALSE AS {_WIDE}")
    total = " + ".join(sized.values())
    marked = df.selectExpr(*names, f"{total} > {_NARROW_BYTES - fixed}L AS {_WIDE}")
    kept = [
        f"IF({_WIDE}, NULL, {quoted(name)}) AS {quoted(name)}" if name in sized else quoted(name)
        for name in df.columns
    ]
    return marked.selectExpr(*kept, _WIDE)


def rows_of_copy(copies: SessionCopy, frame: DataFrame) -> list[Row]:
    """The rows of a frame, computed in a copy of its session.

    Args:
        copies: Copies of sessions.
        frame: The frame.
    """
    jdf: Any = frame._jdf
    jvm: Any = frame.sparkSession._jvm
    session = jdf.sparkSession()
    copy = copies.of(session)
    datasets = jvm.org.apache.spark.sql.classic.Dataset
    made = DataFrame(datasets.ofRows(copy, jdf.queryExecution().analyzed()), frame.sparkSession)
    try:
        with interruptible(frame.sparkSession.sparkContext, session, copy):
            return made.collect()
    finally:
        release_frame(made)


def narrow_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches without their last column, by which `with_wide_marked` tells of wide rows.

    Raises:
        WideRow: A row is marked.
    """
    for batch in batches:
        *columns, wide = batch.columns
        if pc.any(wide).as_py():
            raise WideRow
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1])


def _size(column: str, kind: st.DataType) -> int | str | None:
    """The bytes of a value, at most: a number, or what gives it in SQL; None if nothing does."""
    if isinstance(kind, _FIXED):
        return _FIXED_BYTES
    if isinstance(kind, st.StringType | st.CharType | st.VarcharType | st.BinaryType):
        return f"coalesce(CAST(octet_length({column}) AS BIGINT), 0L)"
    if isinstance(kind, st.ArrayType):
        item = _size("", kind.elementType) if _is_fixed(kind.elementType) else None
        return None if item is None else f"coalesce({item}L * array_size({column}), 0L)"
    if isinstance(kind, st.StructType) and _is_fixed(kind):
        return _FIXED_BYTES * (1 + len(kind.fields))
    return None


def _is_fixed(kind: st.DataType) -> bool:
    if isinstance(kind, st.StructType):
        return all(isinstance(field.dataType, _FIXED) for field in kind.fields)
    return isinstance(kind, _FIXED)


def _has_own_limit(df: DataFrame) -> bool:
    jdf: Any = df._jdf
    return bool(jdf.sparkSession().conf().getAll().contains(BATCH_BYTES_SETTING))


def _is_the_users(df: DataFrame) -> bool:
    """True if rows are to be computed in their own session.

    Python functions may take part in it that are given rows of any width, or who observes the rows
    waits for that session to say what it saw.
    """
    jdf: Any = df._jdf
    jvm: Any = df.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    plan = jdf.queryExecution().analyzed()
    # Table functions are given the rows of lateral joins.
    for pattern in (patterns.COLLECT_METRICS(), patterns.LATERAL_JOIN()):
        if plan.containsPattern(pattern):
            return True
    leaves = plan.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        # Nothing tells how its rows are made, unless they are the numbers of tasks.
        if _class_name(leaf) == "LogicalRDD" and _column_names(leaf) != [TASK_NUMBER]:
            return True
    return _runs_functions(plan, patterns.PYTHON_UDF())


def _runs_functions(plan: Any, pattern: Any) -> bool:
    """True if a plan has a function that is given more than the numbers of tasks."""
    if not plan.containsPattern(pattern):
        return False
    children = plan.children()
    below = [children.apply(at) for at in range(children.size())]
    if _class_name(plan) == "MapInArrow" and _output_types(below[0]) == ["long"]:
        return _runs_functions(below[0], pattern)
    expressions = plan.expressions()
    if any(expressions.apply(at).containsPattern(pattern) for at in range(expressions.size())):
        return True
    return any(_runs_functions(child, pattern) for child in below)


def _class_name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _column_names(plan: Any) -> list[str]:
    output = plan.output()
    return [str(output.apply(at).name()) for at in range(output.size())]


def _output_types(plan: Any) -> list[str]:
    output = plan.output()
    return [str(output.apply(at).dataType().typeName()) for at in range(output.size())]
