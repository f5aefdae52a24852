"""Minimum, maximum and null count of columns, as manifests keep them.

Source: ``TruncateSimpleColStatsCollector.java``, ``ParquetSimpleStatsExtractor.java``,
``SimpleStatsConverter.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.manifest.data_file import SimpleStats
from headwater.storage.options import TableOptions
from headwater.storage.options.statistics_mode import StatisticsKeep, StatisticsMode
from headwater.storage.rows.binary_row import EMPTY_ROW, serialize_row
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType
from headwater.storage.types.values import StorageValue, storage_value

__all__ = [
    "EMPTY_STATS",
    "KEY_STATISTICS",
    "column_statistics",
    "statistics_modes",
    "value_statistics",
]

EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
"""The statistics of no columns."""

KEY_STATISTICS = StatisticsMode(StatisticsKeep.TRUNCATE, 128)
"""The mode of key columns and system columns, whatever the table's options say."""

_NONE = StatisticsMode(StatisticsKeep.NONE)


def column_statistics(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[DataField],
    modes: StatisticsMode | Sequence[StatisticsMode],
) -> SimpleStats:
    """The true range and null count of columns.

    A column has no range (null for both ends) when it is of a nested type, when it is a timestamp
    of more than 6 digits (Parquet gives INT96 no order), when it holds a NaN, and when its greatest
    string cannot be cut and still bound the others. Zeros are -0.0 as a minimum and 0.0 as a
    maximum.

    Args:
        table: The rows.
        fields: The columns, found in `table` by name, in the order of the statistics.
        modes: One mode for all, or one for each field. With ``none``, the null count is None.
    """
    if isinstance(modes, StatisticsMode):
        modes = [modes] * len(fields)
    minimum: list[StorageValue] = []
    maximum: list[StorageValue] = []
    nulls: list[int | None] = []
    for field, mode in zip(fields, modes, strict=True):
        column = table.column(field.name)
        low, high = _range(column, field.type, mode)
        minimum.append(low)
        maximum.append(high)
        nulls.append(None if mode.keep is StatisticsKeep.NONE else column.null_count)
    types = [field.type for field in fields]
    return SimpleStats(serialize_row(minimum, types), serialize_row(maximum, types), tuple(nulls))


def statistics_modes(
    fields: Sequence[DataField],
    options: TableOptions,
    thin_keys: Collection[str] = (),
    mode: str | None = None,
) -> list[StatisticsMode]:
    """The mode of each value column.

    ``fields.<name>.stats-mode`` goes before ``metadata.stats-mode``, which holds for the first
    ``metadata.stats-keep-first-n-columns`` columns.

    Args:
        fields: The value columns.
        options: The table's options.
        thin_keys: Names of key columns that a thin data file keeps as value columns only.
        mode: The mode of the file, in place of ``metadata.stats-mode``; None for that.

    Raises:
        Invalid: An option does not hold a mode.
    """
    general = StatisticsMode.parse(options.statistics_mode if mode is None else mode)
    first = options.statistics_first_columns
    counted = 0
    modes: list[StatisticsMode] = []
    for field in fields:
        key = f"fields.{field.name}.stats-mode"
        own = options.raw.get(key)
        if own is None and field.name in thin_keys:
            modes.append(KEY_STATISTICS)
            continue
        if own is not None:
            modes.append(StatisticsMode.parse(own, key))
        else:
            modes.append(_NONE if first is not None and counted >= first else general)
        counted += 1
    return modes


def value_statistics(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[DataField],
    options: TableOptions,
    thin_keys: Collection[str] = (),
    mode: str | None = None,
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """A data file's value statistics, and its `value_stats_cols`.

    With ``metadata.stats-dense-store`` (the default) columns without statistics take no room:
    the second result names the columns that have them, or is None when all have.

    Args:
        table: The rows.
        fields: The file's value columns.
        options: The table's options.
        thin_keys: As in `statistics_modes`.
        mode: Likewise.
    """
    modes = statistics_modes(fields, options, thin_keys, mode)
    if not options.statistics_dense:
        return column_statistics(table, fields, modes), None
    kept = [(f, m) for f, m in zip(fields, modes, strict=True) if m.keep is not StatisticsKeep.NONE]
    kept_fields = [field for field, _ in kept]
    statistics = column_statistics(table, kept_fields, [mode for _, mode in kept])
    if len(kept) == len(fields):
        return statistics, None
    return statistics, tuple(field.name for field in kept_fields)


def _range(
    column: pa.ChunkedArray | pa.Array, data_type: DataType, mode: StatisticsMode
) -> tuple[StorageValue, StorageValue]:
    if mode.keep in (StatisticsKeep.NONE, StatisticsKeep.COUNTS) or not isinstance(
        data_type, AtomicType
    ):
        return None, None
    if data_type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and data_type.precision > 6:
        return None, None
    if data_type.root is Root.BLOB:
        return None, None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None, None
    ends = pc.min_max(column)
    low = storage_value(ends["min"], data_type)
    high = storage_value(ends["max"], data_type)
    if isinstance(low, float) and isinstance(high, float):
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    if mode.keep is StatisticsKeep.TRUNCATE and isinstance(low, str) and isinstance(high, str):
        cut = _text_above(high, mode.length)
        return (None, None) if cut is None else (low[: mode.length], cut)
    if mode.keep is StatisticsKeep.TRUNCATE and isinstance(low, bytes) and isinstance(high, bytes):
        above = _bytes_above(high, mode.length)
        return (None, None) if above is None else (low[: mode.length], above)
    return low, high


def _text_above(text: str, length: int) -> str | None:
    """The text, or at most `length` code points that sort after it; None when there are none."""
    if len(text) <= length:
        return text
    for at in range(length - 1, -1, -1):
        code = ord(text[at]) + 1
        if 0xD800 <= code <= 0xDFFF:
            # Surrogates are no characters: UTF-8 cannot hold them.
            code = 0xE000
        if code <= 0x10FFFF:
            return text[:at] + chr(code)
    return None


def _bytes_above(data: bytes, length: int) -> bytes | None:
    if len(data) <= length:
        return data
    for at in range(length - 1, -1, -1):
        if data[at] != 0xFF:
            return data[:at] + bytes([data[at] + 1])
    return None
