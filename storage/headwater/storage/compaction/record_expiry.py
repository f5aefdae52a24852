"""The expiry of rows by a time column (``record-level.expire-time``).

Rows that are too old are dropped when a primary-key table is compacted, before they are merged;
until then they are read. Source: ``RecordLevelExpire.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.manifest.data_file import DataFile
from headwater.storage.scan.column_ranges import value_ranges
from headwater.storage.schema.rules import check_record_time
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import units_per_second

__all__ = ["RecordExpiry"]

# A BIGINT from here on counts milliseconds, below it seconds.
_LEAST_MILLIS = 1_000_000_000_000


@dataclass(frozen=True)
class RecordExpiry:
    """The rows of a table that are too old at a moment.

    Attributes:
        storage: The table.
        column: The column that holds the rows' time; rows with null there never expire.
        oldest: The time of the oldest rows that stay, seconds since the epoch.
    """

    storage: TableStorage
    column: DataField
    oldest: int

    @staticmethod
    def of(storage: TableStorage) -> RecordExpiry | None:
        """The expiry of a table's rows now; None where none do.

        Raises:
            Invalid: The table's options do not say which column holds the time, or its type is
                not one of a time.
        """
        options = storage.schema.table_options
        age = options.record_expire_time
        if age is None or not storage.schema.primary_keys:
            return None
        check_record_time(storage.schema)
        name = options.record_time_field
        assert name is not None
        now = storage.runtime.earliest_millis() // 1000
        return RecordExpiry(storage, storage.schema.column(name), now - age // 1000)

    def has_expired(self, file: DataFile) -> bool:
        """True if a file's statistics tell that rows in it are too old."""
        ranges = value_ranges(self.storage, file, [self.column])
        found = ranges.get(self.column.name)
        if found is None or not isinstance(found.minimum, int):
            return False
        data_type = self.column.type
        assert isinstance(data_type, AtomicType)
        low = found.minimum
        if data_type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
            low //= units_per_second(data_type)
        elif data_type.root is Root.BIGINT and low >= _LEAST_MILLIS:
            low //= 1000
        return low < self.oldest

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not too old.

        Args:
            rows: With the column of the time.
        """
        times = rows.column(self.column.name)
        if pa.types.is_timestamp(times.type):
            millis = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
            seconds = pc.divide(millis, 1000)
        elif pa.types.is_int64(times.type):
            is_millis = pc.greater_equal(times, _LEAST_MILLIS)
            seconds = pc.if_else(is_millis, pc.divide(times, 1000), times)
        else:
            seconds = times.cast(pa.int64())
        stays = pc.greater_equal(seconds, self.oldest).fill_null(True)
        return rows if pc.all(stays).as_py() else rows.filter(stays)
