"""The options that only streams of ``format("headwater")`` have, but for where they start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from headwater.catalog.model.consumers import MAX_LEASE_MILLIS
from headwater.catalog.table.consumer_hold import LEASE
from headwater.spark.option_values import boolean_value, integer_value
from headwater.storage.errors import Invalid
from headwater.storage.options import parse_duration
from headwater.storage.scan.stream_batches import BatchLimits

__all__ = ["STREAM_OPTIONS", "ExpiredStart", "SchemaChange", "StreamOptions"]

Choice = TypeVar("Choice", bound=StrEnum)

_LEASE = "headwater.consumer.lease-time"
_OF_CONSUMERS = ("consumer.mode", "consumer.ignore-progress", _LEASE)
_LIMITS = {
    "files": "read.stream.maxFilesPerTrigger",
    "size": "read.stream.maxBytesPerTrigger",
    "rows": "read.stream.maxRowsPerTrigger",
    "snapshots": "read.stream.maxSnapshotsPerTrigger",
}
_SCHEMA_CHANGE = "headwater.schema-change"
_EXPIRED_START = "headwater.expired-start"
_MIN_ROWS = "read.stream.minRowsPerTrigger"
_MAX_DELAY = "read.stream.maxTriggerDelayMs"
_CONSUMER_MODES = ("exactly-once", "at-least-once")
STREAM_OPTIONS = (
    "consumer-id",
    *_OF_CONSUMERS,
    *_LIMITS.values(),
    _MIN_ROWS,
    _MAX_DELAY,
    _SCHEMA_CHANGE,
    _EXPIRED_START,
)
"""Their names."""


class ExpiredStart(StrEnum):
    """The ways of a stream whose start has expired: ``headwater.expired-start``."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST_FULL = "latest-full"


class SchemaChange(StrEnum):
    """The ways of a stream whose table gets other columns: ``headwater.schema-change``."""

    STOP = "stop"
    IGNORE = "ignore"


@dataclass(frozen=True)
class StreamOptions:
    """The options of a stream.

    Attributes:
        consumer_id: ``consumer-id``.
        ignores_progress: ``consumer.ignore-progress``: the consumer's position does not count for
            where a stream starts; it is moved from there on.
        lease: The time for which the consumer of a query that died is kept from others.
        limits: The most that a batch holds: ``read.stream.max…PerTrigger``.
        least: The rows that a batch waits for, and the milliseconds that it waits at most:
            ``read.stream.minRowsPerTrigger``, ``read.stream.maxTriggerDelayMs``.
        schema_change: The way of the stream when the table's columns change.
        expired_start: The way of the stream when its start has expired.
    """

    consumer_id: str | None = None
    ignores_progress: bool = False
    lease: timedelta = LEASE
    limits: BatchLimits | None = None
    least: tuple[int, int] | None = None
    schema_change: SchemaChange = SchemaChange.STOP
    expired_start: ExpiredStart = ExpiredStart.FAIL

    @property
    def is_given(self) -> bool:
        """True if any of them is not as it would be by itself."""
        return self != StreamOptions()

    @staticmethod
    def parse(options: Mapping[str, str]) -> StreamOptions:
        """Read Spark's option map; raises Invalid, naming the option that is wrong."""
        return StreamOptions(
            _consumer_id(options),
            boolean_value(options, "consumer.ignore-progress") or False,
            _lease(options),
            _limits(options),
            _least(options),
            _choice(options, _SCHEMA_CHANGE, SchemaChange.STOP),
            _choice(options, _EXPIRED_START, ExpiredStart.FAIL),
        )


def _consumer_id(options: Mapping[str, str]) -> str | None:
    """``consumer-id``; raises Invalid for options about a consumer without one."""
    consumer_id = options.get("consumer-id")
    if consumer_id is None:
        for name in _OF_CONSUMERS:
            if name in options:
                raise Invalid(f"option '{name}' is about a consumer: set consumer-id, too")
    mode = options.get("consumer.mode", _CONSUMER_MODES[0])
    if mode.lower() not in _CONSUMER_MODES:
        raise Invalid(
            f"option 'consumer.mode' must be one of {', '.join(_CONSUMER_MODES)}; not '{mode}'"
        )
    return consumer_id


def _limits(options: Mapping[str, str]) -> BatchLimits | None:
    """The limits of a batch; raises Invalid."""
    found = {name: _positive(options, option) for name, option in _LIMITS.items()}
    return None if all(limit is None for limit in found.values()) else BatchLimits(**found)


def _least(options: Mapping[str, str]) -> tuple[int, int] | None:
    """The rows that a batch waits for, and how many milliseconds; raises Invalid."""
    rows, delay = _positive(options, _MIN_ROWS), _positive(options, _MAX_DELAY)
    if rows is None and delay is None:
        return None
    if rows is None or delay is None:
        raise Invalid(f"options '{_MIN_ROWS}' and '{_MAX_DELAY}' need each other: set both or none")
    most = _positive(options, _LIMITS["rows"])
    if most is not None and most < rows:
        raise Invalid(
            f"a batch of at least {rows} rows ('{_MIN_ROWS}') cannot have at most {most} "
            f"('{_LIMITS['rows']}')"
        )
    return rows, delay


def _choice(options: Mapping[str, str], key: str, default: Choice) -> Choice:
    text = options.get(key)
    if text is None:
        return default
    kind = type(default)
    try:
        return kind(text.strip().lower())
    except ValueError:
        raise Invalid(f"option '{key}' must be one of {', '.join(kind)}; not '{text}'") from None


def _positive(options: Mapping[str, str], key: str) -> int | None:
    number = integer_value(options, key)
    if number is not None and number < 1:
        raise Invalid(f"option '{key}' must be 1 or more, not {number}")
    return number


def _lease(options: Mapping[str, str]) -> timedelta:
    text = options.get(_LEASE)
    if text is None:
        return LEASE
    millis = parse_duration(text, _LEASE)
    if not 0 < millis <= MAX_LEASE_MILLIS:
        raise Invalid(f"option '{_LEASE}' must be more than 0 and at most 1 d, not '{text}'")
    return timedelta(milliseconds=millis)
