"""Write the values of one BLOB column of one bucket to files of their own.

Source: ``MultipleBlobFileWriter.java``, ``BlobFormatWriter.java``.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.formats.blob_descriptor import is_descriptor
from headwater.storage.formats.blob_file import BLOB_SUFFIX, BlobFileWriter
from headwater.storage.manifest.data_file import DataFile, FileSource, local_wall_clock
from headwater.storage.manifest.statistics import EMPTY_STATS
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.rows.external_paths import ExternalPaths
from headwater.storage.table_storage import TableStorage

__all__ = ["BlobColumnWriter"]


class BlobColumnWriter:
    """Writes the files of one BLOB column; each ends at ``blob.target-file-size``.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.
        name: The column's name.
        source: The origin of the files.
        is_one_file: True if all values go to one file, whatever its size.

    Attributes:
        name: The column's name.
    """

    def __init__(
        self,
        storage: TableStorage,
        partition: bytes,
        bucket: int,
        name: str,
        source: FileSource = FileSource.APPEND,
        *,
        is_one_file: bool = False,
    ) -> None:
        options = storage.schema.table_options
        self.name = name
        self._storage = storage
        self._places = ExternalPaths(storage, partition, bucket)
        self._source = source
        self._target = None if is_one_file else options.blob_target_file_size
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

    def leave(self, count: int) -> None:
        """Append rows whose values are those of older files."""
        if count:
            self._file().leave(count)

    def _append(self, value: pa.Buffer | None) -> None:
        if value is not None and is_descriptor(value):
            raise Invalid(
                f"table {self._storage.name}, column '{self.name}': a value is a descriptor, the "
                "place of a BLOB; read it without 'blob-as-descriptor', and write what it holds"
            )
        writer = self._file()
        writer.write(value)
        if self._target is not None and writer.size >= self._target:
            self.roll()

    def _file(self) -> BlobFileWriter:
        if self._open is None:
            name = f"{self._prefix}-{self._started}{BLOB_SUFFIX}"
            self._started += 1
            directory, external = self._places.place(name)
            writer = BlobFileWriter(self._storage.files, f"{directory}/{name}")
            self._open = name, external, writer
        return self._open[2]

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
                file_source=self._source,
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
