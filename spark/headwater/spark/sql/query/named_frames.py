"""Frames in a query's text under the names of their tables, which error messages then show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.names import quoted

__all__ = ["named_frames"]

_TAKEN = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"


class _Name:
    """A name for `SparkSession.sql` to fill in as it stands."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __format__(self, spec: str) -> str:
        return quoted(self._name)


@contextmanager
def named_frames(
    spark: SparkSession, names: Sequence[str], frames: Sequence[DataFrame]
) -> Iterator[Mapping[str, Any]]:
    """Values for the places ``t0``, ``t1``, … of a text that `SparkSession.sql` is given.

    The text must be used before the block ends. On Spark Connect, which reads a text again each
    time, the frames themselves are the values, under names that PySpark invents.

    Args:
        spark: The session.
        names: The frames' names in messages, which need not differ.
        frames: The frames.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        yield {f"t{at}": frame for at, frame in enumerate(frames)}
        return
    with ExitStack() as views:
        places: dict[str, Any] = {}
        for at, (name, frame) in enumerate(zip(names, frames, strict=True)):
            view = _view(frame, name)
            views.callback(spark.catalog.dropTempView, view)
            places[f"t{at}"] = _Name(view)
        yield places


def _view(frame: DataFrame, name: str) -> str:
    """Make a frame a temporary view, whose name is this one unless another query has it now."""
    view, number = name, 1
    while True:
        try:
            frame.createTempView(quoted(view))
        except AnalysisException as error:
            if error.getCondition() != _TAKEN:
                raise
            number += 1
            view = f"{name} ({number})"
        else:
            return view
