"""The refusal of rows whose partition's values are not times in the table's form.

Source: ``AbstractFileStoreWrite.PartitionTimestampValidator``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.options.lifecycle_options import LifecycleOptions
from headwater.storage.rows.distribute import partition_codes
from headwater.storage.rows.partition import partition_texts
from headwater.storage.rows.partition_times import PartitionTimes
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.bucket_state import describe_partition

__all__ = ["PartitionForm"]


@dataclass
class PartitionForm:
    """The form that the partition values of a table must have.

    Attributes:
        storage: The table.
        times: Reads the time of a partition's values.
        known: Partitions that have the form.
    """

    storage: TableStorage
    times: PartitionTimes
    known: set[bytes] = field(default_factory=set)

    @staticmethod
    def of(storage: TableStorage) -> PartitionForm | None:
        """The form by a table's options; None if they demand none."""
        options = LifecycleOptions(storage.schema.options)
        times = PartitionTimes.of(options)
        has_form = times.pattern is not None or times.formatter is not None
        if not (options.is_partition_form_strict and has_form and storage.schema.partition_keys):
            return None
        return PartitionForm(storage, times)

    def check(self, rows: pa.Table) -> None:
        """Check rows that have the table's columns in their Arrow forms.

        Raises:
            Invalid: The values of a row's partition have another form.
        """
        partitions, _ = partition_codes(rows, self.storage.schema.partition_fields)
        for partition in partitions:
            if partition in self.known:
                continue
            if self.times.time(partition_texts(self.storage, partition)) is None:
                raise Invalid(
                    f"table {self.storage.name}: {describe_partition(self.storage, partition)} is "
                    f"no time in the form of {self._form}, and 'partition.timestamp-format.strict' "
                    "is set; correct the rows"
                )
            self.known.add(partition)

    @property
    def _form(self) -> str:
        given = {
            "partition.timestamp-pattern": self.times.pattern,
            "partition.timestamp-formatter": self.times.formatter,
        }
        return " and ".join(f"'{key}' = '{text}'" for key, text in given.items() if text)
