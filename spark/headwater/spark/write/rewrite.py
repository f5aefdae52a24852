"""Change rows of tables whose merge engine merges a written row with the stored one, in tasks.

There a change cannot be told by writing rows, see `headwater.storage.maintenance.key_rewrite`: the
files that hold the rows are written anew. Spark brings the changes of a bucket to one task, sorted
by key, which reads the bucket's files beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Conflict
from headwater.storage.maintenance.key_rewrite import RewriteTask, plan_key_rewrite, rewrite_keys
from headwater.storage.maintenance.row_matchers import merge_source
from headwater.storage.maintenance.sorted_changes import KeyChanges, SortedChanges
from headwater.storage.predicate.filter import Predicate
from headwater.storage.read.positioned_rows import BUCKET_COLUMN, PARTITION_COLUMN
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import numpy_mask
from headwater.storage.write.cross_partition_writer import CrossPartitionWriter
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["BucketRewrites"]


@dataclass(frozen=True)
class _Part:
    """Changes of rows of one bucket, by key."""

    bucket: Bucket
    changes: KeyChanges


@dataclass(frozen=True)
class BucketRewrites:
    """Writes files of buckets anew.

    Attributes:
        storage: The table.
        tasks: The buckets that may hold rows that change.
    """

    storage: TableStorage
    tasks: Mapping[Bucket, RewriteTask]

    @staticmethod
    def of(storage: TableStorage, base: Snapshot, predicate: Predicate | None) -> BucketRewrites:
        """The buckets of a snapshot whose rows may fulfil a condition."""
        tasks = plan_key_rewrite(storage, base, predicate)
        return BucketRewrites(storage, {(task.partition, task.bucket): task for task in tasks})

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        writer: TableWriter,
        rewritten: list[CommitMessage],
    ) -> None:
        """Write changes, of which each bucket's come one after another, sorted by key.

        Args:
            batches: Changes with the columns of `bucketed_rows`, which are null where a row is
                added.
            writer: Writes rows that are added.
            rewritten: Gets the files written anew, also when it fails.

        Raises:
            Invalid: A new row does not fit the table.
            Unsupported: Rows come to lie in another partition of a table that does not move them.
        """
        elsewhere = writer if isinstance(writer, CrossPartitionWriter) else None
        for bucket, parts in groupby(self._parts(batches, writer), lambda part: part.bucket):
            task = self.tasks.get(bucket)
            if task is None:
                raise Conflict(
                    f"table {self.storage.name}: bucket {bucket[1]} has other rows than when the "
                    "change was planned; repeat the operation"
                )
            changes = SortedChanges(self.storage, (part.changes for part in parts))
            message = rewrite_keys(self.storage, task, changes, elsewhere)
            rewritten += [] if message is None else [message]
            changes.finish()

    def _parts(self, batches: Iterable[pa.RecordBatch], writer: TableWriter) -> Iterator[_Part]:
        """The changes of rows that there are; rows that are added are written."""
        schema = self.storage.schema
        names = list(schema.field_by_name)
        for batch in batches:
            is_stored = pc.is_valid(batch.column(BUCKET_COLUMN))
            new = batch.filter(pc.invert(is_stored)).select(names)
            if new.num_rows:
                writer.write(new)
            stored = batch.filter(is_stored)
            if not stored.num_rows:
                continue
            rows = pa.Table.from_batches([stored.select(names)])
            whole = merge_source(self.storage, rows, list(schema.primary_keys))
            goes = numpy_mask(pc.equal(stored.column(ROW_KIND_COLUMN), "-D"))
            partitions = stored.column(PARTITION_COLUMN).dictionary_encode()
            codes = partitions.indices.to_numpy()
            numbers = stored.column(BUCKET_COLUMN).to_numpy()
            differs = (codes[1:] != codes[:-1]) | (numbers[1:] != numbers[:-1])
            ends = [*(np.flatnonzero(differs) + 1).tolist(), len(codes)]
            start = 0
            for end in ends:
                bucket = (partitions.dictionary[int(codes[start])].as_py(), int(numbers[start]))
                changes = KeyChanges(whole.slice(start, end - start), goes[start:end])
                yield _Part(bucket, changes)
                start = end
