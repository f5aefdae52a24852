"""The ORC format: reading its files, by stripe and with the statistics of their tails.

Paimon's Java writes TIMESTAMP_LTZ in one of two ways. With ``orc.timestamp-ltz.legacy.type``, its
default, it writes the instant at which clocks in the time zone of its process show what clocks in
UTC show at the true instant; each stripe names that zone. Otherwise it writes the instant.

Source: ``OrcFileFormat.java``, ``OrcReaderFactory.java``, ``FieldWriterFactory.java``,
``OrcTimestampColumnVector.java``.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.arrow_metadata import SCHEMA_KEY, columns_metadata
from headwater.storage.formats.codecs import codec_named
from headwater.storage.formats.orc_checksum import check_orc
from headwater.storage.formats.orc_schema import refuse_for_orc
from headwater.storage.formats.orc_statistics import column_range
from headwater.storage.formats.orc_tail import OrcTail
from headwater.storage.formats.orc_writer import CODECS, OrcWriter
from headwater.storage.formats.protocol import (
    ColumnStatistics,
    FormatReader,
    FormatWriter,
    readable,
    rows_without_columns,
)
from headwater.storage.formats.shredded_columns import ShreddedColumns
from headwater.storage.options import TableOptions
from headwater.storage.types.arrow_numbers import Integers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    to_arrow,
)
from headwater.storage.types.local_time import local_seconds
from headwater.storage.types.nested_arrays import list_with, map_entries, map_with, struct_with
from headwater.storage.types.padded_text import padded_array

__all__ = ["ORC", "OrcFormat", "OrcReader"]

_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_UTC = ("", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu")
_NANOS = 10**9
_BOUNDED_ROWS = 32768


@dataclass(frozen=True)
class OrcFormat:
    """ORC, as Paimon writes it."""

    name: str = "orc"

    def refuse(self, fields: Sequence[DataField], compression: str = "zstd") -> None:
        """Raises Unsupported for an unknown codec and for a type that has no Arrow form."""
        refuse_for_orc(fields)
        codec_named(compression, CODECS, "ORC")

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
        """Start a file, see `OrcWriter`."""
        return OrcWriter(
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
        """Open a file, see `OrcReader`."""
        legacy = options is None or options.legacy_orc_timestamps
        return OrcReader(files, path, row_count=row_count, legacy_timestamps=legacy)


ORC = OrcFormat()


class OrcReader:
    """Reads one ORC file by stripe and column, a batch of rows at a time.

    Args:
        files: Access to the storage.
        path: The file's URI.
        row_count: The number of rows according to the metadata; None leaves it unchecked.
        legacy_timestamps: Whether TIMESTAMP_LTZ depends on the zone of the process that wrote it.

    Attributes:
        path: The file's URI.

    Raises:
        CorruptData: The file is missing, is no ORC file, or has another number of rows.
        Unsupported: It is compressed with a codec that is not supported.
    """

    def __init__(
        self,
        files: FileAccess,
        path: str,
        *,
        row_count: int | None = None,
        legacy_timestamps: bool = True,
    ) -> None:
        self.path = path
        self._legacy = legacy_timestamps
        with readable(path):
            self._tail = OrcTail(files.open_input(path), path)
        if row_count is not None and self._tail.row_count != row_count:
            raise CorruptData(
                f"file {path} holds {self._tail.row_count} rows, but the manifest says {row_count}"
            )

    @cached_property
    def _shredded(self) -> ShreddedColumns:
        with readable(self.path):
            entry = self._tail.entry(SCHEMA_KEY)
        return ShreddedColumns(self.path, {} if entry is None else columns_metadata(entry))

    @property
    def row_groups(self) -> range:
        """The stripes' numbers."""
        return range(len(self._tail.stripes))

    @property
    def row_group_starts(self) -> Sequence[int]:
        """The position in the file of each stripe's first row."""
        counts = [stripe.row_count for stripe in self._tail.stripes]
        return list(accumulate(counts, initial=0))[:-1]

    def statistics(self, row_group: int, column: DataField) -> ColumnStatistics | None:
        """The tail's statistics of an atomic column; None when the file has no such statistics."""
        if not isinstance(column.type, AtomicType) or column.name not in self._tail.columns:
            return None
        with readable(self.path):
            return column_range(self._tail, row_group, column.name, column.type)

    def check(self) -> None:
        """Compare all bytes with the file's checksum, if it has one; raises CorruptData."""
        with readable(self.path):
            check_orc(self._tail)

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
            row_groups: The stripes to read, ascending; None means all.
            batch_rows: Rows of a batch; one may be smaller.
            batch_bytes: Arrow decodes so many rows, whatever their size: where bytes are to be
                bounded, they are few.

        Raises:
            CorruptData: A column is not there, or the bytes cannot be decoded.
            Unsupported: A timestamp lies outside the years 1677 to 2262 that Arrow's nanoseconds
                reach, or the time zone of its writer is not known here.
        """
        missing = [item.name for item in columns if item.name not in self._tail.columns]
        if missing:
            raise CorruptData(f"file {self.path} lacks column '{missing[0]}'")
        names = [item.name for item in columns]
        stored = [self._shredded.stored(item) for item in columns]
        batch_rows = self._shredded.batch_rows(columns, batch_rows)
        rows = batch_rows if batch_bytes is None else min(batch_rows, _BOUNDED_ROWS)
        for stripe in self.row_groups if row_groups is None else row_groups:
            expected = self._tail.stripes[stripe].row_count
            if not columns:
                yield from rows_without_columns(expected, batch_rows)
                continue
            zone = self._zone(stripe, stored)
            row_count = 0
            for batch in self._stripe(stripe, names, rows):
                arrays = [_converted(batch.column(item.name), item.type, zone) for item in stored]
                arrays = list(map(self._shredded.whole, arrays, columns))
                row_count += batch.num_rows
                yield pa.RecordBatch.from_arrays(arrays, names)
            if row_count != expected:
                raise CorruptData(
                    f"file {self.path} cannot be read: a stripe of {expected} rows holds "
                    f"{row_count}"
                )

    def _stripe(
        self, stripe: int, names: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        # Here, since it brings pandas along, which takes a process long to import.
        import pyarrow.dataset as ds

        with self._decoding():
            fragment = ds.OrcFileFormat().make_fragment(self._tail.view(stripe))
            batches = fragment.to_batches(
                columns=list(names),
                batch_size=batch_rows,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
            )
        while True:
            with self._decoding():
                batch = next(batches, None)
            if batch is None:
                return
            if batch.num_rows:
                yield batch

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        with readable(self.path):
            try:
                yield
            except pa.ArrowException as error:
                text = str(error)
                if "nanosecond resolution" in text:
                    raise Unsupported(
                        f"file {self.path} holds a timestamp outside the years 1677 to 2262, which "
                        f"Headwater does not read from ORC files ({text}); leave the column out"
                    ) from error
                if "ime zone" in text:
                    raise Unsupported(
                        f"file {self.path} cannot be read without the time zone of its writer: "
                        f"{text}"
                    ) from error
                raise

    def _zone(self, stripe: int, columns: Sequence[DataField]) -> dt.tzinfo:
        """The zone of which a stripe's TIMESTAMP_LTZ show the local times."""
        if not self._legacy or not any(
            _holds(item.type, (Root.TIMESTAMP_LTZ,)) for item in columns
        ):
            return dt.UTC
        with readable(self.path):
            name = self._tail.writer_zone(stripe)
        if name in _UTC:
            return dt.UTC
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise Unsupported(
                f"file {self.path} was written in the time zone '{name}', which is not known here; "
                "install the time zone database (tzdata)"
            ) from error


