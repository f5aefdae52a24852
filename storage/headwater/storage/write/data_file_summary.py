"""The description of a data file that a manifest keeps, gathered while the file is written.

Source: ``KeyValueDataFileWriter.java``, ``RowDataFileWriter.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD, data_file_fields
from headwater.storage.manifest.data_file import (
    DataFile,
    FileSource,
    SimpleStats,
    local_wall_clock,
)
from headwater.storage.manifest.statistics import (
    EMPTY_STATS,
    KEY_STATISTICS,
    column_statistics,
    value_statistics,
)
from headwater.storage.rows.binary_row import EMPTY_ROW, deserialize_row, serialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import numpy_values
from headwater.storage.types.data_type import DataField, DataType
from headwater.storage.types.values import StorageValue, storage_value

__all__ = ["DataFileSummary"]


class DataFileSummary:
    """The metadata of one file, gathered while its rows pass by.

    Args:
        storage: The table.
        statistics_mode: The statistics that are kept of columns, as ``metadata.stats-mode`` says.
        keeps_row_ids: True for rows of a row-tracking table that are moved, and so have ids.
        columns: The file's columns; None for all.
        ends: The columns of which the entry has the first and the last row's values.
    """

    def __init__(
        self,
        storage: TableStorage,
        statistics_mode: str,
        keeps_row_ids: bool,
        columns: tuple[str, ...] | None,
        ends: Sequence[DataField],
    ) -> None:
        schema = storage.schema
        self._ends = ends
        self._columns = columns
        self._fields = schema.fields if columns is None else schema.columns(columns)
        self._keeps_row_ids = keeps_row_ids
        self._changed = False
        options = schema.table_options
        self._storage = storage
        self._options = options
        self._statistics_mode = statistics_mode
        self._keyed = bool(schema.primary_keys)
        self._keys = schema.key_fields if self._keyed else ()
        self._thin_keys = [f.name for f in self._keys] if options.thin_mode else []
        self._rows = 0
        self._deletes = 0
        self._sequences: list[int] = []
        self._min_key: bytes | None = None
        self._max_key = EMPTY_ROW
        self._counts: list[int] = []
        self._key_stats: list[SimpleStats] = []
        self._value_stats: list[SimpleStats] = []
        self._value_columns: tuple[str, ...] | None = None

    def add(self, rows: pa.Table) -> None:
        """Take note of rows in the file's order."""
        self._rows += rows.num_rows
        self._counts.append(rows.num_rows)
        fields = self._fields
        stats, self._value_columns = value_statistics(
            rows, fields, self._options, self._thin_keys, self._statistics_mode
        )
        self._value_stats.append(stats)
        if self._keeps_row_ids:
            versions = rows.column(SEQUENCE_FIELD.name)
            self._changed |= versions.null_count > 0
            ends = pc.min_max(versions)
            self._sequences += [end.as_py() for end in ends.values() if end.is_valid]
        if not self._keyed:
            return
        self._key_stats.append(column_statistics(rows, self._keys, KEY_STATISTICS))
        if self._min_key is None:
            self._min_key = self._key(rows, 0)
        self._max_key = self._key(rows, rows.num_rows - 1)
        ends = pc.min_max(rows.column(SEQUENCE_FIELD.name))
        self._sequences += [ends["min"].as_py(), ends["max"].as_py()]
        kinds = rows.column(KIND_FIELD.name)
        self._deletes += sum(int((numpy_values(part) & 1).sum()) for part in kinds.chunks)

    def _key(self, rows: pa.Table, at: int) -> bytes:
        types = [field.type for field in self._ends]
        values = [storage_value(rows.column(f.name)[at], f.type) for f in self._ends]
        return serialize_row(values, types)

    def data_file(
        self, name: str, size: int, level: int, source: FileSource, *, first_sequence: int
    ) -> DataFile:
        """The file's entry, once all rows have passed by.

        Args:
            name: The file's name.
            size: Bytes.
            level: The LSM level.
            source: The origin.
            first_sequence: Append tables: the sequence number of the first row.
        """
        fields = self._fields
        columns = self._value_columns
        if columns is not None:
            fields = tuple(field for field in fields if field.name in columns)
        first, last = first_sequence, first_sequence + self._rows - 1
        key_stats = EMPTY_STATS
        if self._keyed:
            first, last = min(self._sequences), max(self._sequences)
            key_types = [field.type for field in self._keys]
            key_stats = _combined(self._key_stats, self._counts, key_types)
        write_columns = self._columns
        if write_columns is not None and columns is None:
            columns = write_columns
        if self._keeps_row_ids:
            # 0 is told at the commit: the snapshot that it makes.
            first = min(self._sequences, default=0)
            last = 0 if self._changed else max(self._sequences)
            own = data_file_fields(self._storage.schema, tracked=True)
            write_columns = tuple(field.name for field in own)
            if columns is None:
                columns = tuple(field.name for field in fields)
        return DataFile(
            file_name=name,
            file_size=size,
            row_count=self._rows,
            min_key=self._min_key or EMPTY_ROW,
            max_key=self._max_key,
            key_stats=key_stats,
            value_stats=_combined(
                self._value_stats, self._counts, [field.type for field in fields]
            ),
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=self._storage.schema.id,
            level=level,
            creation_time=local_wall_clock(self._storage.runtime.now_millis()),
            delete_row_count=self._deletes,
            file_source=source,
            value_stats_cols=columns,
            write_cols=write_columns,
        )


def _combined(
    parts: Sequence[SimpleStats], row_counts: Sequence[int], types: Sequence[DataType]
) -> SimpleStats:
    """The statistics of rows from those of their parts.

    A part without a range makes the whole lack one, unless all of the part's values are null.

    Args:
        parts: At least one.
        row_counts: The rows of each part.
        types: The columns' types.
    """
    if len(parts) == 1:
        return parts[0]
    minimums = [deserialize_row(part.min_values, types) for part in parts]
    maximums = [deserialize_row(part.max_values, types) for part in parts]
    low: list[StorageValue] = []
    high: list[StorageValue] = []
    nulls: list[int | None] = []
    for column in range(len(types)):
        counts = [part.null_counts[column] for part in parts]
        known = [count for count in counts if count is not None]
        nulls.append(sum(known) if len(known) == len(counts) else None)
        holding = [i for i, rows in enumerate(row_counts) if counts[i] != rows]
        low.append(_extreme([minimums[i][column] for i in holding], greatest=False))
        high.append(_extreme([maximums[i][column] for i in holding], greatest=True))
    return SimpleStats(serialize_row(low, types), serialize_row(high, types), tuple(nulls))


def _extreme(values: Sequence[StorageValue], *, greatest: bool) -> StorageValue:
    if not values or any(value is None for value in values):
        return None
    # All of one type, whose values Python orders as Paimon does.
    return max(values) if greatest else min(values)  # type: ignore[type-var]
