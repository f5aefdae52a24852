"""Partition expiry of chain tables: the partitions that no later one is made of.

Source: ``ChainTablePartitionExpire.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.storage.maintenance.partition_expiry import PartitionRetention, local_time
from headwater.storage.rows.partition import partition_texts
from headwater.storage.scan.chain import chain_places
from headwater.storage.schema.chain import Chain
from headwater.storage.table_storage import TableStorage

__all__ = ["ExpiredChains", "expired_chains"]


@dataclass(frozen=True)
class ExpiredChains:
    """Partitions of a chain table's two branches, serialised.

    Attributes:
        whole: Those of the snapshot branch whose time is over, oldest first.
        deltas: Those of the delta branch, newest first: each can go while what it builds on is
            there.
        without_time: Those of either that stay because their values are no time.
    """

    whole: tuple[bytes, ...]
    deltas: tuple[bytes, ...]
    without_time: tuple[bytes, ...]


def expired_chains(
    storage: TableStorage,
    chain: Chain,
    whole: Collection[bytes],
    deltas: Collection[bytes],
    retention: PartitionRetention,
) -> ExpiredChains:
    """The partitions whose time is over and that no partition which stays is made of.

    Of each chain the last whole partition whose time is over stays, for later ones build on it,
    and so does everything after it; `retention.limit` counts the whole partitions of a chain that
    go. Nothing before a partition that stays goes, whatever its own time.

    Args:
        storage: Either branch.
        chain: The table's chain.
        whole: The partitions of the snapshot branch.
        deltas: The partitions of the delta branch.
        retention: The partitions to keep.

    Raises:
        Invalid: The formatter is not one that Headwater reads.
    """
    oldest = local_time(storage, storage.runtime.earliest_millis()) - timedelta(
        milliseconds=retention.millis
    )
    times = {
        each: retention.times.time(partition_texts(storage, each)) for each in {*whole, *deltas}
    }
    of_whole, of_deltas = (chain_places(storage, chain, each) for each in (whole, deltas))
    going: tuple[list[bytes], list[bytes]] = ([], [])
    for group, wholes in of_whole.items():
        changes = of_deltas.get(group, [])
        over = _leading(wholes, times, oldest)
        last = min(over - 1, retention.limit)
        while last > 0:
            anchor = wholes[last][0]
            before = [(place, each) for place, each in changes if place < anchor]
            if _leading(before, times, oldest) == len(before):
                going[0].extend(each for _, each in wholes[:last])
                going[1].extend(each for _, each in reversed(before))
                break
            last -= 1
    without = sorted(each for each, time in times.items() if time is None)
    return ExpiredChains(tuple(going[0]), tuple(going[1]), tuple(without))


def _leading(
    partitions: Collection[tuple[object, bytes]],
    times: Mapping[bytes, datetime | None],
    oldest: datetime,
) -> int:
    """The number of the first partitions, in a chain's order, whose time is over."""
    for number, (_, partition) in enumerate(partitions):
        time = times[partition]
        if time is None or time >= oldest:
            return number
    return len(partitions)
