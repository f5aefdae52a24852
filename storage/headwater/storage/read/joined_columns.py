"""Rows whose columns lie in several files, put together batch by batch.

The files hold the same rows in the same order, so that rows are joined by their positions. No
condition leaves out rows of a file: what one says may be overridden by another. A file none of
whose columns is wanted is not opened. One batch of each file is held. The values of BLOB columns
are read last, of the rows that meet the condition, and some megabytes of them at a time. Vectors
that lie in files of their own are read from several of these, one after another.

Source: ``DataEvolutionFileReader.java``, ``DataEvolutionSplitRead.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import Predicate, columns_of, filter_rows, to_expression
from headwater.storage.read.blob_columns import BlobColumn
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.read.raw_rows import RawRows, RowReader
from headwater.storage.scan.row_ranges import RowRange, row_ranges
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.schema.system_fields import ROW_ID_FIELD
from headwater.storage.schema.vector_columns import vector_columns
from headwater.storage.table_storage import TableStorage

__all__ = ["JoinedColumns", "joined_rows"]

# Bytes of values of BLOB columns that are read at once, unless one row has more.
_BLOB_BYTES = 32 * 1024**2
# No column of a table has a name with this character.
_POSITION = "\0position"


def joined_rows(
    storage: TableStorage,
    directory: str,
    files: Iterable[DataFile],
    opened: Callable[[DataFile], DataFileReader],
    whole: Callable[[DataFile], DataFileReader],
    read: Callable[[Iterable[DataFile], Callable[[DataFile], RowReader]], RawRows],
    columns: Sequence[str],
) -> RawRows:
    """Rows whose columns may lie in several files.

    Args:
        storage: The table.
        directory: The URI of the files' directory.
        files: The files of one bucket.
        opened: Gives a reader of a file; columns that it lacks are null.
        whole: Gives one of all its rows, deleted ones included.
        read: Gives the rows of files that are opened so.
        columns: The columns that are read.
    """
    has_blobs = bool(set(columns) & set(columns_in_blob_files(storage.schema)))
    has_vectors = bool(set(columns) & set(vector_columns(storage.schema)))
    ranges = {each.files[0].file_name: each for each in row_ranges(directory, files)}

    def reader(newest: DataFile) -> RowReader:
        rows = ranges[newest.file_name]
        if len(rows.files) == 1 and not has_blobs and not (has_vectors and rows.vector_files):
            return opened(newest)
        return JoinedColumns(
            storage, directory, rows, whole, lambda: opened(rows.anchor).deletion_vector
        )

    return read([each.files[0] for each in ranges.values()], reader)


class JoinedColumns:
    """Reads the rows of one range.

    Args:
        storage: The table.
        directory: The URI of the files' directory.
        rows: The files of the rows.
        opened: Gives a reader of all rows of a file, deleted ones included.
        deleted: The rows that are deleted.
    """

    def __init__(
        self,
        storage: TableStorage,
        directory: str,
        rows: RowRange,
        opened: Callable[[DataFile], DataFileReader],
        deleted: Callable[[], DeletionVector],
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._range = rows
        self._opened = opened
        self._deleted = deleted

    @property
    def may_delete(self) -> bool:
        """False: rows without a primary key do not retract others."""
        return False

    def is_excluded(self, predicate: Predicate | None) -> bool:
        """False: no index of one file tells of all columns."""
        return False

    def row_group_ranges(self, predicate: Predicate | None, part_bytes: int) -> list[range]:
        """One part: the row groups of the files do not begin at the same rows."""
        return [range(1)]

    def rows(
        self,
        columns: Sequence[str],
        predicate: Predicate | None,
        batch_rows: int,
        *,
        groups: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are not deleted, with these columns.

        The values of BLOB columns are not read of rows that the predicate leaves out by other
        columns. Without such columns no row is filtered.

        Raises:
            CorruptData: A file is missing or damaged, or has other rows than the others.
        """
        in_files = columns_in_blob_files(self._storage.schema)
        blobs = [name for name in columns if name in in_files]
        if not blobs:
            for _, batch in self._plain_rows(columns, batch_rows):
                yield batch
            return
        others = [name for name in columns if name not in in_files]
        stored = {name: self._blob_column(name) for name in blobs}
        keep = None
        if predicate is not None and columns_of(predicate) <= set(others):
            keep = to_expression(predicate, self._storage.schema)
        for positions, batch in self._plain_rows([*others], batch_rows):
            if keep is not None:
                numbered = batch.append_column(_POSITION, pa.array(positions))
                kept = filter_rows(numbered, keep)
                positions = kept.column(_POSITION).to_numpy()
                batch = _one_batch(kept.drop_columns([_POSITION]))
            yield from _with_blobs(columns, batch, positions, stored)

    def _blob_column(self, name: str) -> BlobColumn:
        column = self._storage.schema.column(name)
        files = self._range.blob_files_of(self._storage, column)
        holder = self._range.holder(self._storage, column)
        if holder is not None:
            raise Unsupported(
                f"column '{name}' of type BLOB: file {self._directory}/{holder.file_name} does not "
                "hold its values, but says where they are; choose other columns"
            )
        if not files and not column.type.nullable:
            raise CorruptData(
                f"{self._directory}: no file holds column '{name}', which is NOT NULL, of the rows "
                f"of {self._range.files[0].file_name}"
            )
        first, count = self._range.files[0].first_row_id or 0, self._range.row_count
        return BlobColumn(
            self._storage,
            self._directory,
            first,
            count,
            files,
            name,
            as_descriptors=self._storage.schema.table_options.blobs_as_descriptors,
        )

    def _plain_rows(
        self, columns: Sequence[str], batch_rows: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
        """The rows that are not deleted, and their positions."""
        newest = self._range.files[0]
        held: dict[str, list[str]] = {}
        apart: dict[tuple[_Piece, ...], list[str]] = {}
        by_name = {file.file_name: file for file in self._range.files}
        partition = self._storage.schema.partition_keys
        # A row's id follows from its position in any of the files; one that is read anyway will do.
        for name in sorted(columns, key=lambda name: name == ROW_ID_FIELD.name):
            holder: DataFile | None = newest
            pieces = self._pieces(name)
            if pieces:
                apart.setdefault(pieces, []).append(name)
                continue
            if name not in partition:
                holder = self._range.holder(self._storage, self._storage.schema.column(name))
            if name == ROW_ID_FIELD.name and held:
                holder = by_name[next(iter(held))]
            held.setdefault((holder or newest).file_name, []).append(name)
        if not held and not apart:
            held[newest.file_name] = []
        readers = [self._opened(by_name[name]) for name in held]
        paths = [reader.path for reader in readers]
        streams = [
            reader.rows(names, None, batch_rows)
            for reader, names in zip(readers, held.values(), strict=True)
        ]
        for pieces, names in apart.items():
            paths.append(self._opened(pieces[0].file).path)
            streams.append(self._piecewise(pieces, names, batch_rows))
        deleted = self._deleted()
        at = 0
        for parts in _aligned(streams, paths):
            batch = parts[0]
            if len(parts) > 1:
                found = {name: part.column(name) for part in parts for name in part.schema.names}
                batch = pa.RecordBatch.from_arrays(
                    [found[name] for name in columns], names=list(columns)
                )
            elif columns:
                batch = batch.select(list(columns))
            positions = np.flatnonzero(deleted.kept(at, at + batch.num_rows)) + at
            yield positions, deleted.without(batch, at)
            at += batch.num_rows

    def _pieces(self, name: str) -> tuple[_Piece, ...]:
        """The rows of files of vectors that make up a column, in order; none if it is elsewhere.

        Of files of the same rows the newest counts.
        """
        schema = self._storage.schema
        if name not in vector_columns(schema):
            return ()
        files = self._range.vector_files_of(self._storage, schema.column(name))
        if not files:
            return ()
        first = self._range.files[0].first_row_id or 0
        owner = np.full(self._range.row_count, -1, np.int64)
        starts = [(file.first_row_id or 0) - first for file in files]
        for number, (file, start) in enumerate(zip(files, starts, strict=True)):
            owner[start : start + file.row_count] = number
        if (owner < 0).any():
            row = first + int(np.flatnonzero(owner < 0)[0])
            raise CorruptData(f"{self._directory}: no file holds column '{name}' of row {row}")
        bounds = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
        return tuple(
            _Piece(files[owner[start]], start - starts[owner[start]], stop - starts[owner[start]])
            for start, stop in pairwise(bounds)
        )

    def _piecewise(
        self, pieces: Sequence[_Piece], columns: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            at = 0
            for batch in self._opened(piece.file).rows(columns, None, batch_rows):
                start, stop = max(piece.start - at, 0), min(piece.stop - at, batch.num_rows)
                if start < stop:
                    yield batch.slice(start, stop - start)
                at += batch.num_rows


@dataclass(frozen=True)
class _Piece:
    """Rows of a file.

    Attributes:
        file: The file.
        start: The position of the first row in it.
        stop: That behind the last one.
    """

    file: DataFile
    start: int
    stop: int


def _with_blobs(
    columns: Sequence[str],
    batch: pa.RecordBatch,
    positions: npt.NDArray[np.int64],
    blobs: Mapping[str, BlobColumn],
) -> Iterator[pa.RecordBatch]:
    """Parts of a batch with the values of BLOB columns, none too large but by a single row."""
    sizes = sum(column.value_bytes(positions) for column in blobs.values())
    ends = np.cumsum(sizes)
    start = 0
    while start < len(positions):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BLOB_BYTES, "right")))
        part = positions[start:stop]
        arrays = [
            blobs[name].take(part)
            if name in blobs
            else batch.column(name).slice(start, stop - start)
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        start = stop


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)


def _aligned(
    streams: Sequence[Iterator[pa.RecordBatch]], paths: Sequence[str]
) -> Iterator[list[pa.RecordBatch]]:
    """Batches of the streams, cut so that those given together have as many rows.

    Raises:
        CorruptData: A stream ends before another.
    """
    if len(streams) == 1:
        for batch in streams[0]:
            yield [batch]
        return
    heads: list[pa.RecordBatch | None] = [None] * len(streams)
    while True:
        for number, stream in enumerate(streams):
            head = heads[number]
            while head is None or not head.num_rows:
                head = next(stream, None)
                if head is None:
                    break
            heads[number] = head
        known = [head for head in heads if head is not None]
        if not known:
            return
        if len(known) < len(heads):
            ended = paths[heads.index(None)]
            raise CorruptData(f"file {ended} has fewer rows than other files of the same rows")
        rows = min(head.num_rows for head in known)
        yield [head.slice(0, rows) for head in known]
        heads = [head.slice(rows) for head in known]
