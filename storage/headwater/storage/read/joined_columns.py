"""Rows whose columns lie in several files, put together batch by batch.

The files hold the same rows in the same order, so that rows are joined by their positions. No
condition leaves out rows of a file: what one says may be overridden by another. A file none of
whose columns is wanted is not opened. One batch of each file is held.

Source: ``DataEvolutionFileReader.java``, ``DataEvolutionSplitRead.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import Predicate
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.read.raw_rows import RawRows, RowReader
from headwater.storage.scan.row_ranges import RowRange, row_ranges
from headwater.storage.table_storage import TableStorage

__all__ = ["JoinedColumns", "joined_rows"]


def joined_rows(
    storage: TableStorage,
    directory: str,
    files: Iterable[DataFile],
    opened: Callable[[DataFile], DataFileReader],
    whole: Callable[[DataFile], DataFileReader],
    read: Callable[[Iterable[DataFile], Callable[[DataFile], RowReader]], RawRows],
) -> RawRows:
    """Rows whose columns may lie in several files.

    Args:
        storage: The table.
        directory: The URI of the files' directory.
        files: The files of one bucket.
        opened: Gives a reader of a file; columns that it lacks are null.
        whole: Gives one of all its rows, deleted ones included.
        read: Gives the rows of files that are opened so.
    """
    ranges = {each.files[0].file_name: each for each in row_ranges(directory, files)}

    def reader(newest: DataFile) -> RowReader:
        rows = ranges[newest.file_name]
        if len(rows.files) == 1:
            return opened(newest)
        return JoinedColumns(storage, rows, whole, lambda: opened(rows.anchor).deletion_vector)

    return read([each.files[0] for each in ranges.values()], reader)


class JoinedColumns:
    """Reads the rows of one range.

    Args:
        storage: The table.
        rows: The files of the rows.
        opened: Gives a reader of all rows of a file, deleted ones included.
        deleted: The rows that are deleted.
    """

    def __init__(
        self,
        storage: TableStorage,
        rows: RowRange,
        opened: Callable[[DataFile], DataFileReader],
        deleted: Callable[[], DeletionVector],
    ) -> None:
        self._storage = storage
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
        """The rows that are not deleted, with these columns; none is filtered.

        Raises:
            CorruptData: A file is missing or damaged, or has other rows than the others.
        """
        newest = self._range.files[0]
        held: dict[str, list[str]] = {}
        by_name = {file.file_name: file for file in self._range.files}
        partition = self._storage.schema.partition_keys
        for name in columns:
            holder: DataFile | None = newest
            if name not in partition:
                holder = self._range.holder(self._storage, self._storage.schema.column(name))
            held.setdefault((holder or newest).file_name, []).append(name)
        if not held:
            held[newest.file_name] = []
        readers = [self._opened(by_name[name]) for name in held]
        streams = [
            reader.rows(names, None, batch_rows)
            for reader, names in zip(readers, held.values(), strict=True)
        ]
        deleted = self._deleted()
        at = 0
        for parts in _aligned(streams, [reader.path for reader in readers]):
            batch = parts[0]
            if len(parts) > 1:
                found = {name: part.column(name) for part in parts for name in part.schema.names}
                batch = pa.RecordBatch.from_arrays(
                    [found[name] for name in columns], names=list(columns)
                )
            elif columns:
                batch = batch.select(list(columns))
            yield deleted.without(batch, at)
            at += batch.num_rows


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