def _holds(data_type: DataType, roots: Sequence[Root]) -> bool:
    """Whether a type is, or has in it, one of these."""
    match data_type:
        case AtomicType():
            return data_type.root in roots
        case VariantType() | VectorType():
            return False
        case ArrayType() | MultisetType():
            return _holds(data_type.element, roots)
        case MapType():
            return _holds(data_type.key, roots) or _holds(data_type.value, roots)
        case RowType():
            return any(_holds(child.type, roots) for child in data_type.fields)


def _converted(array: pa.Array, data_type: DataType, zone: dt.tzinfo) -> pa.Array:
    """A column as Paimon's readers give it.

    Timestamps come in the unit of their type. CHAR is padded, as ORC does not keep the spaces at
    its end.
    """
    if not _holds(data_type, (Root.CHAR, *_TIMESTAMPS)):
        return array
    match data_type:
        case VariantType() | VectorType():
            return array
        case ArrayType():
            values = _converted(array.flatten(), data_type.element, zone)
            return list_with(array, values, pa.list_(values.type))
        case MapType() | MultisetType():
            keys, values = map_entries(array)
            if isinstance(data_type, MapType):
                values = _converted(values, data_type.value, zone)
            key_type = data_type.key if isinstance(data_type, MapType) else data_type.element
            keys = _converted(keys, key_type, zone)
            return map_with(array, keys, values, pa.map_(keys.type, values.type))
        case RowType():
            types: Mapping[str, DataType] = {each.name: each.type for each in data_type.fields}
            children = [
                _converted(array.field(at), types[item.name], zone)
                if item.name in types
                else array.field(at)
                for at, item in enumerate(array.type)
            ]
            fields = [
                item.with_type(child.type) for item, child in zip(array.type, children, strict=True)
            ]
            return struct_with(array, children, fields)
    if data_type.root is Root.CHAR:
        return padded_array(array, data_type) if pa.types.is_string(array.type) else array
    if not pa.types.is_timestamp(array.type):
        return array
    if data_type.root is Root.TIMESTAMP_LTZ and zone is not dt.UTC:
        array = _local_moments(array, zone)
    try:
        return array.cast(to_arrow(data_type))
    except pa.ArrowInvalid:
        # Java writes all digits that a value has, even those beyond its type.
        unit = {"ms": "millisecond", "us": "microsecond"}[to_arrow(data_type).unit]
        return pc.floor_temporal(array, unit=unit).cast(to_arrow(data_type))


def _local_moments(array: pa.Array, zone: dt.tzinfo) -> pa.Array:
    """The instants at which clocks in UTC show what those of a zone show at the given ones."""
    numbers: Integers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = numbers // _NANOS
    moved = numbers + (local_seconds(seconds, zone) - seconds) * np.int64(_NANOS)
    return pa.array(moved, mask=array.is_null().to_numpy(zero_copy_only=False)).cast(array.type)
