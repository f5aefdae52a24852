"""Pruning: manifests, buckets, files and row groups that a predicate excludes are not read.

Everything here may only say "no row of it can match"; the rows themselves are filtered when they
are read. Columns of old schemas are matched by field id.

Source: ``ManifestsReader.java``, ``BucketSelector.java``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from headwater.storage.casts.type_changes import keeps_form
from headwater.storage.errors import Invalid
from headwater.storage.formats.protocol import FormatReader
from headwater.storage.index.file_index.container import IndexContainer
from headwater.storage.index.file_index.data_file import embedded_indexes
from headwater.storage.index.file_index.evaluate import matching_rows
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.manifest.entries import Entries
from headwater.storage.manifest.manifest import EntryFilter
from headwater.storage.manifest.records import ManifestFile
from headwater.storage.predicate.char_columns import (
    char_lengths,
    of_stored_values,
    padded_predicate,
)
from headwater.storage.predicate.filter import (
    And,
    ColumnRange,
    Comparison,
    Constant,
    IsNull,
    Predicate,
    columns_of,
    may_match,
    pinned_values,
)
from headwater.storage.rows.binary_row import serialize_row
from headwater.storage.rows.bucket import bucket_numbers
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.column_ranges import (
    are_comparable,
    evolved_ranges,
    stored_ranges,
    value_ranges,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import Root
from headwater.storage.types.data_type import DataField, DataType, to_arrow
from headwater.storage.types.padded_text import greatest_padded, padded_value, stored_forms
from headwater.storage.types.type_parts import root_of
from headwater.storage.types.values import StorageValue

__all__ = ["Pruner", "constant_range", "index_rows", "indexed_columns", "matching_row_groups"]

Mask: TypeAlias = npt.NDArray[np.bool_]

_FLOATS = (Root.FLOAT, Root.DOUBLE)
_MAX_BUCKET_KEYS = 1000
# Values looked for in the bytes of manifests: more take as long as to decode the entries.
_MAX_MARKS = 8
# Bytes that a whole number takes in a serialised row. Of less, some are everywhere.
_MARK_BYTES = {Root.INT: 4, Root.DATE: 4, Root.BIGINT: 8}


class Pruner:
    """Decides what of one table a scan must look at.

    Args:
        storage: The table.
        predicate: The condition for wanted rows; None means all rows.
        partitions: Serialised partitions; None means all.
        bucket: A bucket's number; None means all.
        level: An LSM level; None means all.

    Attributes:
        excluded_by_index: Names of the files that only their indexes tell to hold no wanted rows.
    """

    def __init__(
        self,
        storage: TableStorage,
        predicate: Predicate | None = None,
        partitions: Collection[bytes] | None = None,
        bucket: int | None = None,
        level: int | None = None,
    ) -> None:
        self._storage = storage
        self._predicate = (
            Constant(True) if predicate is None else padded_predicate(predicate, storage.schema)
        )
        self._columns = [storage.schema.column(name) for name in columns_of(self._predicate)]
        self._partitions = None if partitions is None else frozenset(partitions)
        self._bucket = bucket
        self._level = level
        self._partition_ranges: dict[bytes, Mapping[str, ColumnRange]] = {}
        self._partition_wanted: dict[bytes, bool] = {}
        self._buckets: dict[int, frozenset[int] | None] = {}
        self._bucket_keys = self._pinned_bucket_keys()
        self._asks_indexes = (
            predicate is not None and storage.schema.table_options.reads_file_indexes
        )
        self._indexed: dict[tuple[int, int], Mapping[str, DataField]] = {}
        self._marks = self._partition_marks()
        self.excluded_by_index: set[str] = set()

    # Manifests and entries -------------------------------------------------------------------

    def manifest(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may hold wanted entries."""
        if not _may_contain(manifest.min_bucket, manifest.max_bucket, self._bucket):
            return False
        if not _may_contain(manifest.min_level, manifest.max_level, self._level):
            return False
        ranges = stored_ranges(
            manifest.partition_stats, self._storage.schema.partition_fields, None
        )
        if not may_match(self._predicate, ranges):
            return False
        return self._partitions is None or any(
            may_match(self._is_partition(partition), ranges) for partition in self._partitions
        )

    def _is_partition(self, partition: bytes) -> Predicate:
        fields = self._storage.schema.partition_fields
        values = partition_values(self._storage, partition)
        return And(
            tuple(
                IsNull(item.name) if value is None else Comparison(item.name, "=", value)
                for item, value in zip(fields, values, strict=True)
            )
        )

    @property
    def entry_filter(self) -> EntryFilter | None:
        """The entries whose partition, bucket and level are wanted; None when all are."""
        if (
            self._predicate == Constant(True)
            and self._partitions is None
            and self._bucket is None
            and self._level is None
        ):
            return None
        return EntryFilter(self._marks, self._wanted, self._has_wanted_rows)

    def _wanted(self, entries: Entries) -> Mask:
        """A mask of the wanted entries: alike for add and delete."""
        partitions, codes = entries.partitions
        wanted = np.array([self._has_wanted_rows(each) for each in partitions], np.bool_)
        mask: Mask = wanted[codes]
        if self._bucket is not None:
            mask &= entries.numbers("bucket") == self._bucket
        if self._level is not None:
            mask &= entries.numbers("level") == self._level
        if self._bucket_keys is not None and mask.any():
            # Few schemas and numbers of buckets occur, and each tells the buckets.
            columns = [entries.numbers(name) for name in ("schema_id", "total_buckets", "bucket")]
            kinds, places = np.unique(np.stack(columns)[:, mask], axis=1, return_inverse=True)
            wanted_kinds = [self._bucket_wanted(*each) for each in kinds.T.tolist()]
            mask[mask] = np.array(wanted_kinds, np.bool_)[places.reshape(-1)]
        return mask

    @property
    def judges_files(self) -> bool:
        """Whether files may be left out by more than their partition, bucket and level."""
        partitions = {item.name for item in self._storage.schema.partition_fields}
        return any(item.name not in partitions for item in self._columns)

    def _has_wanted_rows(self, partition: bytes) -> bool:
        if self._partitions is not None and partition not in self._partitions:
            return False
        wanted = self._partition_wanted.get(partition)
        if wanted is None:
            wanted = may_match(self._predicate, self._ranges_of(partition))
            self._partition_wanted[partition] = wanted
        return wanted

    def _partition_marks(self) -> list[Collection[bytes]]:
        """Groups of byte strings, one of each of which is in every wanted partition."""
        groups: list[Collection[bytes]] = []
        if self._partitions is not None:
            groups.append(self._partitions)
        pinned = self._pinned()
        for item in self._storage.schema.partition_fields:
            marks = [_mark(value, item.type) for value in pinned.get(item.name, ())]
            known = [mark for mark in marks if mark is not None]
            if item.name in pinned and len(known) == len(marks):
                groups.append(known)
        return [group for group in groups if len(group) <= _MAX_MARKS]

    def _ranges_of(self, partition: bytes) -> Mapping[str, ColumnRange]:
        known = self._partition_ranges.get(partition)
        if known is None:
            values = partition_values(self._storage, partition)
            fields = self._storage.schema.partition_fields
            known = {
                item.name: constant_range(value, item.type)
                for item, value in zip(fields, values, strict=True)
            }
            self._partition_ranges[partition] = known
        return known

    def _pinned(self) -> dict[str, list[StorageValue]]:
        """The stored values that the predicate allows, by column."""
        schema = self._storage.schema
        pinned = pinned_values(self._predicate)
        lengths = char_lengths(schema, pinned.keys())
        return {
            name: [
                form
                for value in values
                for form in (
                    stored_forms(value, lengths[name])
                    if isinstance(value, str) and name in lengths
                    else (value,)
                )
            ]
            for name, values in pinned.items()
        }

    # Buckets -----------------------------------------------------------------------------------

    def _pinned_bucket_keys(self) -> list[tuple[StorageValue, ...]] | None:
        """The bucket keys that matching rows can have, when they are few."""
        schema = self._storage.schema
        fields = schema.bucket_key_fields
        if not fields or schema.table_options.bucket == -1:
            return None
        pinned = self._pinned()
        if (
            any(item.name not in pinned or root_of(item.type) in _FLOATS for item in fields)
            or math.prod(len(pinned[item.name]) for item in fields) > _MAX_BUCKET_KEYS
        ):
            return None
        return list(itertools.product(*(pinned[item.name] for item in fields)))

    def _bucket_wanted(self, schema_id: int, total_buckets: int, bucket: int) -> bool:
        if total_buckets < 1:
            return True
        fields = self._storage.schema.bucket_key_fields
        schema = self._storage.schema_by_id(schema_id)
        old = schema.field_by_id
        for item in fields:
            # The hash is of the value that the column had when the file was written.
            if item.id not in old or not _is_stored_alike(old[item.id].type, item.type):
                return True
        if total_buckets not in self._buckets:
            self._buckets[total_buckets] = self._hashed(total_buckets)
        wanted = self._buckets[total_buckets]
        return wanted is None or bucket in wanted

    def _hashed(self, total_buckets: int) -> frozenset[int] | None:
        assert self._bucket_keys is not None
        if not self._bucket_keys:
            return frozenset()
        types = [item.type for item in self._storage.schema.bucket_key_fields]
        columns = zip(*self._bucket_keys, strict=True)
        try:
            arrays = [
                pa.array(column, to_arrow(data_type))
                for column, data_type in zip(columns, types, strict=True)
            ]
        except (pa.ArrowInvalid, OverflowError):  # a literal beyond the column's type
            return None
        function = self._storage.schema.table_options.bucket_function
        return frozenset(bucket_numbers(arrays, types, total_buckets, function).tolist())

    # Files -------------------------------------------------------------------------------------

    def by_key(self, entry: ManifestEntry) -> bool:
        """Whether a file may hold keys that match.

        All versions of a key match or do not match together, so leaving a file out by its keys
        never brings back an older version.
        """
        schema = self._storage.schema_by_id(entry.file.schema_id)
        stats = evolved_ranges(
            entry.file, entry.file.key_stats, schema.key_fields, schema, self._columns
        )
        keys = {item.name for item in self._storage.schema.key_fields}
        ranges = {name: found for name, found in stats.items() if name in keys}
        if not may_match(self._predicate, {**ranges, **self._ranges_of(entry.partition)}):
            return False
        return self._by_index(entry, self._storage.schema.key_fields)

    def by_value(self, entry: ManifestEntry) -> bool:
        """Whether a file may hold rows that match, each row taken for itself."""
        stats = value_ranges(self._storage, entry.file, self._columns)
        if not may_match(self._predicate, {**stats, **self._ranges_of(entry.partition)}):
            return False
        return self._by_index(entry, self._storage.schema.fields)

    def by_ranges(
        self, partition: bytes, ranges: Callable[[Sequence[DataField]], Mapping[str, ColumnRange]]
    ) -> bool:
        """Whether rows of a partition may match.

        Args:
            partition: Serialised partition values.
            ranges: The statistics of some of the table's present columns.
        """
        if not self.judges_files:
            return True
        known = ranges(self._columns)
        return may_match(self._predicate, {**known, **self._ranges_of(partition)})

    def _by_index(self, entry: ManifestEntry, wanted: Sequence[DataField]) -> bool:
        """Whether a file's embedded indexes leave rows that may match."""
        file = entry.file
        if not self._asks_indexes or file.embedded_file_index is None:
            return True
        columns = self._indexed_columns(file.schema_id, wanted)
        if not columns:
            return True
        directory = bucket_directory(self._storage, entry.partition, entry.bucket)
        path = file.external_path or f"{directory}/{file.file_name}"
        container = embedded_indexes(file, path)
        assert container is not None
        rows = index_rows(container, self._predicate, columns, self._storage.schema, file.row_count)
        if rows is None or rows:
            return True
        self.excluded_by_index.add(file.file_name)
        return False

    def _indexed_columns(
        self, schema_id: int, wanted: Sequence[DataField]
    ) -> Mapping[str, DataField]:
        key = schema_id, len(wanted)
        if key not in self._indexed:
            stored = self._storage.schema_by_id(schema_id)
            self._indexed[key] = indexed_columns(
                self._predicate, wanted, self._storage.schema, stored
            )
        return self._indexed[key]


