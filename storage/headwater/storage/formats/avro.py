"""The Avro format of data files, as Paimon has it.

Avro keeps rows, one after the other, and no statistics. Rows are encoded column by column; Polars
decodes them, after the names and the logical types have been taken out of the schema, neither of
which it needs to find its way through the bytes. Source: ``AvroFileFormat.java``,
``FieldReaderFactory.java``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.avro_blocks import OPTION_CODECS, BlockReader, block, header
from headwater.storage.formats.avro_decoding import RowDecoder
from headwater.storage.formats.avro_encoding import encode_rows
from headwater.storage.formats.avro_schema import avro_schema, refuse_for_avro
from headwater.storage.formats.codecs import codec_named
from headwater.storage.formats.file_writer import FileWriter
from headwater.storage.formats.protocol import (
    ColumnStatistics,
    FormatReader,
    FormatWriter,
    readable,
    rows_without_columns,
)
from headwater.storage.options import TableOptions
from headwater.storage.types.data_type import DataField, arrow_field

__all__ = ["AVRO", "AvroFormat", "AvroReader", "AvroWriter"]

# Rows of so many bytes become a block; larger blocks compress better, but are held in memory whole.
_BLOCK_BYTES = 1 << 18
# Rows of about so many bytes are encoded, and decoded, together.
_STEP_BYTES = 1 << 23


@dataclass(frozen=True)
class AvroFormat:
    """Avro, as Paimon writes it."""

    name: str = "avro"

    def refuse(self, fields: Sequence[DataField], compression: str = "zstd") -> None:
        """Raises Unsupported for a column that Avro cannot hold, and for an unknown codec."""
        refuse_for_avro(fields)
        codec_named(compression, OPTION_CODECS, "Avro")

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
        """Start a file, see `AvroWriter`."""
        return AvroWriter(
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
        """Open a file, see `AvroReader`."""
        return AvroReader(files, path, row_count=row_count)


AVRO = AvroFormat()


class AvroWriter(FileWriter):
    """Writes one Avro file; it appears when `close` returns, and never otherwise.

    As a context manager it closes, or aborts when an exception ends the block.

    Args:
        files: Access to the storage.
        path: The file's URI.
        fields: The columns, see `data_file_fields`.
        compression: ``zstd``, ``null``, ``deflate``, ``snappy``, ``bzip2`` or ``xz``.
        zstd_level: Used by ``zstd`` alone.
        block_bytes: Means nothing to Avro, as in Paimon.

    Raises:
        Unsupported: The codec is unknown, or Avro cannot hold a column.
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
        refuse_for_avro(fields)
        self._codec = codec_named(compression, OPTION_CODECS, "Avro")
        self._level = zstd_level
        super().__init__(files, path, pa.schema([arrow_field(item) for item in fields]), fields)
        # Any bytes that hardly occur in rows. A data file's name holds a random part.
        self._sync = hashlib.blake2b(path.encode(), digest_size=16).digest()
        self.sink.write(header(avro_schema(fields), self._codec.name, self._sync))
        self._pending: list[memoryview] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._flushed_bytes = 0

    @property
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now; what a roll is decided by."""
        written = int(self.sink.tell())
        if not self._flushed_bytes:
            return written + self._pending_bytes // (1 if self._codec.name == "null" else 3)
        return written + self._pending_bytes * written // self._flushed_bytes

    def append(self, rows: pa.Table) -> None:
        """Encode rows, and write a block whenever there are enough for one."""
        row_bytes = rows.nbytes / max(rows.num_rows, 1)
        step = max(1, int(_STEP_BYTES / max(row_bytes, 1)))
        for start in range(0, rows.num_rows, step):
            for batch in rows.slice(start, step).combine_chunks().to_batches():
                self._append(batch)

    def describe(self, columns: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Raises Unsupported: there is no place for it."""
        raise Unsupported(
            f"an Avro file cannot say how column '{min(columns)}' is stored; set the option "
            "'file.format' to parquet or orc"
        )

    def _append(self, rows: pa.RecordBatch) -> None:
        encoded = encode_rows(rows, self.fields)
        _, offset_buffer, data = encoded.buffers()
        ends = np.frombuffer(offset_buffer, np.int64, len(encoded) + 1)
        content = memoryview(data) if data is not None else memoryview(b"")
        at = 0
        while at < len(encoded):
            wanted = ends[at] + _BLOCK_BYTES - self._pending_bytes
            end = min(max(int(np.searchsorted(ends, wanted)), at + 1), len(encoded))
            self._pending.append(content[ends[at] : ends[end]])
            self._pending_rows += end - at
            self._pending_bytes += int(ends[end] - ends[at])
            at = end
            if self._pending_bytes >= _BLOCK_BYTES:
                self._flush()

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        data = self._codec.compress(b"".join(self._pending), self._level)
        self.sink.write(block(self._pending_rows, data, self._sync))
        self._flushed_bytes += self._pending_bytes
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def finish(self) -> None:
        """Write the last block."""
        self._flush()


