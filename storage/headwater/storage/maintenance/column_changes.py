"""Change rows whose columns may lie in several files, without writing their other columns again.

New values go to a file of the changed columns, for each range of rows that holds some that match:
it has all rows of the range, with the old values of those that stay. Rows that go are marked by a
deletion vector under the name of the range's oldest file. Rows are read a batch at a time, twice
where some match.

Source: ``table_update_by_row_id.py`` and ``table_delete.py`` of pypaimon,
``MergeIntoPaimonDataEvolutionTable.scala``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.maintenance.matched_rows import Matched, RowMatcher
from headwater.storage.maintenance.taken_rows import TakenRows, messages_of_taken
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.joined_columns import JoinedColumns
from headwater.storage.rows.ingest import coerce
from headwater.storage.scan.row_ranges import RowRange, row_ranges
from headwater.storage.scan.split import Split
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter
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
        schema = self.storage.schema
        changed = self.matcher.changed
        if changed is None and not schema.table_options.deletion_vectors_enabled:
            raise Unsupported(
                f"table {self.storage.name}: with data evolution rows are deleted by vectors, and "
                "'deletion-vectors.enabled' is not true; set it, or overwrite the partition"
            )
        blobs = columns_in_blob_files(schema)
        new_blobs = [name for name in blobs if name in (changed or ())]
        if new_blobs:
            raise Unsupported(
                f"table {self.storage.name}: column '{new_blobs[0]}' is of type BLOB, to which "
                "Headwater gives new values in new rows alone; delete the rows and append them "
                "anew, or use another Paimon engine"
            )
        moves = [name for name in changed or () if name in schema.partition_keys]
        if moves:
            raise Invalid(
                f"table {self.storage.name}: column '{moves[0]}' is a partition column, and with "
                "data evolution a row stays in its partition; delete the row and write it anew"
            )

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
        range_reader = _RangeReader(self.storage, split, rows, self.matcher.predicate)
        changed = self.matcher.changed
        if changed is None:
            self._mark(split, rows, range_reader)
            return []
        matches = (len(matched.taken) for _, _, matched in range_reader.matched(self.matcher))
        if not changed:
            # A merge that only adds rows sees all that there are, to know which are new.
            for _ in matches:
                pass
            return []
        if not any(matches):
            return []
        file = self._write(split, rows, range_reader)
        return [
            CommitMessage(
                split.partition,
                split.bucket,
                split.total_buckets,
                new_files=(file,),
                checked_snapshot=self.snapshot.identity,
                columns_of=self.snapshot.identity,
            )
        ]

    def _mark(self, split: Split, rows: RowRange, read: _RangeReader) -> None:
        found = [positions[matched.taken] for _, positions, matched in read.matched(self.matcher)]
        gone = np.concatenate(found) if found else np.empty(0, np.int64)
        if not len(gone):
            return
        bucket = self._buckets.setdefault((split.partition, split.bucket), TakenRows.of(split))
        bucket.vectors[rows.anchor.file_name] = read.deleted.merged(DeletionVector.of(gone))

    def _write(self, split: Split, rows: RowRange, read: _RangeReader) -> DataFile:
        """The file of the changed columns of all rows of a range."""
        storage, schema = self.storage, self.storage.schema
        changed = self.matcher.changed or ()
        names = [item.name for item in schema.fields if item.name in changed]
        writer = DataFileWriter(storage, split.partition, split.bucket, columns=names)
        try:
            for batch, positions, matched in read.matched(self.matcher):
                old = batch.select(names)
                if len(matched.taken):
                    assert matched.added is not None
                    new = coerce(
                        matched.added.select(list(read.schema.field_by_name)),
                        read.schema,
                        storage.name,
                        storage.runtime.time_zone,
                    ).select(names)
                    places = np.arange(batch.num_rows)
                    live = positions - read.at
                    places[live[matched.taken]] = batch.num_rows + np.arange(new.num_rows)
                    both = pa.concat_tables([pa.Table.from_batches([old]).cast(new.schema), new])
                    writer.write(both.take(pa.array(places)))
                else:
                    writer.write(pa.Table.from_batches([old]))
            (file,) = writer.finish()
        except BaseException:
            writer.abort()
            raise
        return replace(file, first_row_id=rows.files[0].first_row_id)


class _RangeReader:
    """Reads all rows of one range, deleted ones included.

    Attributes:
        deleted: The rows that are deleted.
        schema: The table's schema with the columns that are read.
        at: The position of the first row of the batch that was given last.
    """

    def __init__(
        self, storage: TableStorage, split: Split, rows: RowRange, predicate: Predicate | None
    ) -> None:
        bucket = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
        whole = replace(bucket, deletion_files={})
        # A row is changed and deleted without its BLOBs being read.
        needed = columns_of(predicate) if predicate is not None else frozenset()
        unread = set(columns_in_blob_files(storage.schema)) - needed
        self._columns = [name for name in storage.schema.moved_columns if name not in unread]
        kept = tuple(item for item in storage.schema.fields if item.name not in unread)
        self.schema = replace(storage.schema, fields=kept)
        self._rows = JoinedColumns(
            storage,
            split.directory,
            rows,
            lambda file: whole.open(file, partial=True),
            lambda: DeletionVector.of([]),
        )
        self.deleted = bucket.open(rows.anchor, partial=True).deletion_vector
        self.at = 0

    def matched(
        self, matcher: RowMatcher
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64], Matched]]:
        """Batches of all rows, the positions of those that are there, and which of these match."""
        at = 0
        for batch in self._rows.rows(self._columns, None, _BATCH_ROWS):
            live = self.deleted.kept(at, at + batch.num_rows)
            self.at = at
            matched = matcher.match(batch.filter(pa.array(live)))
            yield batch, np.flatnonzero(live) + at, matched
            at += batch.num_rows
