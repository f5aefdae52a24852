"""Writing ORC data files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.arrow_metadata import SCHEMA_KEY, schema_entry
from headwater.storage.formats.codecs import codec_named
from headwater.storage.formats.file_writer import FileWriter
from headwater.storage.formats.held_output import HeldOutput
from headwater.storage.formats.orc_checksum import write_with_checksum
from headwater.storage.formats.orc_schema import orc_schema, refuse_for_orc
from headwater.storage.types.data_type import DataField
from headwater.storage.types.nested_arrays import list_with, map_entries, map_with, struct_with

if TYPE_CHECKING:
    from pyarrow import orc

__all__ = ["CODECS", "OrcWriter"]

_STRIPE_BYTES = 64 * 1024**2
_HEADER_BYTES = 3
# Arrow's writer knows two efforts, of which ORC's library makes the levels 1 and 3 of zstd.
_GREAT_EFFORT = 3
CODECS = {"none": "uncompressed", "uncompressed": "uncompressed", "snappy": "snappy",
          "zlib": "zlib", "lz4": "lz4", "zstd": "zstd"}  # fmt: skip
"""Arrow's names of the codecs, by those that options give them."""


class OrcWriter(FileWriter):
    """Writes one ORC file; it appears when `close` returns, and never otherwise.

    As a context manager it closes, or aborts when an exception ends the block.

    Args:
        files: Access to the storage.
        path: The file's URI.
        fields: The columns, see `data_file_fields`.
        compression: ``none``, ``snappy``, ``zlib``, ``lz4`` or ``zstd``.
        zstd_level: Used by ``zstd`` alone: ORC's library has the levels 1 and 3.
        block_bytes: Bytes of a stripe; None is 64 MB.

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
        refuse_for_orc(fields)
        codec = codec_named(compression, CODECS, "ORC")
        super().__init__(files, path, orc_schema(fields), fields)
        self._codec = codec
        self._effort = "compression" if zstd_level >= _GREAT_EFFORT else "speed"
        self._stripe_bytes = block_bytes or _STRIPE_BYTES
        self._writer: orc.ORCWriter | None = None
        self._output = HeldOutput(self.sink, summed=True)
        self._flushed = 0
        self._pending_bytes = 0
        self._flushed_bytes = 0

    @property
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now; what a roll is decided by."""
        if not self._flushed_bytes:
            return self._flushed + self._pending_bytes // 3
        return self._flushed + self._pending_bytes * self._flushed // self._flushed_bytes

    def append(self, rows: pa.Table) -> None:
        """Hand rows to Arrow's writer, which writes a stripe when there are enough for one.

        Raises:
            Unsupported: There is a timestamp that Arrow's writer would not write right.
        """
        columns = [
            pa.chunked_array([_written_right(chunk, item.name) for chunk in column.chunks], part)
            for column, item, part in zip(rows.columns, self.fields, self.schema.types, strict=True)
        ]
        self._write(pa.table(columns, self.schema))
        self._pending_bytes += min(rows.nbytes, rows.get_total_buffer_size())
        written = int(self.sink.tell())
        if written > max(self._flushed, _HEADER_BYTES):
            self._flushed = written
            self._flushed_bytes += self._pending_bytes
            self._pending_bytes = 0

    def _write(self, rows: pa.Table) -> None:
        if self._writer is None:
            # Not before there are rows: Arrow aborts the process when one that never had any, or
            # whose file is gone, is closed.
            from pyarrow import orc

            self._writer = orc.ORCWriter(
                pa.PythonFile(self._output, mode="w"),
                compression=self._codec,
                compression_strategy=self._effort,
                stripe_size=self._stripe_bytes,
            )
        try:
            self._writer.write(rows)
        except pa.ArrowInvalid as error:
            raise Invalid(f"rows do not fit file {self.path}: {error}") from error

    def finish(self) -> None:
        """Write the last stripe and the tail."""
        if self._writer is None:
            self._write(self.schema.empty_table())
        assert self._writer is not None
        self._output.hold()
        try:
            self._writer.close()
        finally:
            self._forget()
        entries: dict[bytes, bytes] = {}
        if self.described:
            entries[SCHEMA_KEY] = schema_entry(self.schema, self.described)
        write_with_checksum(self.sink, self._output, self.path, entries)

    def abort(self) -> None:
        """Give the file up; nothing of it stays. After `close` this does nothing."""
        self._forget()
        super().abort()

    def _forget(self) -> None:
        if self._writer is not None:
            # Or it closes itself when it is collected.
            self._writer.is_open = False


def _written_right(array: pa.Array, column: str) -> pa.Array:
    """The same values in the form of which Arrow's writer makes right files.

    It writes what lies under the nulls of a struct in a struct, too, and so moves the values after
    them: here all that is under a null is null. Of fields that are slices of larger arrays it takes
    the wrong rows: here none is.

    Raises:
        Unsupported: There is a timestamp that no form helps.
    """
    if array.offset:
        array = pa.concat_arrays([array])
    arrow = array.type
    if pa.types.is_struct(arrow):
        # Flattening a struct gives its own nulls to its fields.
        children = [_written_right(child, column) for child in array.flatten()]
        return struct_with(array, children, list(arrow))
    if pa.types.is_map(arrow):
        keys, values = (_written_right(part, column) for part in map_entries(array))
        return map_with(array, keys, values, arrow)
    if pa.types.is_list(arrow):
        return list_with(array, _written_right(array.flatten(), column), arrow)
    if pa.types.is_timestamp(arrow):
        _refuse_timestamps(array, column)
    return array


def _refuse_timestamps(array: pa.Array, column: str) -> None:
    """Refuse moments that nanoseconds do not reach, and fractions of seconds before 1970.

    Arrow's writer rounds the seconds of the latter up and makes their fraction negative, which
    ORC's own readers do not expect.
    """
    arrow = array.type
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[arrow.unit]
    numbers = array.cast(pa.int64())
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or (low >= 0 and high * (10**9 // per_second) < 2**63):
        return
    if min(low, -high) * (10**9 // per_second) < -(2**63) + 1:
        raise Unsupported(
            f"column '{column}' holds a timestamp outside the years 1677 to 2262, which Headwater "
            "does not write to ORC files; set the option 'file.format' to parquet"
        )
    early = numbers.filter(pc.less(numbers, 0))
    whole = pc.multiply(pc.divide(early, per_second), per_second)
    if not pc.all(pc.equal(whole, early)).as_py():
        raise Unsupported(
            f"column '{column}' holds a fraction of a second before 1970, which Headwater does not "
            "write to ORC files; set the option 'file.format' to parquet"
        )
