"""The rows of one data file, its columns under their present names and in their present types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.protocol import FormatReader
from headwater.storage.formats.registry import format_of_file
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.index.deletion_files import DeletionFile, read_deletion_vector
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.file_index.data_file import file_indexes_of
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.predicate.char_columns import padded_predicate
from headwater.storage.predicate.filter import (
    ColumnRange,
    Predicate,
    columns_of,
    matching,
    to_expression,
)
from headwater.storage.read.file_columns import StoredColumn, stored_column
from headwater.storage.read.row_selection import RowSelection
from headwater.storage.read.tracked_rows import TrackedRows
from headwater.storage.rows.gather import kept_rows
from headwater.storage.scan.pruning import (
    constant_range,
    index_rows,
    indexed_columns,
    matching_row_groups,
)
from headwater.storage.schema.blob_columns import (
    descriptor_columns,
    is_plain_blob,
    managed_blob_columns,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, to_arrow
from headwater.storage.types.values import StorageValue, arrow_scalar

__all__ = ["DataFileReader", "PartitionColumns", "missing_columns"]

# No column of a file has a name with this character.
_POSITION = "\0position"
_SYSTEM_FIELDS = {field.name: field for field in (SEQUENCE_FIELD, KIND_FIELD)}


def with_positions(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """A batch that begins at a position, with the positions of its rows as the last column."""
    positions = pa.array(np.arange(start, start + batch.num_rows))
    return pa.RecordBatch.from_arrays(
        [*batch.columns, positions], names=[*batch.schema.names, _POSITION]
    )


def missing_columns(file: DataFile, schema: TableSchema) -> list[str]:
    """The columns that are not in a file, which was written with `schema`, but in others.

    A partition column need not be there: its value is known.
    """
    if file.write_cols is None:
        return []
    present = {*file.write_cols, *schema.partition_keys}
    return [field.name for field in schema.fields if field.name not in present]


def _number_of_all(schema: TableSchema, file: DataFile, path: str) -> int | None:
    """The sequence number of all rows of a file, if it is that of the snapshot that added them."""
    if not schema.table_options.orders_by_snapshot or not schema.primary_keys:
        return None
    if file.file_source is None:
        raise Unsupported(
            f"file {path}: its manifest does not say if a compaction wrote it, without which "
            "'sequence.snapshot-ordering' cannot be followed; write the rows to a new table"
        )
    return file.min_sequence_number if file.file_source is FileSource.APPEND else None


class PartitionColumns:
    """The partition columns of one partition: the same value on every row.

    Args:
        schema: The table's present schema.
        values: The partition's storage values, in partition-key order.
    """

    def __init__(self, schema: TableSchema, values: Sequence[StorageValue]) -> None:
        self.values = dict(zip(schema.partition_keys, values, strict=True))
        self._columns: dict[str, pa.Array] = {}

    def column(self, item: DataField, rows: int) -> pa.Array:
        """A column of so many rows."""
        known = self._columns.get(item.name)
        if known is None or len(known) < rows:
            scalar = arrow_scalar(self.values[item.name], item.type)
            known = pa.repeat(scalar, rows).cast(to_arrow(item.type))
            self._columns[item.name] = known
        return known.slice(0, rows)


class DataFileReader:
    """Reads one data file or changelog file of a bucket.

    Args:
        storage: The table.
        directory: The URI of the bucket's directory.
        file: The file.
        partition: The bucket's partition.
        deleted: The place of the file's deletion vector; None when no row of it is deleted.
        chosen: The rows that are wanted; None means all.
        live: The rows that a merge picked, if one did; `deleted` says nothing then.
        partial: Whether columns that the file lacks are null, though its schema has them.

    Attributes:
        path: The file's URI.

    Raises:
        CorruptData: The file is missing or is not what the metadata says; the message names it.
        Unsupported: The file's format is not supported, or it holds some of the columns only.
    """

    def __init__(
        self,
        storage: TableStorage,
        directory: str,
        file: DataFile,
        partition: PartitionColumns,
        deleted: DeletionFile | None = None,
        chosen: RowSelection | None = None,
        *,
        live: LiveRows | None = None,
        partial: bool = False,
    ) -> None:
        self.path = path = file.external_path or f"{directory}/{file.file_name}"
        self._schema = storage.schema_by_id(file.schema_id)
        self._missing = frozenset(missing_columns(file, self._schema))
        if self._missing and not partial:
            missing = sorted(self._missing)
            raise Unsupported(
                f"file {path} lacks the columns {', '.join(missing)}, which other files hold; "
                "Headwater does not join them"
            )
        self._format = format_of_file(path)
        self._file = file
        self._number_of_all = _number_of_all(storage.schema, file, path)
        self._tracked = TrackedRows(file, path)
        # The predicate, by its identity: a reader is asked by one.
        self._selected: tuple[int, bool, RowSelection | None] | None = None
        self._present = storage.schema
        self._zone = storage.runtime.time_zone
        self._partition = partition
        self._files = storage.files
        self._row_count = file.row_count
        self._deleted = deleted if live is None else None
        self._chosen = chosen
        self._live = live

    @cached_property
    def _reader(self) -> FormatReader:
        # Opened when it is needed: an index may tell that it is not.
        options = self._present.table_options
        return self._format.reader(
            self._files, self.path, row_count=self._row_count, options=options
        )

    @property
    def may_delete(self) -> bool:
        """Whether a row may retract; known without reading rows, and whatever the manifest says."""
        if self._live is not None:
            return False
        for group in self._reader.row_groups:
            kinds = self._reader.statistics(group, KIND_FIELD)
            if kinds is None or kinds.minimum != kinds.maximum or kinds.minimum not in (0, 2):
                return True
        return False

    def rows(
        self,
        columns: Sequence[str],
        predicate: Predicate | None,
        batch_rows: int,
        *,
        keys_only: bool = False,
        batch_bytes: int | None = None,
        groups: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows with these columns, under their present names, without those that are deleted.

        Args:
            columns: Present columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``; with row tracking
                ``_ROW_ID``.
            predicate: Row groups that cannot match are left out, and rows that an index of the
                file excludes; other rows that do not match may be.
            batch_rows: Rows of a batch at most.
            keys_only: Judge row groups and rows by keys and partitions alone.
            batch_bytes: As in `FormatReader.batches`.
            groups: Only these row groups, see `row_group_ranges`; None means all.
        """
        selection = self._selection(predicate, keys_only)
        if selection is not None and not len(selection):
            return
        sources = [self._source(name) for name in columns]
        stored = {source.stored.name: source.stored for source in sources if source.stored}
        wanted = self._groups(predicate, keys_only)
        if groups is not None:
            wanted = [group for group in wanted if group in groups]
        read = partial(
            self._reader.batches,
            list(stored.values()),
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
        )
        numbered = any(source.wanted.name in self._present.tracking_fields for source in sources)

        def present(batch: pa.RecordBatch) -> pa.RecordBatch:
            if not columns:
                return batch
            arrays = [self._column(source, batch) for source in sources]
            return pa.RecordBatch.from_arrays(arrays, names=list(columns))

        if self._live is not None and selection is None and not numbered:
            hint = None if keys_only else predicate
            yield from self._live_batches(self._live, read, wanted, present, hint, columns)
            return
        yield from map(present, self._batches(read, wanted, selection, numbered))

    def is_excluded(self, predicate: Predicate | None) -> bool:
        """Whether no row is wanted that the file's indexes tell of; it need not be opened."""
        selection = self._selection(predicate, keys_only=False)
        return selection is not None and not len(selection)

    def row_group_ranges(self, predicate: Predicate | None, part_bytes: int) -> list[range]:
        """The file's row groups in parts of about so many bytes of the file, in their order.

        The list is empty when the file's indexes tell that no row matches. The parts can be read at
        the same time.
        """
        if self.is_excluded(predicate):
            return []
        # Here, as all parts need it and none should have to decode it again.
        _ = self.deletion_vector
        starts = self._reader.row_group_starts
        rows = max(1, self._row_count * part_bytes // max(self._file.file_size, 1))
        firsts: list[int] = []
        for group, start in enumerate(starts):
            if not firsts or start - starts[firsts[-1]] >= rows:
                firsts.append(group)
        return [range(*ends) for ends in pairwise([*firsts, len(starts)])]

    def row_group_counts(
        self, predicate: Predicate | None, *, keys_only: bool = False
    ) -> tuple[int, int]:
        """The numbers of the row groups that may hold wanted rows, and of all."""
        return len(self._groups(predicate, keys_only)), len(self._reader.row_groups)

    def _selection(self, predicate: Predicate | None, keys_only: bool) -> RowSelection | None:
        """The chosen rows that the file's indexes do not exclude; None means all."""
        if self._selected is None or self._selected[:2] != (id(predicate), keys_only):
            rows = self._select(predicate, keys_only)
            if self._chosen is not None:
                rows = self._chosen if rows is None else rows.within(self._chosen)
            if self._live is not None and rows is not None:
                rows = RowSelection(rows.positions[self._live.mask[rows.positions]])
            self._selected = id(predicate), keys_only, rows
        return self._selected[2]

    def _select(self, predicate: Predicate | None, keys_only: bool) -> RowSelection | None:
        if predicate is None or not self._present.table_options.reads_file_indexes:
            return None
        wanted = self._present.key_fields if keys_only else self._present.fields
        columns = indexed_columns(predicate, wanted, self._present, self._schema)
        columns = {
            name: stored for name, stored in columns.items() if stored.name not in self._missing
        }
        if not columns:
            return None
        container = file_indexes_of(self._files, self._file, self.path)
        if container is None:
            return None
        rows = index_rows(container, predicate, columns, self._present, self._file.row_count)
        return None if rows is None else RowSelection.of(rows)

    def _live_batches(
        self,
        live: LiveRows,
        read: Callable[[Sequence[int]], Iterator[pa.RecordBatch]],
        groups: Sequence[int],
        present: Callable[[pa.RecordBatch], pa.RecordBatch],
        predicate: Predicate | None,
        columns: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        """The live rows of row groups, and of these those that match, if `columns` tell."""
        keep = None
        if predicate is not None and columns_of(predicate) <= set(columns):
            keep = to_expression(predicate, self._present)
        starts = self._reader.row_group_starts
        ends = [*starts[1:], self._row_count]
        for group in groups:
            at = starts[group]
            if not live.any_between(at, ends[group]):
                continue
            for batch in read([group]):
                result = present(batch)
                mask = live.between(at, at + batch.num_rows)
                at += batch.num_rows
                # One filter for both: rows that are left out are not copied in between.
                result = kept_rows(result, mask if keep is None else mask & matching(result, keep))
                if result.num_rows:
                    yield result

    def _batches(
        self,
        read: Callable[[Sequence[int]], Iterator[pa.RecordBatch]],
        groups: Sequence[int],
        selection: RowSelection | None,
        numbered: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of row groups, those left out that are deleted or not selected.

        If `numbered`, with their positions as the last column.
        """
        if selection is None and self._deleted is None and not numbered:
            yield from read(groups)
            return
        vector = self.deletion_vector
        if selection is not None:
            selection = selection.without(vector.positions)
        starts = self._reader.row_group_starts
        ends = [*starts[1:], self._row_count]
        for group in groups:
            at = starts[group]
            if selection is not None and not selection.any_between(at, ends[group]):
                continue
            for batch in read([group]):
                if numbered:
                    batch = with_positions(batch, at)
                result = (
                    vector.without(batch, at)
                    if selection is None
                    else selection.of_batch(batch, at)
                )
                at += batch.num_rows
                if result.num_rows:
                    yield result

    @cached_property
    def deletion_vector(self) -> DeletionVector:
        """The positions of the file's deleted rows; raises CorruptData."""
        if self._deleted is None:
            return DeletionVector.from_positions([])
        vector = read_deletion_vector(self._files, self._deleted)
        if len(vector) and vector.positions[-1] >= self._row_count:
            raise CorruptData(
                f"index file {self._deleted.path} deletes row {vector.positions[-1]} of "
                f"{self.path}, which has {self._row_count} rows"
            )
        return vector

    def positions(
        self, columns: Sequence[str], predicate: Predicate | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows of the row groups that may match, deleted ones too, with where they begin.

        Yields:
            The position in the file of a batch's first row, and the batch with these columns.
        """
        sources = [self._source(name) for name in columns]
        stored = {source.stored.name: source.stored for source in sources if source.stored}
        starts = self._reader.row_group_starts
        for group in self._groups(predicate, False):
            at = starts[group]
            for read in self._reader.batches(list(stored.values()), [group], batch_rows):
                batch = with_positions(read, at)
                arrays = [self._column(source, batch) for source in sources]
                yield at, pa.RecordBatch.from_arrays(arrays, names=list(columns))
                at += batch.num_rows

    def _source(self, name: str) -> StoredColumn:
        if name in self._partition.values:
            return StoredColumn(self._present.column(name), None)
        tracked = self._present.tracking_fields.get(name)
        if tracked is not None:
            return StoredColumn(tracked, self._tracked.stored(name))
        if name == SEQUENCE_FIELD.name and self._number_of_all is not None:
            return StoredColumn(SEQUENCE_FIELD, None)
        if name in _SYSTEM_FIELDS and name not in self._present.field_by_name:
            return StoredColumn(_SYSTEM_FIELDS[name], _SYSTEM_FIELDS[name])
        result = stored_column(self._present.column(name), self._schema, self._present)
        if result.stored is not None and is_plain_blob(result.wanted.type):
            self._refuse_values_elsewhere(name)
        if result.stored is None or result.stored.name not in self._missing:
            return result
        if not result.wanted.type.nullable:
            raise CorruptData(
                f"file {self.path} lacks column '{name}', which is NOT NULL, and no other file of "
                "its rows holds it"
            )
        return replace(result, stored=None)

    def _refuse_values_elsewhere(self, name: str) -> None:
        """Refuse a column that tells where its values are, unless that is what is asked for.

        Those of packs are read by merges of rows, and their values at last.
        """
        if name in managed_blob_columns(self._present):
            return
        is_told = name in descriptor_columns(self._present)
        if is_told and self._present.table_options.blobs_as_descriptors:
            return
        raise Unsupported(
            f"column '{name}' of type BLOB: file {self.path} does not hold its values, but says "
            "where they are; choose other columns"
            + (", or read the places with 'blob-as-descriptor' = 'true'" if is_told else "")
        )

    def _column(self, source: StoredColumn, batch: pa.RecordBatch) -> pa.Array:
        if source.wanted.name in self._partition.values:
            return self._partition.column(source.wanted, batch.num_rows)
        if source.wanted is SEQUENCE_FIELD and self._number_of_all is not None:
            return pa.repeat(pa.scalar(self._number_of_all, pa.int64()), batch.num_rows)
        column = None if source.stored is None else batch.column(source.stored.name)
        if source.wanted.name in self._present.tracking_fields:
            positions = batch.column(batch.num_columns - 1)
            return self._tracked.column(source.wanted.name, column, positions)
        return source.convert(column, batch.num_rows, f"file {self.path}", self._zone)

    def _groups(self, predicate: Predicate | None, keys_only: bool) -> list[int]:
        if predicate is None:
            return list(self._reader.row_groups)
        present = self._present
        stored: dict[str, tuple[DataField, DataField]] = {}
        constants: dict[str, ColumnRange] = {}
        for item in present.key_fields if keys_only else present.fields:
            old = self._schema.field_by_id.get(item.id)
            if old is not None and old.name in self._missing:
                old = None
            if old is not None and item.name not in present.partition_keys:
                stored[item.name] = (item, old)
            elif old is None and not keys_only:
                constants[item.name] = ColumnRange(None, None, 1, 1)
        for name, value in self._partition.values.items():
            constants[name] = constant_range(value, present.column(name).type)
        return matching_row_groups(
            self._reader, padded_predicate(predicate, present), stored, constants
        )
