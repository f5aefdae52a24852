"""The row groups that a read takes of the files of its plan, as their footers tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from headwater.storage.predicate.filter import Predicate
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage

__all__ = ["RowGroupCount", "count_row_groups"]


@dataclass(frozen=True)
class RowGroupCount:
    """Row groups of some files.

    Attributes:
        wanted: Those that may hold rows for which a predicate is true, by their statistics.
        total: All of them.
        files: The number of files that were asked.
    """

    wanted: int = 0
    total: int = 0
    files: int = 0


def count_row_groups(
    storage: TableStorage,
    splits: Iterable[Split],
    predicate: Predicate | None,
    *,
    most_files: int,
) -> RowGroupCount:
    """Count the row groups that a predicate leaves of the first files of some splits.

    Args:
        storage: The table.
        splits: The splits.
        predicate: The condition; None for all rows.
        most_files: The number of files whose footers are read at most.

    Raises:
        CorruptData: A file is missing, or is not what the metadata says.
    """
    files = ((split, file) for split in splits for file in (*split.files, *split.postponed))
    wanted = total = asked = 0
    for split, file in islice(files, most_files):
        bucket = BucketFiles(storage, split.directory, split.partition_values)
        evolves = storage.schema.table_options.evolves_columns
        reader = bucket.open(file, partial=evolves)
        # A row that is merged may have other values in other files.
        hint = None if evolves else predicate
        counted = reader.row_group_counts(
            hint, keys_only=split.needs_merge and split.live_rows is None
        )
        wanted, total, asked = wanted + counted[0], total + counted[1], asked + 1
    return RowGroupCount(wanted, total, asked)
