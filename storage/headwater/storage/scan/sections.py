"""The files of a bucket by key range: which must be merged with which.

Source: ``IntervalPartition.java``, ``MergeTreeSplitGenerator.java``, ``BinPacking.java``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headwater.storage.manifest.data_file import DataFile
from headwater.storage.manifest.key_range import ComparableKey, is_sorted_by_key, key_range
from headwater.storage.table_storage import TableStorage

__all__ = [
    "FileRun",
    "Section",
    "key_sections",
    "lacks_vectors",
    "overlapping_files",
    "pack_in_order",
]

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class FileRun:
    """Files of which no two hold a row of the same key that is not marked as deleted.

    Attributes:
        files: The files.
        is_sorted: True if their rows, and the files, are in the order of keys.
    """

    files: tuple[DataFile, ...]
    is_sorted: bool = True

    @property
    def row_count(self) -> int:
        """Rows, deletes included."""
        return sum(file.row_count for file in self.files)

    @property
    def min_sequence(self) -> int:
        """The smallest sequence number."""
        return min(file.min_sequence_number for file in self.files)

    @property
    def max_sequence(self) -> int:
        """The greatest sequence number."""
        return max(file.max_sequence_number for file in self.files)


@dataclass(frozen=True)
class Section:
    """Files whose key ranges hang together; no key of theirs is in another section.

    Attributes:
        runs: The files as sorted runs, as old as their levels say. Of one run alone no key occurs
            twice.
    """

    runs: tuple[FileRun, ...]

    @property
    def files(self) -> list[DataFile]:
        """All files, run by run."""
        return [file for run in self.runs for file in run.files]


@dataclass(frozen=True)
class _Ranged:
    file: DataFile
    low: ComparableKey
    high: ComparableKey


def key_sections(storage: TableStorage, files: Iterable[DataFile]) -> list[Section]:
    """Split the files of one bucket of a primary-key table into sections, by key.

    Raises:
        CorruptData: A file's key range cannot be read.
    """
    groups: list[list[_Ranged]] = []
    bound: ComparableKey = ()
    for item in _ranged(storage, files):
        if groups and not item.low > bound:
            groups[-1].append(item)
            bound = max(bound, item.high)
        else:
            groups.append([item])
            bound = item.high
    return [_section(storage, group) for group in groups]


def whole_section(storage: TableStorage, files: Iterable[DataFile]) -> Section:
    """Files of some buckets of a partition as one section, whatever keys they have.

    Raises:
        CorruptData: A file's key range cannot be read.
    """
    return _section(storage, _ranged(storage, files))


def overlapping_files(
    storage: TableStorage, files: Iterable[DataFile], others: Iterable[DataFile]
) -> list[DataFile]:
    """The files of a bucket that may hold keys of some others.

    Raises:
        CorruptData: A file's key range cannot be read.
    """
    lows: list[ComparableKey] = []
    highs: list[ComparableKey] = []
    for section in key_sections(storage, others):
        ranges = [key_range(storage, file) for file in section.files]
        lows.append(min(low for low, _ in ranges))
        highs.append(max(high for _, high in ranges))
    found: list[DataFile] = []
    for file in files:
        low, high = key_range(storage, file)
        at = bisect_left(highs, low)
        if at < len(highs) and lows[at] <= high:
            found.append(file)
    return found


def lacks_vectors(storage: TableStorage, files: Sequence[DataFile]) -> bool:
    """True if rows above level 0 may be superseded without a deletion vector that says so.

    That is so until a compaction when ``deletion-vectors.enabled`` is set on a table that has rows
    on several levels: whoever wrote them below the highest marked nothing.
    """
    highest = max((file.level for file in files), default=0)
    schemas = {file.schema_id for file in files if 0 < file.level < highest}
    return any(
        not storage.schema_by_id(number).table_options.deletion_vectors_enabled
        for number in schemas - {storage.schema.id}
    )


def pack_in_order(
    items: Iterable[_Item], weight: Callable[[_Item], int], target: int
) -> list[list[_Item]]:
    """Consecutive items in bins of at most a target weight, or of one item."""
    bins: list[list[_Item]] = []
    filled = 0
    for item in items:
        more = weight(item)
        if bins and filled + more <= target:
            bins[-1].append(item)
            filled += more
        else:
            bins.append([item])
            filled = more
    return bins


def _ranged(storage: TableStorage, files: Iterable[DataFile]) -> list[_Ranged]:
    return sorted(
        (
            _Ranged(file, *key_range(storage, file))
            # Writers at once may give rows of one key the same sequence number. Which of them wins
            # must not depend on the order of manifests, which merging them changes.
            for file in sorted(files, key=lambda file: file.file_name)
        ),
        key=lambda item: (item.low, item.high),
    )


def _section(storage: TableStorage, group: Sequence[_Ranged]) -> Section:
    """Runs of a section: by level, and of level 0 by age as far as keys are disjoint."""
    clustered = [item.file for item in group if not is_sorted_by_key(storage, item.file)]
    group = [item for item in group if is_sorted_by_key(storage, item.file)]
    runs: list[list[_Ranged]] = []
    for level in sorted({item.file.level for item in group} - {0}, reverse=True):
        runs += _disjoint([item for item in group if item.file.level == level])
    newest: list[_Ranged] = []
    for flush in _flushes([item for item in group if item.file.level == 0]):
        parts = _disjoint(flush)
        if newest and len(parts) == 1 and _fits(newest, parts[0]):
            newest.extend(parts[0])
            newest.sort(key=lambda item: item.low)
        else:
            runs += parts
            newest = parts[-1]
    sorted_runs = [FileRun(tuple(item.file for item in run)) for run in runs]
    oldest = [FileRun(tuple(clustered), is_sorted=False)] if clustered else []
    return Section((*oldest, *sorted_runs))


def _flushes(files: Sequence[_Ranged]) -> list[list[_Ranged]]:
    """Files in groups whose sequence numbers do not interleave, oldest first."""
    groups: list[list[_Ranged]] = []
    last = -1
    for item in sorted(files, key=lambda item: item.file.min_sequence_number):
        if groups and item.file.min_sequence_number <= last:
            groups[-1].append(item)
        else:
            groups.append([item])
        last = max(last, item.file.max_sequence_number)
    return groups


def _disjoint(files: Sequence[_Ranged]) -> list[list[_Ranged]]:
    """Files as the fewest lists of disjoint key ranges."""
    runs: list[list[_Ranged]] = []
    for item in sorted(files, key=lambda item: (item.low, item.high)):
        for run in runs:
            if run[-1].high < item.low:
                run.append(item)
                break
        else:
            runs.append([item])
    return runs


def _fits(run: Sequence[_Ranged], more: Sequence[_Ranged]) -> bool:
    """True if the key ranges of two lists, each disjoint and sorted, are disjoint together."""
    lows = [item.low for item in run]
    for item in more:
        at = bisect_left(lows, item.low)
        if at < len(run) and not item.high < run[at].low:
            return False
        if at > 0 and not run[at - 1].high < item.low:
            return False
    return True
