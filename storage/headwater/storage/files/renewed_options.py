"""Storage options that expire, such as short-lived credentials."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from headwater.storage.errors import HeadwaterError

__all__ = ["ExpiringOptions", "RenewedOptions"]

# New options are asked for so long before the old ones expire (``RESTTokenFileIO.java``)…
_MARGIN_MILLIS = 3_600_000
# … and again after so long when they cannot be had.
_RETRY_MILLIS = 60_000


@dataclass(frozen=True)
class ExpiringOptions:
    """Storage options that hold for some time.

    Attributes:
        options: The options; never log them.
        expires_at: Milliseconds since the epoch.
    """

    options: Mapping[str, str]
    expires_at: int

    def __repr__(self) -> str:
        return f"ExpiringOptions(…, expires_at={self.expires_at})"


class OptionsSource(Protocol):
    """The source of options that expire; it pickles."""

    def __call__(self, *, is_urgent: bool) -> ExpiringOptions:
        """Request options.

        Args:
            is_urgent: Whether those in force have expired, so that it is worth waiting.
        """
        ...


class RenewedOptions:
    """Options that are requested when they are first needed, and renewed before they expire.

    It pickles with what it holds, so that a worker asks only when that is about to expire. Until
    then the worker does not even import what `ask` needs.

    Args:
        ask: Asks for options.
        now_millis: The clock, milliseconds since the epoch; it pickles.
    """

    def __init__(self, ask: OptionsSource, now_millis: Callable[[], int]) -> None:
        self._ask: OptionsSource | bytes = ask
        self._now_millis = now_millis
        self._held: ExpiringOptions | None = None
        self._ask_at = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return "RenewedOptions(…)"  # the options hold secrets

    def __getstate__(self) -> dict[str, object]:
        """All but the lock, with the function as bytes that are unpickled on use."""
        with self._lock:
            state = {key: value for key, value in self.__dict__.items() if key != "_lock"}
        if not isinstance(self._ask, bytes):
            state["_ask"] = pickle.dumps(self._ask)
        return state

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """As it was."""
        self.__dict__.update(state)
        self._lock = Lock()

    def current(self) -> Mapping[str, str]:
        """The options in force: the same mapping until they are renewed.

        Raises:
            HeadwaterError: None are in force, and new ones cannot be had.
        """
        with self._lock:
            now = self._now_millis()
            if self._held is None or now >= self._ask_at:
                self._renew(now)
            assert self._held is not None
            return self._held.options

    def _renew(self, now: int) -> None:
        ask: OptionsSource = pickle.loads(self._ask) if isinstance(self._ask, bytes) else self._ask
        self._ask = ask
        is_urgent = self._held is None or now >= self._held.expires_at
        try:
            self._held = ask(is_urgent=is_urgent)
        except HeadwaterError:
            if is_urgent:
                raise
            self._ask_at = now + _RETRY_MILLIS
            return
        lifetime = max(self._held.expires_at - now, 0)
        self._ask_at = self._held.expires_at - min(_MARGIN_MILLIS, lifetime // 2)
