"""The Parquet format: reading its files, by row group and with the statistics of their footers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.codecs import codec_named
from headwater.storage.formats.parquet_batches import aligned, with_plain_text
from headwater.storage.formats.parquet_checksum import check_footer
from headwater.storage.formats.parquet_schema import has_nanoseconds
from headwater.storage.formats.parquet_writer import CODECS, ParquetWriter
from headwater.storage.formats.protocol import (
    ColumnStatistics,
    FormatReader,
    FormatWriter,
    readable,
    rows_without_columns,
)
from headwater.storage.formats.shredded_columns import ShreddedColumns
from headwater.storage.options import TableOptions
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
from headwater.storage.types.nested_arrays import list_with, map_entries, map_with, struct_with
from headwater.storage.types.values import StorageValue
from headwater.storage.variants.assembly import assembled, is_shredded

__all__ = ["PARQUET", "ParquetFormat", "ParquetReader"]


# A batch whose bytes are bounded begins with so small a share of its rows, to see what they take.
_FIRST_SHARE = 16
_MOST_FIRST_ROWS = 4096
_LEAST_ROWS = 64
# Bytes of a row, uncompressed, at which a text column is nearly all numbers of the values in its
# dictionary: a value by itself takes 4 and more.
_MOST_CODE_BYTES = 3.5
# In smaller files nothing is gained.
_LEAST_TEXT_ROWS = 4096
# Bytes of each column that are read of a local file at a time.
_LOCAL_BUFFER_BYTES = 1 << 16


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet, as Paimon writes it."""

    name: str = "parquet"

    def refuse(self, fields: Sequence[DataField], compression: str = "zstd") -> None:
        """Raises Unsupported for an unknown codec; every type with an Arrow form has a place."""
        codec_named(compression, CODECS, "Parquet")

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
        """Start a file, see `ParquetWriter`."""
        return ParquetWriter(
            files,
            path,
            fields,
            compression=compression,
            zstd_level=zstd_level,
            block_bytes=block_bytes,
        )

    def reader(
        self,
        files: FileAccess,
        path: str,
        *,
        row_count: int | None = None,
        options: TableOptions | None = None,
    ) -> FormatReader:
        """Open a file, see `ParquetReader`."""
        return ParquetReader(files, path, row_count=row_count)


PARQUET = ParquetFormat()


