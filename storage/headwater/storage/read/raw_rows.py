"""Rows as they stand in files, without a merge: in parts that are read independently.

A part is a file, some small ones that follow each other, or some row groups of a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.rules import added_rows
from headwater.storage.predicate.filter import Predicate

__all__ = ["RawRows", "RowReader", "without_deletes"]

# Bytes of a file, compressed: what is read by itself is worth a thread's turn.
_PART_BYTES = 16 * 1024**2


class RowReader(Protocol):
    """Reads rows as they stand in a file, or in several that hold their columns."""

    @property
    def may_delete(self) -> bool:
        """True if a row may retract."""
        ...

    def is_excluded(self, predicate: Predicate | None) -> bool:
        """True if no row is wanted."""
        ...

    def row_group_ranges(self, predicate: Predicate | None, part_bytes: int) -> list[range]:
        """The parts that can be read at the same time, of about so many bytes."""
        ...

    def rows(
        self,
        columns: Sequence[str],
        predicate: Predicate | None,
        batch_rows: int,
        *,
        groups: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a part, or of all; a hint says which may be left out."""
        ...


@dataclass(frozen=True)
class RawRows:
    """The rows of some files, row groups that cannot match left out.

    Attributes:
        files: In the order of the rows.
        open: Gives a file's reader.
        columns: The columns.
        predicate: A hint: which row groups are wanted.
        batch_rows: Rows of a batch at most.
        keyed: True if the files are those of a primary-key table, and a row may retract.
        keep_deletes: With `keyed`: give retracting rows, too, and each row with its
            ``_VALUE_KIND``.
    """

    files: Iterable[DataFile]
    open: Callable[[DataFile], RowReader]
    columns: Sequence[str]
    predicate: Predicate | None
    batch_rows: int
    keyed: bool = False
    keep_deletes: bool = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        for file in self.files:
            yield from self._of(self.open(file), None)

    def parts(self) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
        """Functions that each read a part of the rows, in the order of these.

        Parts may be read at the same time. A large file is opened, once, when the first of its
        parts is asked for; others when they are read.
        """
        small: list[DataFile] = []
        size = 0
        for file in self.files:
            if file.file_size < 2 * _PART_BYTES:
                small.append(file)
                size += file.file_size
                if size < _PART_BYTES:
                    continue
            if small:
                yield partial(self._of_files, tuple(small))
                small, size = [], 0
            if file.file_size >= 2 * _PART_BYTES:
                opened = self.open(file)
                for groups in opened.row_group_ranges(self.predicate, _PART_BYTES):
                    yield partial(self._of, opened, groups)
        if small:
            yield partial(self._of_files, tuple(small))

    def _of_files(self, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from self._of(self.open(file), None)

    def _of(self, opened: RowReader, groups: range | None) -> Iterator[pa.RecordBatch]:
        if opened.is_excluded(self.predicate):
            return
        # Rows may be judged by any column.
        has_kinds = self.keyed and (self.keep_deletes or opened.may_delete)
        names = [*self.columns, KIND_FIELD.name] if has_kinds else self.columns
        for batch in opened.rows(names, self.predicate, self.batch_rows, groups=groups):
            if has_kinds and not self.keep_deletes:
                yield without_deletes(batch).select(list(self.columns))
            else:
                yield batch


def without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch that do not retract."""
    added = added_rows(batch)
    return batch if added is None else batch.filter(added)
