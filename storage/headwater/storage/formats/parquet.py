"""Parquet data files: the physical types and field ids that Paimon gives them.

Source: ``spec/fileformat.md``, ``ParquetSchemaConverter.java``, ``SpecialFields.java``. A file with
a timestamp of more than 6 digits holds all its timestamps as INT96 (Arrow's writer decides that
for the file, not for a column); every Paimon reader takes INT96 for any precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.storage.errors import CorruptData, Invalid, NotFound, Unavailable, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    to_arrow,
)

__all__ = [
    "ParquetReader",
    "ParquetWriter",
    "RawStatistics",
    "WrittenFile",
    "parquet_schema",
]

_NESTED_ID_START = (2**31 - 1) // 4
_NESTED_ID_STEP = 1 << 10

_ROW_GROUP_BYTES = 64 * 1024**2
_ROW_GROUP_ROWS = 1 << 19
_SAMPLE_ROWS = 1 << 14
_CODECS = {"none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip",
           "lz4": "lz4", "zstd": "zstd", "brotli": "brotli"}  # fmt: skip


def parquet_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of a file with these columns: names, types, nullability, field ids."""
    return pa.schema([_arrow_with_id(item) for item in fields])


def _arrow_with_id(item: DataField) -> pa.Field:
    arrow = _arrow_type(item.type, item.id, 0)
    return _field(item.name, arrow, item.type.nullable, item.id)


def _field(name: str, arrow: pa.DataType, nullable: bool, identifier: int) -> pa.Field:
    return pa.field(name, arrow, nullable, metadata={"PARQUET:field_id": str(identifier)})


def _arrow_type(data_type: DataType, identifier: int, depth: int) -> pa.DataType:
    """`to_arrow` with the field ids that nested parts carry; `identifier` is the column's."""
    depth += 1
    up = _NESTED_ID_START + identifier * _NESTED_ID_STEP + depth
    down = _NESTED_ID_START - identifier * _NESTED_ID_STEP - depth
    match data_type:
        case AtomicType():
            return to_arrow(data_type)
        case ArrayType():
            inner = _arrow_type(data_type.element, identifier, depth)
            return pa.list_(_field("element", inner, data_type.element.nullable, up))
        case MapType():
            return pa.map_(
                _field("key", _arrow_type(data_type.key, identifier, depth), False, down),
                _field(
                    "value",
                    _arrow_type(data_type.value, identifier, depth),
                    data_type.value.nullable,
                    up,
                ),
            )
        case MultisetType():
            inner = _arrow_type(data_type.element, identifier, depth)
            return pa.map_(
                _field("key", inner, False, down), _field("value", pa.int32(), False, up)
            )
        case RowType():
            return pa.struct([_arrow_with_id(child) for child in data_type.fields])


@dataclass(frozen=True)
class WrittenFile:
    """A finished Parquet file.

    Attributes:
        path: Its URI.
        size: Bytes.
        row_count: Rows.
    """

    path: str
    size: int
    row_count: int


class _Abort(Exception):
    """Ends the output's context without the file appearing."""


