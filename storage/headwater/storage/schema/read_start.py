"""The part of a table's history that its options ask to be read.

Source: ``CoreOptions.startupMode``, ``SchemaValidation.validateStartupMode``,
``TimeTravelUtil.java``, ``AbstractDataTableScan.createStartingScanner``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from headwater.storage.errors import Invalid
from headwater.storage.options.quantities import parse_integer
from headwater.storage.types.local_time import Zone, moments
from headwater.storage.types.values import parse_moment

__all__ = [
    "BY_CREATION",
    "INCREMENTAL_OPTIONS",
    "START_OPTIONS",
    "IncrementalMode",
    "ReadStart",
    "StartMode",
    "incremental_mode",
    "parse_time",
]


class StartMode(StrEnum):
    """The kinds of starts that ``scan.mode`` names."""

    DEFAULT = "default"
    LATEST_FULL = "latest-full"
    FULL = "full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    INCREMENTAL = "incremental"


class IncrementalMode(StrEnum):
    """The files that tell what changed between two snapshots (``IncrementalBetweenScanMode``)."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


BY_CREATION = (StartMode.FROM_FILE_CREATION_TIME, StartMode.FROM_CREATION_TIMESTAMP)
"""The starts that choose files by the time at which they were made."""
_MODE = "scan.mode"
_ALIASES: Mapping[str, str] = {
    "log.scan": _MODE,
    "log.scan.timestamp-millis": "scan.timestamp-millis",
}
_OF_MODE: Mapping[StartMode, Collection[str]] = {
    StartMode.FROM_TIMESTAMP: ("scan.timestamp-millis", "scan.timestamp"),
    StartMode.FROM_SNAPSHOT: (
        "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version",
    ),
    StartMode.FROM_SNAPSHOT_FULL: ("scan.snapshot-id",),
    StartMode.FROM_FILE_CREATION_TIME: ("scan.file-creation-time-millis",),
    StartMode.FROM_CREATION_TIMESTAMP: ("scan.creation-time-millis",),
    StartMode.INCREMENTAL: (
        "incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag",
    ),
}  # fmt: skip
"""The options of which a mode takes exactly one; without ``scan.mode`` they choose it."""

_PLACES = tuple(dict.fromkeys(key for keys in _OF_MODE.values() for key in keys))
INCREMENTAL_OPTIONS = (
    *_OF_MODE[StartMode.INCREMENTAL],
    "incremental-between-scan-mode",
    "incremental-between-tag-to-snapshot",
)
"""The options that say which changes are read, and how."""
START_OPTIONS = frozenset({_MODE, *_ALIASES, *_PLACES})
"""The options that say which part of a table's history is read."""


@dataclass(frozen=True)
class ReadStart:
    """The start of a read: its mode and the one option that the mode takes.

    Attributes:
        mode: Never `StartMode.DEFAULT` nor `StartMode.FULL`.
        key: The option that says where; None for modes that take none.
        value: Its value.
    """

    mode: StartMode
    key: str | None = None
    value: str = ""

    @staticmethod
    def of(options: Mapping[str, str]) -> ReadStart:
        """The start that table options ask for, checked as a whole.

        Raises:
            Invalid: Options contradict each other, or one that the mode needs is missing.
        """
        given = {
            _ALIASES.get(key, key): text.strip()
            for key, text in options.items()
            if key in START_OPTIONS and text.strip()
        }
        mode = _mode(given.pop(_MODE, StartMode.DEFAULT))
        if len(given) > 1:
            raise Invalid(
                f"options {' and '.join(sorted(given))} contradict each other: set one of them"
            )
        key = next(iter(given), None)
        if mode is StartMode.DEFAULT:
            mode = StartMode.LATEST_FULL
            for each, keys in _OF_MODE.items():
                if key in keys:
                    mode = each
                    break
        taken = _OF_MODE.get(mode, ())
        if key is not None and key not in taken:
            raise Invalid(
                f"scan.mode={mode} takes {' or '.join(taken) or 'no other option'}, not {key}: "
                "set one of the two alone"
            )
        if key is None and taken:
            raise Invalid(f"scan.mode={mode} needs the option {' or '.join(taken)}")
        return ReadStart(mode, key, given.get(key or "", ""))

    def check(self) -> None:
        """Read the option's value; raises Invalid when it is malformed."""
        match self.key:
            case None | "scan.tag-name" | "scan.version" | "incremental-to-auto-tag":
                return  # any name
            case "incremental-between" | "incremental-between-timestamp":
                self.pair()
            case _:
                self.time_millis(lambda: dt.UTC)

    def integer(self) -> int:
        """The option's value as a number; raises Invalid when it is none, or less than 0."""
        number = parse_integer(self.value, str(self.key))
        if number < 0:
            raise Invalid(f"option '{self.key}' must be 0 or more, not {number}")
        return number

    def pair(self) -> tuple[str, str]:
        """The option's value as a start, which is left out, and an end, which is not.

        Raises:
            Invalid: It is not two values with a comma between.
        """
        parts = [part.strip() for part in self.value.split(",")]
        if len(parts) != 2 or not all(parts):
            raise Invalid(
                f"option '{self.key}' must be a start (exclusive) and an end, such as '5,10', not "
                f"'{self.value}'"
            )
        return parts[0], parts[1]

    def time_millis(self, zone: Zone) -> int:
        """The option's value as a moment, see `parse_time`."""
        if self.key == "scan.timestamp":
            return parse_time(self.value, zone, self.key)
        return self.integer()


def _mode(text: str) -> StartMode:
    try:
        mode = StartMode(text.lower())
    except ValueError:
        names = ", ".join(StartMode)
        raise Invalid(f"option '{_MODE}' must be one of {names}; not '{text}'") from None
    return StartMode.LATEST_FULL if mode is StartMode.FULL else mode


def parse_time(text: str, zone: Zone, key: str) -> int:
    """Milliseconds since the epoch, from ``2026-01-31 12:00:00`` in a zone.

    Args:
        text: A time; with a zone of its own, such as ``Z``, that one counts.
        zone: The zone of times without one.
        key: The option, for the error.

    Raises:
        Invalid: The text is not a time.
    """
    try:
        nanos, has_zone = parse_moment(text)
    except ValueError:
        raise Invalid(
            f"option '{key}': '{text}' is not a time such as 2026-01-31 12:00:00"
        ) from None
    seconds, fraction = divmod(nanos, 10**9)
    where: dt.tzinfo = dt.UTC if has_zone else zone()
    known = int(moments(np.array([seconds], np.int64), where)[0])
    return known * 1000 + fraction // 10**6


def incremental_mode(text: str) -> IncrementalMode:
    """Read ``incremental-between-scan-mode``; raises Invalid when it is none."""
    try:
        return IncrementalMode(text.strip().lower())
    except ValueError:
        names = ", ".join(IncrementalMode)
        raise Invalid(f"the mode of changes must be one of {names}; not '{text}'") from None
