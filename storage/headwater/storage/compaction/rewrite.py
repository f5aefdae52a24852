"""Rewrite a table's files into fewer: same rows, quicker to read.

Rows are streamed, a key range at a time. The pieces of work are independent and pickle, so that
Spark may run them.

Source: ``MergeTreeCompactTask.java``, ``MergeTreeCompactRewriter.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.storage.compaction.blobs import rewrite_blobs
from headwater.storage.compaction.joined import rewrite_joined
from headwater.storage.compaction.key_clustering import ClusteredWriter
from headwater.storage.compaction.plan import CompactionTask
from headwater.storage.compaction.record_expiry import RecordExpiry
from headwater.storage.formats.blob_file import BLOB_SUFFIX
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.index.deletion_files import replaced_vectors
from headwater.storage.index.index_file import IndexFileMeta
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.merge.rules import added_rows
from headwater.storage.options import ChangelogProducer, MergeEngine
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.raw_rows import without_deletes
from headwater.storage.read.row_numbering import RowNumbering
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.sections import Section, key_sections, overlapping_files
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import arrow_values
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["run_compaction"]

_BATCH_ROWS = 65536
_BATCH_BYTES = 4 * 1024**2


def run_compaction(storage: TableStorage, task: CompactionTask) -> CommitMessage | None:
    """Rewrite the files of a task; None when there is nothing to gain.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    rewriter = _Rewriter(storage, task)
    try:
        if storage.schema.table_options.evolves_columns:
            rewriter.compact_joined()
        elif storage.schema.primary_keys and storage.schema.table_options.overrides_key_order:
            rewriter.compact_clustered()
        elif storage.schema.primary_keys:
            rewriter.compact_keyed()
        else:
            rewriter.compact_append()
        if not rewriter.before:
            return None
        new_index, old_index = rewriter.index_files()
    except BaseException:
        rewriter.abort()
        raise
    return CommitMessage(
        task.partition,
        task.bucket,
        task.total_buckets,
        compact_before=tuple(rewriter.before),
        compact_after=tuple(rewriter.after),
        changelog_files=tuple(rewriter.changelog),
        new_index_files=tuple(new_index),
        deleted_index_files=tuple(old_index),
        checked_snapshot=task.base,
    )


