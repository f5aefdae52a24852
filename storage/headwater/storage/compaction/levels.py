"""The LSM tree of one bucket: its files as sorted runs.

Each file of level 0 is a run, each level above is one. Runs of level 0 are newer than all others,
and a lower level is newer than a higher one. Source: ``Levels.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from headwater.storage.manifest.data_file import DataFile

__all__ = ["LevelRun", "Levels"]


@dataclass(frozen=True)
class LevelRun:
    """A sorted run of an LSM tree.

    Attributes:
        level: Its level.
        files: Its files.
    """

    level: int
    files: tuple[DataFile, ...]

    @cached_property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True)
class Levels:
    """The sorted runs of one bucket.

    Attributes:
        runs: The newest first.
        highest: The highest level that a file may have.
    """

    runs: tuple[LevelRun, ...]
    highest: int

    @staticmethod
    def of(files: Iterable[DataFile], highest: int) -> Levels:
        """The runs of a bucket's files.

        Args:
            files: The files.
            highest: The highest level that the table's options say; a file may be above it when
                they were changed.
        """
        return Levels._of(files, highest, _age)

    @staticmethod
    def of_append_table(files: Iterable[DataFile], highest: int) -> Levels:
        """The runs of a bucket of an append table, where none is newer than another.

        Args:
            files: The files, as manifests list them: level 0 stays in this order, as in Paimon,
                whose picks depend on it (``AppendOnlySplitGenerator.java``).
            highest: As `of`.
        """
        return Levels._of(files, highest, lambda file: (file.min_sequence_number,))

    @staticmethod
    def _of(
        files: Iterable[DataFile], highest: int, order: Callable[[DataFile], tuple[int | str, ...]]
    ) -> Levels:
        levels: dict[int, list[DataFile]] = {}
        for file in files:
            levels.setdefault(file.level, []).append(file)
        fresh = sorted(levels.pop(0, ()), key=order)
        runs = [
            *(LevelRun(0, (file,)) for file in fresh),
            *(LevelRun(level, tuple(levels[level])) for level in sorted(levels)),
        ]
        return Levels(tuple(runs), max(highest, *levels, 0))


def _age(file: DataFile) -> tuple[int | str, ...]:
    return (
        -file.max_sequence_number,
        file.min_sequence_number,
        file.creation_time or 0,
        file.file_name,
    )
