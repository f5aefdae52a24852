"""Work that a server does from time to time beside its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["recurring"]

_SECONDS_TO_END = 5.0


@contextmanager
def recurring(
    name: str, work: Callable[[], None], seconds: float, *, at_end: bool = False
) -> Iterator[None]:
    """Do something every so many seconds while the block runs, in a thread of its own.

    What waits for storage or the database does not keep the server from ending.

    Args:
        name: The thread's name.
        work: Called each time.
        seconds: The seconds between the end of one time and the begin of the next.
        at_end: True if it is also done when the block ends.
    """
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            work()
        if at_end:
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=_SECONDS_TO_END)
