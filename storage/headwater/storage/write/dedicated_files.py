"""Write the rows of one bucket to files of ordinary columns, of each BLOB column and of vectors.

A file of ordinary columns is followed by the files of each BLOB column of the same rows, and by
those of vectors if these have files of their own: in this order their rows get the same ids when
they are committed. A BLOB column's file ends at ``blob.target-file-size``, one of vectors at
``vector.target-file-size``, and both when the file of the ordinary columns does.

Source: ``DedicatedFormatRollingFileWriter.java``, ``MultipleBlobFileWriter.java``.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.storage.manifest.data_file import DataFile
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.schema.vector_columns import columns_in_vector_files
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.blob_column_writer import BlobColumnWriter
from headwater.storage.write.data_file_writer import DataFileWriter

__all__ = ["DedicatedFilesWriter"]

# The rows of the other columns between two looks at the size of their file, as in Java.
_CHECKED_ROWS = 1000


class DedicatedFilesWriter:
    """Writes rows of one bucket of a table with BLOB columns, or with files of vectors.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.

    Attributes:
        next_sequence: 0: such rows get their numbers when they are committed.
    """

    def __init__(self, storage: TableStorage, partition: bytes, bucket: int) -> None:
        schema = storage.schema
        blobs = columns_in_blob_files(schema)
        self._vectors = list(columns_in_vector_files(schema))
        apart = {*blobs, *self._vectors}
        self._ordinary = [item.name for item in schema.fields if item.name not in apart]
        self._main = DataFileWriter(storage, partition, bucket, columns=self._ordinary)
        self._apart: DataFileWriter | None = None
        if self._vectors:
            self._apart = DataFileWriter(
                storage, partition, bucket, columns=self._vectors, vectors=True
            )
        self._columns = [BlobColumnWriter(storage, partition, bucket, name) for name in blobs]
        self._files: list[DataFile] = []
        self.next_sequence = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows with the table's columns.

        Raises:
            Invalid: A value is the descriptor of another.
        """
        for start in range(0, rows.num_rows, _CHECKED_ROWS):
            part = rows.slice(start, _CHECKED_ROWS)
            self._main.write(part.select(self._ordinary))
            for column in self._columns:
                column.write(part.column(column.name))
            if self._apart is not None:
                self._apart.write(part.select(self._vectors))
            if self._main.is_full:
                self._roll()

    def _roll(self) -> None:
        self._main.roll()
        for column in self._columns:
            column.roll()
        if self._apart is not None:
            self._apart.roll()
        # In this order, by which the files' rows get their ids.
        self._files += self._main.take_finished()
        for column in self._columns:
            self._files += column.take_finished()
        if self._apart is not None:
            self._files += self._apart.take_finished()

    def finish(self) -> list[DataFile]:
        """Close the last files; all files written, those of the same rows together."""
        self._roll()
        return list(self._files)

    def abort(self) -> None:
        """Delete every file written; those that cannot be deleted stay, and nothing names them."""
        self._main.abort()
        for column in self._columns:
            column.abort()
        if self._apart is not None:
            self._apart.abort()
        self._files.clear()
