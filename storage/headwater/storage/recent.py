"""Values that cannot change, kept for the next time that they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

__all__ = ["Recent"]


class Recent:
    """The values used last; threads may share them, and they do not pickle.

    Args:
        most: The number of values that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, object] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> object | None:
        """The value of a key; None when there is none, or no longer."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: object) -> None:
        """Keep a value instead of the one used the longest time ago."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def __reduce__(self) -> tuple[Callable[[int], Recent], tuple[int]]:
        return Recent, (self._most,)
