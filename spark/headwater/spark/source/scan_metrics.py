"""The figures of Spark's own scans in a query that ran, from the plan that it ran by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from headwater.spark.source.read_counter import Measured

__all__ = ["FileRows", "Runs", "scans_of"]

_SCAN = "FileSourceScanExec"
_ADAPTIVE = "AdaptiveSparkPlanExec"
_STAGE = "QueryStageExec"


@dataclass(frozen=True)
class FileRows:
    """The rows of a file.

    Attributes:
        stored: Their number.
        live: The number of those that are rows of the table.
    """

    stored: int
    live: int


@dataclass(frozen=True)
class Runs:
    """A query that may have been run, and one place of it.

    Attributes:
        query: The query's frame.
        part: The frame in that place, of which the query's was made.
        scans: Scans that give it rows and are no part of its plan.
    """

    query: DataFrame
    part: DataFrame
    scans: tuple[DataFrame, ...] = ()

    def measured(self, rows: Mapping[str, FileRows], frame: DataFrame | None) -> Measured | None:
        """The files, bytes and rows that Spark's own scans of the place read in the last run.

        Args:
            rows: The rows of the files by their names.
            frame: A frame made of the query's; None for the query's own.

        Returns:
            None if the frame was not run, or has no plan to be asked.
        """
        try:
            # Rules of the optimiser copy relations, but not the map of a relation's options.
            relations = {self._identity(leaf) for leaf in _leaves(self.part)}
            executed = _execution(self.query if frame is None else frame).executedPlan()
            scans = list(scans_of(executed))
            own = (scan for scan in scans if self._identity(scan) in relations)
            found = [_figures(scan, rows) for scan in own]
            apart = [
                scan
                for each in self.scans
                for scan in scans_of(_execution(each).executedPlan())
                if _metric(scan, "numOutputRows")
            ]
            found += [_figures(scan, rows) for scan in apart]
        except Py4JError:
            return None
        has_run = (
            bool(apart)
            or _is_final(executed)
            or any(_metric(scan, "numFiles") or _metric(scan, "numOutputRows") for scan in scans)
        )
        return sum(found, Measured()) if has_run else None

    def _identity(self, reader: Any) -> int:
        """The options of the relation of files that a leaf of a plan or its scan reads."""
        part: Any = self.part
        options = reader.relation().options()
        return int(part._sc._jvm.java.lang.System.identityHashCode(options))


def _execution(frame: DataFrame) -> Any:
    asked: Any = frame
    return asked._jdf.queryExecution()


def _leaves(frame: DataFrame) -> Iterator[Any]:
    for leaf in _listed(_execution(frame).analyzed().collectLeaves()):
        if str(leaf.getClass().getSimpleName()) == "LogicalRelation":
            yield leaf


def scans_of(node: Any) -> Iterator[Any]:
    """Spark's own scans of files in a plan, as the JVM has them, from left to right."""
    kind = str(node.getClass().getSimpleName())
    if kind == _SCAN:
        yield node
    children: list[Any] = [*_listed(node.children()), *_listed(node.subqueries())]
    if kind == _ADAPTIVE:
        children.append(node.executedPlan())
    elif kind.endswith(_STAGE):
        children.append(node.plan())
    for child in children:
        yield from scans_of(child)


def _is_final(node: Any) -> bool:
    return str(node.getClass().getSimpleName()) == _ADAPTIVE and bool(node.isFinalPlan())


def _figures(scan: Any, rows: Mapping[str, FileRows]) -> Measured:
    # Spark reads all files of a listing, and its metrics tell their number of the first run alone.
    files = scan.relation().location()
    size = int(files.sizeInBytes())
    names = [unquote(str(url).rpartition("/")[2]) for url in files.inputFiles()]
    read = _metric(scan, "numOutputRows")
    stored = sum(rows[name].stored for name in names)
    live = sum(rows[name].live for name in names)
    # The scan tells of the rows that it read, the dead among them. If it left row groups out,
    # nothing tells how many of those that it read are dead.
    return Measured(len(names), size, live if read == stored else min(read, live))


def _metric(scan: Any, name: str) -> int:
    return max(int(scan.metrics().apply(name).value()), 0)


def _listed(sequence: Any) -> Iterator[Any]:
    for at in range(sequence.size()):
        yield sequence.apply(at)
