"""Writing Parquet data files."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.storage.errors import Invalid
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.arrow_metadata import SCHEMA_KEY, schema_entry
from headwater.storage.formats.codecs import codec_named
from headwater.storage.formats.file_writer import FileWriter
from headwater.storage.formats.held_output import HeldOutput
from headwater.storage.formats.parquet_checksum import write_with_checksum
from headwater.storage.formats.parquet_nulls import filled_below_nulls
from headwater.storage.formats.parquet_schema import has_nanoseconds, leaves, parquet_schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

__all__ = ["CODECS", "ParquetWriter"]

_ROW_GROUP_BYTES = 64 * 1024**2
_ROW_GROUP_ROWS = 1 << 19
_SAMPLE_ROWS = 1 << 14
_FLOATING = (Root.FLOAT, Root.DOUBLE)
CODECS = {"none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip",
          "lz4": "lz4", "zstd": "zstd", "brotli": "brotli"}  # fmt: skip
"""Arrow's names of the codecs, by those that options give them."""


class ParquetWriter(FileWriter):
    """Writes one Parquet file; it appears when `close` returns, and never otherwise.

    As a context manager it closes, or aborts when an exception ends the block.

    Args:
        files: Access to the storage.
        path: The file's URI.
        fields: The columns, see `data_file_fields`.
        compression: ``none``, ``snappy``, ``gzip``, ``lz4``, ``zstd`` or ``brotli``.
        zstd_level: Used by ``zstd`` alone.
        block_bytes: Bytes of rows in a row group; None is 64 MB.

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
        block_bytes: int | None = None,
    ) -> None:
        codec = codec_named(compression, CODECS, "Parquet")
        super().__init__(files, path, parquet_schema(fields), fields)
        self._codec = codec
        self._group_bytes = block_bytes or _ROW_GROUP_BYTES
        self._level = zstd_level if self._codec == "zstd" else None
        self._writer: pq.ParquetWriter | None = None
        self._output = HeldOutput(self.sink)
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._flushed_bytes = 0

    def append(self, rows: pa.Table) -> None:
        """Keep rows until there are enough for a row group."""
        # Columns may share their memory, which only the one counts once, and be parts of larger
        # ones, which only the other leaves out.
        size = min(rows.nbytes, rows.get_total_buffer_size())
        row_bytes = size / max(rows.num_rows, 1)
        while rows.num_rows:
            room = int((self._group_bytes - self._pending_bytes) / max(row_bytes, 1))
            part = rows.slice(0, max(1, min(room, _ROW_GROUP_ROWS - self._pending_rows)))
            rows = rows.slice(part.num_rows)
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += math.ceil(part.num_rows * row_bytes)
            if self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= self._group_bytes:
                self._flush()

    @property
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now; what a roll is decided by."""
        written = int(self.sink.tell())
        if not self._flushed_bytes:
            return written + self._pending_bytes // 3
        return written + self._pending_bytes * written // self._flushed_bytes

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        table = self._filled(pa.concat_tables(self._pending))
        if self._writer is None:
            self._writer = self._open(table)
        try:
            self._writer.write_table(table, row_group_size=self._pending_rows)
        except pa.ArrowInvalid as error:
            raise Invalid(f"rows do not fit file {self.path}: {error}") from error
        self._flushed_bytes += self._pending_bytes
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _filled(self, table: pa.Table) -> pa.Table:
        for at, item in enumerate(self.fields):
            if isinstance(item.type, AtomicType):
                continue
            chunks = table.column(at).chunks
            made = [filled_below_nulls(chunk, item.type, item.name) for chunk in chunks]
            field = table.schema.field(at)
            table = table.set_column(at, field, pa.chunked_array(made, field.type))
        return table

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            pa.PythonFile(self._output, mode="w"),
            self.schema,
            version="2.6",
            compression=self._codec,
            compression_level=self._level,
            use_dictionary=_dictionary_columns(self.fields, first),
            write_statistics=_ranged_columns(self.fields),
            use_deprecated_int96_timestamps=any(has_nanoseconds(f.type) for f in self.fields),
            store_schema=False,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            write_page_checksum=True,
        )

    def finish(self) -> None:
        """Write the last row group and the footer."""
        self._flush()
        if self._writer is None:
            self._writer = self._open(self.schema.empty_table())
        if self.described:
            entry = schema_entry(self.schema, self.described)
            self._writer.add_key_value_metadata({SCHEMA_KEY: entry})
        # All row groups are written.
        self._output.hold()
        self._writer.close()
        write_with_checksum(self.sink, self._output)


def _ranged_columns(fields: Sequence[DataField]) -> list[str]:
    """Leaf columns whose ranges the footer has: all but floating-point ones.

    Arrow leaves NaN out of a range, and Spark and Paimon, to which NaN is the greatest number,
    would skip a row group for a condition that its NaN meets. Whether there is one
    is known with the last row only. The manifest has the range of a file without NaN.
    """
    found = [leaf for item in fields for leaf in leaves(item.name, item.type)]
    return [path for path, kind in found if kind is None or kind.root not in _FLOATING]


def _dictionary_columns(fields: Sequence[DataField], first: pa.Table) -> list[str]:
    """Leaf columns worth a dictionary: those whose first rows repeat values.

    A dictionary that does not fit is built in vain; for a column of distinct values that is the
    greater part of what writing it costs.
    """
    sample = first.slice(0, _SAMPLE_ROWS)
    chosen: list[str] = []
    for item in fields:
        if not isinstance(item.type, AtomicType):
            chosen.extend(path for path, _ in leaves(item.name, item.type))
        elif item.type.root is not Root.BOOLEAN:
            distinct = pc.count_distinct(sample.column(item.name), mode="all").as_py()
            if distinct * 2 <= sample.num_rows or not sample.num_rows:
                chosen.append(item.name)
    return chosen
