"""Write new values of some columns of a range of rows to files of these columns alone.

The file of ordinary columns has all rows of the range, with the old values of those that keep them,
which are read as they are needed. The files of a BLOB column say of such rows that an older file
has their values, and none of these is read.

Source: ``table_update_by_row_id.py`` of pypaimon, ``DataEvolutionTableDataWrite.scala``,
``BlobPlaceholder.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.read.all_rows import all_rows
from headwater.storage.rows.ingest import coerce
from headwater.storage.scan.row_ranges import RowRange
from headwater.storage.scan.split import Split
from headwater.storage.schema.blob_columns import columns_in_blob_files, refuse_unwritable_blobs
from headwater.storage.schema.vector_columns import columns_in_vector_files
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.blob_column_writer import BlobColumnWriter
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["ColumnFileWriter", "check_column_changes"]

_BATCH_ROWS = 65536


def check_column_changes(storage: TableStorage, changed: Collection[str], *, deletes: bool) -> None:
    """Refuse changes that a table with data evolution does not allow.

    Args:
        storage: The table.
        changed: The columns that get new values.
        deletes: True if rows are deleted.

    Raises:
        Invalid: Rows would move to another partition.
        Unsupported: Rows are to be deleted, and the table has no deletion vectors; or a BLOB gets a
            new value that would be stored as the place of one.
    """
    schema = storage.schema
    if deletes and not schema.table_options.deletion_vectors_enabled:
        raise Unsupported(
            f"table {storage.name}: with data evolution rows are deleted by vectors, and "
            "'deletion-vectors.enabled' is not true; set it, or overwrite the partition"
        )
    moves = [name for name in schema.partition_keys if name in changed]
    if moves:
        raise Invalid(
            f"table {storage.name}: column '{moves[0]}' is a partition column, and with "
            "data evolution a row stays in its partition; delete the row and write it anew"
        )
    if changed:
        refuse_unwritable_blobs(schema)
    vectors = [name for name in columns_in_vector_files(schema) if name in changed]
    if vectors:
        raise Unsupported(
            f"table {storage.name}: column '{vectors[0]}' lies in files of vectors alone, of which "
            "not every engine would take the newer one for rows that get new values; delete the "
            "rows and write them anew"
        )


class ColumnFileWriter:
    """Writes the files of some columns of one range; nothing before the first new value.

    Args:
        storage: The table.
        snapshot: The snapshot that the rows were read in.
        split: The split that the range is of.
        rows: The range.
        columns: The columns, in any order.
    """

    def __init__(
        self,
        storage: TableStorage,
        snapshot: Snapshot,
        split: Split,
        rows: RowRange,
        columns: Collection[str],
    ) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._split = split
        self._rows = rows
        schema = storage.schema
        fields = tuple(item for item in schema.fields if item.name in columns)
        self._schema = replace(schema, fields=fields, partition_keys=())
        in_files = columns_in_blob_files(schema)
        self._names = [item.name for item in fields if item.name not in in_files]
        partition, bucket = split.partition, split.bucket
        self._blobs = [
            BlobColumnWriter(storage, partition, bucket, item.name)
            for item in fields
            if item.name in in_files
        ]
        self._main: DataFileWriter | None = None
        self._old: Iterator[pa.RecordBatch] = iter(())
        # Old rows that are read and not yet written.
        self._waiting: pa.RecordBatch | None = None
        self._at = 0

    def put(self, positions: npt.NDArray[np.int64], values: pa.Table) -> None:
        """Give some rows new values.

        Args:
            positions: The rows' positions in the range, ascending, and all behind those of the
                last call.
            values: Their new values; other columns than the writer's are passed over.

        Raises:
            Invalid: A value does not fit its column.
            CorruptData: A file is missing or damaged; the message names it.
        """
        if not len(positions):
            return
        names = [item.name for item in self._schema.fields]
        storage = self._storage
        new = coerce(values.select(names), self._schema, storage.name, storage.runtime.time_zone)
        for blob in self._blobs:
            self._put_blobs(blob, positions, new.column(blob.name))
        if not self._names:
            self._at = int(positions[-1]) + 1
            return
        if self._main is None:
            split = self._split
            self._main = DataFileWriter(storage, split.partition, split.bucket, columns=self._names)
            rows = all_rows(storage, split.directory, split.partition_values, self._rows)
            self._old = rows.rows(self._names, None, _BATCH_ROWS)
        start = 0
        while start < len(positions):
            old = self._next_old()
            end = int(np.searchsorted(positions, self._at + old.num_rows))
            # What comes behind the last of these may still get new values.
            count = old.num_rows if end < len(positions) else int(positions[-1]) + 1 - self._at
            places = np.arange(count)
            places[positions[start:end] - self._at] = count + np.arange(end - start)
            part = new.select(self._names).slice(start, end - start)
            kept = pa.Table.from_batches([old.slice(0, count)]).cast(part.schema)
            self._main.write(pa.concat_tables([kept, part]).take(pa.array(places)))
            self._pass(count)
            start = end

    def _put_blobs(
        self,
        writer: BlobColumnWriter,
        positions: npt.NDArray[np.int64],
        values: pa.ChunkedArray,
    ) -> None:
        at = self._at
        # A value is as large as a file of other columns may be: a loop over them costs nothing.
        for number, position in enumerate(positions.tolist()):
            writer.leave(position - at)
            writer.write(values.slice(number, 1))
            at = position + 1

    def _next_old(self) -> pa.RecordBatch:
        while self._waiting is None or not self._waiting.num_rows:
            self._waiting = next(self._old, None)
            if self._waiting is None:
                raise Invalid(
                    f"table {self._storage.name}: row {self._at} of the range of "
                    f"{self._rows.files[0].file_name} is not there; read the table again and "
                    "repeat the operation"
                )
        return self._waiting

    def _pass(self, count: int) -> None:
        assert self._waiting is not None
        self._waiting = self._waiting.slice(count)
        self._at += count

    def finish(self) -> list[CommitMessage]:
        """Write the rows that are left; the message of the files, none without a new value."""
        if not self._at:
            return []
        files: list[DataFile] = []
        first = self._rows.files[0].first_row_id
        assert first is not None
        written = self._at
        if self._main is not None:
            while self._waiting is not None:
                self._main.write(pa.Table.from_batches([self._waiting]))
                self._waiting = next(self._old, None)
            files += [replace(file, first_row_id=first) for file in self._main.finish()]
        for blob in self._blobs:
            blob.leave(self._rows.row_count - written)
            blob.roll()
            start = first
            for file in blob.take_finished():
                files.append(replace(file, first_row_id=start))
                start += file.row_count
        split, base = self._split, self._snapshot.identity
        return [
            CommitMessage(
                split.partition,
                split.bucket,
                split.total_buckets,
                new_files=tuple(files),
                checked_snapshot=base,
                columns_of=base,
            )
        ]

    def abort(self) -> None:
        """Delete what was written."""
        for blob in self._blobs:
            blob.abort()
        if self._main is not None:
            self._main.abort()
