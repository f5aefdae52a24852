"""The processor time of this process and of all that it started: Spark's own and its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Spent", "processor_seconds", "spent"]


@dataclass(frozen=True)
class Spent:
    """What some work took.

    Attributes:
        wall: Seconds that passed.
        processor: Processor seconds, user's and the system's.
    """

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.processor:.2f} of CPU)"


def spent(work: Callable[[], object]) -> Spent:
    """Do some work, and say what it took."""
    processor, wall = processor_seconds(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - wall, processor_seconds() - processor)


def processor_seconds() -> float:
    """Processor seconds of this process's tree so far, ended processes included; Linux only."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The fields after the command's name, in which there may be blanks.
        fields = text.rpartition(")")[2].split()
        parents[int(entry.name)] = int(fields[1])
        # The last two are those of children that have ended.
        ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    tree = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")
