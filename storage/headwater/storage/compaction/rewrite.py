"""Rewrite a table's files into fewer: same rows, quicker to read.

A bucket of a primary-key table becomes one sorted run on the highest level, without deleted rows;
small files of an append table become files of about ``target-file-size``. Rows are streamed, a key
range at a time. The pieces of work are independent and pickle, so that Spark may run them.

Source: ``MergeTreeCompactTask.java``, ``MergeTreeCompactRewriter.java``,
``AppendCompactCoordinator.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.storage.capabilities import Operation
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.manifest.data_file import DataFile, FileSource, ManifestEntry
from headwater.storage.options import ChangelogProducer, TableOptions
from headwater.storage.read.split import BucketFiles
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries
from headwater.storage.scan.sections import Section, key_sections, pack_in_order
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.file_encoding import refuse_formats
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["CompactionTask", "plan_compaction", "run_compaction"]

_BATCH_ROWS = 65536
# A file of this share of the target size is left alone: sizes are estimates.
_LARGE = 0.7


@dataclass(frozen=True)
class CompactionTask:
    """Files of one bucket to be rewritten together; it pickles.

    Attributes:
        snapshot_id: The snapshot it was planned in.
        partition: Serialised partition values.
        bucket: The bucket's number.
        total_buckets: Buckets of the partition.
        files: The files.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def plan_compaction(
    storage: TableStorage, snapshot: Snapshot, *, partitions: Collection[bytes] | None = None
) -> list[CompactionTask]:
    """Plan a full compaction.

    Args:
        storage: The table.
        snapshot: The snapshot to be compacted.
        partitions: Only these, serialised.

    Raises:
        Unsupported: The table cannot be written, or its compaction must write a changelog.
    """
    storage.refuse(Operation.WRITE | Operation.COMPACT)
    refuse_formats(storage.schema)
    options = storage.schema.table_options
    keyed = bool(storage.schema.primary_keys)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live_entries(storage, snapshot, partitions=partitions):
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    tasks: list[CompactionTask] = []
    for (partition, bucket), entries in buckets.items():
        files = [entry.file for entry in entries]
        groups = _keyed_work(options, files) if keyed else _append_work(options, files)
        tasks += [
            CompactionTask(snapshot.id, partition, bucket, entries[0].total_buckets, tuple(group))
            for group in groups
        ]
    return tasks


def _keyed_work(options: TableOptions, files: list[DataFile]) -> Iterator[Sequence[DataFile]]:
    """All files of a bucket, unless they are one run on the highest level already."""
    highest = options.highest_level
    small = [file for file in files if file.file_size < _LARGE * options.target_file_size(True)]
    if any(file.level != highest for file in files) or len(small) > 1:
        yield files


def _append_work(options: TableOptions, files: list[DataFile]) -> Iterator[Sequence[DataFile]]:
    """Runs of small files; rows keep their order, which counts in a bucketed table."""
    target = options.target_file_size(False)
    ordered = sorted(files, key=lambda file: (file.min_sequence_number, file.creation_time or 0))
    if options.bucket < 1:
        # Without buckets no order is promised, so large files may be stepped over.
        ordered = [file for file in ordered if file.file_size < _LARGE * target]
    run: list[DataFile] = []
    for file in [*ordered, None]:
        if file is not None and file.file_size < _LARGE * target:
            run.append(file)
            continue
        for group in pack_in_order(run, lambda one: one.file_size, target):
            if len(group) > 1:
                yield group
        run = []


