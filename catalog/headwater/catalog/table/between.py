"""The part of a table's history whose changes are wanted.

Source: ``AbstractDataTableScan.createIncrementalStartingScanner``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from headwater.catalog.table.history import TableHistory, millis_of
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.scan.incremental import ids_between, previous_auto_tag
from headwater.storage.scan.past import earlier_ids
from headwater.storage.schema.read_start import (
    IncrementalMode,
    ReadStart,
    StartMode,
    incremental_mode,
    parse_time,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import Tag

__all__ = ["Difference", "SnapshotRange", "between_arguments", "between_options"]

_MODE = "incremental-between-scan-mode"


@dataclass(frozen=True)
class SnapshotRange:
    """Snapshots whose commits' changes are wanted: those after `since`, up to and with `until`."""

    since: int
    until: int
    mode: IncrementalMode


@dataclass(frozen=True)
class Difference:
    """Two snapshots that are compared."""

    before: Snapshot
    after: Snapshot


Between: TypeAlias = "SnapshotRange | Difference | None"
"""None: nothing changed."""


def between_arguments(
    table: TableHistory,
    since: int | str | datetime,
    until: int | str | datetime | None,
    mode: IncrementalMode,
) -> Between:
    """The meaning of a caller's own start and end, see `ReadableTable.changes`."""
    latest = table.pointer.latest()
    match since, until:
        case datetime(), datetime() | None:
            start = millis_of(since)
            end = max(start, 0 if latest is None else latest.time_millis)
            return _moments(table, start, end if until is None else millis_of(until), mode)
        case str(), str():
            return _tags(table, table.tag(since).snapshot, table.tag(until).snapshot, mode)
        case str(), None:
            start_tag = table.tag(since).snapshot
            return None if latest is None else _tags(table, start_tag, latest, mode)
        case int(), int() | None:
            last = 0 if latest is None else latest.id
            return _snapshots(table, since, last if until is None else until, mode)
    raise Invalid(
        f"changes since {since!r} until {until!r}: give two snapshot ids, two tags or two moments"
    )


def between_options(table: TableHistory, mode: IncrementalMode) -> Between:
    """The meaning of a table's ``incremental-…`` options.

    Args:
        table: The table.
        mode: The caller's own, which goes before the option.

    Raises:
        Invalid: There are none, or they contradict each other.
    """
    options = table.schema.table_options
    start = ReadStart.of(table.schema.options)
    if start.mode is not StartMode.INCREMENTAL:
        raise Invalid(
            f"table {table.name}: say since which snapshot, tag or moment changes are wanted, or "
            "set the option incremental-between"
        )
    if mode is IncrementalMode.AUTO:
        mode = incremental_mode(options.raw.get(_MODE, IncrementalMode.AUTO))
    if start.key == "incremental-to-auto-tag":
        return _to_auto_tag(table, start.value)
    first, last = start.pair()
    if start.key == "incremental-between-timestamp":
        return _moments(table, _moment(table, start, first), _moment(table, start, last), mode)
    tags = _tag(table, first), _tag(table, last)
    if tags[0] is not None and tags[1] is not None:
        if options.tags_mean_snapshots:
            return _snapshots(table, tags[0].id, tags[1].id, mode)
        return _tags(table, tags[0], tags[1], IncrementalMode.AUTO)
    if not (first.isdecimal() and last.isdecimal()):
        raise Invalid(
            f"table {table.name}: {start.key}={start.value} names neither two tags nor two "
            "snapshot ids"
        )
    return _snapshots(table, int(first), int(last), mode)


def _moment(table: TableHistory, start: ReadStart, text: str) -> int:
    if text.removeprefix("-").isdecimal():
        return int(text)
    return parse_time(text, table.storage.runtime.time_zone, start.key or "")


def _tag(table: TableHistory, name: str) -> Snapshot | None:
    try:
        return table.tag(name).snapshot
    except NotFound as error:
        if error.resource_type is not ResourceType.TAG:
            raise
        return None


def _snapshots(table: TableHistory, since: int, until: int, mode: IncrementalMode) -> Between:
    if until < since:
        raise Invalid(
            f"table {table.name}: the changes end with snapshot {until}, before they start after "
            f"snapshot {since}"
        )
    latest = table.pointer.latest()
    if until > (0 if latest is None else latest.id):
        table.snapshot(until)  # which raises
    if mode is not IncrementalMode.DIFF:
        return SnapshotRange(since, until, mode)
    if since == until:
        return None
    return Difference(table.snapshot(since), table.snapshot(until))


def _tags(table: TableHistory, before: Snapshot, after: Snapshot, mode: IncrementalMode) -> Between:
    if mode not in (IncrementalMode.AUTO, IncrementalMode.DIFF):
        return _snapshots(table, before.id, after.id, mode)
    if after.id < before.id:
        raise Invalid(
            f"table {table.name}: the changes end with snapshot {after.id}, before they start "
            f"after snapshot {before.id}"
        )
    return None if after.id == before.id else Difference(before, after)


def _moments(
    table: TableHistory, start_millis: int, end_millis: int, mode: IncrementalMode
) -> Between:
    latest = table.pointer.latest()
    between = ids_between(table.storage, latest, start_millis, end_millis)
    if between is None:
        return None
    since, until = between
    if mode is not IncrementalMode.DIFF:
        return SnapshotRange(since, until, mode)
    # Before the earliest there is nothing to compare with.
    since = max(since, earlier_ids(table.storage, latest)[0])
    return _snapshots(table, since, until, mode)


def _to_auto_tag(table: TableHistory, name: str) -> Between:
    tags = [Tag(info.name, info.snapshot) for info in table.tags()]
    previous = previous_auto_tag(table.schema.table_options, tags, name)
    end = next((tag for tag in tags if tag.name == name), None)
    if previous is None or end is None:
        return None
    return Difference(previous.snapshot, end.snapshot)
