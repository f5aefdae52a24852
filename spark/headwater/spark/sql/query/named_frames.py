"""Frames in a query's text under the names of their tables, which error messages then show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from threading import Lock
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.names import quoted
from headwater.spark.session import is_connect
from headwater.spark.sql.names import brace_unescaped
from headwater.spark.sql.query.function_calls import SessionFunction
from headwater.spark.sql.temporary_views import create_temporary_view, drop_temporary_view

__all__ = ["make_view", "named_frames", "query_over"]

_FUNCTIONS = Lock()
_TAKEN = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"


class _Name:
    """A name for `SparkSession.sql` to fill in as it stands."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __format__(self, spec: str) -> str:
        return quoted(self._name)


@contextmanager
def named_frames(
    spark: SparkSession,
    names: Sequence[str],
    frames: Sequence[DataFrame],
    *,
    first: int = 0,
    keeps: bool = False,
) -> Iterator[Mapping[str, Any]]:
    """Values for the places ``t0``, ``t1``, … of a text that `SparkSession.sql` is given.

    The text must be used before the block ends. On Spark Connect, which reads a text again each
    time, the frames themselves are the values, under names that PySpark invents.

    Args:
        spark: The session.
        names: The frames' names in messages, which need not differ.
        frames: The frames; one may stand in several places.
        first: The number of the first place.
        keeps: Whether functions name the frames, too. Spark Connect looks those up again whenever
            the query is run, so that the session keeps the views there.
    """
    if is_connect(spark) and not keeps:
        yield {f"t{at}": frame for at, frame in enumerate(frames, first)}
        return
    with ExitStack() as views:
        places: dict[str, Any] = {}
        made: dict[int, str] = {}
        for at, (name, frame) in enumerate(zip(names, frames, strict=True), first):
            view = made.get(id(frame))
            if view is None:
                view = make_view(spark, frame, name, made.values())
                made[id(frame)] = view
                if not is_connect(spark):
                    views.callback(drop_temporary_view, spark, view)
            places[f"t{at}"] = _Name(view)
        yield places


def query_over(
    spark: SparkSession,
    text: str,
    names: Sequence[str],
    frames: Sequence[DataFrame],
    *,
    first: int = 0,
    functions: Sequence[SessionFunction] = (),
) -> DataFrame:
    """A query over frames in its places, as `named_frames` has them.

    Args:
        spark, names, frames, first: As there.
        text: The query.
        functions: The functions to be made before it, whose places are the same.

    Raises:
        AnalysisException, ParseException: Spark's own.
    """
    # Of two statements at once, each has the functions over its own frames.
    alone = _FUNCTIONS if functions else nullcontext()
    keeps = bool(functions)
    with alone, named_frames(spark, names, frames, first=first, keeps=keeps) as places:
        for function in functions:
            spark.sql(function.statement, **places)
        # Spark fills places in only if there are any.
        filled = text if places else brace_unescaped(text)
        return spark.sql(filled, **places)


def make_view(spark: SparkSession, frame: DataFrame, name: str, taken: Collection[str]) -> str:
    """Make a frame a temporary view, whose name is this one unless another view has it now.

    Args:
        spark: The session that gets the view.
        frame: The frame.
        name: The name.
        taken: The names of this query's other frames. Those of other queries Spark tells by an
            error, which takes it long.

    Returns:
        The view's name.
    """
    view, number = name, 1
    while True:
        if view not in taken:
            try:
                create_temporary_view(spark, frame, view)
            except AnalysisException as error:
                if error.getCondition() != _TAKEN:
                    raise
            else:
                return view
        number += 1
        view = f"{name} ({number})"
