"""Entries of manifests as columns: tables have too many of them to make an object of each.

An entry is one row of a Polars frame, under the names that `ManifestEntry` and `DataFile` give its
values. Objects are made of those that are looked at one by one, and of few entries at once.

Source: ``FileEntry.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from headwater.storage.errors import CorruptData
from headwater.storage.manifest.data_file import (
    DataFile,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "COLUMNS",
    "DataFiles",
    "Entries",
    "EntryColumn",
    "Form",
    "entry_types",
    "left_entries",
    "merge_entries",
]

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Form(StrEnum):
    """The form of a column's values."""

    NUMBER = "number"
    BYTES = "bytes"
    TEXT = "text"
    TEXTS = "texts"
    NUMBERS = "numbers"


@dataclass(frozen=True)
class EntryColumn:
    """A value of each entry.

    Attributes:
        name: The column in the frame.
        field: The field in a manifest's records; a dot is before each field of a record in them.
        form: The form of its values.
        required: True if no entry is without it.
    """

    name: str
    field: str
    form: Form
    required: bool = True


def _statistics(name: str, field: str) -> list[EntryColumn]:
    return [
        EntryColumn(f"{name}_min", f"{field}._MIN_VALUES", Form.BYTES),
        EntryColumn(f"{name}_max", f"{field}._MAX_VALUES", Form.BYTES),
        EntryColumn(f"{name}_nulls", f"{field}._NULL_COUNTS", Form.NUMBERS, False),
    ]


# In the order in which `_entry` takes them.
COLUMNS: Sequence[EntryColumn] = (
    EntryColumn("kind", "_KIND", Form.NUMBER),
    EntryColumn("partition", "_PARTITION", Form.BYTES),
    EntryColumn("bucket", "_BUCKET", Form.NUMBER),
    EntryColumn("total_buckets", "_TOTAL_BUCKETS", Form.NUMBER),
    EntryColumn("file_name", "_FILE._FILE_NAME", Form.TEXT),
    EntryColumn("file_size", "_FILE._FILE_SIZE", Form.NUMBER),
    EntryColumn("row_count", "_FILE._ROW_COUNT", Form.NUMBER),
    EntryColumn("min_key", "_FILE._MIN_KEY", Form.BYTES),
    EntryColumn("max_key", "_FILE._MAX_KEY", Form.BYTES),
    *_statistics("key", "_FILE._KEY_STATS"),
    *_statistics("value", "_FILE._VALUE_STATS"),
    EntryColumn("min_sequence_number", "_FILE._MIN_SEQUENCE_NUMBER", Form.NUMBER),
    EntryColumn("max_sequence_number", "_FILE._MAX_SEQUENCE_NUMBER", Form.NUMBER),
    EntryColumn("schema_id", "_FILE._SCHEMA_ID", Form.NUMBER),
    EntryColumn("level", "_FILE._LEVEL", Form.NUMBER),
    EntryColumn("extra_files", "_FILE._EXTRA_FILES", Form.TEXTS),
    EntryColumn("creation_time", "_FILE._CREATION_TIME", Form.NUMBER, False),
    EntryColumn("delete_row_count", "_FILE._DELETE_ROW_COUNT", Form.NUMBER, False),
    EntryColumn("embedded_file_index", "_FILE._EMBEDDED_FILE_INDEX", Form.BYTES, False),
    EntryColumn("file_source", "_FILE._FILE_SOURCE", Form.NUMBER, False),
    EntryColumn("value_stats_cols", "_FILE._VALUE_STATS_COLS", Form.TEXTS, False),
    EntryColumn("external_path", "_FILE._EXTERNAL_PATH", Form.TEXT, False),
    EntryColumn("first_row_id", "_FILE._FIRST_ROW_ID", Form.NUMBER, False),
    EntryColumn("write_cols", "_FILE._WRITE_COLS", Form.TEXTS, False),
    EntryColumn("write_cols_sequences", "_FILE._WRITE_COLS_SEQUENCES", Form.NUMBERS, False),
)


@lru_cache(maxsize=1)
def entry_types() -> Mapping[str, pl.DataType]:
    """The Polars type of each column."""
    import polars as pl

    types: Mapping[Form, pl.DataType] = {
        Form.NUMBER: pl.Int64(),
        Form.BYTES: pl.Binary(),
        Form.TEXT: pl.String(),
        Form.TEXTS: pl.List(pl.String()),
        Form.NUMBERS: pl.List(pl.Int64()),
    }
    return {column.name: types[column.form] for column in COLUMNS}


# Of the others, those of the entry itself and not of its file.
_OF_ENTRY = frozenset({"kind", "partition", "bucket", "total_buckets"})


