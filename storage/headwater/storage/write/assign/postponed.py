"""Buckets of tables that postpone the decision: ``bucket`` = -2, with a primary key.

Such a table's partitions have numbers of buckets of their own. Rows are either left in the bucket
``bucket-postpone``, from which a compaction spreads them, or written to their buckets at once. A
partition keeps the number of buckets that it has; the first rows of a new one decide its number.

Source: ``PostponeUtils.java``, ``PostponeBucketFileStoreWrite.java``, ``PaimonSparkWriter.scala``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.formats.avro_schema import refuse_for_avro
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.rows.distribute import Codes, Numbers, partition_codes
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.assigner import OneBucket, WithoutIndex, hashed_buckets
from headwater.storage.write.bucket_state import BucketStates

__all__ = [
    "POSTPONED",
    "BucketsOfPartitions",
    "buckets_of_row_count",
    "postponed_file_prefix",
    "postponed_storage",
]

POSTPONED = OneBucket(POSTPONE_BUCKET, POSTPONE_BUCKET)
"""Every row is left for a compaction."""


def postponed_storage(storage: TableStorage) -> TableStorage:
    """The table as files of postponed rows are written: quickly, as they come.

    Raises:
        Unsupported: Avro files cannot hold a column.
    """
    refuse_for_avro(
        storage.schema.fields,
        "spread rows over buckets when they are written ('postpone.batch-write-fixed-bucket' = "
        "'true', not by a Spark stream): rows that wait for it are in Avro files, whatever "
        "'file.format' is",
    )
    options = {"file.format": "avro", "metadata.stats-mode": "none"}
    return storage.with_schema(storage.schema.with_options(options))


def postponed_file_prefix(storage: TableStorage) -> str:
    """The beginning of the names of one writer's files, by which a compaction orders them.

    Paimon hands the files of one writer (``-s-<number>-``) to one task, oldest first.
    """
    writer = storage.runtime.new_uuid()
    number = int(writer.replace("-", "")[-7:], 16)
    prefix = storage.schema.table_options.data_file_prefix
    return f"{prefix}-u-{writer}-s-{number}-w-"


def buckets_of_row_count(rows: int, target: int) -> int:
    """The number of buckets for so many rows (``PostponeUtils.computeBucketNumByRowCount``)."""
    return max(1, -(-rows // target))


@dataclass
class _Expected:
    """The rows of a new partition so far."""

    rows: int = 0
    bytes: int = 0


@dataclass
class BucketsOfPartitions(WithoutIndex):
    """Writes rows to buckets at once; each partition has a number of buckets of its own.

    Attributes:
        storage: The table.
        states: The partitions as they are; None when their rows are replaced.
        totals: The numbers that have been decided, by serialised partition.
        infers: False to give all new partitions ``postpone.default-bucket-num`` buckets, so that
            writers that do not know of each other agree.
    """

    storage: TableStorage
    states: BucketStates | None
    totals: dict[bytes, int] = field(default_factory=dict)
    infers: bool = True
    _expected: dict[bytes, _Expected] = field(default_factory=dict)

    def expect(self, rows: pa.Table) -> None:
        """Count the rows of partitions that have no buckets yet."""
        if not self.infers or not rows.num_rows or self._options.postpone_default_buckets:
            return
        partitions, codes = partition_codes(rows, self.storage.schema.partition_fields)
        self._load(partitions)
        counts = np.bincount(codes, minlength=len(partitions))
        for partition, count in zip(partitions, counts.tolist(), strict=True):
            if partition not in self.totals:
                seen = self._expected.setdefault(partition, _Expected())
                seen.rows += count
                seen.bytes += rows.nbytes * count // rows.num_rows

    def place(self, partitions: Sequence[bytes], codes: Codes, rows: pa.Table) -> Numbers:
        """By the hash of the bucket key and the number of buckets of each row's partition."""
        self._load(partitions)
        totals = np.array([self.total_buckets(each) for each in partitions], np.int32)
        return hashed_buckets(self.storage, rows, totals[codes])

    def total_buckets(self, partition: bytes) -> int:
        """The number that the partition has, or is given now."""
        if partition not in self.totals:
            self._load([partition])
        if partition not in self.totals:
            self.totals[partition] = self._new_total(partition)
        return self.totals[partition]

    @property
    def _options(self) -> AssignmentOptions:
        return AssignmentOptions(self.storage.schema.options)

    def _load(self, partitions: Sequence[bytes]) -> None:
        if self.states is None:
            return
        self.states.load(partitions)
        for partition in partitions:
            total = self.states.partitions[partition].total_buckets
            if total is not None:
                self.totals.setdefault(partition, total)

    def _new_total(self, partition: bytes) -> int:
        options = self._options
        if options.postpone_default_buckets is not None:
            return options.postpone_default_buckets
        seen = self._expected.get(partition)
        if not self.infers or seen is None:
            return 1
        waiting = 0
        if self.states is not None:
            waiting = self.states.partitions[partition].postponed_rows
        rows = seen.rows + waiting
        if options.postpone_target_rows is not None:
            total = buckets_of_row_count(rows, options.postpone_target_rows)
        else:
            # The size of the rows that wait is not known; they are taken for rows like these.
            size = -(-seen.bytes * rows // max(seen.rows, 1))
            total = max(1, -(-size // options.postpone_target_size))
        return min(total, options.postpone_most_buckets)
