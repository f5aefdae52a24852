"""The clock, its time zone and the source of unique names, passed to whatever needs them.

Storage and catalog code never asks the machine for the time or for randomness by itself, so that
tests can replay crashes, expiry and races exactly. This is the one module that does.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.storage.clock import Clock, Moment
from headwater.storage.errors import Invalid

__all__ = ["SYSTEM_RUNTIME", "Runtime"]


def _process_zone() -> dt.tzinfo:
    return _system_zone(os.environ.get("TZ"))


@cache
def _system_zone(name: str | None) -> dt.tzinfo:
    """The process's zone, found as Java finds it: by the variable TZ, else by the machine's."""
    name = (name or "").removeprefix(":")
    if name:
        try:
            return _zone_in(name) if os.path.isabs(name) else ZoneInfo(name)
        except (OSError, ValueError, ZoneInfoNotFoundError):
            raise Invalid(
                f"TZ={name} names no time zone; set it to a name such as Europe/Berlin"
            ) from None
    try:
        return _zone_in("/etc/localtime")
    except FileNotFoundError:
        return dt.UTC


def _zone_in(path: str) -> ZoneInfo:
    with open(path, "rb") as file:
        return ZoneInfo.from_file(file)


if sys.platform == "linux":

    def _system_seconds() -> float:
        # Unlike the default monotonic clock it goes on while the machine sleeps: a credential that
        # was remembered for ten seconds must not be good for a night.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    _system_seconds = time.monotonic


@dataclass(frozen=True)
class Runtime:
    """The source of time and unique names.

    Attributes:
        now_millis: Milliseconds since the epoch, UTC.
        new_uuid: A name nobody else has, in the form of a version 4 UUID.
        sleep: Waits for a number of seconds.
        time_zone: The zone of local times, where a table's data leaves it open.
        monotonic: Seconds since some moment, which never go back nor jump: for everything that
            lasts, where `now_millis` is for what is written down.
        clock: The clocks that `now_millis` is told from; None if it is the machine's alone.
    """

    now_millis: Callable[[], int]
    new_uuid: Callable[[], str]
    sleep: Callable[[float], None]
    time_zone: Callable[[], dt.tzinfo] = _process_zone
    monotonic: Callable[[], float] = _system_seconds
    clock: Clock | None = None

    def earliest_millis(self) -> int:
        """The time that has come by every clock there is: for what is deleted by age."""
        return self.now_millis() if self.clock is None else self.clock.earliest_millis()

    def latest_millis(self) -> int:
        """The time that has come by any clock there is: for what is refused when it is over."""
        return self.now_millis() if self.clock is None else self.clock.latest_millis()

    def new_clock(self, start: Moment | None = None) -> Clock:
        """A clock that a jump of this machine's does not move.

        Args:
            start: The machine's time when the program started; by default, its time now.
        """
        machine = self.now_millis if self.clock is None else self.clock.machine
        return Clock(machine, self.monotonic, start)

    def with_clock(self, clock: Clock) -> Runtime:
        """The same with another clock."""
        return replace(self, now_millis=clock.now_millis, clock=clock)


def _system_millis() -> int:
    return time.time_ns() // 1_000_000


def _system_uuid() -> str:
    return str(uuid.uuid4())


SYSTEM_RUNTIME = Runtime(_system_millis, _system_uuid, time.sleep)
