"""All rows of one range, deleted ones included, by their positions."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.joined_columns import JoinedColumns
from headwater.storage.scan.row_ranges import RowRange
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["all_rows"]


def all_rows(
    storage: TableStorage, directory: str, partition: Sequence[StorageValue], rows: RowRange
) -> JoinedColumns:
    """A reader of all rows of a range, deleted ones included.

    Args:
        storage: The table.
        directory: The URI of the files' directory.
        partition: The partition's values, in partition-key order.
        rows: The range.
    """
    files = BucketFiles(storage, directory, partition)
    return JoinedColumns(
        storage,
        directory,
        rows,
        lambda file: files.open(file, partial=True),
        lambda: DeletionVector.from_positions([]),
    )