class AvroReader:
    """Reads one Avro file from its beginning to its end: it has neither row groups nor statistics.

    Args:
        files: Access to the storage.
        path: The file's URI.
        row_count: The number of rows according to the metadata, which shows at the file's end; None
            leaves it unchecked.

    Attributes:
        path: The file's URI.

    Raises:
        CorruptData: The file is missing, or is no Avro file.
    """

    def __init__(self, files: FileAccess, path: str, *, row_count: int | None = None) -> None:
        self._files = files
        self.path = path
        self._row_count = row_count
        self._decoder = RowDecoder(self._open().schema, path)

    def _open(self) -> BlockReader:
        with readable(self.path):
            return BlockReader(self._files.open_input(self.path), self.path)

    @property
    def row_groups(self) -> range:
        """One: the file."""
        return range(1)

    @property
    def row_group_starts(self) -> Sequence[int]:
        """The beginning of the file."""
        return (0,)

    def statistics(self, row_group: int, column: DataField) -> ColumnStatistics | None:
        """None: the format keeps none."""
        return None

    def check(self) -> None:
        """Nothing: blocks have checksums of their own, if their codec has one."""

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
            row_groups: None or the one there is means all; none of them, no row.
            batch_rows: Rows of a batch; one may be smaller.
            batch_bytes: Bytes of the blocks that make a batch together, at least one of them.

        Raises:
            CorruptData: A column is not there, the bytes cannot be decoded, or the file holds
                another number of rows than the metadata says.
        """
        self._decoder.check(columns)
        if row_groups is not None and not row_groups:
            return
        reader = self._open()
        total = 0
        for rows, data in self._groups(
            reader, batch_rows, min(batch_bytes or _STEP_BYTES, _STEP_BYTES), skip=not columns
        ):
            total += rows
            if not columns:
                yield from rows_without_columns(rows, batch_rows)
                continue
            batch = self._decoder.decode(data, rows, columns)
            for start in range(0, rows, batch_rows):
                yield batch.slice(start, batch_rows)
        if self._row_count is not None and total != self._row_count:
            raise CorruptData(
                f"file {self.path} holds {total} rows, but the manifest says {self._row_count}"
            )

    def _groups(
        self, reader: BlockReader, batch_rows: int, batch_bytes: int, *, skip: bool
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Rows of neighbouring blocks that make a batch together: their number and their bytes."""
        data: list[bytes] = []
        rows = size = 0
        blocks = reader.blocks()
        while True:
            with readable(self.path):
                found = next(blocks, None)
            if found is None:
                break
            rows += found.row_count
            if not skip:
                data.append(reader.rows_of(found))
                size += len(data[-1])
            if rows >= batch_rows or size >= batch_bytes:
                yield rows, data
                data, rows, size = [], 0, 0
        if rows:
            yield rows, data
