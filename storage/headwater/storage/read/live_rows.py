"""The rows of files that are rows of the table, as bitmaps.

Where a merge only picks rows, it is told by the positions of those that it picks. Whoever reads the
files has then nothing to merge.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.storage.errors import CorruptData
from headwater.storage.index.deletion_files import read_deletion_vector
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.merge.engine import Mask, PickingEngine
from headwater.storage.merge.rules import MergeRules
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.row_numbering import RowNumbering
from headwater.storage.scan.sections import key_sections
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage

__all__ = ["merged_rows", "picks_rows", "unmarked_rows"]


def picks_rows(storage: TableStorage) -> bool:
    """True if each row that a merge of a primary-key table gives is a row of its files."""
    return isinstance(MergeRules.of(storage.schema).engine, PickingEngine)


def unmarked_rows(storage: TableStorage, split: Split) -> dict[str, LiveRows]:
    """The rows that deletion vectors leave of a split's files, by the names of those that have one.

    Raises:
        CorruptData: An index file is missing or damaged, or marks rows that a file does not have;
            the message names it.
    """
    found: dict[str, LiveRows] = {}
    for file in split.files:
        place = split.deletion_files.get(file.file_name)
        if place is None:
            continue
        vector = read_deletion_vector(storage.files, place)
        if len(vector) and vector.positions[-1] >= file.row_count:
            raise CorruptData(
                f"index file {place.path} deletes row {vector.positions[-1]} of "
                f"{file.external_path or f'{split.directory}/{file.file_name}'}, which has "
                f"{file.row_count} rows"
            )
        found[file.file_name] = LiveRows.of(vector.kept(0, file.row_count))
    return found


def merged_rows(storage: TableStorage, split: Split) -> dict[str, LiveRows]:
    """The rows that a merge of a split's files picks, by the names of the files that are merged.

    Only keys, and what tells the age and the kind of rows, are read. Files without deletion vectors
    whose keys no other has are left out: of those, all rows are live that do not retract.

    Args:
        storage: A primary-key table whose engine `picks_rows`.
        split: A split whose rows are merged.

    Raises:
        CorruptData: A file is missing, damaged, or not sorted by key; the message names it.
    """
    bucket = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
    found: dict[str, LiveRows] = {}
    for section in key_sections(storage, split.files):
        if len(section.runs) == 1 and not any(
            file.file_name in split.deletion_files for file in section.files
        ):
            continue
        numbering = RowNumbering(section.files, numbers_only=False)
        live = np.zeros(sum(file.row_count for file in section.files), np.bool_)
        for numbers in bucket.picked_numbers(section, numbering):
            live[numbers] = True
        found |= _by_file(numbering, live)
    return found


def _by_file(numbering: RowNumbering, live: Mask) -> Mapping[str, LiveRows]:
    first = 0
    found: dict[str, LiveRows] = {}
    for file in numbering.files:
        found[file.file_name] = LiveRows.of(live[first : first + file.row_count])
        first += file.row_count
    return found
