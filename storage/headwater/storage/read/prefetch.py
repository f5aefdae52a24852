"""Batches of several reads, read ahead by threads and given in the order of the reads.

Each thread takes the next read and follows it to its end. What is read and not yet taken is bounded
by its bytes; beyond that the threads wait, all but the one whose rows are wanted next.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread, current_thread
from typing import TypeAlias

import pyarrow as pa

__all__ = ["BatchRead", "prefetched"]

BatchRead: TypeAlias = Callable[[], Generator[pa.RecordBatch]]
"""Reads batches; called by a thread of its own, and closed there."""


def prefetched(
    reads: Iterator[BatchRead], *, threads: int, most_bytes: int | None
) -> Generator[pa.RecordBatch]:
    """The batches of all reads, in their order.

    Threads begin with the first batch that is asked for. They have ended when the generator has:
    at its end, when it is closed, and when a read raises, whose exception comes after the batches
    before it.

    Args:
        reads: Taken one by one, as threads become free.
        threads: Reads that go on at the same time, at most.
        most_bytes: Bytes of batches that wait to be taken, at most; a single batch may be larger.
            None for as many as there are.
    """
    ahead = _Prefetch(reads, most_bytes)
    ahead.start(threads)
    try:
        yield from ahead.batches()
    finally:
        ahead.stop()


@dataclass(eq=False)
class _Lane:
    """One read: its batches that wait to be taken, and how it ended."""

    batches: deque[tuple[pa.RecordBatch, int]] = field(default_factory=deque)
    is_done: bool = False
    error: BaseException | None = None


class _Prefetch:
    def __init__(self, reads: Iterator[BatchRead], most_bytes: int | None) -> None:
        self._reads = reads
        self._most_bytes = most_bytes
        self._taking = Lock()
        self._changed = Condition()
        # All below is guarded by the condition.
        self._lanes: deque[_Lane] = deque()
        self._held = 0
        self._is_exhausted = False
        self._is_stopped = False
        self._threads: list[Thread] = []

    def start(self, threads: int) -> None:
        # Daemons, for a generator that nobody closed must not keep the process from ending.
        self._threads = [
            Thread(target=self._work, name=f"headwater-read-{number}", daemon=True)
            for number in range(threads)
        ]
        atexit.register(self.stop)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._lanes.clear()
            self._changed.notify_all()
        for thread in self._threads:
            # The garbage collector may close the generator in any thread.
            if thread is not current_thread():
                thread.join()
        atexit.unregister(self.stop)

    def batches(self) -> Iterator[pa.RecordBatch]:
        while (lane := self._first_lane()) is not None:
            while (batch := self._next_batch(lane)) is not None:
                yield batch
            if lane.error is not None:
                raise lane.error
            with self._changed:
                self._lanes.popleft()
                self._changed.notify_all()

    def _first_lane(self) -> _Lane | None:
        with self._changed:
            self._changed.wait_for(lambda: self._lanes or self._is_exhausted)
            return self._lanes[0] if self._lanes else None

    def _next_batch(self, lane: _Lane) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(lambda: lane.batches or lane.is_done)
            if not lane.batches:
                return None
            batch, size = lane.batches.popleft()
            self._held -= size
            self._changed.notify_all()
            return batch

    # In the threads -----------------------------------------------------------------------------

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            lane, read = taken
            try:
                with closing(read()) as batches:
                    for batch in batches:
                        if not self._put(lane, batch):
                            return
            except BaseException as error:  # noqa: BLE001 - raised where the rows are wanted
                lane.error = error
            finally:
                with self._changed:
                    lane.is_done = True
                    self._changed.notify_all()

    def _take(self) -> tuple[_Lane, BatchRead] | None:
        """The next read and its lane, in the same order; None when there is no more."""
        with self._taking:
            with self._changed:
                if self._is_stopped or self._is_exhausted:
                    return None
            lane = _Lane()
            read = None
            try:
                read = next(self._reads, None)
            except BaseException as error:  # noqa: BLE001 - raised where the rows are wanted
                lane.error = error
            with self._changed:
                if read is None:
                    self._is_exhausted = True
                    lane.is_done = True
                if read is not None or lane.error is not None:
                    self._lanes.append(lane)
                self._changed.notify_all()
            return None if read is None else (lane, read)

    def _put(self, lane: _Lane, batch: pa.RecordBatch) -> bool:
        """Let a batch wait to be taken, when there is room; False when nobody wants it."""
        size = batch.nbytes
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._has_room(lane, size))
            if self._is_stopped:
                return False
            lane.batches.append((batch, size))
            self._held += size
            self._changed.notify_all()
            return True

    def _has_room(self, lane: _Lane, size: int) -> bool:
        if self._most_bytes is None or self._held + size <= self._most_bytes:
            return True
        # The rows that are wanted next must not wait for those behind them.
        return self._lanes[0] is lane and not lane.batches