def run_compaction(storage: TableStorage, task: CompactionTask) -> CommitMessage | None:
    """Rewrite the files of a task; None when there is nothing to gain.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    rewriter = _Rewriter(storage, task)
    try:
        if storage.schema.primary_keys:
            rewriter.compact_keyed()
        else:
            rewriter.compact_append()
    except BaseException:
        rewriter.abort()
        raise
    if not rewriter.before:
        return None
    return CommitMessage(
        task.partition,
        task.bucket,
        task.total_buckets,
        compact_before=tuple(rewriter.before),
        compact_after=tuple(rewriter.after),
        changelog_files=tuple(rewriter.changelog),
        checked_snapshot=task.snapshot_id,
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
        self._options = storage.schema.table_options
        self._highest = self._options.highest_level
        self._directory = bucket_directory(storage, task.partition, task.bucket)
        values = partition_values(storage, task.partition)
        self._files = BucketFiles(storage, self._directory, values)
        self._writers: list[DataFileWriter] = []
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
        )
        self._writers.append(writer)
        return writer

    def compact_append(self) -> None:
        """One file after another."""
        columns = [field.name for field in self._storage.schema.fields]
        rows = self._files.plain(self._task.files, columns, None, _BATCH_ROWS)
        first = min(file.min_sequence_number for file in self._task.files)
        self._replace(self._task.files, self._write(self._writer(0, first), rows))

    def compact_keyed(self) -> None:
        """Section by section; a large file whose keys are its own only moves up."""
        waiting: list[Section] = []
        sections = key_sections(self._storage, self._task.files)
        if self._options.changelog_producer is ChangelogProducer.LOOKUP:
            rows = (batch for section in sections for batch in self._new_rows(section))
            self.changelog += self._write(self._writer(self._highest, 0, changelog=True), rows)
        for section in sections:
            if len(section.runs) > 1:
                waiting.append(section)
                continue
            for run in section.runs:
                for file in run.files:
                    if self._is_large(file) and not self._may_delete(file):
                        # What is rewritten before it must not share a file with what comes after.
                        self._merge(waiting)
                        waiting = []
                        self._move_up(file)
                    else:
                        waiting += key_sections(self._storage, [file])
        self._merge(waiting)

    def _is_large(self, file: DataFile) -> bool:
        return file.file_size >= _LARGE * self._options.target_file_size(True)

    def _may_delete(self, file: DataFile) -> bool:
        """True if a row may retract, by the file itself: some writers' manifests do not tell."""
        if file.level == self._highest:
            return False
        return self._files.open(file).may_delete

    def _move_up(self, file: DataFile) -> None:
        if file.level != self._highest:
            self._replace([file], [file.at_level(self._highest)])

    def _merge(self, sections: Sequence[Section]) -> None:
        """Rewrite neighbouring sections as one run."""
        files = [file for section in sections for file in section.files]
        if not files:
            return
        if len(files) == 1 and not self._may_delete(files[0]):
            self._move_up(files[0])
            return
        rows = (batch for section in sections for batch in self._merged(section))
        self._replace(files, self._write(self._writer(self._highest, 0), rows))

    def _merged(self, section: Section) -> Iterator[pa.RecordBatch]:
        columns = [field.name for field in self._storage.schema.fields]
        return self._files.merge(
            section,
            [*columns, SEQUENCE_FIELD.name, KIND_FIELD.name],
            ordered=True,
            batch_rows=_BATCH_ROWS,
        )

    def _new_rows(self, section: Section) -> Iterator[pa.RecordBatch]:
        """The rows that compacting a section makes part of the table, as inserts."""
        if all(file.level for file in section.files):
            return
        columns = [field.name for field in self._storage.schema.fields]
        wanted = [*columns, SEQUENCE_FIELD.name]
        merged = self._files.merge(
            section, wanted, ordered=True, new_only=True, batch_rows=_BATCH_ROWS
        )
        for batch in merged:
            kinds = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), batch.num_rows)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, kinds], names=[*wanted, KIND_FIELD.name]
            )

    def _write(self, writer: DataFileWriter, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
        for batch in rows:
            writer.write(pa.Table.from_batches([batch]))
        return writer.finish()

    def _replace(self, before: Sequence[DataFile], after: Sequence[DataFile]) -> None:
        self.before += before
        self.after += after
