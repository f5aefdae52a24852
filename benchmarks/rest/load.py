"""Load from several threads, and what came of it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeAlias

__all__ = ["Load", "Work", "paced", "saturated"]

Work: TypeAlias = Callable[[], object]


@dataclass(frozen=True)
class Load:
    """What a load came to.

    Attributes:
        seconds: How long it lasted.
        latencies: Of each call, seconds.
    """

    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Calls per second, of all threads together."""
        return len(self.latencies) / self.seconds

    @property
    def median(self) -> float:
        """The median latency, seconds."""
        return median(self.latencies)

    @property
    def p99(self) -> float:
        """The latency that one call in a hundred exceeds, seconds."""
        return quantiles(self.latencies, n=100)[98]


def saturated(works: Sequence[Work], seconds: float) -> Load:
    """Each work in a thread of its own, again and again without a pause."""

    def turns(work: Work, end: float, latencies: list[float]) -> None:
        now = time.perf_counter()
        while now < end:
            work()
            after = time.perf_counter()
            latencies.append(after - now)
            now = after

    return _run(works, seconds, turns)


def paced(works: Sequence[Work], seconds: float, rate: float) -> Load:
    """Likewise, at so many calls per second of all threads together.

    A call that begins late because the one before it took long is measured from when it should
    have begun: a server that stalls is not spared the calls that it held up.
    """
    interval = len(works) / rate

    def turns(work: Work, end: float, latencies: list[float]) -> None:
        due = time.perf_counter()
        while due < end:
            now = time.perf_counter()
            if now < due:
                time.sleep(due - now)
                began = time.perf_counter()
            else:
                began = due
            work()
            latencies.append(time.perf_counter() - began)
            due += interval

    return _run(works, seconds, turns)


def _run(
    works: Sequence[Work],
    seconds: float,
    turns: Callable[[Work, float, list[float]], None],
) -> Load:
    latencies: list[list[float]] = [[] for _ in works]
    failures: list[Exception] = []
    start = threading.Barrier(len(works) + 1)

    def body(at: int) -> None:
        start.wait()
        try:
            turns(works[at], time.perf_counter() + seconds, latencies[at])
        except Exception as error:  # noqa: BLE001  # told to the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=body, args=(at,)) for at in range(len(works))]
    for thread in threads:
        thread.start()
    with _no_garbage_collected():
        start.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return Load(time.perf_counter() - began, [taken for part in latencies for taken in part])


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """No pause of this process may pass for one of what it measures."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
