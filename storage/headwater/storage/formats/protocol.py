"""A data-file format: the protocol between it and writing, reading and pruning.

A file is a sequence of row groups, each of which can be read without the others. A format that has
no such parts gives one row group; one that keeps no statistics answers None. Either way everything
above works, only with less left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from headwater.storage.errors import CorruptData, NotFound, Unavailable
from headwater.storage.files.access import FileAccess
from headwater.storage.options import TableOptions
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import StorageValue

__all__ = [
    "ColumnStatistics",
    "DataFileFormat",
    "FormatReader",
    "FormatWriter",
    "WrittenFile",
    "readable",
    "rows_without_columns",
]


@dataclass(frozen=True)
class WrittenFile:
    """A finished file.

    Attributes:
        path: Its URI.
        size: Bytes.
        row_count: Rows.
    """

    path: str
    size: int
    row_count: int


@dataclass(frozen=True)
class ColumnStatistics:
    """The statistics of one column in one row group.

    Attributes:
        minimum: A storage value that no value is below; None when unknown.
        maximum: A storage value that no value is above; None when unknown.
        null_count: Nulls; None when they were not counted.
        row_count: Rows of the row group.
    """

    minimum: StorageValue
    maximum: StorageValue
    null_count: int | None
    row_count: int


class FormatWriter(Protocol):
    """Writes one file; it appears when `close` returns, and never otherwise.

    As a context manager it closes, or aborts when an exception ends the block.
    """

    @property
    def path(self) -> str:
        """The file's URI."""
        ...

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        ...

    @property
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now; what a roll is decided by."""
        ...

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append rows, the columns in the file's order.

        Raises:
            Invalid: The columns are not the file's, or a NOT NULL column holds a null.
        """
        ...

    def describe(self, columns: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Have the file hold metadata of these columns in an Arrow schema.

        Raises:
            Unsupported: The format has no place for it.
        """
        ...

    def close(self) -> WrittenFile:
        """Finish the file; it is there, durably, when this returns."""
        ...

    def abort(self) -> None:
        """Give the file up; nothing of it stays. After `close` this does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class FormatReader(Protocol):
    """Reads one file by row group and column."""

    @property
    def path(self) -> str:
        """The file's URI."""
        ...

    @property
    def row_groups(self) -> range:
        """The row groups' numbers."""
        ...

    @property
    def row_group_starts(self) -> Sequence[int]:
        """The position in the file of each row group's first row."""
        ...

    def statistics(self, row_group: int, column: DataField) -> ColumnStatistics | None:
        """The statistics of a column in a row group; None when the file keeps none.

        Args:
            row_group: The row group's number.
            column: A column of the schema that the file was written with.
        """
        ...

    def check(self) -> None:
        """Compare the file with a checksum of the whole, if it has one.

        Checksums of parts of a file are compared wherever the parts are read.

        Raises:
            CorruptData: They differ.
        """
        ...

    def batches(
        self,
        columns: Sequence[DataField],
        row_groups: Sequence[int] | None = None,
        batch_rows: int = 65536,
        batch_bytes: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in the file's order.

        A column comes in an Arrow type that casts without loss to that of its field.

        Args:
            columns: The top-level columns to read, as the schema that the file was written with has
                them; the batches hold them in this order.
            row_groups: The row groups to read, ascending; None means all.
            batch_rows: Rows of a batch; one may be smaller.
            batch_bytes: Bytes of a batch, about, as far as the format can tell before it decodes;
                None leaves it to the rows.

        Raises:
            CorruptData: A column is not there, or the bytes cannot be decoded. A file that holds
                another number of rows than the metadata says is found out here at the latest.
        """
        ...


class DataFileFormat(Protocol):
    """One format: the value of ``file.format``, which is the extension of its files' names."""

    @property
    def name(self) -> str:
        """The name in options, and the extension of its files."""
        ...

    def refuse(self, fields: Sequence[DataField], compression: str = "zstd") -> None:
        """Refuse what the format cannot write.

        Args:
            fields: The columns of a file.
            compression: The codec, as ``file.compression`` names it.

        Raises:
            Unsupported: The format cannot hold a column, or does not know the codec; the message
                names it.
        """
        ...

    def writer(
        self,
        files: FileAccess,
        path: str,
        fields: Sequence[DataField],
        *,
        compression: str = "zstd",
        zstd_level: int = 1,
        block_bytes: int | None = None,
    ) -> FormatWriter:
        """Start a file.

        Args:
            files: Access to the storage.
            path: The file's URI.
            fields: The columns, see `data_file_fields`.
            compression: The codec, as ``file.compression`` names it.
            zstd_level: Used by ``zstd`` alone.
            block_bytes: Bytes of a row group (``file.block-size``); None is the format's default.

        Raises:
            Unsupported: The format does not know the codec, or cannot hold a column.
        """
        ...

    def reader(
        self,
        files: FileAccess,
        path: str,
        *,
        row_count: int | None = None,
        options: TableOptions | None = None,
    ) -> FormatReader:
        """Open a file.

        Args:
            files: Access to the storage.
            path: The file's URI.
            row_count: The number of rows according to the metadata; None leaves it unchecked.
            options: The table's options, some of which say how a format's values are meant.

        Raises:
            CorruptData: The file is missing, or is not of this format.
        """
        ...


def rows_without_columns(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches that have a number of rows and nothing else."""
    while rows > 0:
        yield pa.RecordBatch.from_arrays([pa.nulls(min(rows, batch_rows))], ["_"]).select([])
        rows -= batch_rows


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn Arrow's errors about a bad file into CorruptData."""
    try:
        yield
    except NotFound as error:
        raise CorruptData(f"file {path} is missing, but the metadata lists it") from error
    except pa.ArrowException as error:
        raise CorruptData(f"file {path} cannot be read: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise Unavailable(f"cannot read {path}: {error}") from error
        raise CorruptData(f"file {path} cannot be read: {error}") from error