class ParquetReader:
    """Reads one Parquet file by row group and column.

    Args:
        files: Access to the storage.
        path: The file's URI.
        row_count: The number of rows according to the metadata; None leaves it unchecked.

    Attributes:
        path: The file's URI.
        columns: The names of the top-level columns.

    Raises:
        CorruptData: The file is missing, is no Parquet file, or has another number of rows.
    """

    def __init__(self, files: FileAccess, path: str, *, row_count: int | None = None) -> None:
        self.path = path
        with readable(path):
            self._source = files.open_input(path)
            self._file = self._open()
        metadata = self._file.metadata
        self._metadata: pq.FileMetaData = metadata
        if row_count is not None and metadata.num_rows != row_count:
            raise CorruptData(
                f"file {path} holds {metadata.num_rows} rows, but the manifest says {row_count}"
            )
        self._schema: pa.Schema = self._file.schema_arrow
        self.columns: frozenset[str] = frozenset(self._schema.names)
        # By number, for the path of a leaf may be the name of another column.
        self._leaves: dict[str, range] = {}
        first = 0
        for field in self._schema:
            self._leaves[field.name] = range(first, first + _leaf_count(field.type))
            first = self._leaves[field.name].stop

    def _open(
        self,
        metadata: pq.FileMetaData | None = None,
        *,
        int96_unit: str | None = None,
        encoded: Sequence[int] | None = None,
        large: bool = False,
    ) -> pq.ParquetFile:
        is_local = self.path.startswith(("file:", "/"))
        try:
            return pq.ParquetFile(
                self._source,
                metadata=metadata,
                read_dictionary=encoded,
                binary_type=pa.large_binary() if large else None,
                coerce_int96_timestamp_unit=int96_unit,
                page_checksum_verification=True,
                # Only a store gains from fetching columns together; of a local file little is held.
                pre_buffer=not is_local,
                buffer_size=_LOCAL_BUFFER_BYTES if is_local else 0,
            )
        except UnicodeDecodeError as error:
            # Arrow takes the names of columns as they are, and Python does not.
            raise CorruptData(
                f"file {self.path} names a column by bytes that are no text"
            ) from error

    @cached_property
    def _shredded(self) -> ShreddedColumns:
        metadata = {item.name: item.metadata for item in self._schema}
        return ShreddedColumns(self.path, metadata)

    @cached_property
    def _encoded_columns(self) -> frozenset[str]:
        """The text columns that are nearly all numbers of the values in a dictionary.

        Arrow reads the numbers, and then looks the values up, in less than half the time that it
        takes to build the text value by value.
        """
        return frozenset(
            name for name in self._text_columns if self._is_encoded(self._leaves[name].start)
        )

    @cached_property
    def _text_columns(self) -> frozenset[str]:
        """The columns of text or bytes; none of a small file, where no way of reading gains."""
        if self.row_count < _LEAST_TEXT_ROWS:
            return frozenset()
        return frozenset(
            field.name
            for field in self._schema
            if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
        )

    def _is_encoded(self, leaf: int) -> bool:
        chunks = [self._metadata.row_group(group).column(leaf) for group in self.row_groups]
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        return size <= _MOST_CODE_BYTES * self.row_count and all(
            chunk.has_dictionary_page for chunk in chunks
        )

    @cached_property
    def _encoded_file(self) -> pq.ParquetFile:
        """The file, of which such columns are read as they are encoded."""
        leaves = [self._leaves[name].start for name in self._encoded_columns]
        return self._open(self._metadata, encoded=leaves)

    @cached_property
    def _large_file(self) -> pq.ParquetFile:
        """The file, its text read as large text: Arrow builds it in three quarters of the time."""
        return self._open(self._metadata, large=True)

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return int(self._metadata.num_rows)

    @property
    def row_groups(self) -> range:
        """The row groups' numbers."""
        return range(self._metadata.num_row_groups)

    @property
    def row_group_starts(self) -> Sequence[int]:
        """The position in the file of each row group's first row."""
        counts = [self._metadata.row_group(group).num_rows for group in self.row_groups]
        return list(accumulate(counts, initial=0))[:-1]

    def statistics(self, row_group: int, column: DataField) -> ColumnStatistics | None:
        """The footer's statistics of an atomic column; None when there are none."""
        data_type = column.type
        if (
            not isinstance(data_type, AtomicType)
            or column.name not in self.columns
            # Another unit or scale would make other numbers of the same values.
            or self._schema.field(column.name).type != to_arrow(data_type)
        ):
            return None
        group = self._metadata.row_group(row_group)
        found = group.column(self._leaves[column.name].start).statistics
        if found is None:
            return None
        nulls = found.null_count if found.has_null_count else None
        if not found.has_min_max:
            return ColumnStatistics(None, None, nulls, group.num_rows)
        try:
            low = _storage_value(found.min_raw, data_type)
            high = _storage_value(found.max_raw, data_type)
        except ValueError:
            return None
        return ColumnStatistics(low, high, nulls, group.num_rows)

    def check(self) -> None:
        """Compare the footer with its checksum, if it has one; raises CorruptData.

        Pages have checksums of their own.
        """
        with readable(self.path):
            check_footer(self._source, self.path)

    def batches(
        self,
        columns: Sequence[DataField],
        row_groups: Sequence[int] | None = None,
        batch_rows: int = 65536,
        batch_bytes: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in the file's order.

        Args:
            columns: The top-level columns to read; the batches hold them in this order.
            row_groups: The row groups to read, ascending; None means all.
            batch_rows: Rows of a batch; one may be smaller.
            batch_bytes: Bytes of a batch, about: as many rows as took so much in the batch before.
                None leaves it to the rows.

        Raises:
            CorruptData: A column is not there, or the bytes cannot be decoded.
            Unsupported: A timestamp of more than 6 digits lies outside the years 1677 to 2262
                that Arrow's nanoseconds reach.
        """
        missing = [item.name for item in columns if item.name not in self.columns]
        if missing:
            raise CorruptData(f"file {self.path} lacks column '{missing[0]}'")
        groups = self.row_groups if row_groups is None else row_groups
        if not columns:
            for group in groups:
                rows = self._metadata.row_group(group).num_rows
                yield from rows_without_columns(rows, batch_rows)
            return
        stored = {item.name: self._shredded.stored(item) for item in columns}
        batch_rows = self._shredded.batch_rows(columns, batch_rows)
        # Arrow reads INT96 as nanoseconds and wraps what they cannot hold without a word.
        wide = {name: item.type for name, item in stored.items() if self._has_int96(name)}
        sources = self._sources(columns, stored, list(wide))
        rows = batch_rows
        if batch_bytes is not None:
            rows = max(1, min(batch_rows // _FIRST_SHARE, _MOST_FIRST_ROWS))
        for group in groups:
            left = int(self._metadata.row_group(group).num_rows)
            with readable(self.path):
                streams = [
                    with_plain_text(self._stream(file, rows, group, wanted))
                    for file, wanted in sources
                ]
            together = aligned(streams)
            while True:
                with readable(self.path):
                    parts = next(together, None)
                if parts is None:
                    break
                left -= parts[0].num_rows
                batch = self._batch(parts, columns, wide)
                if batch_bytes is not None:
                    fitting = batch_bytes * batch.num_rows // max(batch.nbytes, 1)
                    rows = max(min(_LEAST_ROWS, batch_rows), min(fitting, batch_rows))
                    for file, _ in sources:
                        file.reader.set_batch_size(rows)
                yield batch
            if left:
                # Arrow takes the end of the file for that of a column.
                raise CorruptData(
                    f"file {self.path} cannot be read: {left} rows of row group {group} are not "
                    "there; it was cut short"
                )

    def _sources(
        self, columns: Sequence[DataField], stored: Mapping[str, DataField], wide: Sequence[str]
    ) -> list[tuple[pq.ParquetFile, list[str]]]:
        """The readers of columns, and the paths that each reads: the one of `wide` comes last."""
        paths = {
            item.name: self._shredded.paths(item, self._schema.field(item.name).type)
            for item in columns
        }
        plain = [name for name in stored if name not in wide or has_nanoseconds(stored[name].type)]
        text = [name for name in plain if name in self._text_columns - self._encoded_columns]
        others = [name for name in plain if name not in text]
        sources: list[tuple[pq.ParquetFile, list[str]]] = []
        with readable(self.path):
            if others:
                encoded = not self._encoded_columns.isdisjoint(others)
                file = self._encoded_file if encoded else self._file
                sources.append((file, [path for name in others for path in paths[name]]))
            if text:
                sources.append((self._large_file, text))
            if wide:
                file = self._open(self._metadata, int96_unit="us")
                sources.append((file, [path for name in wide for path in paths[name]]))
        return sources

    def _batch(
        self,
        parts: list[pa.RecordBatch],
        columns: Sequence[DataField],
        wide: Mapping[str, DataType],
    ) -> pa.RecordBatch:
        """The columns of one batch, from what the readers of `_sources` gave of it."""
        micros = parts.pop() if wide else None
        found = {name: part.column(name) for part in parts for name in part.schema.names}
        for name, data_type in wide.items():
            assert micros is not None
            exact = micros.column(name)
            if name in found:
                exact = self._exact(found[name], exact, data_type, name)
            found[name] = exact
        whole = [self._assembled(found[item.name], item) for item in columns]
        return pa.RecordBatch.from_arrays(whole, [item.name for item in columns])

    @staticmethod
    def _stream(
        file: pq.ParquetFile, batch_rows: int, group: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        # Arrow's threads add more to the work on one batch than they take off it.
        stream: Iterator[pa.RecordBatch] = file.iter_batches(
            batch_rows, [group], list(columns), use_threads=False
        )
        return stream

    def _assembled(self, array: pa.Array, column: DataField) -> pa.Array:
        """The column with its variants and maps put together, where they are shredded.

        Arrow gives each column that may hold nulls a bitmap of them, even if there are none. What
        filters and copies rows is several times as fast without.
        """
        if isinstance(column.type, AtomicType):
            return _without_needless_bitmap(array)
        array = self._shredded.whole(array, column)
        if not is_shredded(array.type, column.type):
            return array
        try:
            return assembled(array, column.type)
        except ValueError as error:
            raise CorruptData(
                f"file {self.path}: column '{column.name}' holds a shredded VARIANT that cannot be "
                f"put together: {error}"
            ) from error

    def _has_int96(self, column: str) -> bool:
        schema = self._file.schema
        return any(schema.column(at).physical_type == "INT96" for at in self._leaves[column])

    def _exact(
        self, nanos: pa.Array, micros: pa.Array, data_type: DataType, column: str
    ) -> pa.Array:
        """The values of an INT96 column read twice: nanoseconds where the type has so many digits.

        Raises:
            Unsupported: There, a moment is beyond what nanoseconds reach.
        """
        if not has_nanoseconds(data_type):
            return micros
        match data_type:
            case ArrayType():
                values = self._exact(nanos.flatten(), micros.flatten(), data_type.element, column)
                return list_with(nanos, values, pa.list_(values.type))
            case MapType() | MultisetType():
                (keys, values), (other_keys, other_values) = map_entries(nanos), map_entries(micros)
                if isinstance(data_type, MapType):
                    values = self._exact(values, other_values, data_type.value, column)
                key_type = data_type.key if isinstance(data_type, MapType) else data_type.element
                keys = self._exact(keys, other_keys, key_type, column)
                return map_with(nanos, keys, values, pa.map_(keys.type, values.type))
            case RowType():
                types = {child.name: child.type for child in data_type.fields}
                children = [
                    self._exact(nanos.field(at), micros.field(at), types[item.name], column)
                    if item.name in types
                    else micros.field(at)
                    for at, item in enumerate(nanos.type)
                ]
                fields = [
                    item.with_type(child.type)
                    for item, child in zip(nanos.type, children, strict=True)
                ]
                return struct_with(nanos, children, fields)
        try:
            micros.cast(pa.timestamp("ns"))
        except pa.ArrowInvalid as error:
            raise Unsupported(
                f"file {self.path}: column '{column}' holds a moment outside the years 1677 to "
                f"2262, which nanoseconds do not reach ({error}); leave the column out"
            ) from error
        return nanos


def _without_needless_bitmap(array: pa.Array) -> pa.Array:
    if array.null_count or array.type.num_fields:
        return array
    bitmap, *values = array.buffers()
    if bitmap is None or pa.types.is_dictionary(array.type):
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *values], 0, array.offset)


def _leaf_count(data_type: pa.DataType) -> int:
    """The number of physical columns that hold a value of the type."""
    parts = [data_type.field(at).type for at in range(data_type.num_fields)]
    return sum(map(_leaf_count, parts)) if parts else 1


def _storage_value(raw: bool | int | float | bytes, data_type: AtomicType) -> StorageValue:
    """A footer's value as a storage value; raises ValueError when it is not one as it stands."""
    match data_type.root:
        case Root.CHAR | Root.VARCHAR if isinstance(raw, bytes):
            return raw.decode()
        case Root.DECIMAL if isinstance(raw, int):
            return Decimal(raw).scaleb(-data_type.scale)
        case Root.DECIMAL if isinstance(raw, bytes):
            unscaled = int.from_bytes(raw, "big", signed=True)
            return Decimal(
                (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -data_type.scale)
            )
        case Root.BINARY | Root.VARBINARY if isinstance(raw, bytes):
            return raw
        case Root.BOOLEAN if isinstance(raw, bool):
            return raw
        case Root.FLOAT | Root.DOUBLE if isinstance(raw, float):
            return raw
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ if data_type.precision > 6:
            raise ValueError
        case _ if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
    raise ValueError
