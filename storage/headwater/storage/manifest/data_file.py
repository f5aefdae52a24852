"""The metadata of a data file in a manifest (``DataFileMeta.java``, ``spec/manifest.md``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum

__all__ = [
    "DataFile",
    "FileKind",
    "FileSource",
    "ManifestEntry",
    "SimpleStats",
    "epoch_millis",
    "local_wall_clock",
]


class FileKind(IntEnum):
    """The kind of a manifest entry: it adds a file or takes it away."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """The origin of a data file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True)
class SimpleStats:
    """Minimum, maximum and null count of some columns.

    Attributes:
        min_values: A serialised BinaryRow (4-byte big-endian arity, then the row).
        max_values: Likewise.
        null_counts: One for each column; None where it was not counted.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


@dataclass(frozen=True)
class DataFile:
    """A data file or changelog file.

    Attributes:
        file_name: The name in its bucket's directory.
        file_size: Bytes.
        row_count: Rows, deletes included.
        min_key: Serialised BinaryRow of the smallest key; the empty row in an append table.
        max_key: Likewise, of the greatest.
        key_stats: Of the key columns, always in full.
        value_stats: Of the columns in `value_stats_cols`.
        min_sequence_number: Smallest sequence number.
        max_sequence_number: Greatest.
        schema_id: The schema it was written with.
        level: Level in the LSM tree; 0 in an append table.
        extra_files: Names of files that belong to it (index files, changelogs).
        creation_time: Milliseconds of the *local* wall clock since the epoch, as Paimon has it.
        delete_row_count: Rows that retract; None when the writer did not count them.
        embedded_file_index: A file index small enough to stand in the manifest.
        file_source: Written by an append or by a compaction.
        value_stats_cols: The columns of `value_stats`; None means all columns of the schema.
        external_path: The file's URI, when it is not in its bucket's directory.
        first_row_id: The first row's id in a row-tracking table.
        write_cols: The columns in the file, when not all.
        write_cols_sequences: Their sequences, when written column by column.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None

    @property
    def stores_row_ids(self) -> bool:
        """True if the file has a column of row ids: rows were moved to it and kept theirs."""
        return self.write_cols is not None and "_ROW_ID" in self.write_cols

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the file and of those that belong to it."""
        return (self.file_name, *self.extra_files)

    def paths(self, directory: str) -> tuple[str, ...]:
        """The URIs of the file and of those that belong to it, which lie beside it.

        Args:
            directory: The URI of its bucket's directory.
        """
        main = self.external_path or f"{directory}/{self.file_name}"
        beside = main.rsplit("/", 1)[0]
        return (main, *(f"{beside}/{name}" for name in self.extra_files))

    def at_level(self, level: int) -> DataFile:
        """The same file on another level (an upgrade rewrites no bytes)."""
        return replace(self, level=level)


@dataclass(frozen=True)
class ManifestEntry:
    """One file added to, or taken from, a bucket.

    Attributes:
        kind: Added or deleted.
        partition: Serialised BinaryRow of the partition values.
        bucket: The bucket's number.
        total_buckets: The number of buckets of the partition when the file was written.
        file: The file.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def identity(self) -> tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]:
        """The key that two entries of the same file share (``FileEntry.Identifier``)."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )


def local_wall_clock(epoch_millis: int) -> int:
    """The local clock's reading at a moment, as milliseconds since 1970-01-01 on that clock.

    Paimon keeps the creation time of files so (``DataFileMeta.creationTime``).
    """
    offset = datetime.fromtimestamp(epoch_millis // 1000, UTC).astimezone().utcoffset()
    assert offset is not None
    return epoch_millis + int(offset.total_seconds()) * 1000


def epoch_millis(wall_clock_millis: int) -> int:
    """A file's creation time since the epoch: the inverse of `local_wall_clock`."""
    local = datetime.fromtimestamp(wall_clock_millis // 1000, UTC).replace(tzinfo=None)
    return int(local.timestamp()) * 1000 + wall_clock_millis % 1000
