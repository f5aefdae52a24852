"""The readers of a plan's splits: Spark's own Parquet scan, and Python workers.

Spark's scan takes a file only when reading it so gives what Headwater's own reader would give: the
same columns by field id, in the same types.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.spark.live_rows import LiveRowsCache
from headwater.storage.files.local import local_path
from headwater.storage.formats.parquet import PARQUET
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import Predicate
from headwater.storage.read.data_file_reader import missing_columns
from headwater.storage.read.row_group_count import count_row_groups
from headwater.storage.scan.sections import key_sections
from headwater.storage.scan.split import Split
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType

__all__ = ["Division", "divide", "file_path", "is_plain_path", "is_scannable"]

# Spark reads paths as patterns.
_PATTERN = frozenset("*?[]{}\\")
_SCHEME = "file:///"
# The name that Spark has for what it knows of files, unless a column has it.
_METADATA = "_metadata"
# Each partition is a branch of Spark's plan.
_MOST_PARTITIONS = 128
_NO_LITERAL = {Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.BINARY, Root.VARBINARY}
# Footers take about a millisecond each.
_MOST_FOOTERS = 4


@dataclass(frozen=True)
class Division:
    """The splits of a plan, divided between two readers.

    Attributes:
        native: Those that Spark's own Parquet scan reads.
        python: Those that Headwater's reader reads, in Python workers; with their live rows, if
            they would be merged and these are known.
        counted: Those that Spark's own scan reads of which a condition leaves out rows, see
            `headwater.spark.source.counted_scan`.
        live_rows: The live rows of those files in `native` and `counted` that have others, too, by
            their paths.
    """

    native: tuple[Split, ...]
    python: tuple[Split, ...]
    counted: tuple[Split, ...] = ()
    live_rows: Mapping[str, LiveRows] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def by_spark(self) -> tuple[Split, ...]:
        """The splits that Spark's own scan reads."""
        return (*self.native, *self.counted)

    @property
    def without_counted(self) -> Division:
        """The same splits, those in `counted` read in Python workers."""
        moved: list[Split] = []
        for split in self.counted:
            paths = {file.file_name: file_path(split, file) for file in split.files}
            known = {
                name: self.live_rows[path] for name, path in paths.items() if path in self.live_rows
            }
            # Vectors are read by the workers themselves.
            moved.append(split if split.is_raw else dataclasses.replace(split, live_rows=known))
        return dataclasses.replace(self, python=(*self.python, *moved), counted=())


def divide(
    storage: TableStorage,
    splits: Sequence[Split],
    columns: Sequence[str],
    live_rows: LiveRowsCache,
    *,
    condition: Predicate | None = None,
    counts: bool = False,
) -> Division:
    """Divide splits between the readers.

    Args:
        storage: The table.
        splits: From `plan_snapshot`.
        columns: The columns wanted.
        live_rows: Tells the live rows of splits that are not read as they are.
        condition: One that leaves out rows of the partitions that are read; None for none. Rows
            that do not fulfil it need not be looked for by their numbers.
        counts: True if Spark's own scan may count rows, and leave out what does not fulfil the
            condition.

    Raises:
        CorruptData: As `LiveRowsCache.find`.
    """
    schema = storage.schema
    if (
        not columns
        or schema.table_options.evolves_columns
        or any(name in schema.tracking_fields for name in columns)
        or not _names_differ(schema)
        or len({split.partition for split in splits}) > _MOST_PARTITIONS
        or any(
            not isinstance(field.type, AtomicType) or field.type.root in _NO_LITERAL
            for field in schema.partition_fields
        )
    ):
        return Division((), tuple(splits))
    written = {file.schema_id for split in splits for file in split.files}
    unclear = {each for each in written if not _names_differ(storage.schema_by_id(each))}
    scannable = [
        split
        for split in splits
        if not split.postponed
        and split.before is None
        and all(
            file.schema_id not in unclear and _scannable(storage, split, file, columns)
            for file in split.files
        )
    ]
    native = {id(split) for split in scannable if _stands(storage, split)}
    others = [split for split in scannable if id(split) not in native]
    found: dict[str, LiveRows] = {}
    is_told_apart = partial(_is_told_apart, storage)
    if condition is None:
        for split, rows in zip(others, live_rows.find(storage, others, is_told_apart), strict=True):
            if rows is not None:
                native.add(id(split))
                found |= _by_path(split, rows)
        return Division(
            tuple(split for split in splits if id(split) in native),
            tuple(split for split in splits if id(split) not in native),
            live_rows=found,
        )
    counted: list[Split] = []
    for split, rows in zip(others, live_rows.find(storage, others), strict=True):
        if rows is not None:
            counted.append(split)
            found |= _by_path(split, rows)
    known = {id(split) for split in counted}
    division = Division(
        tuple(split for split in splits if id(split) in native),
        tuple(split for split in splits if id(split) not in native | known),
        tuple(counted),
        found,
    )
    if counts and all(map(is_told_apart, counted)) and _wants_most(storage, division, condition):
        return division
    return division.without_counted


