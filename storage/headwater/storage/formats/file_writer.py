"""Writing a file: the part that every format has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.parquet_nulls import filled_below_nulls
from headwater.storage.formats.protocol import WrittenFile
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataField

__all__ = ["EndedByBlock", "FileWriter", "cast_column", "give_up"]


class EndedByBlock(ABC):
    """A writer that, as a context manager, closes, or aborts when an exception ends the block."""

    @abstractmethod
    def close(self) -> WrittenFile:
        """Finish the file; it is there, durably, when this returns."""

    @abstractmethod
    def abort(self) -> None:
        """Give the file up; nothing of it stays. After `close` this does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class _Abort(Exception):
    """Ends the output's context without the file appearing."""


def give_up(output: ExitStack) -> None:
    """End the context of `FileAccess.open_output` so that no file appears; nothing if it ended."""
    with suppress(_Abort):
        output.__exit__(_Abort, _Abort(), None)


class FileWriter(EndedByBlock):
    """A `FormatWriter` but for the bytes.

    Args:
        files: Access to the storage.
        path: The file's URI.
        schema: The Arrow schema of the rows.
        fields: The columns.

    Attributes:
        path: The file's URI.
        schema: The Arrow schema of the rows.
        fields: The columns.
        sink: The destination of the bytes.
        row_count: Rows written so far.
        described: The metadata that the file gives its columns, see `describe`.
    """

    def __init__(
        self, files: FileAccess, path: str, schema: pa.Schema, fields: Sequence[DataField]
    ) -> None:
        self.path = path
        self.schema = schema
        self.fields = tuple(fields)
        self._stack = ExitStack()
        self.sink: pa.NativeFile = self._stack.enter_context(files.open_output(path))
        self.row_count = 0
        self.described: Mapping[str, Mapping[bytes, bytes]] = {}
        self._written: WrittenFile | None = None

    @property
    @abstractmethod
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now; what a roll is decided by."""

    @abstractmethod
    def append(self, rows: pa.Table) -> None:
        """Write rows of the file's schema, or keep them until `finish`."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is left."""

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append rows, the columns in the file's order.

        Raises:
            Invalid: The columns are not the file's, or a NOT NULL column holds a null.
        """
        rows = self._fitting(
            pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        )
        self.append(rows)
        self.row_count += rows.num_rows

    def _fitting(self, table: pa.Table) -> pa.Table:
        if table.column_names != self.schema.names:
            raise Invalid(
                f"file {self.path} has the columns {', '.join(self.schema.names)}; "
                f"got {', '.join(table.column_names)}"
            )
        for column, item in zip(table.columns, self.fields, strict=True):
            if not item.type.nullable and column.null_count:
                raise Invalid(f"column '{item.name}' is NOT NULL but holds a null")
        if table.schema.equals(self.schema):
            return table
        columns = [
            cast_column(column, field.type, item, self.path)
            for column, field, item in zip(table.columns, self.schema, self.fields, strict=True)
        ]
        return pa.table(columns, schema=self.schema)

    def describe(self, columns: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Have the file hold metadata of these columns in an Arrow schema."""
        self.described = columns

    def close(self) -> WrittenFile:
        """Finish the file; it is there, durably, when this returns."""
        if self._written is None:
            with self._stack:
                self.finish()
                size = int(self.sink.tell())
            self._written = WrittenFile(self.path, size, self.row_count)
        return self._written

    def abort(self) -> None:
        """Give the file up; nothing of it stays. After `close` this does nothing."""
        give_up(self._stack)


def cast_column(
    column: pa.ChunkedArray, target: pa.DataType, item: DataField, path: str
) -> pa.ChunkedArray:
    """A column as the Arrow type that a file has for it.

    Args:
        column: The values.
        target: The type.
        item: The column.
        path: The file's URI, for errors.

    Raises:
        Invalid: A value does not fit.
    """
    if column.type.equals(target):
        return column
    try:
        if not isinstance(item.type, AtomicType):
            # Arrow casts no null row of a struct that has a NOT NULL field.
            made = [filled_below_nulls(chunk, item.type, item.name) for chunk in column.chunks]
            column = pa.chunked_array(made, column.type)
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Invalid(f"rows do not fit file {path}: {error}") from error