class ParquetWriter:
    """Writes one Parquet file; it appears when `close` returns, and never otherwise.

    As a context manager it closes, or aborts when an exception ends the block.

    Args:
        files: How to reach the storage.
        path: The file's URI.
        fields: The columns, see `data_file_fields`.
        compression: ``none``, ``snappy``, ``gzip``, ``lz4``, ``zstd`` or ``brotli``.
        zstd_level: Used by ``zstd`` alone.

    Raises:
        Unsupported: The codec is unknown.
    """

    def __init__(
        self,
        files: FileAccess,
        path: str,
        fields: Sequence[DataField],
        *,
        compression: str = "zstd",
        zstd_level: int = 1,
    ) -> None:
        if compression not in _CODECS:
            raise Unsupported(
                f"option 'file.compression': no codec '{compression}'; "
                f"there are {', '.join(_CODECS)}"
            )
        self.path = path
        self.schema = parquet_schema(fields)
        self._fields = tuple(fields)
        self._codec = _CODECS[compression]
        self._level = zstd_level if self._codec == "zstd" else None
        self._stack = ExitStack()
        self._sink: pa.NativeFile = self._stack.enter_context(files.open_output(path))
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._row_count = 0
        self._flushed_bytes = 0
        self._written: WrittenFile | None = None

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append rows, the columns in the file's order.

        Raises:
            Invalid: The columns are not the file's, or a NOT NULL column holds a null.
        """
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        table = self._checked(table)
        row_bytes = table.nbytes / max(table.num_rows, 1)
        while table.num_rows:
            room = int((_ROW_GROUP_BYTES - self._pending_bytes) / max(row_bytes, 1))
            part = table.slice(0, max(1, min(room, _ROW_GROUP_ROWS - self._pending_rows)))
            table = table.slice(part.num_rows)
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += math.ceil(part.num_rows * row_bytes)
            self._row_count += part.num_rows
            if self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= _ROW_GROUP_BYTES:
                self._flush()

    def _checked(self, table: pa.Table) -> pa.Table:
        if table.column_names != self.schema.names:
            raise Invalid(
                f"file {self.path} has the columns {', '.join(self.schema.names)}; "
                f"got {', '.join(table.column_names)}"
            )
        for column, item in zip(table.columns, self._fields, strict=True):
            if not item.type.nullable and column.null_count:
                raise Invalid(f"column '{item.name}' is NOT NULL but holds a null")
        if table.schema.equals(self.schema):
            return table
        try:
            return table.cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Invalid(f"rows do not fit file {self.path}: {error}") from error

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        return self._row_count

    @property
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now; what a roll is decided by."""
        written = int(self._sink.tell())
        if not self._flushed_bytes:
            return written + self._pending_bytes // 3
        return written + self._pending_bytes * written // self._flushed_bytes

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        table = pa.concat_tables(self._pending)
        if self._writer is None:
            self._writer = self._open(table)
        try:
            self._writer.write_table(table, row_group_size=self._pending_rows)
        except pa.ArrowInvalid as error:
            raise Invalid(f"rows do not fit file {self.path}: {error}") from error
        self._flushed_bytes += self._pending_bytes
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._sink,
            self.schema,
            version="2.6",
            compression=self._codec,
            compression_level=self._level,
            use_dictionary=_dictionary_columns(self._fields, first),
            write_statistics=True,
            use_deprecated_int96_timestamps=any(_needs_int96(f.type) for f in self._fields),
            store_schema=False,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            write_page_checksum=True,
        )

    def close(self) -> WrittenFile:
        """Finish the file; it is there, durably, when this returns."""
        if self._written is None:
            with self._stack:
                self._flush()
                if self._writer is None:
                    self._writer = self._open(self.schema.empty_table())
                self._writer.close()
                size = int(self._sink.tell())
            self._written = WrittenFile(self.path, size, self._row_count)
        return self._written

    def abort(self) -> None:
        """Give the file up; nothing of it stays. After `close` this does nothing."""
        with suppress(_Abort):
            self._stack.__exit__(_Abort, _Abort(), None)

    def __enter__(self) -> ParquetWriter:
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


def _needs_int96(data_type: DataType) -> bool:
    match data_type:
        case AtomicType():
            timestamp = data_type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
            return timestamp and data_type.precision > 6
        case ArrayType() | MultisetType():
            return _needs_int96(data_type.element)
        case MapType():
            return _needs_int96(data_type.key) or _needs_int96(data_type.value)
        case RowType():
            return any(_needs_int96(child.type) for child in data_type.fields)


def _dictionary_columns(fields: Sequence[DataField], first: pa.Table) -> list[str]:
    """Leaf columns worth a dictionary: those whose first rows repeat values.

    A dictionary that does not fit is built in vain; for a column of distinct values that is the
    greater part of what writing it costs.
    """
    sample = first.slice(0, _SAMPLE_ROWS)
    chosen: list[str] = []
    for item in fields:
        if not isinstance(item.type, AtomicType):
            chosen.extend(_leaves(item.name, item.type))
        elif item.type.root is not Root.BOOLEAN:
            distinct = pc.count_distinct(sample.column(item.name), mode="all").as_py()
            if distinct * 2 <= sample.num_rows or not sample.num_rows:
                chosen.append(item.name)
    return chosen


def _leaves(path: str, data_type: DataType) -> Iterator[str]:
    match data_type:
        case AtomicType():
            yield path
        case ArrayType():
            yield from _leaves(f"{path}.list.element", data_type.element)
        case MultisetType():
            yield from _leaves(f"{path}.key_value.key", data_type.element)
        case MapType():
            yield from _leaves(f"{path}.key_value.key", data_type.key)
            yield from _leaves(f"{path}.key_value.value", data_type.value)
        case RowType():
            for child in data_type.fields:
                yield from _leaves(f"{path}.{child.name}", child.type)


RawValue: TypeAlias = "bool | int | float | bytes"


