"""The server's clock, as its answers tell it, beside this machine's."""

from __future__ import annotations

import logging
from email.utils import parsedate_to_datetime

from headwater.storage.clock import TOLERANCE_MILLIS, Clock

__all__ = ["ServerClock"]

_LOG = logging.getLogger("headwater.client.clock")
_WARNED_OF_MILLIS = 300_000


class ServerClock:
    """Notes the times that a server tells, and warns once while they are far from this machine's.

    Args:
        clock: The clock that is compared.
        url: The server's address.
    """

    def __init__(self, clock: Clock, url: str) -> None:
        self._clock = clock
        self._url = url
        self._last: str | None = None
        self._is_told = False

    def note(self, date: str | None) -> None:
        """Compare with an answer's header ``Date``; nothing is learnt from one that is no date."""
        if date is None or date == self._last:
            return
        self._last = date
        try:
            told = int(parsedate_to_datetime(date).timestamp() * 1000)
        except ValueError:
            return
        own = self._clock.machine()
        ahead = own - told
        # The header has no fractions of a second, and the answer took its time: what was committed
        # just now must be old enough for whoever wants everything to go.
        self._clock.compare(told if abs(ahead) > TOLERANCE_MILLIS else own)
        if abs(ahead) <= _WARNED_OF_MILLIS:
            self._is_told = False
        elif not self._is_told:
            self._is_told = True
            _LOG.warning(
                "this machine's clock is %s min %s that of the catalog at %s: what is deleted by "
                "age goes by the earlier of them; put the wrong one right",
                round(abs(ahead) / 60_000), "ahead of" if ahead > 0 else "behind", self._url,
            )  # fmt: skip
