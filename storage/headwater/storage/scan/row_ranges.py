"""Ranges of rows whose columns lie in several files, the newest of each column counting.

A file of a table with data evolution holds all columns of some rows, or some. Files of the same
rows have the same first row id and the same number of rows. The files of a BLOB column alone may
hold fewer rows each. Those of vectors alone are left out: this engine does not read them. Where the
columns of a file have sequence numbers of their own, readers compare the file's all the same: these
numbers tell those who refresh an index of row ids which columns changed.

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
from headwater.storage.scan.pruning import value_ranges
from headwater.storage.schema.blob_columns import is_plain_blob
from headwater.storage.schema.system_fields import TRACKING_FIELDS
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField

__all__ = ["RowRange", "row_ranges"]


@dataclass(frozen=True)
class RowRange:
    """The files of some rows.

    Attributes:
        files: All of the same rows, the newest first, without those of BLOB columns.
        blob_files: The files of BLOB columns, each of some of the rows, ordered by row id.
    """

    files: tuple[DataFile, ...]
    blob_files: tuple[DataFile, ...] = ()

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """The files, and those of BLOB columns."""
        return self.files + self.blob_files

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

    def value_ranges(
        self, storage: TableStorage, columns: Sequence[DataField]
    ) -> Mapping[str, ColumnRange]:
        """The statistics of present columns by name, as far as they are known."""
        found: dict[str, ColumnRange] = {}
        for column in columns:
            if is_plain_blob(column.type):
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
    for file in files:
        if ".vector." in file.file_name:
            continue
        if file.first_row_id is None:
            raise CorruptData(
                f"{where}/{file.file_name}: its rows have no ids, by which their columns in other "
                "files would be found"
            )
        kind = blobs if file.file_name.endswith(BLOB_SUFFIX) else ranged
        kind.append((file.first_row_id, file.first_row_id + file.row_count, file))
    ranged.sort(key=lambda item: item[:2])
    blobs.sort(key=lambda item: item[:2])
    yield from _with_blobs(where, _joined(where, ranged), blobs)


def _with_blobs(
    where: str, ranges: Iterable[RowRange], blobs: Sequence[tuple[int, int, DataFile]]
) -> Iterator[RowRange]:
    """The ranges with their files of BLOB columns, all ordered by row id."""
    at = 0
    for rows in ranges:
        first = rows.files[0].first_row_id or 0
        last = first + rows.row_count
        own: list[DataFile] = []
        while at < len(blobs) and blobs[at][0] < last:
            start, end, file = blobs[at]
            if start < first or end > last:
                break
            own.append(file)
            at += 1
        yield replace(rows, blob_files=tuple(own))
        if at < len(blobs) and blobs[at][0] < last:
            break
    if at < len(blobs):
        start, end, file = blobs[at]
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
