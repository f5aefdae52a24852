"""Partition expiry: the partitions whose time is over.

Source: ``NormalPartitionExpire.java``, ``PartitionValuesTimeExpireStrategy.java``,
``PartitionUpdateTimeExpireStrategy.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headwater.storage.manifest.data_file import epoch_millis
from headwater.storage.options.lifecycle_options import ExpirationStrategy, LifecycleOptions
from headwater.storage.rows.partition import partition_spec, partition_texts
from headwater.storage.rows.partition_times import PartitionTimes
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "ExpiredPartitions",
    "PartitionRetention",
    "expired_partitions",
    "local_time",
    "partition_updates",
    "past_partitions",
]

# The second day of the year 1, which is within that year in every zone.
_FIRST_MILLIS = -62_135_510_400_000


@dataclass(frozen=True)
class PartitionRetention:
    """The partitions that expiry keeps.

    Attributes:
        millis: The age at which a partition goes.
        strategy: The time that its age is counted from: its values', or its newest file's.
        times: Reads the time of a partition's values.
        limit: The number of partitions that one run expires at most.
        batch: The number that one commit drops.
    """

    millis: int
    strategy: ExpirationStrategy = ExpirationStrategy.VALUES_TIME
    times: PartitionTimes = field(default_factory=PartitionTimes)
    limit: int = 100
    batch: int = 100

    @staticmethod
    def of(options: LifecycleOptions) -> PartitionRetention | None:
        """The retention by a table's options; None if its partitions do not expire.

        Raises:
            Invalid: An option has a value that it cannot have.
        """
        millis = options.partition_expiration
        if millis is None:
            return None
        return PartitionRetention(
            millis,
            options.partition_expiration_strategy,
            PartitionTimes.of(options),
            options.partition_expiration_limit,
            options.partition_expiration_batch,
        )


@dataclass(frozen=True)
class ExpiredPartitions:
    """The outcome of an expiry of partitions, or of its dry run.

    Attributes:
        dry_run: True if nothing was dropped.
        dropped: The partitions that went, each with its columns' values as in directory names.
        without_time: Partitions that stay because their values are no time.
    """

    dry_run: bool
    dropped: tuple[Mapping[str, str], ...] = ()
    without_time: tuple[Mapping[str, str], ...] = ()


def local_time(storage: TableStorage, millis: int) -> datetime:
    """The local time of a moment, without its zone, as Paimon compares partition times with.

    Moments before the year 1 are its first ones.
    """
    zone = storage.runtime.time_zone()
    return datetime.fromtimestamp(max(millis, _FIRST_MILLIS) / 1000, zone).replace(tzinfo=None)


def partition_updates(storage: TableStorage, snapshot: Snapshot) -> dict[bytes, int | None]:
    """The time at which each partition's newest file was written, milliseconds since the epoch.

    None for a partition whose files' times are not known.
    """
    found: dict[bytes, int | None] = {}
    for entry in live_entries(storage, snapshot):
        before = found.setdefault(entry.partition, None)
        if entry.file.creation_time is not None:
            now = epoch_millis(entry.file.creation_time)
            found[entry.partition] = now if before is None else max(now, before)
    return found


def expired_partitions(
    storage: TableStorage, snapshot: Snapshot, retention: PartitionRetention
) -> tuple[list[bytes], list[bytes]]:
    """The partitions whose time is over, and those that have none.

    Returns:
        Serialised partitions: those that go, by name and at most `retention.limit`; and those of
        which it cannot be said because their values, or their files, have no time.

    Raises:
        CorruptData: A manifest is missing or malformed.
        Invalid: The formatter is not one that Headwater reads.
    """
    oldest = storage.runtime.earliest_millis() - retention.millis
    now = local_time(storage, storage.runtime.earliest_millis())
    # An age may go back beyond the first year that there is a time for.
    age = min(retention.millis, (now - datetime.min) // timedelta(milliseconds=1))
    local = now - timedelta(milliseconds=age)
    going: list[bytes] = []
    without: list[bytes] = []
    for partition, updated in partition_updates(storage, snapshot).items():
        if retention.strategy is ExpirationStrategy.UPDATE_TIME:
            time, is_over = updated, updated is not None and updated < oldest
        else:
            found = retention.times.time(partition_texts(storage, partition))
            time, is_over = (None if found is None else 0), found is not None and found < local
        if time is None:
            without.append(partition)
        elif is_over:
            going.append(partition)
    going.sort(key=lambda each: ",".join(text for _, text in partition_spec(storage, each)))
    return going[: retention.limit], without


def past_partitions(storage: TableStorage, partitions: Iterable[bytes]) -> frozenset[bytes]:
    """Those of some partitions whose values say that their time is over.

    None by another ``partition.expiration-strategy``, or if partitions do not expire.

    Raises:
        Invalid: An option of expiry has a value that it cannot have.
    """
    retention = PartitionRetention.of(LifecycleOptions(storage.schema.options))
    if retention is None or retention.strategy is not ExpirationStrategy.VALUES_TIME:
        return frozenset()
    oldest = local_time(storage, storage.runtime.earliest_millis() - retention.millis)
    times = {each: retention.times.time(partition_texts(storage, each)) for each in set(partitions)}
    return frozenset(each for each, time in times.items() if time is not None and time < oldest)