def indexed_columns(
    predicate: Predicate,
    wanted: Iterable[DataField],
    present: TableSchema,
    stored: TableSchema,
) -> dict[str, DataField]:
    """The columns of a predicate whose index in a file may be asked, as they are in the file.

    Args:
        predicate: The predicate.
        wanted: Present columns that the file may be judged by.
        present: The table's present schema.
        stored: The schema that the file was written with.

    Returns:
        By present name: those that were there under the same id, in a type whose values are still
        the same. A partition column may be another value in the file than in its manifest.
    """
    asked = columns_of(predicate).difference(present.partition_keys)
    result: dict[str, DataField] = {}
    for item in wanted:
        old = stored.field_by_id.get(item.id)
        if item.name in asked and old is not None and _is_stored_alike(old.type, item.type):
            result[item.name] = old
    return result


def index_rows(
    container: IndexContainer,
    predicate: Predicate,
    columns: Mapping[str, DataField],
    schema: TableSchema,
    row_count: int,
) -> BitMap | None:
    """The rows of a file that its indexes leave, see `matching_rows`.

    Args:
        container: The indexes.
        predicate: The condition for wanted rows.
        columns: From `indexed_columns`.
        schema: The table's present schema.
        row_count: The file's number of rows.
    """
    lengths = char_lengths(schema, columns.keys())
    stored = of_stored_values(padded_predicate(predicate, schema), lengths)
    return None if stored is None else matching_rows(container, stored, columns, row_count)


