"""The files and rows that Python workers have read, told to the driver by Spark's accumulators.

Workers import this module, and with it nothing that only the driver needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

__all__ = ["Measured", "ReadCounter", "WorkerCounter", "read_counter"]


@dataclass(frozen=True)
class Measured:
    """Figures of reading that was done.

    Attributes:
        files: Data files that were opened.
        bytes: Their size; of Parquet and ORC files, only parts are read.
        rows: Rows of the table that the readers gave to Spark, whose own conditions come after
            them. Of files that Spark's own scan read in part, rows that a merge or a deletion
            vector leaves out count, too: nothing tells how many of them it read.
    """

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, other: Measured) -> Measured:
        """The sum."""
        return Measured(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


_Counts: TypeAlias = dict[int, dict[int, Measured]]
"""The files and rows that were read, by the number of the counter and of the task."""


class _Merging(AccumulatorParam[_Counts]):
    """A task that was run again counts once."""

    def zero(self, value: _Counts) -> _Counts:
        return {}

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:
        for number, tasks in value2.items():
            value1.setdefault(number, {}).update(tasks)
        return value1


@dataclass(frozen=True)
class WorkerCounter:
    """The part of a counter that goes to workers."""

    number: int
    counts: Accumulator[_Counts]

    def add(self, task: int, read: Measured) -> None:
        """Tell what a task has read, when it has read all."""
        self.counts.add({self.number: {task: read}})


@dataclass(eq=False)
class ReadCounter:
    """Counts what one place of a query reads in Python workers.

    Attributes:
        told: The part that goes to workers.
    """

    told: WorkerCounter

    def measured(self) -> Measured | None:
        """The files and rows of all tasks that ended; None if none did."""
        tasks: Mapping[int, Measured] = self.told.counts.value.get(self.told.number, {})
        return sum(list(tasks.values()), Measured()) if tasks else None


_numbers = count()
_accumulators: WeakKeyDictionary[SparkContext, Accumulator[_Counts]] = WeakKeyDictionary()
_live: WeakValueDictionary[int, ReadCounter] = WeakValueDictionary()


def read_counter(context: SparkContext) -> ReadCounter:
    """A counter for one more place; what was counted for places that nobody asks of is forgotten.

    Args:
        context: Spark's.
    """
    counts = _accumulators.get(context)
    if counts is None:
        # One for all: Spark keeps each as long as it lives itself.
        counts = _accumulators[context] = context.accumulator({}, _Merging())
    for number in list(counts.value):
        if number not in _live:
            counts.value.pop(number, None)
    made = ReadCounter(WorkerCounter(next(_numbers), counts))
    _live[made.told.number] = made
    return made
