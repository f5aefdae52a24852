"""Waiting for another process or thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import monotonic

__all__ = ["until"]


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition.

    Args:
        condition: It is asked again and again.
        seconds: When to give up.
    """
    deadline, wake = monotonic() + seconds, Event()
    while not condition():
        assert monotonic() < deadline
        wake.wait(0.02)
