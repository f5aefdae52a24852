"""Answers that are believed for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["KEPT_MILLIS", "RecentAnswers"]

KEPT_MILLIS = 10_000
"""The time for which an answer of the database is believed: what was revoked still works for it."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Kept(Generic[T]):
    value: T
    until: float


class RecentAnswers(Generic[T]):
    """A bounded store of answers that are young enough; the one used longest ago goes first.

    Args:
        most: The number of answers that are kept.
        kept_millis: The time for which one is believed.
    """

    def __init__(self, most: int, kept_millis: int = KEPT_MILLIS) -> None:
        self._most = most
        self._kept_seconds = kept_millis / 1000
        self._kept: OrderedDict[Hashable, _Kept[T]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, now: float) -> T | None:
        """The answer to a question; None if it is not kept, or too old.

        Args:
            key: The question.
            now: The monotonic clock, seconds.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if now >= kept.until:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return kept.value

    def put(self, key: Hashable, value: T, asked: float) -> None:
        """Keep an answer.

        Args:
            key: The question.
            value: The answer.
            asked: The monotonic clock when it was asked, seconds.
        """
        with self._lock:
            self._kept[key] = _Kept(value, asked + self._kept_seconds)
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
