"""Checks of the partition values of new rows.

Source: ``AbstractFileStoreWrite.PartitionTimestampValidator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.options.lifecycle_options import LifecycleOptions
from headwater.storage.rows.distribute import partition_codes
from headwater.storage.rows.partition import partition_texts
from headwater.storage.rows.partition_times import PartitionTimes
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue, arrow_scalar, value_named_as_null
from headwater.storage.write.bucket_state import describe_partition

__all__ = ["PartitionForm", "PartitionNames"]


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
    def from_storage(storage: TableStorage) -> PartitionForm | None:
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


@dataclass(frozen=True)
class PartitionNames:
    """The values of partition columns that would have the name of null.

    Attributes:
        storage: The table.
        values: The values by column, of columns that have one.
    """

    storage: TableStorage
    values: Mapping[str, StorageValue]

    @staticmethod
    def from_storage(storage: TableStorage) -> PartitionNames:
        """The values of a table's partition columns."""
        options = storage.schema.table_options
        values = {
            item.name: value_named_as_null(item, options)
            for item in storage.schema.partition_fields
        }
        return PartitionNames(storage, {k: v for k, v in values.items() if v is not None})

    def check(self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None) -> None:
        """Check rows that have the table's columns in their Arrow forms.

        Args:
            rows: The rows.
            kinds: Their kinds, if not all are added; those that retract rows are not checked.

        Raises:
            Invalid: A partition value has the name of null.
        """
        for name, value in self.values.items():
            scalar = arrow_scalar(value, self.storage.schema.column(name).type)
            is_wrong = pc.equal(rows.column(name), scalar)
            if kinds is not None:
                is_wrong = pc.and_(is_wrong, pa.array((kinds & 1) == 0))
            if pc.any(is_wrong).as_py():
                default = self.storage.schema.table_options.partition_default_name
                raise Invalid(
                    f"table {self.storage.name}: '{default}' cannot be a value of partition column "
                    f"'{name}': option 'partition.default-name' makes it the name of the null "
                    "partition; correct the rows"
                )
