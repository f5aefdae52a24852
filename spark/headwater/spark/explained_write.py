"""Statements that EXPLAIN plans and does not run: they stop where they would write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from headwater.spark.catalog_session import CatalogSession
from headwater.spark.session import is_connect
from headwater.spark.source.table_read import TableRead

__all__ = ["WriteReached", "overwrite_mode", "plan_text", "planned_from", "stop_if_explained"]


class WriteReached(Exception):
    """A statement that is explained has come to where it would write.

    Attributes:
        plan: Spark's plan of the rows that it would write; None where none are computed.
        table: The table that it would write to; empty where that is not rows.
        mode: How the rows would be written.
        read: What is read of the table that is changed.
    """

    def __init__(
        self,
        plan: str | None = None,
        table: str = "",
        mode: str = "",
        read: TableRead | None = None,
    ) -> None:
        super().__init__("a statement that is explained must not write")
        self.plan = plan
        self.table = table
        self.mode = mode
        self.read = read


def stop_if_explained(
    session: CatalogSession,
    frame: DataFrame | None = None,
    *,
    table: str = "",
    mode: str = "",
    read: TableRead | None = None,
) -> None:
    """Stop a statement that is explained before it writes.

    Args:
        session: The catalog's.
        frame: The rows that would be written.
        table, mode, read: As in `WriteReached`.

    Raises:
        WriteReached: The session only explains statements.
    """
    if session.explains is not None:
        # The frame may read views that the statement drops when it ends.
        plan = None if frame is None else plan_text(frame, session.explains)
        raise WriteReached(plan, table, mode, read)


@contextmanager
def planned_from(
    session: CatalogSession, frame: DataFrame, table: str, mode: str
) -> Iterator[None]:
    """Explain a change of the catalog that comes before rows are written by these rows."""
    try:
        yield
    except WriteReached:
        stop_if_explained(session, frame, table=table, mode=mode)
        raise


def overwrite_mode(partition: Mapping[str, object] | None, *, dynamic: bool) -> str:
    """How an overwrite replaces rows.

    Args:
        partition: The values that partitions which are replaced have.
        dynamic: Whether only partitions that there are rows for are replaced.
    """
    if dynamic:
        return "dynamic overwrite of the partitions that have new rows"
    if not partition:
        return "overwrite of the table"
    return f"overwrite of the partition {', '.join(f'{k}={v}' for k, v in partition.items())}"


def plan_text(frame: DataFrame, mode: str) -> str:
    """Spark's plan of a frame.

    Args:
        frame: The frame.
        mode: As `DataFrame.explain` takes it.
    """
    private: Any = frame
    if is_connect(frame.sparkSession):
        return str(private._explain_string(mode=mode))
    execution = private._jdf.queryExecution()
    return str(private._sc._jvm.PythonSQLUtils.explainString(execution, mode))