class Entries:
    """Entries of manifests, in order; they do not change.

    Args:
        source: A row for each entry, with `COLUMNS`; or the entries, where they are few.
    """

    def __init__(self, source: pl.DataFrame | list[ManifestEntry]) -> None:
        self._frame = None if isinstance(source, list) else source
        self._made = source if isinstance(source, list) else None

    @staticmethod
    def concat(parts: Sequence[Entries]) -> Entries:
        """All entries, part by part."""
        if len(parts) == 1:
            return parts[0]
        frames = [part._frame for part in parts if part._frame is not None]
        if not frames or len(frames) < len(parts):
            return Entries([entry for part in parts for entry in part])
        # Polars takes long to load; what looks at few entries does without.
        import polars as pl

        return Entries(pl.concat(frames, rechunk=True))

    def __len__(self) -> int:
        return len(self._objects) if self._frame is None else self._frame.height

    def __iter__(self) -> Iterator[ManifestEntry]:
        return iter(self._objects)

    @property
    def _objects(self) -> list[ManifestEntry]:
        if self._made is None:
            assert self._frame is not None
            self._made = [_entry(row) for row in self._frame.rows()]
        return self._made

    def take(self, rows: Numbers) -> list[ManifestEntry]:
        """Some of the entries, by their places."""
        if self._made is None and self._frame is not None:
            return [_entry(row) for row in self._frame[rows].rows()]
        objects = self._objects
        return [objects[row] for row in rows.tolist()]

    def where(self, mask: Mask) -> Entries:
        """The entries for which the mask is True."""
        if mask.all():
            return self
        made = None
        if self._made is not None:
            made = [self._made[row] for row in np.flatnonzero(mask).tolist()]
        if self._frame is None:
            return Entries([] if made is None else made)
        import polars as pl

        found = Entries(self._frame.filter(pl.Series(mask)))
        found._made = made
        return found

    def numbers(self, column: str) -> Numbers:
        """The values of a column of numbers that every entry has."""
        if self._frame is None:
            return np.fromiter(self._values(column), np.int64, len(self))
        return self._frame.get_column(column).to_numpy()

    def _values(self, column: str) -> Iterator[Any]:
        if column in _OF_ENTRY:
            return (getattr(entry, column) for entry in self._objects)
        return (getattr(entry.file, column) for entry in self._objects)

    @cached_property
    def partitions(self) -> tuple[list[bytes], Numbers]:
        """The serialised partitions, in order of occurrence, and the number of each entry's."""
        return self._coded("partition")

    @cached_property
    def buckets(self) -> tuple[list[tuple[bytes, int]], Numbers]:
        """The (partition, bucket) that occur, in order, and the number of each entry's."""
        partitions, codes = self.partitions
        numbers = self.numbers("bucket")
        if len(numbers) and (numbers == numbers[0]).all():
            return [(each, int(numbers[0])) for each in partitions], codes
        _, first, found = np.unique(
            _combined([codes, numbers]), return_index=True, return_inverse=True
        )
        order = np.argsort(first)
        rows = first[order]
        names = [partitions[code] for code in codes[rows].tolist()]
        return list(zip(names, numbers[rows].tolist(), strict=True)), np.argsort(order)[found]

    @property
    def names_occurring_again(self) -> Mask:
        """A mask of the entries whose file's name is that of another entry's, too."""
        if self._frame is not None:
            names = self._frame.get_column("file_name")
            if names.n_unique() == len(names):
                return np.zeros(len(names), np.bool_)
            return names.is_duplicated().to_numpy()
        _, codes = self._coded("file_name")
        return (np.bincount(codes) > 1)[codes]

    @property
    def identities(self) -> Numbers:
        """Numbers that two entries of the same file share (`ManifestEntry.identity`)."""
        columns = [self.partitions[1], self.numbers("bucket"), self.numbers("level")]
        for name in ("file_name", "extra_files", "embedded_file_index", "external_path"):
            columns.append(self._coded(name)[1])
        return _combined(columns)

    def _coded(self, column: str) -> tuple[list[Any], Numbers]:
        """The distinct values of a column, in order of occurrence, and the place of each there."""
        if self._frame is None:
            return _numbered(self._values(column))
        import polars as pl

        values = self._frame.get_column(column)
        if isinstance(values.dtype, pl.List):
            return _numbered(map(tuple, values.to_list()))
        coded = values.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode("encode")
        return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _numbered(values: Iterable[Any]) -> tuple[list[Any], Numbers]:
    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return list(places), np.array(codes, np.int64)