def constant_range(value: StorageValue, data_type: DataType) -> ColumnRange:
    """The range of a row's partition column."""
    padded = padded_value(value, data_type)
    return ColumnRange(padded, padded, int(value is None), 1)


def _is_stored_alike(old: DataType, new: DataType) -> bool:
    """Whether values of a type are stored as those of another; CHAR is padded when it changes."""
    return keeps_form(old, new) and (root_of(old) is root_of(new) or root_of(old) is not Root.CHAR)


def _mark(value: StorageValue, data_type: DataType) -> bytes | None:
    """Bytes that every serialised row with a value holds, by any writer; None if unknown.

    Text is there as it is, a whole number in the byte order of Paimon's rows.
    """
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    size = _MARK_BYTES.get(root) if (root := root_of(data_type)) is not None else None
    if size is None or value is None:
        return None
    try:
        row = serialize_row([value], [data_type])
    except Invalid:  # a literal beyond the column's type
        return None
    # After the arity and the word of null bits.
    return row[12 : 12 + size]


def _may_contain(low: int | None, high: int | None, wanted: int | None) -> bool:
    return wanted is None or low is None or high is None or low <= wanted <= high


# Row groups -----------------------------------------------------------------------------------


def matching_row_groups(
    reader: FormatReader,
    predicate: Predicate,
    columns: Mapping[str, tuple[DataField, DataField]],
    constants: Mapping[str, ColumnRange],
) -> list[int]:
    """The row groups of a file that may hold matching rows.

    Args:
        reader: The file.
        predicate: The condition for wanted rows.
        columns: (present, stored) by present name: columns whose statistics may be asked.
        constants: The ranges of columns that are known from elsewhere.
    """
    asked = {
        name: stored
        for name, (present, stored) in columns.items()
        if name in columns_of(predicate) and are_comparable(stored.type, present.type)
    }
    if not asked and may_match(predicate, constants):
        return list(reader.row_groups)
    groups: list[int] = []
    for group in reader.row_groups:
        ranges = dict(constants)
        for name, stored in asked.items():
            known = reader.statistics(group, stored)
            if known is not None:
                greatest = greatest_padded(known.maximum, stored.type)
                ranges[name] = ColumnRange(
                    known.minimum, greatest, known.null_count, known.row_count
                )
        if may_match(predicate, ranges):
            groups.append(group)
    return groups
