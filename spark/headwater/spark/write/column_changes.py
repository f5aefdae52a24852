"""Write changes of rows of a table with data evolution in a task: files of the changed columns.

Spark brings the changes of a range of rows to one task, sorted by position. The old values of the
rows of the range that keep theirs are read beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.spark.row_change import MATCHED, Repeats, RowChange, RowCounts
from headwater.spark.write.keyed_changes import count_kinds
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.maintenance.column_file_writer import ColumnFileWriter
from headwater.storage.maintenance.taken_rows import TakenRows
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.scan.row_ranges import row_ranges
from headwater.storage.scan.split import Split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["ColumnChanges", "splits_of_ranges"]


def splits_of_ranges(split: Split) -> Mapping[str, Split]:
    """A split for each range of rows, by the name of its oldest file."""
    splits: dict[str, Split] = {}
    for rows in row_ranges(split.directory, split.files):
        name = rows.anchor.file_name
        own = split.deletion_files.get(name)
        vectors = {} if own is None else {name: own}
        splits[name] = replace(split, files=rows.all_files, deletion_files=vectors)
    return splits


@dataclass(frozen=True)
class ColumnChanges:
    """Writes the changes of a task.

    Attributes:
        storage: The table.
        change: The change.
        base: The snapshot that the rows were read in.
        splits: A split for each range of rows, by the name of its oldest file.
    """

    storage: TableStorage
    change: RowChange
    base: Snapshot | None
    splits: Mapping[str, Split]

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        writer: TableWriter,
        added: list[CommitMessage],
        taken: list[TakenRows],
    ) -> RowCounts:
        """Write changes, sorted by `FILE_COLUMN` and `POSITION_COLUMN`, those that add rows first.

        Args:
            batches: The columns of the change, ``_ROW_KIND`` and the rows' places.
            writer: Writes rows that are added.
            added: Gets the files of columns, also when it fails.
            taken: Gets the rows that are deleted.

        Raises:
            Invalid: A new value does not fit its column, or it is not clear what a row becomes.
        """
        counts = RowCounts()
        names = list(self.storage.schema.field_by_name)
        for file, pieces in groupby(_pieces(batches), lambda piece: piece[0]):
            if file is not None:
                counts = counts.plus(self._change(file, (p for _, p in pieces), added, taken))
                continue
            for _, piece in pieces:
                writer.write(piece.select(names))
                counts = counts.plus(RowCounts(inserted=piece.num_rows))
        return counts

    def _change(
        self,
        file: str,
        pieces: Iterable[pa.RecordBatch],
        added: list[CommitMessage],
        taken: list[TakenRows],
    ) -> RowCounts:
        """Change the rows of one range."""
        storage, split = self.storage, self.splits.get(file)
        if split is None or self.base is None:
            raise Conflict(
                f"table {storage.name}: file {file} is not among those that the change was planned "
                "with; repeat the operation"
            )
        (rows,) = row_ranges(split.directory, split.files)
        columns = ColumnFileWriter(storage, self.base, split, rows, self.change.columns)
        counts, last = RowCounts(), -1
        gone: list[npt.NDArray[np.int64]] = []
        try:
            for piece in pieces:
                positions = piece.column(POSITION_COLUMN).to_numpy()
                repeated = np.diff(positions, prepend=last) == 0
                if repeated.any():
                    if self.change.repeats is Repeats.REFUSED:
                        raise Invalid(
                            f"table {storage.name}: several rows of the source match one row, "
                            f"{int(repeated.sum())} times in the range of the file {file}; make "
                            "the source's rows distinct"
                        )
                    piece, positions = piece.filter(pa.array(~repeated)), positions[~repeated]
                if not len(positions):
                    continue
                last = int(positions[-1])
                kinds = piece.column(ROW_KIND_COLUMN)
                counts = counts.plus(count_kinds(kinds))
                updated = pc.equal(kinds, "+U").to_numpy(zero_copy_only=False)
                new = pa.Table.from_batches([piece.filter(pa.array(updated))])
                columns.put(positions[updated], new)
                stays = pc.equal(kinds, MATCHED).to_numpy(zero_copy_only=False)
                gone.append(positions[~updated & ~stays])
            added += columns.finish()
        except BaseException:
            columns.abort()
            raise
        deleted = np.concatenate(gone) if gone else np.empty(0, np.int64)
        if len(deleted):
            files = BucketFiles(
                storage, split.directory, split.partition_values, split.deletion_files
            )
            before = files.open(rows.anchor, partial=True).deletion_vector
            own = TakenRows.of(split)
            own.vectors[file] = before.merged(DeletionVector.from_positions(deleted))
            taken.append(own)
        return counts


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """The rows of each file one after another, with its name; None for rows of no file."""
    for batch in batches:
        names = batch.column(FILE_COLUMN).dictionary_encode()
        codes = pc.fill_null(names.indices, -1).to_numpy()
        ends = [*(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        start = 0
        for end in ends:
            if end == start:
                continue
            code = int(codes[start])
            name = None if code < 0 else names.dictionary[code].as_py()
            yield name, batch.slice(start, end - start)
            start = end