@dataclass(frozen=True)
class RawStatistics:
    """The statistics of one column in a row group's footer.

    Attributes:
        minimum: A lower bound in the physical type (unscaled decimals, UTF-8 bytes), or None.
        maximum: An upper bound, likewise.
        null_count: Nulls, or None when they were not counted.
        row_count: Rows of the row group.
    """

    minimum: RawValue | None
    maximum: RawValue | None
    null_count: int | None
    row_count: int


class ParquetReader:
    """Reads one Parquet file by row group and column.

    Args:
        files: How to reach the storage.
        path: The file's URI.
        row_count: How many rows the metadata says it holds; None leaves that unchecked.

    Raises:
        CorruptData: The file is missing, is no Parquet file, or has another number of rows.
    """

    def __init__(self, files: FileAccess, path: str, *, row_count: int | None = None) -> None:
        self._files = files
        self.path = path
        with _readable(path):
            self._file = self._open(None)
        metadata = self._file.metadata
        self._metadata: pq.FileMetaData = metadata
        if row_count is not None and metadata.num_rows != row_count:
            raise CorruptData(
                f"file {path} holds {metadata.num_rows} rows, but the manifest says {row_count}"
            )
        self._schema: pa.Schema = self._file.schema_arrow
        self.columns: frozenset[str] = frozenset(self._schema.names)
        leaves = [self._file.schema.column(i) for i in range(len(self._file.schema))]
        self._leaf = {leaf.path: i for i, leaf in enumerate(leaves)}
        self._int96 = frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")

    def _open(self, int96_unit: str | None) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._files.open_input(self.path),
            coerce_int96_timestamp_unit=int96_unit,
            page_checksum_verification=True,
            # Local files are mapped; only a store gains from fetching columns together.
            pre_buffer=not self.path.startswith(("file:", "/")),
        )

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return int(self._metadata.num_rows)

    @property
    def row_groups(self) -> range:
        """The row groups' numbers."""
        return range(self._metadata.num_row_groups)

    def arrow_type(self, column: str) -> pa.DataType | None:
        """The Arrow type that a top-level column is read as; None when there is no such column."""
        return self._schema.field(column).type if column in self.columns else None

    def statistics(self, row_group: int, column: str) -> RawStatistics | None:
        """The footer's statistics of an atomic column; None when there are none."""
        leaf = self._leaf.get(column)
        if leaf is None:
            return None
        group = self._metadata.row_group(row_group)
        found = group.column(leaf).statistics
        if found is None:
            return None
        bounded = found.has_min_max
        return RawStatistics(
            found.min_raw if bounded else None,
            found.max_raw if bounded else None,
            found.null_count if found.has_null_count else None,
            group.num_rows,
        )

    def batches(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int] | None = None,
        batch_rows: int = 65536,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in the file's order.

        Args:
            columns: Which top-level columns; the batches hold them in this order.
            row_groups: Which row groups, ascending; None means all.
            batch_rows: Rows of a batch; one may be smaller.

        Raises:
            CorruptData: A column is not there, or the bytes cannot be decoded.
            Unsupported: A timestamp lies outside the years 1677 to 2262 that Arrow's
                nanoseconds reach.
        """
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise CorruptData(f"file {self.path} lacks column '{missing[0]}'")
        groups = self.row_groups if row_groups is None else row_groups
        wide = [name for name in columns if name in self._int96]
        if not columns:
            for group in groups:
                yield from _rows_only(self._metadata.row_group(group).num_rows, batch_rows)
            return
        names = list(columns)
        with _readable(self.path):
            micros = self._open("us") if wide else None
        for group in groups:
            with _readable(self.path):
                stream = self._file.iter_batches(batch_rows, [group], names)
                other = micros.iter_batches(batch_rows, [group], wide) if micros else None
            while True:
                with _readable(self.path):
                    batch = next(stream, None)
                    check = next(other) if other is not None and batch is not None else None
                if batch is None:
                    break
                if check is not None:
                    batch = self._with_checked_int96(batch, check)
                yield batch.select(names)

    def _with_checked_int96(self, batch: pa.RecordBatch, micros: pa.RecordBatch) -> pa.RecordBatch:
        # Arrow reads INT96 as nanoseconds and wraps what they cannot hold without a word.
        for name in micros.schema.names:
            column = micros.column(name)
            try:
                column.cast(pa.timestamp("ns"))
            except pa.ArrowInvalid:
                at = batch.schema.get_field_index(name)
                batch = batch.set_column(at, name, column)
        return batch


def _rows_only(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    while rows > 0:
        yield pa.RecordBatch.from_arrays([pa.nulls(min(rows, batch_rows))], ["_"]).select([])
        rows -= batch_rows


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn what Arrow says of a bad file into CorruptData."""
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