class _Rewriter:
    """Does one task.

    Attributes:
        before: Files that go.
        after: Files that take their place.
        changelog: Files that tell streaming readers which rows have become part of the table.
    """

    def __init__(self, storage: TableStorage, task: CompactionTask) -> None:
        self._storage = storage
        self._task = task
        self._options = CompactionOptions(storage.schema.options)
        self._level = task.unit.output_level
        self._rewritten = frozenset(file.file_name for file in task.files)
        self._directory = bucket_directory(storage, task.partition, task.bucket)
        values = partition_values(storage, task.partition)
        self._files = BucketFiles(storage, self._directory, values, task.deletion_files)
        self._expiry = RecordExpiry.of(storage)
        self._kept = None if self._expiry is None else self._expiry.kept
        self._producer = self._options.changelog_producer
        self._tells_lookups = self._producer is ChangelogProducer.LOOKUP and task.tells_lookups
        self._is_first_row = self._options.merge_engine is MergeEngine.FIRST_ROW
        self._marks = bool(storage.schema.primary_keys) and self._options.deletion_vectors_enabled
        # Of a row that is marked nothing older is left. In a chain table there may be rows of
        # earlier partitions (`MergeTreeCompactManager.java`).
        self._drops_deletes = not self._options.is_chain_table and (
            task.unit.drops_deletes or self._marks
        )
        self._numbering: RowNumbering | None = None
        self._writers: list[DataFileWriter | ClusteredWriter] = []
        self._changes: DataFileWriter | None = None
        self.before: list[DataFile] = []
        self.after: list[DataFile] = []
        self.changelog: list[DataFile] = []

    def abort(self) -> None:
        """Delete what was written."""
        for writer in self._writers:
            writer.abort()

    def _writer(
        self, level: int, first_sequence: int, *, changelog: bool = False
    ) -> DataFileWriter:
        writer = DataFileWriter(
            self._storage,
            self._task.partition,
            self._task.bucket,
            level=level,
            source=FileSource.COMPACT,
            changelog=changelog,
            first_sequence=first_sequence,
            keeps_row_ids=self._options.tracks_rows,
        )
        self._writers.append(writer)
        return writer

    def compact_append(self) -> None:
        """One file after another."""
        columns = self._storage.schema.moved_columns
        rows = self._files.plain(self._task.files, columns, None, _BATCH_ROWS)
        first = min(file.min_sequence_number for file in self._task.files)
        self._replace(self._task.files, self._write(self._writer(0, first), rows))

    def compact_joined(self) -> None:
        """One file of all columns, or of one BLOB column."""
        task = self._task
        is_blob = task.files[0].file_name.endswith(BLOB_SUFFIX)
        rewrite = rewrite_blobs if is_blob else rewrite_joined
        file = rewrite(self._storage, task.partition, task.bucket, task.files)
        self._replace(task.files, [file])

    def compact_keyed(self) -> None:
        """Section by section; a large file whose keys are its own only moves up."""
        older = self._looked_up()
        if self._marks:
            self._numbering = RowNumbering(older, self._replaces_whatever_it_finds)
        sections = key_sections(self._storage, [*self._task.files, *older])
        waiting: list[Section] = []
        for section in sections:
            if len(section.runs) > 1:
                waiting.append(section)
                continue
            for run in section.runs:
                for file in run.files:
                    if file.file_name not in self._rewritten:
                        continue
                    if self._is_large(file) and not self._must_be_rewritten(file):
                        # What is rewritten before it must not share a file with what comes after.
                        self._merge(waiting)
                        waiting = []
                        self._move_up(file)
                    else:
                        waiting += key_sections(self._storage, [file])
        self._merge(waiting)
        if self._changes is not None:
            self.changelog += self._changes.finish()

    def compact_clustered(self) -> None:
        """Rows of level 0, and of files that are picked, sorted by the clustering columns.

        The rows of level 0 are merged with each other, and look their keys up in all other files.
        """
        task = self._task
        fresh = [file for file in task.files if file.level == 0]
        picked = [file for file in task.files if file.level > 0]
        older = overlapping_files(self._storage, [*picked, *task.unit.older], fresh)
        if self._marks:
            self._numbering = RowNumbering(older, self._replaces_whatever_it_finds)
        self._rewritten = frozenset(file.file_name for file in fresh)
        writer = ClusteredWriter(self._storage, task.partition, task.bucket)
        self._writers.append(writer)
        for section in key_sections(self._storage, [*fresh, *older]):
            if any(file.level == 0 for file in section.files):
                for rows in self._merged(section):
                    writer.write(pa.Table.from_batches([rows]))
        columns = [field.name for field in self._storage.schema.fields]
        wanted = [*columns, SEQUENCE_FIELD.name, KIND_FIELD.name]
        left = replace(self._files, live_rows=self._live(picked))
        for rows in left.plain(picked, wanted, None, _BATCH_ROWS):
            writer.write(pa.Table.from_batches([without_deletes(rows)]))
        self._replace(task.files, writer.finish())

    def _live(self, files: Sequence[DataFile]) -> dict[str, LiveRows]:
        """The rows that are left of files of which some are superseded now."""
        if self._numbering is None:
            return {}
        vectors = self._numbering.vectors()
        found: dict[str, LiveRows] = {}
        for file in files:
            vector = vectors.get(file.file_name)
            if vector is not None:
                deleted = self._files.open(file).deletion_vector.merged(vector)
                found[file.file_name] = LiveRows.of(deleted.kept(0, file.row_count))
        return found

    def _looked_up(self) -> list[DataFile]:
        """The older files whose rows those of level 0 are merged with, without being rewritten."""
        if not self._options.needs_lookup:
            return []
        fresh = [file for file in self._task.files if file.level == 0]
        return overlapping_files(self._storage, self._task.unit.older, fresh)

    @property
    def _replaces_whatever_it_finds(self) -> bool:
        """True if rows of level 0 take the place of older ones, whose values do not matter."""
        return (
            self._options.merge_engine is MergeEngine.DEDUPLICATE
            and not self._options.sequence_fields
            and not self._tells_lookups
        )

    def index_files(self) -> tuple[Sequence[IndexFileMeta], Sequence[IndexFileMeta]]:
        """New index files of deletion vectors, and those that they replace.

        A file that was looked up goes when no row of it is left.
        """
        if self._numbering is None:
            # The job takes away the vectors of files that go, see `released_vectors`.
            return (), ()
        vectors = self._numbering.vectors()
        replaced = {file.file_name for file in self.before}
        for file in self._numbering.files:
            vector = vectors.get(file.file_name)
            if vector is None:
                continue
            if file.file_name in replaced:
                del vectors[file.file_name]
                continue
            deleted = self._files.open(file).deletion_vector
            if len(deleted) + len(vector) == file.row_count:
                self._replace([file], [])
                del vectors[file.file_name]
        task = self._task
        gone = {one.file_name for one in self.before} - {one.file_name for one in self.after}
        return replaced_vectors(
            self._storage, task.indexes, task.partition, task.bucket, merge=vectors, remove=gone
        )

    def _is_large(self, file: DataFile) -> bool:
        return file.file_size >= self._options.small_file_size(True)

    def _may_delete(self, file: DataFile) -> bool:
        """True if rows that retract are to be dropped, and the file may hold some.

        By the file itself: some writers' manifests do not tell.
        """
        if not self._drops_deletes or file.level == self._level:
            return False
        return self._files.open(file).may_delete

    def _must_be_rewritten(self, file: DataFile) -> bool:
        """True if a file does not just move up, though no other has rows of its keys."""
        if self._options.rewrites_all_files or self._merges_new_keys(file):
            return True
        if self._task.unit.drops_vectors and file.file_name in self._task.deletion_files:
            return True
        expires = self._expiry is not None and self._expiry.has_expired(file)
        return expires or self._may_delete(file)

    def _merges_new_keys(self, file: DataFile) -> bool:
        """True if the engine has a say about rows that are their keys' only ones.

        As ``LookupMergeTreeCompactRewriter.upgradeStrategy`` has it, not on the highest level.
        """
        return (
            file.level == 0
            and self._options.needs_lookup
            and self._options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
            and self._level < self._task.unit.highest_level
        )

    def _move_up(self, file: DataFile) -> None:
        if file.level == self._level:
            return
        (section,) = key_sections(self._storage, [file])
        if self._is_first_row:
            self._write_new_rows(section)
        elif self._tells_changes(section):
            for _ in self._merged(section):
                pass
        self._replace([file], [file.at_level(self._level)])

    def _merge(self, sections: Sequence[Section]) -> None:
        """Rewrite neighbouring sections as one run."""
        every = [file for section in sections for file in section.files]
        files = [file for file in every if file.file_name in self._rewritten]
        if not files:
            return
        if len(every) == 1 and not self._must_be_rewritten(files[0]):
            self._move_up(files[0])
            return
        rows = (batch for section in sections for batch in self._merged(section))
        self._replace(files, self._write(self._writer(self._level, 0), rows))

    def _merged(self, section: Section) -> Iterator[pa.RecordBatch]:
        """The rows of a section's new run; what they change is written to the changelog."""
        columns = [field.name for field in self._storage.schema.fields]
        wanted = [*columns, SEQUENCE_FIELD.name, KIND_FIELD.name]
        if self._looks_up(section) or self._tells_changes(section):
            yield from self._merged_with_changes(section, wanted)
            return
        if self._is_first_row:
            self._write_new_rows(section)
        yield from self._files.merge(
            section,
            wanted,
            keep_deletes=not self._drops_deletes,
            ordered=True,
            keys_alone=self._is_older,
            kept=self._kept,
            batch_rows=_BATCH_ROWS,
        )

    def _looks_up(self, section: Section) -> bool:
        """True if rows of level 0 are merged with what is above, be it rewritten or not."""
        if self._is_first_row or not self._options.needs_lookup:
            return False
        return any(file.level == 0 for file in section.files)

    def _tells_changes(self, section: Section) -> bool:
        """True if a section's changes belong into the changelog."""
        if self._is_first_row:
            return False
        if self._producer is ChangelogProducer.FULL_COMPACTION:
            return self._level == self._task.unit.highest_level
        return self._tells_lookups and any(file.level == 0 for file in section.files)

    def _is_older(self, file: DataFile) -> bool:
        """True if a file is looked up, and stays."""
        return file.file_name not in self._rewritten

    def _merged_with_changes(
        self, section: Section, wanted: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        tells = self._tells_changes(section)
        is_full = self._producer is ChangelogProducer.FULL_COMPACTION
        merged = self._files.merge_changes(
            section,
            wanted,
            old_level=self._level if is_full else None,
            compared=self._options.compared_columns(self._storage.schema.field_by_name),
            told=tells,
            looked_up=self._is_older,
            numbering=self._numbering,
            kept=self._kept,
            batch_rows=_BATCH_ROWS,
        )
        for each in merged:
            if each.changes is not None and each.changes.num_rows:
                self._changelog_writer.write(pa.Table.from_batches([each.changes]))
            rows = each.rows
            added = added_rows(rows) if self._drops_deletes else None
            yield rows if added is None else rows.filter(added)

    def _write_new_rows(self, section: Section) -> None:
        """Tell of the first rows that compacting a section makes part of the table."""
        if not self._tells_lookups or all(file.level for file in section.files):
            return
        columns = [field.name for field in self._storage.schema.fields]
        wanted = [*columns, SEQUENCE_FIELD.name]
        merged = self._files.merge(
            section,
            wanted,
            ordered=True,
            keys_alone=lambda file: file.level > 0,
            kept=self._kept,
            batch_rows=_BATCH_ROWS,
        )
        for batch in merged:
            kinds = arrow_values(np.full(batch.num_rows, RowKind.INSERT, np.int8))
            told = [*batch.columns, kinds]
            self._changelog_writer.write(pa.table(told, names=[*wanted, KIND_FIELD.name]))

    @property
    def _changelog_writer(self) -> DataFileWriter:
        if self._changes is None:
            self._changes = self._writer(self._level, 0, changelog=True)
        return self._changes

    def _write(self, writer: DataFileWriter, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
        # A file's statistics are taken batch by batch, and those of a merge are small.
        for batches in _gathered(rows):
            writer.write(pa.Table.from_batches(batches))
        return writer.finish()

    def _replace(self, before: Sequence[DataFile], after: Sequence[DataFile]) -> None:
        self.before += before
        self.after += after


def _gathered(rows: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that follow each other, as many as come to `_BATCH_ROWS` or `_BATCH_BYTES`."""
    batches: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows:
        if not batch.num_rows:
            continue
        if batches and batch.schema != batches[0].schema:
            yield batches
            batches, count, size = [], 0, 0
        batches.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batches
            batches, count, size = [], 0, 0
    if batches:
        yield batches
