"""The changes between two points of a table's history, as a batch.

Source: ``IncrementalDeltaStartingScanner.java``, ``TagPeriodHandler.java``,
``AbstractDataTableScan.createIncrementalStartingScanner``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator

from headwater.storage.errors import Invalid
from headwater.storage.options import ChangelogProducer, TableOptions
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.past import earlier_ids
from headwater.storage.scan.plan import plan_changelog, plan_delta
from headwater.storage.scan.split import ScanPlan
from headwater.storage.scan.stream import find_changes
from headwater.storage.schema.read_start import IncrementalMode
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import Tag
from headwater.storage.table_storage import TableStorage

__all__ = ["files_of_changes", "ids_between", "plans_between", "previous_auto_tag"]


def files_of_changes(schema: TableSchema, mode: IncrementalMode) -> IncrementalMode:
    """Delta or changelog files, where `mode` leaves the choice to the table."""
    if mode is not IncrementalMode.AUTO:
        return mode
    producer = schema.table_options.changelog_producer
    kept = bool(schema.primary_keys) and producer is not ChangelogProducer.NONE
    return IncrementalMode.CHANGELOG if kept else IncrementalMode.DELTA


def plans_between(
    storage: TableStorage,
    since: int,
    until: int,
    latest: Snapshot | None,
    mode: IncrementalMode,
    *,
    with_overwrites: bool = False,
    predicate: Predicate | None = None,
) -> Iterator[ScanPlan]:
    """The changes of some snapshots, a plan for each that counts.

    Of deltas, those of APPEND snapshots count. Changelogs count wherever there are some: of what an
    overwrite replaces nothing is told, of rows that are changed where they stand there is.

    Args:
        storage: The table.
        since: The snapshot before the first.
        until: The last snapshot.
        latest: The latest snapshot.
        mode: Delta or changelog files.
        with_overwrites: Count the rows that overwrites wrote, too, of delta files.
        predicate: The condition for wanted rows; each change is judged for itself.

    Raises:
        NotFound: A snapshot has expired.
        Invalid: A snapshot does not exist yet.
        CorruptData: A manifest is missing or malformed.
        Unsupported: The table's options ask for what Headwater does not do.
    """
    for number in range(since + 1, until + 1):
        snapshot = find_changes(storage, latest, number)
        plan = _plan(storage, snapshot, mode, with_overwrites, predicate)
        if plan is not None:
            yield plan


def _plan(
    storage: TableStorage,
    snapshot: Snapshot,
    mode: IncrementalMode,
    with_overwrites: bool,
    predicate: Predicate | None,
) -> ScanPlan | None:
    kind = snapshot.commit_kind
    if mode is IncrementalMode.CHANGELOG:
        return plan_changelog(storage, snapshot, predicate=predicate)
    if kind is CommitKind.APPEND or (with_overwrites and kind is CommitKind.OVERWRITE):
        return plan_delta(storage, snapshot, predicate=predicate)
    return None


def ids_between(
    storage: TableStorage, latest: Snapshot | None, start_millis: int, end_millis: int
) -> tuple[int, int] | None:
    """The snapshots between two moments: the one before the first, and the last.

    Args:
        storage: The table.
        latest: Its latest snapshot.
        start_millis: Snapshots up to this moment are left out, milliseconds since the epoch.
        end_millis: Snapshots after this moment are left out.

    Returns:
        None when there are none.

    Raises:
        Invalid: The end is before the start.
    """
    if end_millis < start_millis:
        raise Invalid(
            f"table {storage.name}: the changes end at {end_millis}, before they start at "
            f"{start_millis}"
        )
    ids = earlier_ids(storage, latest)
    if latest is None or start_millis == end_millis or start_millis > latest.time_millis:
        return None
    times = [
        (latest if number == latest.id else storage.snapshot(number)).time_millis for number in ids
    ]
    last = [number for number, time in zip(ids, times, strict=True) if time <= end_millis]
    if not last:
        return None
    first = [number for number, time in zip(ids, times, strict=True) if time <= start_millis]
    return (first[-1] if first else ids[0] - 1), last[-1]


# Tags of periods --------------------------------------------------------------------------------

_DAILY = {"with_dashes": "%Y-%m-%d"}
_HOURLY = {
    "with_dashes": "%Y-%m-%d %H",
    "without_dashes": "%Y%m%d %H",
    "without_dashes_and_spaces": "%Y%m%d%H",
}
_SHAPES = {
    "%Y-%m-%d": r"\d{4}-\d\d-\d\d", "%Y%m%d": r"\d{8}", "%Y-%m-%d %H": r"\d{4}-\d\d-\d\d \d\d",
    "%Y%m%d %H": r"\d{8} \d\d", "%Y%m%d%H": r"\d{10}", "%Y%m%d%H%M": r"\d{12}",
}  # fmt: skip


def previous_auto_tag(options: TableOptions, tags: Iterable[Tag], name: str) -> Tag | None:
    """The tag of the period before another's, of those that engines make by themselves.

    Args:
        options: The table's options, which say what such tags are called.
        tags: The table's tags.
        name: A tag.

    Returns:
        None when there is no earlier one.

    Raises:
        Invalid: The name is not one of such a tag.
    """
    moment = _period(options, name)
    if moment is None:
        raise Invalid(
            f"'{name}' is not the name of a tag that is made for each period (options "
            "tag.creation-period, tag.period-formatter)"
        )
    earlier = [
        (time, tag)
        for tag in tags
        if (time := _period(options, tag.name)) is not None and time < moment
    ]
    return max(earlier, key=lambda item: item[0])[1] if earlier else None


def _period(options: TableOptions, name: str) -> dt.datetime | None:
    form = options.raw.get("tag.period-formatter", "with_dashes").strip().lower()
    period = options.raw.get("tag.creation-period", "daily").strip().lower()
    if "tag.creation-period-duration" in options.raw:
        pattern = "%Y%m%d%H%M"
    elif period == "daily":
        pattern = _DAILY.get(form, "%Y%m%d")
        name = name.split(" ", 1)[0]
    elif period == "hourly":
        pattern = _HOURLY.get(form, _HOURLY["with_dashes"])
    else:
        pattern = _HOURLY["with_dashes"]
    if re.fullmatch(_SHAPES[pattern], name, re.ASCII) is None:
        return None
    try:
        return dt.datetime.strptime(name, pattern)
    except ValueError:
        return None