def _combined(columns: Sequence[Numbers]) -> Numbers:
    """One number for each combination of the numbers of columns."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, numbers = np.unique(column, return_inverse=True)
        code = np.unique(code * max(1, len(values)) + numbers, return_inverse=True)[1]
    return code


class DataFiles(Sequence[DataFile]):
    """The files of some entries, made when they are asked for. It pickles as the files.

    Args:
        entries: The entries.
        rows: Their numbers among them.
    """

    def __init__(self, entries: Entries, rows: Numbers) -> None:
        self._entries: Entries | None = entries
        self._rows = rows
        self._made: tuple[DataFile, ...] | None = None

    def _files(self) -> tuple[DataFile, ...]:
        entries = self._entries
        if self._made is None and entries is not None:
            self._made = tuple(entry.file for entry in entries.take(self._rows))
            self._entries = None
        assert self._made is not None
        return self._made

    @overload
    def __getitem__(self, at: int) -> DataFile: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[DataFile, ...]: ...
    def __getitem__(self, at: int | slice) -> DataFile | tuple[DataFile, ...]:
        return self._files()[at]

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self._files())

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataFiles | tuple) and self._files() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._files())

    def __repr__(self) -> str:
        return repr(self._files())

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return tuple, (list(self._files()),)


def merge_entries(entries: Entries) -> Entries:
    """The entries left when each delete takes away the add before it (``FileEntry.mergeEntries``).

    Args:
        entries: In the order in which they were committed.

    Returns:
        Adds, and deletes whose add is not among the entries, in their order.

    Raises:
        CorruptData: A file is added or deleted twice.
    """
    return entries.where(left_entries(entries))


def left_entries(entries: Entries) -> Mask:
    """A mask of the entries that `merge_entries` gives; raises CorruptData as it does."""
    again = entries.names_occurring_again
    if not again.any():
        return ~again
    several = entries.where(again)
    identities = several.identities
    # Entries of one file follow each other, in order.
    order = np.argsort(identities, kind="stable")
    ends = np.append(np.diff(identities[order]) != 0, True)
    sizes = np.diff(np.flatnonzero(ends), prepend=-1)
    is_delete = several.numbers("kind")[order] == FileKind.DELETE
    at = np.arange(len(order))
    is_second = (at - np.repeat(at[ends] - sizes + 1, sizes)) % 2 == 1
    if (is_second & ~is_delete).any() or (~is_second & is_delete & ~ends).any():
        _raise_twice(several.take(order))
    kept = ~again
    kept[np.flatnonzero(again)[order[ends & ~is_second]]] = True
    return kept


def _raise_twice(entries: Sequence[ManifestEntry]) -> None:
    """Name the file that is added or deleted twice; entries of one file follow each other."""
    before: ManifestEntry | None = None
    for entry in entries:
        if before is None or before.identity != entry.identity:
            before = entry
        elif before.kind is FileKind.ADD and entry.kind is FileKind.DELETE:
            before = None
        else:
            raise CorruptData(
                f"data file {entry.file.file_name} of bucket {entry.bucket} is "
                f"{_DONE[before.kind]} and then {_DONE[entry.kind]} by the table's manifests"
            )


_DONE: Mapping[FileKind, str] = {FileKind.ADD: "added", FileKind.DELETE: "deleted"}


# Objects --------------------------------------------------------------------------------------

_KINDS: Mapping[int, FileKind] = {int(kind): kind for kind in FileKind}
_SOURCES: Mapping[int | None, FileSource | None] = {
    None: None,
    **{int(source): source for source in FileSource},
}


def _entry(row: tuple[Any, ...]) -> ManifestEntry:
    (
        kind,
        partition,
        bucket,
        total_buckets,
        file_name,
        file_size,
        row_count,
        min_key,
        max_key,
        key_min,
        key_max,
        key_nulls,
        value_min,
        value_max,
        value_nulls,
        min_sequence_number,
        max_sequence_number,
        schema_id,
        level,
        extra_files,
        creation_time,
        delete_row_count,
        embedded_file_index,
        file_source,
        value_stats_cols,
        external_path,
        first_row_id,
        write_cols,
        write_cols_sequences,
    ) = row
    file = DataFile(
        file_name,
        file_size,
        row_count,
        min_key,
        max_key,
        _stats(key_min, key_max, key_nulls),
        _stats(value_min, value_max, value_nulls),
        min_sequence_number,
        max_sequence_number,
        schema_id,
        level,
        tuple(extra_files),
        creation_time,
        delete_row_count,
        embedded_file_index,
        _SOURCES[file_source],
        None if value_stats_cols is None else tuple(value_stats_cols),
        external_path,
        first_row_id,
        None if write_cols is None else tuple(write_cols),
        None if write_cols_sequences is None else tuple(write_cols_sequences),
    )
    return ManifestEntry(_KINDS[kind], partition, bucket, total_buckets, file)


def _stats(minimum: bytes, maximum: bytes, nulls: list[int | None] | None) -> SimpleStats:
    if nulls is None:
        (arity,) = struct.unpack_from(">i", minimum)
        nulls = [None] * arity
    return SimpleStats(minimum, maximum, tuple(nulls))
