"""The planning of reads of a chain table: which files of its two branches make up a partition.

A partition that the snapshot branch has is whole there. One that only the delta branch has is made
of the nearest earlier partition of the snapshot branch, the anchor, and of the delta branch's
partitions after the anchor up to itself. Without an anchor all earlier ones count. Partitions with
other values of the group columns belong to other chains.

Source: ``ChainGroupReadTable.ChainTableBatchScan``. Paimon 2.0 counts the delta branch's partitions
by the clock, in days or, with several chain columns, hours. Here those count that lie between in
the order of their values, whatever time they stand for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TypeAlias

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import DeletionFile
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.manifest.entries import Entries
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.partition import bucket_directory, partition_spec, partition_values
from headwater.storage.scan.bucket_splits import (
    is_marked,
    keyed_splits,
    marked_splits,
    with_deletion_files,
)
from headwater.storage.scan.expired_snapshots import naming_expired
from headwater.storage.scan.found_entries import FoundEntries
from headwater.storage.scan.partitions import (
    apart_from_partitions,
    least_level,
    partitions_with_rows,
)
from headwater.storage.scan.plan import deletion_files_of, find_live, plan_of
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.split import ScanPlan, Split, WantedSnapshot
from headwater.storage.schema.chain import Chain
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["ChainStorage", "Link", "chain_links", "chain_places", "plan_chain"]

_Order: TypeAlias = tuple[tuple[bool, StorageValue], ...]


@dataclass(frozen=True, kw_only=True)
class ChainStorage(TableStorage):
    """The delta branch's files and those of the snapshot branch, by the delta branch's rules.

    The branches number their schemas each for itself. In a plan, files of the snapshot branch bear
    negative numbers, `schema_number` of their own ones.

    Attributes:
        whole: The snapshot branch.
    """

    whole: TableStorage = field(repr=False)

    @staticmethod
    def of(whole: TableStorage, delta: TableStorage) -> ChainStorage:
        """Both branches.

        Args:
            whole: The snapshot branch.
            delta: The delta branch.
        """
        own = {item.name: getattr(delta, item.name) for item in fields(TableStorage)}
        # What deletion vectors hide and mark is known when files are planned; rows are merged
        # without what a lookup has put into the lowest level of another branch
        # (``MergeFileSplitRead.createChainReader``).
        options = {**delta.schema.options, "deletion-vectors.enabled": "false"}
        own["schema"] = replace(delta.schema, options=options)
        return ChainStorage(**own, whole=whole)

    def schema_by_id(self, schema_id: int) -> TableSchema:
        """A version of either branch's schema; raises CorruptData."""
        if schema_id < 0:
            return self.whole.schema_by_id(schema_number(schema_id))
        return super().schema_by_id(schema_id)


def schema_number(schema_id: int) -> int:
    """The number in a plan of a schema of the snapshot branch, and back."""
    return -1 - schema_id


@dataclass(frozen=True)
class Link:
    """A partition of the delta branch, and what it is made of.

    Attributes:
        partition: The partition, serialised.
        anchor: The partition of the snapshot branch; None without one.
        deltas: The partitions of the delta branch, itself among them, in the chain's order.
    """

    partition: bytes
    anchor: bytes | None
    deltas: tuple[bytes, ...]


def chain_links(
    storage: TableStorage,
    chain: Chain,
    wanted: Iterable[bytes],
    whole: Collection[bytes],
    deltas: Collection[bytes],
) -> list[Link]:
    """The makings of partitions of the delta branch.

    A null among the values that order a chain has no place in it: such a partition is its own.

    Args:
        storage: Either branch.
        chain: The table's chain.
        wanted: Partitions of the delta branch, serialised.
        whole: All partitions of the snapshot branch that may be anchors.
        deltas: All partitions of the delta branch that lie before the wanted ones.
    """
    anchors, changes = (chain_places(storage, chain, each) for each in (whole, deltas))
    links: list[Link] = []
    for partition in wanted:
        group, place = _place(storage, chain, partition)
        if not all(is_known for is_known, _ in place):
            links.append(Link(partition, None, (partition,)))
            continue
        of_group = anchors.get(group, [])
        earlier = bisect_left(of_group, place, key=lambda item: item[0])
        anchor = of_group[earlier - 1] if earlier else None
        later = changes.get(group, [])
        first = 0 if anchor is None else bisect_right(later, anchor[0], key=lambda item: item[0])
        last = bisect_right(later, place, key=lambda item: item[0])
        found = tuple(each for _, each in later[first:last])
        links.append(Link(partition, None if anchor is None else anchor[1], found))
    return links


