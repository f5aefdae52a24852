"""The figures of Spark's own scans in a query that ran, from the plan that it ran by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from headwater.spark.source.read_counter import Measured

__all__ = ["Runs"]

_SCAN = "FileSourceScanExec"
_ADAPTIVE = "AdaptiveSparkPlanExec"
_STAGE = "QueryStageExec"


@dataclass(frozen=True)
class Runs:
    """A query that may have been run, and one place of it.

    Attributes:
        query: The query's frame.
        part: The frame in that place, of which the query's was made.
    """

    query: DataFrame
    part: DataFrame

    def measured(self, frame: DataFrame | None = None) -> Measured | None:
        """The files, bytes and rows that Spark's own scans of the place read in the last run.

        Args:
            frame: A frame made of the query's; the query's own unless given.

        Returns:
            None if the frame was not run, or has no plan to be asked.
        """
        try:
            # Each listing of files is one object in all plans that are made of its frame.
            listings = {self._identity(leaf) for leaf in _relations(self.part)}
            executed = _execution(self.query if frame is None else frame).executedPlan()
            scans = list(_scans(executed))
            found = [_figures(scan) for scan in scans if self._identity(scan) in listings]
        except Py4JError:
            return None
        has_run = _is_final(executed) or any(
            _metric(scan, "numFiles") or _metric(scan, "numOutputRows") for scan in scans
        )
        return sum(found, Measured()) if has_run else None

    def _identity(self, reader: Any) -> int:
        """The listing of the files that a relation or its scan reads."""
        part: Any = self.part
        return int(part._sc._jvm.java.lang.System.identityHashCode(reader.relation().location()))


def _execution(frame: DataFrame) -> Any:
    asked: Any = frame
    return asked._jdf.queryExecution()


def _relations(frame: DataFrame) -> Iterator[Any]:
    for leaf in _listed(_execution(frame).analyzed().collectLeaves()):
        if str(leaf.getClass().getSimpleName()) == "LogicalRelation":
            yield leaf


def _scans(node: Any) -> Iterator[Any]:
    kind = str(node.getClass().getSimpleName())
    if kind == _SCAN:
        yield node
    children: list[Any] = [*_listed(node.children()), *_listed(node.subqueries())]
    if kind == _ADAPTIVE:
        children.append(node.executedPlan())
    elif kind.endswith(_STAGE):
        children.append(node.plan())
    for child in children:
        yield from _scans(child)


def _is_final(node: Any) -> bool:
    return str(node.getClass().getSimpleName()) == _ADAPTIVE and bool(node.isFinalPlan())


def _figures(scan: Any) -> Measured:
    # Spark reads all files of a listing, and its metrics tell their number of the first run alone.
    files = scan.relation().location()
    size = int(files.sizeInBytes())
    return Measured(len(files.inputFiles()), size, _metric(scan, "numOutputRows"))


def _metric(scan: Any, name: str) -> int:
    return max(int(scan.metrics().apply(name).value()), 0)


def _listed(sequence: Any) -> Iterator[Any]:
    for at in range(sequence.size()):
        yield sequence.apply(at)
