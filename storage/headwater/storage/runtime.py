"""The clock and the source of unique names, passed to whatever needs them.

Storage and catalog code never asks the machine for the time or for randomness by itself, so that
tests can replay crashes, expiry and races exactly. This is the one module that does.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["SYSTEM_RUNTIME", "Runtime"]


@dataclass(frozen=True)
class Runtime:
    """Where time and unique names come from.

    Attributes:
        now_millis: Milliseconds since the epoch, UTC.
        new_uuid: A name nobody else has, in the form of a version 4 UUID.
        sleep: Waits for a number of seconds.
    """

    now_millis: Callable[[], int]
    new_uuid: Callable[[], str]
    sleep: Callable[[float], None]


def _system_millis() -> int:
    return time.time_ns() // 1_000_000


def _system_uuid() -> str:
    return str(uuid.uuid4())


SYSTEM_RUNTIME = Runtime(_system_millis, _system_uuid, time.sleep)