def chain_places(
    storage: TableStorage, chain: Chain, partitions: Iterable[bytes]
) -> dict[_Order, list[tuple[_Order, bytes]]]:
    """Partitions with their places, in each chain's order, by the values that tell chains apart.

    Without those that have no place, because of a null among the values that order a chain.

    Args:
        storage: Either branch.
        chain: The table's chain.
        partitions: Partitions, serialised.
    """
    found: dict[_Order, list[tuple[_Order, bytes]]] = {}
    for partition in partitions:
        group, place = _place(storage, chain, partition)
        if all(is_known for is_known, _ in place):
            found.setdefault(group, []).append((place, partition))
    return {group: sorted(each) for group, each in found.items()}


def _place(storage: TableStorage, chain: Chain, partition: bytes) -> tuple[_Order, _Order]:
    """The chain that a partition is in, and its place there."""
    values = tuple(
        (value is not None, 0 if value is None else value)
        for value in partition_values(storage, partition)
    )
    return values[: chain.group_keys], values[chain.group_keys :]


def plan_chain(
    storage: ChainStorage,
    delta: TableStorage,
    chain: Chain,
    snapshots: tuple[Snapshot | None, Snapshot | None],
    *,
    predicate: Predicate | None = None,
    min_level: int = 0,
    whole_again: Collection[bytes] = (),
) -> ScanPlan | None:
    """Plan to read the rows of a chain table's branches.

    Args:
        storage: Both branches, by which the splits are read.
        delta: The delta branch.
        chain: The table's chain.
        snapshots: The snapshots of the snapshot branch and of the delta branch; None for a branch
            without one.
        predicate: The condition for wanted rows.
        min_level: Only files of this LSM level and above.
        whole_again: Partitions of the snapshot branch that are read as if it did not have them.

    Returns:
        The plan, whose snapshot is the delta branch's, or else the other's; None without any.

    Raises:
        CorruptData: As `plan_snapshot`.
        Unsupported: As `plan_snapshot`.
        Invalid: A partition and its anchor have different numbers of buckets.
    """
    whole = storage.whole
    for each in (whole, delta):
        each.refuse(Operation.READ)
    shown = snapshots[1] or snapshots[0]
    if shown is None:
        return None
    full = partitions_with_rows(whole, snapshots[0], predicate, min_level=min_level)
    full -= frozenset(whole_again)
    targets = partitions_with_rows(delta, snapshots[1], predicate, min_level=min_level) - full
    links: list[Link] = []
    if targets:
        anchors = partitions_with_rows(whole, snapshots[0], None, min_level=min_level)
        every = partitions_with_rows(delta, snapshots[1], None, min_level=min_level)
        links = chain_links(delta, chain, sorted(targets), anchors, every)
    of_whole = {*full, *(link.anchor for link in links if link.anchor is not None)}
    of_delta = {partition for link in links for partition in link.deltas}
    with naming_expired(whole, *filter(None, snapshots[:1])):
        wholes = _Side.of(whole, snapshots[0], of_whole, predicate, min_level, schema_number)
    with naming_expired(delta, *filter(None, snapshots[1:])):
        deltas = _Side.of(delta, snapshots[1], of_delta, predicate, min_level, int)
    found = FoundEntries(
        Entries([]),
        wholes.found.read + deltas.found.read,
        wholes.found.skipped + deltas.found.skipped,
        wholes.found.files_skipped + deltas.found.files_skipped,
        [*wholes.found.indexed, *deltas.found.indexed],
    )
    pruner = Pruner(storage, predicate)
    splits: list[Split] = []
    for partition in sorted(full):
        for number, bucket in wholes.buckets(partition, partition).items():
            make = marked_splits if wholes.is_marked(partition, number) else keyed_splits
            places = {(partition, number): wholes.vectors(partition, number)}
            made = make(storage, shown, bucket, pruner, found)
            splits += [with_deletion_files(each, places) for each in made]
    for link in links:
        parts = [(deltas, each) for each in link.deltas]
        if link.anchor is not None:
            parts.insert(0, (wholes, link.anchor))
        files: dict[int, list[ManifestEntry]] = {}
        vectors: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
        for side, partition in parts:
            for number, bucket in side.buckets(partition, link.partition).items():
                files.setdefault(number, []).extend(bucket)
                own = vectors.setdefault((link.partition, number), {})
                own.update(side.vectors(partition, number))
        _check_buckets(delta, link, files.values())
        for bucket in files.values():
            made = keyed_splits(storage, shown, bucket, pruner, found)
            splits += [with_deletion_files(each, vectors) for each in made]
    wanted = tuple(
        WantedSnapshot.of(branch, snapshot)
        for branch, snapshot in zip((whole, delta), snapshots, strict=True)
        if snapshot is not None
    )
    return plan_of(shown, [replace(split, snapshots=wanted) for split in splits], found)