def _by_path(split: Split, rows: Mapping[str, LiveRows]) -> dict[str, LiveRows]:
    return {
        file_path(split, file): rows[file.file_name]
        for file in split.files
        if file.file_name in rows
    }


def _wants_most(storage: TableStorage, division: Division, condition: Predicate) -> bool:
    """True if by their statistics more than half of the row groups may hold wanted rows.

    Workers leave out the others, which rows cannot be counted without. A few of the largest files
    stand for all.
    """
    alone = [
        dataclasses.replace(split, files=[file])
        for split in division.without_counted.python
        for file in split.files
    ]
    alone.sort(key=lambda split: -split.size)
    counted = count_row_groups(storage, alone, condition, most_files=_MOST_FOOTERS)
    return counted.wanted * 2 > counted.total


def file_path(split: Split, file: DataFile) -> str:
    """The URI of a split's file."""
    return file.external_path or f"{split.directory}/{file.file_name}"


def _stands(storage: TableStorage, split: Split) -> bool:
    """True if all rows of the split's files are live but for those that retract."""
    if split.deletion_files:
        return False
    if split.is_raw:
        return True
    return all(len(section.runs) == 1 for section in key_sections(storage, split.files))


def _is_told_apart(storage: TableStorage, split: Split) -> bool:
    """True if Spark can tell the rows of the split's files by their sizes and positions.

    What is not as its metadata says, Headwater's reader looks into.
    """
    for file in split.files:
        written = storage.schema_by_id(file.schema_id)
        if any(field.name.casefold() == _METADATA for field in written.fields):
            return False
        try:
            size = os.stat(local_path(file_path(split, file))).st_size
        except OSError:
            return False
        if size != file.file_size:
            return False
    return True


def _names_differ(schema: TableSchema) -> bool:
    """True if no two columns have names that differ in case alone, which Spark's scan confuses."""
    return len({name.casefold() for name in schema.field_by_name}) == len(schema.fields)


def _scannable(storage: TableStorage, split: Split, file: DataFile, columns: Sequence[str]) -> bool:
    path = file_path(split, file)
    if not is_plain_path(path) or not path.endswith(f".{PARQUET.name}"):
        return False
    written = storage.schema_by_id(file.schema_id)
    if missing_columns(file, written):
        return False
    for field in storage.schema.columns(columns):
        stored = written.field_by_id.get(field.id)
        if stored is not None and not _same(field, stored):
            return False
    return True


def is_plain_path(path: str) -> bool:
    """True if a URI is of the local disk, and Spark does not take it for a pattern."""
    return path.startswith(_SCHEME) and not _PATTERN & set(path)


def is_scannable(kind: DataType) -> bool:
    """True if Spark's own scan reads columns of a type, and as Headwater's reader does."""
    if not isinstance(kind, AtomicType) or kind.root in (Root.TIME, Root.BLOB):
        return False
    return kind.root not in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) or kind.precision <= 6


def _same(wanted: DataField, stored: DataField) -> bool:
    if not is_scannable(wanted.type) or not is_scannable(stored.type):
        return False
    return str(wanted.type).removesuffix(" NOT NULL") == str(stored.type).removesuffix(" NOT NULL")
