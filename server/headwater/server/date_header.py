"""The header ``Date`` of answers, which clients compare their own clocks with."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate

__all__ = ["DATE_HEADER", "DateHeader"]

DATE_HEADER = "date_header"
"""The key, in the application's lifespan state, of what tells the header."""


class DateHeader:
    """Tells the header, which is the same for a second.

    Args:
        now_millis: The time, milliseconds since the epoch.
    """

    def __init__(self, now_millis: Callable[[], int]) -> None:
        self._now_millis = now_millis
        self._second = 0
        self._headers: list[tuple[bytes, bytes]] = []

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The header, as an answer's list of headers begins with it."""
        second = self._now_millis() // 1000
        if second != self._second:
            self._headers = [(b"date", formatdate(second, usegmt=True).encode())]
            self._second = second
        return self._headers
