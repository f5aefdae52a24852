"""A copy of a Spark session for scans whose files are packed in a way that is known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.session_copy import SessionCopy

__all__ = ["CountingSession"]

_FILES = "spark.sql.files"
_MOST_FRAMES = 4


@dataclass
class CountingSession:
    """A copy of a Spark session, with all its settings, that packs files as is said.

    It keeps the last frames that were made of it.
    """

    _lock: Lock = field(default_factory=Lock, repr=False)
    _copies: SessionCopy = field(default_factory=SessionCopy, repr=False)
    _copy: Any = field(default=None, repr=False)
    _frames: OrderedDict[Hashable, DataFrame] = field(default_factory=OrderedDict, repr=False)

    @contextmanager
    def packing(self, spark: SparkSession, most_bytes: int) -> Iterator[Any]:
        """The copy, as the JVM has it; nobody else's until the context ends.

        Args:
            spark: The session.
            most_bytes: The size of a part of a scan, at least that of its largest file.
        """
        session: Any = spark._jsparkSession
        with self._lock:
            copy = self._copies.of(session)
            if copy is not self._copy:
                self._copy = copy
                self._frames.clear()
            own = self._copy.conf()
            own.set(f"{_FILES}.maxPartitionBytes", str(most_bytes))
            own.set(f"{_FILES}.openCostInBytes", "0")
            own.set(f"{_FILES}.minPartitionNum", "1")
            own.unset(f"{_FILES}.maxPartitionNum")
            yield self._copy

    def frame(self, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """A frame of the copy, made if none is kept; within `packing`.

        Args:
            key: Equal for what may be one frame.
            make: Makes it.
        """
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = make()
            if len(self._frames) > _MOST_FRAMES:
                self._frames.popitem(last=False)
        self._frames.move_to_end(key)
        return found
