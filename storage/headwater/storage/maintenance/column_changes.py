"""Change rows whose columns may lie in several files, without writing their other columns again.

New values go to files of the changed columns, for each range of rows that holds some that match.
Rows that go are marked by a deletion vector under the name of the range's oldest file. Rows are
read a batch at a time.

Source: ``table_update_by_row_id.py`` and ``table_delete.py`` of pypaimon,
``MergeIntoPaimonDataEvolutionTable.scala``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.maintenance.column_file_writer import (
    ColumnFileWriter,
    check_column_changes,
)
from headwater.storage.maintenance.matched_rows import Matched, RowMatcher
from headwater.storage.maintenance.taken_rows import TakenRows, messages_of_taken
from headwater.storage.predicate.filter import columns_of
from headwater.storage.read.all_rows import all_rows
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.scan.row_ranges import RowRange, row_ranges
from headwater.storage.scan.split import Split
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["ColumnChange"]

_BATCH_ROWS = 65536


@dataclass
class ColumnChange:
    """Changes columns of a table with data evolution, or deletes rows of it.

    Attributes:
        storage: The table.
        snapshot: The snapshot that the rows are read in.
        matcher: Says which rows change, and into what.

    Raises:
        Invalid: Rows would move to another partition.
        Unsupported: Rows are to be deleted, and the table has no deletion vectors.
    """

    storage: TableStorage
    snapshot: Snapshot
    matcher: RowMatcher
    _buckets: dict[tuple[bytes, int], TakenRows] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        changed = self.matcher.changed
        check_column_changes(self.storage, changed or (), deletes=changed is None)

    def messages(self, splits: Sequence[Split]) -> list[CommitMessage]:
        """Write what changes the rows of some splits."""
        written: list[CommitMessage] = []
        try:
            for split in splits:
                for rows in row_ranges(split.directory, split.files):
                    written += self._change(split, rows)
            return [
                *written,
                *messages_of_taken(self.storage, self.snapshot, self._buckets.values()),
            ]
        except BaseException:
            for message in written:
                delete_message_files(self.storage, message)
            raise

    def _change(self, split: Split, rows: RowRange) -> list[CommitMessage]:
        reader = _RangeReader(self.storage, split, rows, self.matcher)
        changed = self.matcher.changed
        if changed is None:
            self._mark(split, rows, reader)
            return []
        # A merge that only adds rows sees all that there are, to know which are new.
        writer = ColumnFileWriter(self.storage, self.snapshot, split, rows, changed)
        try:
            for positions, matched in reader.matched(self.matcher):
                if len(matched.taken):
                    assert matched.added is not None
                    order = np.argsort(matched.taken, kind="stable")
                    writer.put(positions[matched.taken[order]], matched.added.take(order))
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def _mark(self, split: Split, rows: RowRange, read: _RangeReader) -> None:
        taken = [positions[matched.taken] for positions, matched in read.matched(self.matcher)]
        gone = np.concatenate(taken) if taken else np.empty(0, np.int64)
        if not len(gone):
            return
        bucket = self._buckets.setdefault((split.partition, split.bucket), TakenRows.of(split))
        bucket.vectors[rows.anchor.file_name] = read.deleted.merged(
            DeletionVector.from_positions(gone)
        )


class _RangeReader:
    """Reads all rows of one range, deleted ones included.

    Attributes:
        deleted: The rows that are deleted.
    """

    def __init__(
        self, storage: TableStorage, split: Split, rows: RowRange, matcher: RowMatcher
    ) -> None:
        bucket = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
        # A row is changed and deleted without its BLOBs being read.
        needed = columns_of(matcher.predicate) if matcher.predicate is not None else frozenset()
        unread = set(columns_in_blob_files(storage.schema)) - needed
        self._columns = [name for name in storage.schema.moved_columns if name not in unread]
        self._rows = all_rows(storage, split.directory, split.partition_values, rows)
        self.deleted = bucket.open(rows.anchor, partial=True).deletion_vector

    def matched(self, matcher: RowMatcher) -> Iterator[tuple[npt.NDArray[np.int64], Matched]]:
        """Of batches of rows the positions of those that are there, and which of these match."""
        at = 0
        for batch in self._rows.rows(self._columns, None, _BATCH_ROWS):
            live = self.deleted.kept(at, at + batch.num_rows)
            yield np.flatnonzero(live) + at, matcher.match(batch.filter(pa.array(live)))
            at += batch.num_rows
