"""The state of the buckets that a writer adds to: their number and their last sequence number.

Source: ``FileSystemWriteRestore.java``, ``AbstractFileStoreWrite.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.rows.partition import partition_spec
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["BucketStates", "PartitionState", "describe_partition", "partition_states"]


@dataclass(frozen=True)
class PartitionState:
    """The known state of one partition.

    Attributes:
        total_buckets: The number of buckets its files were spread over; None when it has no
            files or is not bucketed.
        max_sequence: The greatest sequence number of each bucket that has files.
        postponed_rows: Rows that no compaction has spread over buckets yet.
        sorted_runs: The number of sorted runs of each bucket that has files.
        row_counts: The rows of the files of each bucket, before merging.
    """

    total_buckets: int | None = None
    max_sequence: Mapping[int, int] = field(default_factory=dict)
    postponed_rows: int = 0
    sorted_runs: Mapping[int, int] = field(default_factory=dict)
    row_counts: Mapping[int, int] = field(default_factory=dict)


@dataclass
class BucketStates:
    """The buckets' states as of one snapshot, read when they are first asked for.

    Pickles, together with what it has read: `load` on Spark's driver what all writers will need.

    Attributes:
        storage: The table.
        snapshot: The snapshot that a write adds to; None for a table without one.
        partitions: The partitions read so far, by serialised partition.
    """

    storage: TableStorage
    snapshot: Snapshot | None
    partitions: dict[bytes, PartitionState] = field(default_factory=dict)

    def load(self, partitions: Iterable[bytes]) -> None:
        """Read the states of several partitions at once.

        Raises:
            Invalid: A partition has another number of buckets than the option ``bucket`` says.
        """
        new = [partition for partition in partitions if partition not in self.partitions]
        if not new:
            return
        if self.snapshot is None:
            self.partitions |= dict.fromkeys(new, PartitionState())
            return
        found = partition_states(live_entries(self.storage, self.snapshot, partitions=new))
        wanted = self.storage.schema.table_options.bucket
        for partition in new:
            state = found.get(partition, PartitionState())
            own = wanted == POSTPONE_BUCKET  # each partition has its own
            if not own and state.total_buckets is not None and state.total_buckets != wanted:
                raise Invalid(
                    f"table {self.storage.name}: {describe_partition(self.storage, partition)} has "
                    f"{state.total_buckets} buckets, but the option 'bucket' says {wanted}; "
                    "overwrite the partition to redistribute its rows"
                )
            self.partitions[partition] = state

    def __call__(self, partition: bytes, bucket: int) -> int:
        """The bucket's greatest sequence number; -1 when it has no files."""
        self.load([partition])
        return self.partitions[partition].max_sequence.get(bucket, -1)


def partition_states(entries: Iterable[ManifestEntry]) -> dict[bytes, PartitionState]:
    """The states of the partitions that live files lie in."""
    totals: dict[bytes, int | None] = {}
    sequences: dict[bytes, dict[int, int]] = {}
    postponed: dict[bytes, int] = {}
    runs: dict[bytes, dict[int, int]] = {}
    rows: dict[bytes, dict[int, int]] = {}
    levels: set[tuple[bytes, int, int]] = set()
    for entry in entries:
        if entry.total_buckets > 0:
            totals[entry.partition] = entry.total_buckets
        buckets = sequences.setdefault(entry.partition, {})
        if entry.bucket == POSTPONE_BUCKET:
            waiting = postponed.get(entry.partition, 0)
            postponed[entry.partition] = waiting + entry.file.row_count
        own = rows.setdefault(entry.partition, {})
        own[entry.bucket] = own.get(entry.bucket, 0) + entry.file.row_count
        last = entry.file.max_sequence_number
        buckets[entry.bucket] = max(buckets.get(entry.bucket, last), last)
        level = (entry.partition, entry.bucket, entry.file.level)
        if entry.file.level == 0 or level not in levels:
            levels.add(level)
            counts = runs.setdefault(entry.partition, {})
            counts[entry.bucket] = counts.get(entry.bucket, 0) + 1
    return {
        partition: PartitionState(
            totals.get(partition),
            buckets,
            postponed.get(partition, 0),
            runs[partition],
            rows[partition],
        )
        for partition, buckets in sequences.items()
    }


def describe_partition(storage: TableStorage, partition: bytes) -> str:
    """The name of a partition in errors: ``partition dt=2026-01-01``."""
    spec = partition_spec(storage, partition)
    return "partition " + ",".join(f"{k}={v}" for k, v in spec) if spec else "it"
