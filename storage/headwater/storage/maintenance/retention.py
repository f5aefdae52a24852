"""The snapshots and changelogs that an expiry keeps.

Expired are the oldest, as far as counts, times and consumers allow. Changelogs outlive their
snapshots where a table's options keep them for longer.

Source: ``ExpireSnapshotsImpl.java``, ``ExpireChangelogImpl.java``, ``ExpireConfig.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headwater.storage.errors import Invalid
from headwater.storage.options import TableOptions
from headwater.storage.snapshot.consumer import Consumer, list_consumer_files
from headwater.storage.snapshot.files import read_snapshot_file
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["Consumers", "Retention", "first_kept_changelog", "first_kept_snapshot"]

_NEVER = 2**63 - 1


@dataclass(frozen=True)
class Retention:
    """The snapshots, or the changelogs, that expiry keeps.

    Attributes:
        least: The number of latest snapshots that stay in any case, at least 1.
        most: How many stay at most: beyond that, the oldest go even when they are young.
        millis: The age of its successor at which a snapshot goes; of a changelog, its own.
        limit: The number that one run expires at most.
    """

    least: int
    most: int
    millis: int
    limit: int

    @staticmethod
    def from_options(
        options: TableOptions,
        *,
        least: int | None = None,
        most: int | None = None,
        millis: int | None = None,
        limit: int | None = None,
    ) -> Retention:
        """The retention that is asked for, and what a table's options say of the rest."""
        if least is None:
            least = options.snapshot_retained_min
            if most is not None:
                # Asked to keep few, an option that keeps more must not stand in the way.
                least = min(least, most)
        return Retention(
            least,
            options.snapshot_retained_max if most is None else most,
            options.snapshot_time_retained if millis is None else millis,
            options.snapshot_expire_limit if limit is None else limit,
        )

    @staticmethod
    def of_changelogs(options: TableOptions) -> Retention | None:
        """The retention of changelogs; None where they go with their snapshots."""
        if not options.changelogs_outlive_snapshots:
            return None
        return Retention(
            options.changelog_retained_min,
            options.changelog_retained_max,
            options.changelog_time_retained,
            options.snapshot_expire_limit,
        )

    @staticmethod
    def everything() -> Retention:
        """The retention by which nothing goes."""
        return Retention(_NEVER, _NEVER, 0, _NEVER)

    def check(self, kept: str = "snapshot") -> None:
        """Refuse a retention that contradicts itself; raises Invalid.

        Args:
            kept: The word for what it keeps.
        """
        if self.least < 1:
            raise Invalid(f"at least one {kept} must be retained, not {self.least}")
        if self.most < self.least:
            raise Invalid(
                f"at most {self.most} {kept}s cannot be retained when at least {self.least} must be"
            )
        if self.millis < 0 or self.limit < 1:
            raise Invalid("a retention time must not be negative, and a limit must be at least 1")


@dataclass(frozen=True)
class Consumers:
    """The consumers of a table.

    Attributes:
        active: Those that hold back what they have not read.
        idle: Those that have not moved for ``consumer.expiration-time``: when each was last moved,
            in ms since the epoch, by id.
    """

    active: tuple[Consumer, ...] = ()
    idle: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def from_storage(storage: TableStorage) -> Consumers:
        """The consumers that have files; raises CorruptData for a file that is not a consumer's."""
        consumers = list_consumer_files(storage.files, storage.layout)
        after = storage.schema.table_options.consumer_expiration
        if after is None:
            return Consumers(tuple(consumers))
        oldest = storage.runtime.earliest_millis() - after
        idle = {
            consumer.consumer_id: consumer.updated_at
            for consumer in consumers
            if consumer.updated_at is not None and consumer.updated_at < oldest
        }
        active = (consumer for consumer in consumers if consumer.consumer_id not in idle)
        return Consumers(tuple(active), idle)

    def hold_back(self, end: int, *, with_before: bool = False) -> tuple[int, str | None]:
        """The first id that stays, instead of `end`, and the consumer that made it no later one.

        Args:
            end: The first id that would stay.
            with_before: Whether the snapshot before the one that a consumer wants stays.
        """
        holder: str | None = None
        for consumer in self.active:
            needed = max(1, consumer.next_snapshot - with_before)
            if needed < end:
                end, holder = needed, consumer.consumer_id
        return end, holder


def first_kept_snapshot(
    storage: TableStorage,
    earliest: int,
    latest: Snapshot,
    rules: Retention,
    consumers: Consumers,
) -> tuple[int, str | None]:
    """The first snapshot that stays, and the consumer that made it no later one."""
    end = min(latest.id - rules.least + 1, earliest + rules.limit)
    holder: str | None = None
    options = storage.schema.table_options
    if not options.consumer_changelog_only:
        # It has the rows that an overwrite replaced.
        tells_overwrites = options.streaming_read_overwrite and bool(storage.schema.primary_keys)
        end, holder = consumers.hold_back(end, with_before=tells_overwrites)
    oldest = storage.runtime.earliest_millis() - rules.millis
    for number in range(max(latest.id - rules.most + 1, earliest), end):
        following = read_snapshot_file(storage.files, storage.layout, number + 1)
        # A snapshot goes when its successor has been the present one for long enough.
        if following is not None and following.time_millis >= oldest:
            return number, None
    return end, holder


def first_kept_changelog(
    storage: TableStorage,
    ids: Iterable[int],
    read: Callable[[int], Snapshot | None],
    latest: Snapshot,
    rules: Retention,
    consumers: Consumers,
) -> tuple[int, str | None]:
    """The first changelog that stays, and the consumer that made it no later one.

    Args:
        storage: The table.
        ids: The changelogs there are, ascending; those that an expiry of snapshots leaves, too.
        read: Reads one of them; None if it is gone.
        latest: The table's latest snapshot.
        rules: The changelogs to keep, counted from the latest snapshot.
        consumers: The table's consumers.
    """
    present = list(ids)
    earliest, last = present[0], present[-1]
    end, holder = consumers.hold_back(
        min(latest.id - rules.least + 1, earliest + rules.limit, last)
    )
    oldest = storage.runtime.earliest_millis() - rules.millis
    for number in (n for n in present if n >= latest.id - rules.most + 1 and n < end):
        changelog = read(number)
        if changelog is not None and changelog.time_millis >= oldest:
            return number, None
    return max(end, earliest), holder
