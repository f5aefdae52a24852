"""Write the rows of one bucket to data files, with everything a manifest says of them.

Source: ``KeyValueDataFileWriter.java``, ``RowDataFileWriter.java``, ``RollingFileWriter.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from headwater.storage.errors import HeadwaterError
from headwater.storage.formats.blob_references import REFERENCES_SUFFIX
from headwater.storage.formats.protocol import FormatWriter
from headwater.storage.formats.system_columns import KEY_PREFIX, data_file_fields
from headwater.storage.index.file_index.build import FileIndexBuilder, container_bytes
from headwater.storage.index.file_index.data_file import INDEX_SUFFIX
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.rows.external_paths import ExternalPaths
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.schema.file_indexes import written_file_indexes
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_summary import DataFileSummary
from headwater.storage.write.file_encoding import file_encoding
from headwater.storage.write.managed_blobs import PackReferences
from headwater.storage.write.shredded_files import ShreddedFiles

__all__ = ["DataFileWriter"]

# Rows handed to a file at a time, at most and at least: how finely its size is watched.
_MOST_ROWS = 1 << 16
_LEAST_ROWS = 1 << 8


@dataclass(frozen=True)
class _Place:
    """A new file's name, its directory, and its URI if that is outside the table's folder."""

    name: str
    directory: str
    external: str | None


class DataFileWriter:
    """Writes rows of one bucket to files of about ``target-file-size``.

    Rows of a primary-key table come sorted by key and distinct, unless they are a changelog; above
    level 0 of one with ``pk-clustering-override`` they come sorted by ``clustering.columns``. Their
    BLOBs come as descriptors of values in packs, which a file beside the data file names.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.
        level: The LSM level of the files.
        source: The origin of the files.
        changelog: True if the files are changelog files.
        first_sequence: Append tables: the sequence number of the first row.
        prefix: The beginning of the files' names; None is the usual one.
        keeps_row_ids: True for rows of a row-tracking table that are moved, and so have ids.
        columns: The columns of one file of some columns, whatever its size; None for all.
        is_one_file: True if all rows go to one file, whatever its size.
        vectors: True for files of `columns`, all of type VECTOR, which end at a size of their own.

    Attributes:
        next_sequence: Append tables: the sequence number of the next file's first row.

    Raises:
        Unsupported: The table wants a file format or a file index that Headwater does not write.
        Invalid: An option of the table is malformed.
    """

    def __init__(
        self,
        storage: TableStorage,
        partition: bytes,
        bucket: int,
        *,
        level: int = 0,
        source: FileSource = FileSource.APPEND,
        changelog: bool = False,
        first_sequence: int = 0,
        prefix: str | None = None,
        keeps_row_ids: bool = False,
        columns: Sequence[str] | None = None,
        is_one_file: bool = False,
        vectors: bool = False,
    ) -> None:
        schema = storage.schema
        options = schema.table_options
        self._encoding = file_encoding(schema, level, changelog=changelog, vectors=vectors)
        self._storage = storage
        self._keeps_row_ids = keeps_row_ids
        self._fields = data_file_fields(schema, thin=options.thin_mode, tracked=keeps_row_ids)
        self._columns = None if columns is None else tuple(columns)
        self._rolls = (columns is None or vectors) and not is_one_file
        if columns is not None:
            self._fields = schema.columns(columns)
        self._files = ShreddedFiles(options, self._fields)
        # A thin file's schema has no _KEY_ columns; every other name is that of an input column.
        self._sources = [
            field.name.removeprefix(KEY_PREFIX)
            if field.name not in schema.field_by_name
            else field.name
            for field in self._fields
        ]
        self._target = options.target_file_size(bool(schema.primary_keys))
        if vectors:
            self._target = options.vector_target_file_size
        self._level = level
        # What a file's entry has as its least and its greatest key.
        self._ends = schema.key_fields
        if self._ends and options.overrides_key_order and level > 0 and not changelog:
            self._ends = schema.columns(options.clustering_columns)
        self._source = source
        self._places = ExternalPaths(storage, partition, bucket)
        if prefix is None:
            prefix = options.changelog_file_prefix if changelog else options.data_file_prefix
        self._name = prefix + storage.runtime.new_uuid()
        self._started = 0
        # A changelog is read from end to end, and so are files that are joined.
        self._indexes = written_file_indexes(schema.options, schema.fields)
        if changelog or columns is not None:
            self._indexes = []
        self._index_threshold = options.file_index_threshold
        self._open: tuple[_Place, FormatWriter, DataFileSummary, FileIndexBuilder] | None = None
        self._names_packs = bool(managed_blob_columns(schema)) and not changelog
        self._packs = PackReferences(storage)
        self._written: list[str] = []
        self._finished: list[DataFile] = []
        self.next_sequence = first_sequence

    def write(self, rows: pa.Table) -> None:
        """Append rows.

        Args:
            rows: The table's columns; for a primary-key table also ``_SEQUENCE_NUMBER`` and
                ``_VALUE_KIND``; for rows that keep their ids ``_ROW_ID`` and ``_SEQUENCE_NUMBER``,
                null in rows that are changed. The order of the columns does not matter.
        """
        row_bytes = rows.nbytes / max(rows.num_rows, 1)
        step = min(_MOST_ROWS, max(_LEAST_ROWS, int(self._target / 8 / max(row_bytes, 1))))
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            if self._open is None:
                self._open = self._start()
            _, file, summary, indexes = self._open
            columns = [part.column(name) for name in self._sources]
            file.write(pa.table(columns, names=[field.name for field in self._fields]))
            summary.add(part)
            indexes.add(part)
            if self._names_packs:
                self._packs.add(part)
            if self.is_full and self._rolls:
                self.roll()

    @property
    def is_full(self) -> bool:
        """True if the file that is open has reached the size that files are to have."""
        return self._open is not None and self._open[1].size_estimate >= self._target

    def take_finished(self) -> list[DataFile]:
        """The files closed since the last call."""
        taken, self._finished = self._finished, []
        return taken

    def finish(self) -> list[DataFile]:
        """Close the last file; all files written, in order."""
        self.roll()
        return list(self._finished)

    def abort(self) -> None:
        """Delete every file written; those that cannot be deleted stay, and nothing names them."""
        if self._open is not None:
            self._open[1].abort()
            self._open = None
        for path in self._written:
            with suppress(HeadwaterError):
                self._storage.files.delete(path)
        self._written.clear()
        self._finished.clear()

    def _start(self) -> tuple[_Place, FormatWriter, DataFileSummary, FileIndexBuilder]:
        name = f"{self._name}-{self._started}{self._encoding.extension}"
        self._started += 1
        place = _Place(name, *self._places.place(name))
        encoding = self._encoding
        begin = partial(
            encoding.format.writer,
            self._storage.files,
            f"{place.directory}/{name}",
            compression=encoding.compression,
            zstd_level=encoding.zstd_level,
            block_bytes=encoding.block_bytes,
        )
        file = self._files.start(encoding.keys_compression, begin)
        indexes = FileIndexBuilder(self._indexes, self._storage.schema.field_by_name)
        mode = encoding.statistics_mode
        summary = DataFileSummary(
            self._storage, mode, self._keeps_row_ids, self._columns, self._ends
        )
        return place, file, summary, indexes

    def roll(self) -> None:
        """Close the file that is open; rows that follow go to another."""
        if self._open is None:
            return
        place, file, summary, indexes = self._open
        written = file.close()
        self._open = None
        self._written.append(written.path)
        entry = summary.data_file(
            place.name, written.size, self._level, self._source, first_sequence=self.next_sequence
        )
        entry = replace(entry, external_path=place.external)
        self.next_sequence += entry.row_count
        entry = self._with_indexes(entry, place.directory, indexes)
        self._finished.append(self._with_references(entry, place.directory))

    def _with_indexes(self, entry: DataFile, directory: str, indexes: FileIndexBuilder) -> DataFile:
        if not self._indexes:
            return entry
        data = container_bytes(self._indexes, indexes.bodies())
        if len(data) <= self._index_threshold:
            return replace(entry, embedded_file_index=data)
        return self._with_extra(entry, directory, INDEX_SUFFIX, data)

    def _with_references(self, entry: DataFile, directory: str) -> DataFile:
        if not self._names_packs:
            return entry
        packs, self._packs = self._packs, PackReferences(self._storage)
        return self._with_extra(entry, directory, REFERENCES_SUFFIX, packs.content())

    def _with_extra(self, entry: DataFile, directory: str, suffix: str, data: bytes) -> DataFile:
        """Write a file that belongs to a data file."""
        name = entry.file_name + suffix
        path = f"{directory}/{name}"
        self._written.append(path)
        self._storage.files.write(path, data)
        return replace(entry, extra_files=(*entry.extra_files, name))