@dataclass(frozen=True)
class _Side:
    """The files of some partitions of one branch.

    Attributes:
        storage: The branch.
        found: The files, and what was left out.
        deletion_files: The places of their deletion vectors, by bucket and file.
        numbered: Makes a schema's number in the plan of one in the branch.
    """

    storage: TableStorage
    found: FoundEntries
    deletion_files: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]
    numbered: Callable[[int], int]

    @staticmethod
    def of(
        storage: TableStorage,
        snapshot: Snapshot | None,
        partitions: Collection[bytes],
        predicate: Predicate | None,
        min_level: int,
        numbered: Callable[[int], int],
    ) -> _Side:
        """The files of some partitions that may hold keys that match."""
        if snapshot is None or not partitions:
            return _Side(storage, FoundEntries(Entries([])), {}, numbered)
        # Rows of one partition may show in another: what is asked of it says nothing here.
        within = apart_from_partitions(predicate, storage.schema.partition_keys)
        found = find_live(storage, snapshot, Pruner(storage, within, partitions))
        least = max(min_level, least_level(storage.schema))
        found.only(
            (found.entries.numbers("level") >= least)
            & (found.entries.numbers("bucket") != POSTPONE_BUCKET)
        )
        places = deletion_files_of(storage, snapshot, found.entries)
        return _Side(storage, found, places, numbered)

    @cached_property
    def _by_partition(self) -> Mapping[bytes, Mapping[int, list[ManifestEntry]]]:
        grouped: dict[bytes, dict[int, list[ManifestEntry]]] = {}
        for entry in self.found.entries:
            grouped.setdefault(entry.partition, {}).setdefault(entry.bucket, []).append(entry)
        return grouped

    def vectors(self, partition: bytes, bucket: int) -> Mapping[str, DeletionFile]:
        """The places of the deletion vectors of a bucket's files."""
        return self.deletion_files.get((partition, bucket), {})

    def is_marked(self, partition: bytes, bucket: int) -> bool:
        """True if deletion vectors mark all superseded rows of a bucket's files."""
        return is_marked(self.storage, self._by_partition[partition][bucket])

    def buckets(self, partition: bytes, shown_as: bytes) -> dict[int, list[ManifestEntry]]:
        """The files of a partition by bucket, as files of another one."""
        return {
            bucket: [self._shown_as(shown_as, entry) for entry in entries]
            for bucket, entries in self._by_partition.get(partition, {}).items()
        }

    def _shown_as(self, partition: bytes, entry: ManifestEntry) -> ManifestEntry:
        file = entry.file
        directory = bucket_directory(self.storage, entry.partition, entry.bucket)
        file = replace(
            file,
            schema_id=self.numbered(file.schema_id),
            external_path=file.external_path or f"{directory}/{file.file_name}",
        )
        return replace(entry, partition=partition, file=file)


def _check_buckets(
    storage: TableStorage, link: Link, buckets: Iterable[Sequence[ManifestEntry]]
) -> None:
    """Refuse to merge files whose keys are not spread alike (``ChainTableUtils.java``)."""
    totals = {entry.total_buckets for bucket in buckets for entry in bucket}
    if len(totals) > 1:
        names = "/".join(
            f"{name}={value}" for name, value in partition_spec(storage, link.partition)
        )
        raise Invalid(
            f"table {storage.name}: partition {names} is made of earlier ones of this branch and "
            f"of the snapshot branch, and they have {' and '.join(map(str, sorted(totals)))} "
            "buckets; write them with the same number"
        )
