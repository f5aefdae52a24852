"""Ranges of rows whose columns lie in several files, the newest of each column counting.

A file of a table with data evolution holds all columns of some rows, or some. Files of the same
rows have the same first row id and the same number of rows. The files of a BLOB column alone, and
those of vectors alone, may hold fewer rows each. Where the columns of a file have sequence numbers
of their own, readers compare the file's all the same: these numbers tell those who refresh an index
of row ids which columns changed.

Source: ``DataEvolutionSplitRead.java``, ``DataEvolutionFileStoreScan.java``,
``DataEvolutionUtils.java``, ``DataEvolutionNormalCompactTask.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.storage.errors import CorruptData
from headwater.storage.formats.blob_file import BLOB_SUFFIX
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import ColumnRange
from headwater.storage.scan.column_ranges import value_ranges
from headwater.storage.schema.blob_columns import is_plain_blob
from headwater.storage.schema.system_fields import TRACKING_FIELDS
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.vector_columns import is_vector_file
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField

__all__ = ["RowRange", "row_ranges"]


@dataclass(frozen=True)
class RowRange:
    """The files of some rows.

    Attributes:
        files: All of the same rows, the newest first, without those of BLOBs and vectors alone.
        blob_files: The files of BLOB columns, each of some of the rows, ordered by row id.
        vector_files: The files of vectors alone, as well.
    """

    files: tuple[DataFile, ...]
    blob_files: tuple[DataFile, ...] = ()
    vector_files: tuple[DataFile, ...] = ()

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """The files, and those of BLOB columns and of vectors."""
        return self.files + self.blob_files + self.vector_files

    @property
    def row_count(self) -> int:
        """The number of rows, deleted ones included."""
        return self.files[0].row_count

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.all_files)

    @property
    def anchor(self) -> DataFile:
        """The file by whose name the deletion vector of the rows is found: the oldest."""
        return min(self.files, key=lambda file: (file.max_sequence_number, file.file_name))

    def holder(self, storage: TableStorage, column: DataField) -> DataFile | None:
        """The newest file that holds a column; None if none does, and it is null in all rows."""
        if column.name in TRACKING_FIELDS:
            return self.files[0]
        for file in self.files:
            if _holds(file, storage.schema_by_id(file.schema_id), column):
                return file
        return None

    def blob_files_of(self, storage: TableStorage, column: DataField) -> list[DataFile]:
        """The files of a BLOB column."""
        found: list[DataFile] = []
        for file in self.blob_files:
            stored = storage.schema_by_id(file.schema_id).field_by_id.get(column.id)
            if stored is not None and file.write_cols == (stored.name,):
                found.append(file)
        return found

    def vector_files_of(self, storage: TableStorage, column: DataField) -> list[DataFile]:
        """The files of vectors that hold a column that no other file does, the newest last."""
        if not self.vector_files or self.holder(storage, column) is not None:
            return []
        found = [
            file
            for file in self.vector_files
            if _holds(file, storage.schema_by_id(file.schema_id), column)
        ]
        return sorted(found, key=lambda file: (file.max_sequence_number, file.file_name))

    def value_ranges(
        self, storage: TableStorage, columns: Sequence[DataField]
    ) -> Mapping[str, ColumnRange]:
        """The statistics of present columns by name, as far as they are known."""
        found: dict[str, ColumnRange] = {}
        for column in columns:
            if is_plain_blob(column.type) or self.vector_files_of(storage, column):
                continue
            holder = self.holder(storage, column)
            if holder is None:
                found[column.name] = ColumnRange(None, None, self.row_count, self.row_count)
            else:
                found |= value_ranges(storage, holder, [column])
        return found


def _holds(file: DataFile, schema: TableSchema, column: DataField) -> bool:
    stored = schema.field_by_id.get(column.id)
    return stored is not None and (file.write_cols is None or stored.name in file.write_cols)


def row_ranges(where: str, files: Iterable[DataFile]) -> Iterator[RowRange]:
    """Bring files of the same rows together, ordered by row id.

    Args:
        where: The URI of the files' directory, for errors.
        files: The files of one bucket.

    Raises:
        CorruptData: A file's rows have no ids, or files hold some of the same rows and not all.
    """
    ranged: list[tuple[int, int, DataFile]] = []
    blobs: list[tuple[int, int, DataFile]] = []
    vectors: list[tuple[int, int, DataFile]] = []
    for file in files:
        if file.first_row_id is None:
            raise CorruptData(
                f"{where}/{file.file_name}: its rows have no ids, by which their columns in other "
                "files would be found"
            )
        kind = ranged
        if file.file_name.endswith(BLOB_SUFFIX):
            kind = blobs
        elif is_vector_file(file.file_name):
            kind = vectors
        kind.append((file.first_row_id, file.first_row_id + file.row_count, file))
    ranged.sort(key=lambda item: item[:2])
    for rows, own in _with_parts(where, _joined(where, ranged), blobs, vectors):
        yield replace(rows, blob_files=tuple(own[0]), vector_files=tuple(own[1]))


def _with_parts(
    where: str, ranges: Iterable[RowRange], *kinds: list[tuple[int, int, DataFile]]
) -> Iterator[tuple[RowRange, Sequence[list[DataFile]]]]:
    """The ranges with the files of each kind that hold some of their rows, ordered by row id."""
    waiting = [sorted(kind, key=lambda item: item[:2], reverse=True) for kind in kinds]
    for rows in ranges:
        first = rows.files[0].first_row_id or 0
        last = first + rows.row_count
        own: list[list[DataFile]] = [[] for _ in kinds]
        for kind, found in zip(waiting, own, strict=True):
            while kind and first <= kind[-1][0] and kind[-1][1] <= last:
                found.append(kind.pop()[2])
        yield rows, own
        if any(kind and kind[-1][0] < last for kind in waiting):
            break
    for kind in waiting:
        if not kind:
            continue
        start, end, file = kind[-1]
        raise CorruptData(
            f"{where}/{file.file_name}: no file holds the other columns of just its rows, {start} "
            f"to {end - 1}"
        )


def _joined(where: str, ranged: Sequence[tuple[int, int, DataFile]]) -> Iterator[RowRange]:
    group: list[DataFile] = []
    low = high = -1
    for start, end, file in ranged:
        if group and start < high:
            if (start, end) != (low, high):
                raise CorruptData(
                    f"{where}: files {group[0].file_name} of rows {low} to {high - 1} and "
                    f"{file.file_name} of rows {start} to {end - 1} overlap, and do not hold the "
                    "same rows"
                )
            group.append(file)
            continue
        if group:
            yield _newest_first(group)
        group, low, high = [file], start, end
    if group:
        yield _newest_first(group)


def _newest_first(files: Sequence[DataFile]) -> RowRange:
    return RowRange(tuple(sorted(files, key=lambda file: -file.max_sequence_number)))
