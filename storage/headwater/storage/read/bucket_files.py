"""The files of one bucket: their rows as they stand, merged, or compared with other files."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.index.deletion_files import DeletionFile, read_deletion_vector
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.changes import MergedRange, merge_changes
from headwater.storage.merge.engine import Indices
from headwater.storage.merge.rules import MergeRules
from headwater.storage.merge.runs import merge_runs, needs_age
from headwater.storage.merge.sorted_run import ROW_NUMBER, SortedRun
from headwater.storage.predicate.filter import Predicate, columns_of, matching, to_expression
from headwater.storage.read.data_file_reader import DataFileReader, PartitionColumns
from headwater.storage.read.difference import Snapshotted, differing_rows, remarked_rows
from headwater.storage.read.key_sorted import MOST_FEW_KEYS, FewKeys, key_sorted
from headwater.storage.read.postponed import PostponedRuns
from headwater.storage.read.raw_rows import RawRows, without_deletes
from headwater.storage.read.row_numbering import RowNumbering
from headwater.storage.read.row_selection import RowSelection
from headwater.storage.rows.external_sort import sort_memory
from headwater.storage.rows.kinds import RowKind
from headwater.storage.scan.sections import FileRun, Section, key_sections, whole_section
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import numpy_values
from headwater.storage.types.values import StorageValue

__all__ = ["BucketFiles"]

_WINDOWS_IN_BUFFER = 8
# A smaller window costs more than its rows.
_MIN_WINDOW_BYTES = 4096
# A merge may hold so many times the rows of a batch, as long as they fit into its window: each
# window costs some hundred calls, however few its rows.
_BATCHES_IN_WINDOW = 8
_ROW_NUMBERS_AT_ONCE = 65536 * _BATCHES_IN_WINDOW


@dataclass
class BucketFiles:
    """Reads the files of one bucket.

    Attributes:
        storage: The table.
        directory: The URI of the bucket's directory.
        partition: The partition's storage values, in partition-key order.
        deletion_files: The places of deletion vectors, by data file.
        chosen: The rows that are read of some data files; of others all are.
        live_rows: `Split.live_rows`, for files that are read without their merge.
    """

    storage: TableStorage
    directory: str
    partition: Sequence[StorageValue]
    deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict)
    chosen: Mapping[str, RowSelection] = field(default_factory=dict)
    live_rows: Mapping[str, LiveRows] = field(default_factory=dict)
    _partition_columns: PartitionColumns = field(init=False)

    def __post_init__(self) -> None:
        self._partition_columns = PartitionColumns(self.storage.schema, self.partition)

    def plain(
        self,
        files: Iterable[DataFile],
        columns: Sequence[str],
        predicate: Predicate | None,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Rows as they stand in the files, row groups that cannot match left out."""
        yield from RawRows(files, self.open, columns, predicate, batch_rows)

    def changes(
        self,
        files: Iterable[DataFile],
        columns: Sequence[str],
        predicate: Predicate | None,
        keep_deletes: bool,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a primary-key table as they stand in the files, or those that do not retract.

        With `keep_deletes` each with its ``_VALUE_KIND``.
        """
        yield from RawRows(files, self.open, columns, predicate, batch_rows, True, keep_deletes)

    def difference(
        self,
        split: Split,
        before: Sequence[DataFile],
        columns: Sequence[str],
        keep_deletes: bool,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of keys that a split has otherwise than before, with their ``_VALUE_KIND``."""
        shared: set[str] = set()
        if split.is_marked:
            shared = {one.file_name for one in before} & {one.file_name for one in split.files}
        vectors = split.before_deletion_files, split.deletion_files

        def side(files: Sequence[DataFile], own: int) -> Snapshotted:
            # Of a file of both, the rows that the other snapshot marks; one's own are left out.
            other = vectors[1 - own]
            chosen = {name: self._marked(other.get(name)) for name in shared}
            bucket = replace(self, deletion_files=vectors[own], chosen=chosen)

            def read(section: Section, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
                yield from bucket.merge(section, names, ordered=True, batch_rows=rows)

            return Snapshotted(files, read)

        sides = side(before, 0), side(split.files, 1)
        for batch in differing_rows(self.storage, *sides, columns, batch_rows):
            yield batch if keep_deletes else without_deletes(batch)

    def overwritten(
        self,
        split: Split,
        before: Sequence[DataFile],
        columns: Sequence[str],
        predicate: Predicate | None,
        keep_deletes: bool,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that an overwrite replaced, then those that took their place.

        With `keep_deletes` each with its ``_VALUE_KIND``, else only the latter.
        """
        # A batch has a number of rows by some column.
        names = list(columns) or [self.storage.schema.primary_keys[0]]
        sides = [(self, split.files, RowKind.INSERT)]
        if keep_deletes:
            earlier = replace(self, deletion_files=split.before_deletion_files)
            sides.insert(0, (earlier, before, RowKind.DELETE))
        for bucket, files, kind in sides:
            for batch in bucket.merged(files, names, predicate, batch_rows):
                rows = batch.select(names)
                if keep_deletes:
                    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows)
                    rows = rows.append_column(KIND_FIELD.name, kinds)
                yield rows

    def remarked(
        self, split: Split, columns: Sequence[str], keep_deletes: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Rows that one of two snapshots marks as deleted, see `remarked_rows`."""
        for file in split.files:
            before, after = (
                self._marked(places.get(file.file_name))
                for places in (split.before_deletion_files, split.deletion_files)
            )

            def opened(rows: RowSelection, file: DataFile = file) -> DataFileReader:
                return replace(self, deletion_files={}, chosen={file.file_name: rows}).open(file)

            yield from remarked_rows(before, after, opened, columns, keep_deletes, batch_rows)

    def merged(
        self,
        files: Iterable[DataFile],
        columns: Sequence[str],
        predicate: Predicate | None,
        batch_rows: int,
        *,
        keep_deletes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The newest row of each key that does not retract it; the predicate is only a hint.

        With `keep_deletes` those that retract are given, too, each row with its ``_VALUE_KIND``.
        """
        kept = [KIND_FIELD.name] if keep_deletes else []
        for section in key_sections(self.storage, files):
            if len(section.runs) == 1:
                yield from self.changes(section.files, columns, predicate, keep_deletes, batch_rows)
            else:
                yield from self.merge(
                    section,
                    [*columns, *kept],
                    predicate=predicate,
                    keep_deletes=keep_deletes,
                    batch_rows=batch_rows,
                )

    def merged_with_postponed(
        self,
        split: Split,
        columns: Sequence[str],
        predicate: Predicate | None,
        batch_rows: int,
        *,
        keep_deletes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """As `merged`, with the rows that wait for a compaction to bring them to the buckets."""
        kept = [KIND_FIELD.name] if keep_deletes else []
        names = [*columns, *kept]
        rules = MergeRules.of(self.storage.schema)
        section = whole_section(self.storage, split.files)
        with TemporaryDirectory(prefix="headwater-") as folder:
            waiting = PostponedRuns(self.storage, split, Path(folder))
            postponed = waiting.runs(
                lambda files, wanted: self.changes(files, wanted, None, True, batch_rows)
            )
            runs = self._sorted_runs(section, rules, names, predicate)
            yield from merge_runs(
                [*runs, *postponed],
                rules,
                names,
                keep_deletes=keep_deletes,
                batch_rows=batch_rows,
            )

    def merge(
        self,
        section: Section,
        columns: Sequence[str],
        *,
        predicate: Predicate | None = None,
        keep_deletes: bool = False,
        ordered: bool = False,
        keys_alone: Callable[[DataFile], bool] = lambda file: False,
        kept: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        batch_rows: int = 65536,
    ) -> Iterator[pa.RecordBatch]:
        """Merge one section, see `merge_runs`.

        Args:
            section: Files that may share keys.
            columns: Columns of the result, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` if wanted.
            predicate: Row groups whose *keys* cannot match are left out, and rows of the result
                that do not match may be.
            keep_deletes: As in `merge_runs`.
            ordered: As in `merge_runs`.
            keys_alone: For a merge engine with `compacted_rows_first`: the files, all of a level,
                whose keys are left out of the result.
            kept: Leaves out rows that are not to be merged.
            batch_rows: Rows of a batch of the result, about; some times as many are held while
                they take an eighth of the write buffer at most.
        """
        rules = MergeRules.of(self.storage.schema)
        wanted = None
        if predicate is not None and columns_of(predicate) <= set(columns):
            wanted = partial(matching, keep=to_expression(predicate, self.storage.schema))
        yield from merge_runs(
            self._sorted_runs(section, rules, columns, predicate, keys_alone=keys_alone, kept=kept),
            rules,
            columns,
            keep_deletes=keep_deletes,
            ordered=ordered,
            wanted=wanted,
            batch_rows=batch_rows * _BATCHES_IN_WINDOW,
            window_bytes=self._window_bytes,
        )

    def merge_changes(
        self,
        section: Section,
        columns: Sequence[str],
        *,
        old_level: int | None,
        compared: Collection[str] | None,
        told: bool = True,
        looked_up: Callable[[DataFile], bool] = lambda file: False,
        numbering: RowNumbering | None = None,
        kept: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        batch_rows: int = 65536,
    ) -> Iterator[MergedRange]:
        """Merge one section, and tell what changes, see `merge_changes`.

        Args:
            section: Files that may share keys.
            columns: The table's columns, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``.
            old_level: As in `merge_changes`.
            compared: As in `merge_changes`.
            told: As in `merge_changes`.
            looked_up: The files, all of a level, of which only the rows count whose keys are on
                level 0, too.
            numbering: Told which of these rows are superseded.
            kept: As in `merge`.
            batch_rows: As in `merge_runs`.
        """
        rules = MergeRules.of(self.storage.schema)
        yield from merge_changes(
            self._sorted_runs(
                section, rules, columns, None, looked_up=looked_up, numbering=numbering, kept=kept
            ),
            rules,
            columns,
            old_level=old_level,
            compared=compared,
            told=told,
            superseded=None if numbering is None else numbering.superseded,
            batch_rows=batch_rows,
            window_bytes=self._window_bytes,
        )

    def picked_numbers(self, section: Section, numbering: RowNumbering) -> Iterator[Indices]:
        """The numbers of the rows that a merge of one section picks.

        Args:
            section: Files that may share keys, of a table whose merge engine only picks rows.
            numbering: Numbers the rows of these files.

        Raises:
            CorruptData: As `merge_runs`; also when a file has other rows than the metadata says.
        """
        rules = MergeRules.of(self.storage.schema)
        merged = merge_runs(
            self._sorted_runs(section, rules, [], None, numbering=numbering, numbers_all=True),
            rules,
            [ROW_NUMBER],
            batch_rows=_ROW_NUMBERS_AT_ONCE,
            window_bytes=self._window_bytes,
        )
        for batch in merged:
            yield numpy_values(batch.column(0)).astype(np.int64, copy=False)

    @property
    def _window_bytes(self) -> int:
        """Bytes of the rows that a merge holds: they are copied a few times on their way."""
        share = self.storage.schema.table_options.write_buffer_size // _WINDOWS_IN_BUFFER
        return max(share, _MIN_WINDOW_BYTES)

    def _few_keys(self, section: Section, rules: MergeRules) -> FewKeys | None:
        """The keys of a section's sorted runs, if they are few."""
        files = [file for run in section.runs if run.is_sorted for file in run.files]
        if sum(file.row_count for file in files) > MOST_FEW_KEYS:
            return None
        rows = (self.open(file).rows(rules.keys, None, MOST_FEW_KEYS) for file in files)
        return FewKeys(rules, chain.from_iterable(rows))

    def _sorted_runs(
        self,
        section: Section,
        rules: MergeRules,
        columns: Sequence[str],
        predicate: Predicate | None,
        *,
        keys_alone: Callable[[DataFile], bool] = lambda file: False,
        looked_up: Callable[[DataFile], bool] = lambda file: False,
        numbering: RowNumbering | None = None,
        numbers_all: bool = False,
        kept: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    ) -> list[SortedRun]:
        """A section's runs as they are merged; the rows of those looked up, or all, numbered."""
        own = [name for name in columns if name in self.storage.schema.field_by_name]
        wanted = [*rules.keys, *columns, *rules.engine.inputs(own)]

        def sorted_run(run: FileRun) -> SortedRun:
            level = run.files[0].level
            keys_only = keys_alone(run.files[0])
            is_looked_up = looked_up(run.files[0])
            numbered = numbering if is_looked_up or numbers_all else None
            numbers_only = numbered is not None and numbered.numbers_only

            def read_file(file: DataFile, rows: int, size: int | None) -> Iterator[pa.RecordBatch]:
                opened = self.open(file)
                kind = [KIND_FIELD.name] if not run.is_sorted or opened.may_delete else []
                names = list(dict.fromkeys([*wanted, *kind]))
                if keys_only or numbers_only:
                    names = list(rules.keys)
                if numbered is not None:
                    yield from numbered.rows(file, opened, names, rows)
                    return
                batches = opened.rows(names, predicate, rows, keys_only=True, batch_bytes=size)
                yield from batches if kept is None or keys_only else map(kept, batches)

            def read(rows: int, size: int) -> Iterator[pa.RecordBatch]:
                if not run.is_sorted:
                    among = self._few_keys(section, rules) if keys_only or is_looked_up else None

                    def part(file: DataFile, count: int) -> Iterator[pa.RecordBatch]:
                        batches = read_file(file, count, None)
                        return batches if among is None else map(among.kept, batches)

                    memory = sort_memory(self.storage.schema.table_options.write_buffer_size)
                    yield from key_sorted(run.files, part, rules, memory)
                    return
                for file in run.files:
                    yield from read_file(file, rows, size)

            name = f"{self.directory}/{run.files[0].file_name}"
            return SortedRun(
                name,
                read,
                run.row_count,
                run.min_sequence,
                run.max_sequence,
                rank=_rank(rules, level > 0, keys_only),
                keys_only=keys_only,
                level=level,
                looked_up=is_looked_up,
                numbers_only=numbers_only,
                kept=kept if numbered is not None and not numbers_only else None,
            )

        runs = [sorted_run(run) for run in section.runs]
        if needs_age(runs, rules):
            wanted += rules.age_columns
        return runs

    def _marked(self, place: DeletionFile | None) -> RowSelection:
        """The rows that a deletion vector marks."""
        if place is None:
            return RowSelection(DeletionVector.from_positions([]).positions)
        return RowSelection(read_deletion_vector(self.storage.files, place).positions)

    def open(self, file: DataFile, *, partial: bool = False) -> DataFileReader:
        """A reader of one of the bucket's files; if `partial`, columns that it lacks are null."""
        deleted = self.deletion_files.get(file.file_name)
        chosen = self.chosen.get(file.file_name)
        return DataFileReader(
            self.storage,
            self.directory,
            file,
            self._partition_columns,
            deleted,
            chosen,
            live=self.live_rows.get(file.file_name),
            partial=partial,
        )


def _rank(rules: MergeRules, compacted: bool, keys_only: bool) -> int:
    if not rules.engine.compacted_rows_first:
        return 0
    return 0 if keys_only else 1 if compacted else 2
