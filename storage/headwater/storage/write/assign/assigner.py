"""The protocol of what finds buckets for new rows, and its simplest forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.index.index_file import IndexFileMeta
from headwater.storage.rows.bucket import bucket_numbers
from headwater.storage.rows.distribute import Codes, Numbers
from headwater.storage.table_storage import TableStorage

__all__ = [
    "Assigner",
    "BucketIndex",
    "FixedBuckets",
    "OneBucket",
    "WithoutIndex",
    "hashed_buckets",
]


@dataclass(frozen=True)
class BucketIndex:
    """The index of a bucket's keys, where keys stay in the bucket that they came to.

    Attributes:
        added: The file that was written, if there are new keys.
        replaced: The file that it was made from.
        looked_up: The index files of the whole partition that keys were looked up in; None when
            keys were not looked up.
    """

    added: tuple[IndexFileMeta, ...] = ()
    replaced: tuple[IndexFileMeta, ...] = ()
    looked_up: frozenset[str] | None = None


NO_INDEX = BucketIndex()
"""Of a bucket that follows from the key alone."""


class Assigner(Protocol):
    """Finds the buckets of new rows, for one writer."""

    def expect(self, rows: pa.Table) -> None:
        """Take note of rows that will have to be placed, before any of them is.

        Args:
            rows: The table's columns in their Arrow forms.
        """
        ...

    def place(self, partitions: Sequence[bytes], codes: Codes, rows: pa.Table) -> Numbers:
        """The bucket of each row: a `Placement`."""
        ...

    def total_buckets(self, partition: bytes) -> int:
        """The number of buckets that manifests say a partition has."""
        ...

    def finished_index(self, partition: bytes, bucket: int) -> BucketIndex:
        """The index of a bucket's keys when all rows are written."""
        ...

    def abort(self) -> None:
        """Delete what was written."""
        ...


class WithoutIndex:
    """A part of assigners that need no index."""

    def expect(self, rows: pa.Table) -> None:
        """Nothing depends on what comes."""

    def finished_index(self, partition: bytes, bucket: int) -> BucketIndex:
        """None."""
        return NO_INDEX

    def abort(self) -> None:
        """Nothing was written."""


@dataclass(frozen=True)
class FixedBuckets(WithoutIndex):
    """The same number of buckets in each partition; rows without buckets are all in bucket 0.

    Attributes:
        storage: The table.
    """

    storage: TableStorage

    def place(self, partitions: Sequence[bytes], codes: Codes, rows: pa.Table) -> Numbers:
        """By the hash of the bucket key."""
        total = self.storage.schema.table_options.bucket
        if total < 1 and self.storage.schema.primary_keys:
            raise Invalid(f"table {self.storage.name} has no fixed buckets that rows belong to")
        if total <= 1:
            # Paimon puts the files of an unbucketed table into bucket 0.
            return np.zeros(rows.num_rows, np.int32)
        return hashed_buckets(self.storage, rows, total)

    def total_buckets(self, partition: bytes) -> int:
        """The option ``bucket``."""
        return self.storage.schema.table_options.bucket


@dataclass(frozen=True)
class OneBucket(WithoutIndex):
    """All rows into the same bucket, because it is known that they belong there.

    Attributes:
        bucket: The bucket.
        total: The buckets of its partition.
    """

    bucket: int
    total: int

    def place(self, partitions: Sequence[bytes], codes: Codes, rows: pa.Table) -> Numbers:
        """That bucket."""
        return np.full(rows.num_rows, self.bucket, np.int32)

    def total_buckets(self, partition: bytes) -> int:
        """As it was given."""
        return self.total


def hashed_buckets(storage: TableStorage, rows: pa.Table, totals: int | Numbers) -> Numbers:
    """The bucket of each row by its bucket key.

    Args:
        storage: The table.
        rows: Its columns in their Arrow forms.
        totals: The number of buckets, of all rows or of each.
    """
    fields = storage.schema.bucket_key_fields
    return bucket_numbers(
        [rows.column(field.name) for field in fields],
        [field.type for field in fields],
        totals,
        storage.schema.table_options.bucket_function,
    )
