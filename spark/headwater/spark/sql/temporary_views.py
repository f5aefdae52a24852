"""Temporary views of frames, while a statement is read that names them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.names import quoted
from headwater.spark.session import is_connect

__all__ = ["create_temporary_view", "drop_temporary_view"]


def create_temporary_view(spark: SparkSession, frame: DataFrame, name: str) -> None:
    """Make a temporary view, as `DataFrame.createTempView` does.

    That runs a command, which Spark plans and describes to its listeners, and takes longer than
    a query's own analysis. The view is put among the session's here.

    Args:
        spark: The session. The frame may be of another, as a function of ``foreachBatch`` gets it.
        frame: The frame.
        name: The view's name.

    Raises:
        AnalysisException: The session has a view of this name (TEMP_TABLE_OR_VIEW_ALREADY_EXISTS).
    """
    if is_connect(spark):
        frame.createTempView(quoted(name))
        return
    known = _session_views(spark)
    empty, description = _empty_view(spark, name)
    view = empty.copy(description, known.some.apply(frame._jdf.logicalPlan()))
    known.views.createTempView(name, view, False)


def drop_temporary_view(spark: SparkSession, name: str) -> None:
    """Drop a temporary view.

    Unlike `Catalog.dropTempView`, it keeps what the user cached: to Spark, a view of a cached frame
    is that frame.
    """
    if is_connect(spark):
        spark.catalog.dropTempView(name)
    else:
        _session_views(spark).views.dropTempView(name)


class _SessionViews(NamedTuple):
    """The JVM's objects that all views of a session take; each call costs a new one's removal."""

    views: Any
    some: Any


@lru_cache(maxsize=16)
def _session_views(spark: SparkSession) -> _SessionViews:
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    some = getattr(getattr(jvm.scala, "Some$"), "MODULE$")
    return _SessionViews(session.sessionState().catalog(), some)


@lru_cache(maxsize=512)
def _empty_view(spark: SparkSession, name: str) -> tuple[Any, Any]:
    """A view of this name without rows, and how Spark describes it."""
    spark.range(0).createTempView(quoted(name))
    try:
        view = _session_views(spark).views.getRawTempView(name).get()
    finally:
        drop_temporary_view(spark, name)
    return view, view.tableMeta()
