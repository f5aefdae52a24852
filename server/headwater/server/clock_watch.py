"""The watch over the clocks: comparisons with the database's, and warnings of wrong ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.server.recurring import recurring
from headwater.storage.clock import TOLERANCE_MILLIS, Clock
from headwater.storage.errors import HeadwaterError

__all__ = ["ClockWatch", "watching_clocks"]

_LOG = logging.getLogger("headwater.server.clock")
_SECONDS = 15.0
_TOLERANCE = TOLERANCE_MILLIS / 1000
_CLOCKS = {"machine": "this machine's clock", "other": "the database server's clock"}


class ClockWatch:
    """Tells the log of each clock that differs from the others, and when it does no more.

    Args:
        clock: The clocks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, float] = {}

    def look(self) -> None:
        """Tell of what has changed by more than a minute since it was told of."""
        for name, seconds in self._clock.differences().items():
            told = self._told.get(name, 0.0)
            if abs(seconds - told) <= _TOLERANCE:
                continue
            if abs(seconds) > _TOLERANCE:
                self._told[name] = seconds
                _LOG.warning(
                    "%s is %s s %s of the time since the server started: until they agree, what "
                    "expires is refused by the later and deleted by the earlier of them. Put the "
                    "clock right; if it is right and was wrong before, restart the server",
                    _CLOCKS[name], round(abs(seconds)), "ahead" if seconds > 0 else "behind",
                )  # fmt: skip
            else:
                del self._told[name]
                _LOG.info("%s agrees with the time since the server started again", _CLOCKS[name])


@contextmanager
def watching_clocks(database: SqlDatabase) -> Iterator[None]:
    """Compare the clocks at once, and again and again while the block runs."""
    watch = ClockWatch(database.clock)

    def look() -> None:
        try:
            database.compare_clocks()
        except (HeadwaterError, SQLAlchemyError) as error:
            _LOG.debug("the database server's clock is not known: %s", error)
        watch.look()

    # Before any request is answered: its credential may be one that is over by that clock alone.
    look()
    with recurring("clocks", look, _SECONDS):
        yield
