"""Write the rows of one bucket to files of the ordinary columns and files of each BLOB column.

A file of ordinary columns is followed by the files of each BLOB column of the same rows, by which
their rows get the same ids when they are committed. A BLOB column's file ends at
``blob.target-file-size``, and when the file of the others does.

Source: ``DedicatedFormatRollingFileWriter.java``, ``MultipleBlobFileWriter.java``.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.formats.blob_file import BLOB_SUFFIX, BlobFileWriter
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.manifest.statistics import EMPTY_STATS
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.rows.external_paths import ExternalPaths
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter, local_wall_clock

__all__ = ["BlobTableWriter"]

# The rows of the other columns between two looks at the size of their file, as in Java.
_CHECKED_ROWS = 1000
# What a descriptor, which is the place of a value and not one, begins with: a version and a magic.
_DESCRIPTOR_MAGIC = (0x424C4F4244455343).to_bytes(8, "little")
_DESCRIPTOR_VERSIONS = (0, 1, 2)


class BlobTableWriter:
    """Writes rows of one bucket of a table with BLOB columns.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.

    Attributes:
        next_sequence: The number of rows so far.
    """

    def __init__(self, storage: TableStorage, partition: bytes, bucket: int) -> None:
        schema = storage.schema
        blobs = columns_in_blob_files(schema)
        self._ordinary = [item.name for item in schema.fields if item.name not in blobs]
        self._main = DataFileWriter(storage, partition, bucket, columns=self._ordinary)
        self._columns = [
            _ColumnWriter(storage, ExternalPaths(storage, partition, bucket), name)
            for name in blobs
        ]
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
            if self._main.is_full:
                self._roll()

    def _roll(self) -> None:
        self._main.roll()
        for column in self._columns:
            column.roll()
        # In this order, by which the files' rows get their ids.
        self._files += self._main.take_finished()
        for column in self._columns:
            self._files += column.take_finished()

    def finish(self) -> list[DataFile]:
        """Close the last files; all files written, those of the same rows together."""
        self._roll()
        return list(self._files)

    def abort(self) -> None:
        """Delete every file written; those that cannot be deleted stay, and nothing names them."""
        self._main.abort()
        for column in self._columns:
            column.abort()
        self._files.clear()


class _ColumnWriter:
    """Writes the files of one BLOB column."""

    def __init__(self, storage: TableStorage, places: ExternalPaths, name: str) -> None:
        options = storage.schema.table_options
        self.name = name
        self._storage = storage
        self._places = places
        self._target = options.blob_target_file_size
        self._prefix = options.data_file_prefix + storage.runtime.new_uuid()
        self._started = 0
        self._open: tuple[str, str | None, BlobFileWriter] | None = None
        self._written: list[str] = []
        self._finished: list[DataFile] = []

    def write(self, column: pa.ChunkedArray) -> None:
        """Append values.

        Raises:
            Invalid: One is the descriptor of another.
        """
        for chunk in column.chunks:
            # A value is as large as a file of other columns may be: a loop over them costs nothing.
            for scalar in chunk:
                self._append(scalar.as_buffer())

    def _append(self, value: pa.Buffer | None) -> None:
        if value is not None and _is_descriptor(value):
            raise Invalid(
                f"table {self._storage.name}, column '{self.name}': a value is a descriptor, the "
                "place of a BLOB; read it without 'blob-as-descriptor', and write what it holds"
            )
        if self._open is None:
            name = f"{self._prefix}-{self._started}{BLOB_SUFFIX}"
            self._started += 1
            directory, external = self._places.place(name)
            writer = BlobFileWriter(self._storage.files, f"{directory}/{name}")
            self._open = name, external, writer
        _, _, writer = self._open
        writer.write(value)
        if writer.size >= self._target:
            self.roll()

    def roll(self) -> None:
        """Close the file that is open; values that follow go to another."""
        if self._open is None:
            return
        name, external, writer = self._open
        written = writer.close()
        self._open = None
        self._written.append(written.path)
        self._finished.append(
            DataFile(
                file_name=name,
                file_size=written.size,
                row_count=written.row_count,
                min_key=EMPTY_ROW,
                max_key=EMPTY_ROW,
                key_stats=EMPTY_STATS,
                value_stats=EMPTY_STATS,
                min_sequence_number=0,
                max_sequence_number=written.row_count - 1,
                schema_id=self._storage.schema.id,
                level=0,
                creation_time=local_wall_clock(self._storage.runtime.now_millis()),
                delete_row_count=0,
                file_source=FileSource.APPEND,
                value_stats_cols=(),
                write_cols=(self.name,),
                external_path=external,
            )
        )

    def take_finished(self) -> list[DataFile]:
        """The files closed since the last call."""
        taken, self._finished = self._finished, []
        return taken

    def abort(self) -> None:
        """Delete the files."""
        if self._open is not None:
            self._open[2].abort()
            self._open = None
        for path in self._written:
            with suppress(HeadwaterError):
                self._storage.files.delete(path)
        self._written.clear()


def _is_descriptor(value: pa.Buffer) -> bool:
    head = value[: 1 + len(_DESCRIPTOR_MAGIC)].to_pybytes()
    return head[1:] == _DESCRIPTOR_MAGIC and head[0] in _DESCRIPTOR_VERSIONS
