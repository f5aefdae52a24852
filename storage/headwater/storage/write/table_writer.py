"""Turn rows into the files of a commit: spread over partitions and buckets, sorted, deduplicated.

Rows are never looped over. A writer gathers rows until ``write-buffer-size`` bytes are held, then
sorts them by partition and bucket at once and writes each bucket's files. Source:
``MergeTreeWriter.java``, ``AppendOnlyWriter.java``, ``TableWriteImpl.java``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.index.index_file import IndexFileMeta
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.buffer import is_sorted_run, merge_rows, sort_rows
from headwater.storage.merge.rules import MergeRules
from headwater.storage.options import ChangelogProducer
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.rows.distribute import BucketRows, distribute, gathered
from headwater.storage.rows.ingest import TabularData, arrow_table, coerce
from headwater.storage.rows.kinds import take_row_kinds
from headwater.storage.schema.blob_columns import columns_in_blob_files, managed_blob_columns
from headwater.storage.schema.system_fields import ROW_ID_FIELD
from headwater.storage.schema.vector_columns import columns_in_vector_files
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.assigner import Assigner, FixedBuckets
from headwater.storage.write.assign.postponed import postponed_file_prefix, postponed_storage
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.dedicated_files import DedicatedFilesWriter
from headwater.storage.write.file_encoding import refuse_formats
from headwater.storage.write.managed_blobs import BlobPacks, refuse_descriptors
from headwater.storage.write.partition_form import PartitionForm, PartitionNames

__all__ = ["CommitMessage", "SequenceNumbers", "TableWriter"]

SequenceNumbers = Mapping[tuple[bytes, int], int] | Callable[[bytes, int], int]
"""The greatest sequence number of a (partition, bucket); -1 for one without files."""

# Append files that stay open between flushes; each holds up to a row group.
_OPEN_FILES = 4
# Above so many buckets at once, a full buffer writes the fullest and keeps the others.
_FEW_BUCKETS = 32
# Text of so many bytes is in one batch of Arrow's; there may not be more in it.
_MAX_BATCH_BYTES = 1 << 31
# Smaller parts are faster to gather than to write one by one.
_MIN_PART_ROWS = 4096


@dataclass(frozen=True)
class CommitMessage:
    """One writer's changes of one bucket; it pickles, so that Spark's executors can send it.

    Attributes:
        partition: Serialised partition values.
        bucket: The bucket's number.
        total_buckets: The number of buckets of the partition; -1 for an unbucketed table.
        new_files: Files added.
        compact_before: Files that `compact_after` replaces.
        compact_after: Files that hold the rows of `compact_before`.
        changelog_files: Files that tell streaming readers what changed.
        new_index_files: Index files added.
        deleted_index_files: Index files taken away; a commit that adds one to a bucket with one
            names the one that it was made from, so that no change of another commit is lost.
        looked_up_index: The hash index files of the partition that the writer found the buckets of
            keys by; None when it did not. The commit is refused when there are others by then.
        checked_snapshot: The snapshot in which the writer looked the bucket up; None when it did
            not look. A commit that takes files or rows away is refused when that snapshot was
            rolled back.
        searched_snapshot: The snapshot in all of whose partitions the writer looked for the keys of
            its rows; None when it did not. The commit is refused when another changed rows since,
            or that snapshot was rolled back.
        columns_of: The snapshot that holds the rows of which the new files have some columns; None
            for whole rows. The commit is refused when another changed the same columns of them
            since, or rewrote their files, or that snapshot was rolled back.
        is_beside: Whether an overwrite adds rows here and does not replace those that are.
        blob_packs: The files, by their URIs, that the writer wrote values of BLOB columns to which
            `new_files` or `compact_after` refer to, as files of later commits may.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    looked_up_index: frozenset[str] | None = None
    checked_snapshot: SnapshotIdentity | None = None
    searched_snapshot: SnapshotIdentity | None = None
    columns_of: SnapshotIdentity | None = None
    is_beside: bool = False
    blob_packs: tuple[str, ...] = ()


@dataclass
class _Written:
    """The files of one bucket so far."""

    new_files: list[DataFile] = field(default_factory=list)
    changelog_files: list[DataFile] = field(default_factory=list)
    blob_packs: list[str] = field(default_factory=list)


class TableWriter:
    """Writes rows to files that a commit then makes part of the table.

    As a context manager it deletes its files when an exception ends the block.

    Args:
        storage: The table.
        max_sequence_numbers: The last sequence number of each bucket: a `BucketStates`, or a
            mapping or function of (partition, bucket). An empty mapping when the buckets' present
            files are to be replaced.
        checked_snapshot: The snapshot that `max_sequence_numbers` was read from.
        assigner: Finds the rows' buckets; None is by their bucket key.
        buffer_bytes: Bytes of rows held before files are written; None takes
            ``write-buffer-size``. A flush needs about three times as much for a short time.
        keeps_row_ids: Whether they are new versions of a row-tracking table's rows, each of which
            comes with its id.

    Raises:
        Unsupported: The table has options that Headwater does not follow when writing.
    """

    def __init__(
        self,
        storage: TableStorage,
        *,
        max_sequence_numbers: SequenceNumbers,
        checked_snapshot: SnapshotIdentity | None = None,
        assigner: Assigner | None = None,
        buffer_bytes: int | None = None,
        keeps_row_ids: bool = False,
    ) -> None:
        storage.refuse(Operation.WRITE)
        refuse_formats(storage.schema)
        self._storage = storage
        self._options = storage.schema.table_options
        self._keyed = bool(storage.schema.primary_keys)
        self._rules = MergeRules.of(storage.schema) if self._keyed else None
        self._changelog = (
            self._keyed and self._options.changelog_producer is ChangelogProducer.INPUT
        )
        self._sequences = max_sequence_numbers
        self._checked = checked_snapshot
        self._keeps_row_ids = keeps_row_ids
        schema = storage.schema
        self._has_parts = bool(columns_in_blob_files(schema) or columns_in_vector_files(schema))
        self._blobs = managed_blob_columns(storage.schema)
        self._partition_form = PartitionForm.from_storage(storage)
        self._partition_names = PartitionNames.from_storage(storage)
        self._limit = buffer_bytes or self._options.write_buffer_size
        self._assigner = FixedBuckets(storage) if assigner is None else assigner
        self._postponed_prefix = postponed_file_prefix(storage)
        self._buffer: list[pa.Table] = []
        self._buffered_bytes = 0
        self._next_sequence: dict[Bucket, int] = {}
        self._written: dict[Bucket, _Written] = {}
        self._open: OrderedDict[Bucket, DataFileWriter | DedicatedFilesWriter] = OrderedDict()
        self._finished: list[DataFileWriter | DedicatedFilesWriter] = []
        self._packs: list[BlobPacks] = []
        self._closed = False

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()

    def write(
        self,
        data: TabularData,
        row_kinds: pa.Array | pa.ChunkedArray | None = None,
        *,
        keeps_nulls: bool = False,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
        stored_blobs: Collection[str] = (),
        pads: bool = False,
    ) -> None:
        """Add rows.

        Args:
            data: Rows with the table's columns, in any order; nullable ones may be missing. A
                column ``_ROW_KIND`` holds the rows' kinds.
            row_kinds: The rows' kinds instead: ``+I``, ``-U``, ``+U``, ``-D``, or 0 to 3 in that
                order. Without any (and without ``rowkind.field``) every row is added.
            keeps_nulls: The rows are the table's own: nulls do not become default values, and
                partitions are what they are.
            row_ids: The rows' ids, to a writer of rows that keep theirs.
            stored_blobs: The BLOB columns of a primary-key table that hold what its own data files
                say, which is where values lie.
            pads: Pad CHAR values, as Flink and Spark do: of rows from outside.

        Raises:
            Invalid: The data does not fit the table; nothing of it is written.
        """
        if self._closed:
            raise Invalid(f"table {self._storage.name}: this writer was finished or aborted")
        schema = self._storage.schema
        plain, kinds = take_row_kinds(arrow_table(data), row_kinds, schema, self._storage.name)
        rows = coerce(
            plain,
            schema,
            self._storage.name,
            self._storage.runtime.time_zone,
            keeps_nulls=keeps_nulls,
            pads=pads,
        )
        if self._blobs:
            refuse_descriptors(self._storage, rows, stored_blobs)
        if self._partition_form is not None and not keeps_nulls:
            self._partition_form.check(rows)
        if not keeps_nulls:
            self._partition_names.check(rows, kinds)
        if kinds is not None:
            rows = self._with_kinds(rows, kinds)
        elif self._keyed:
            zeros = pa.repeat(pa.scalar(0, pa.int8()), rows.num_rows)
            rows = rows.append_column(KIND_FIELD.name, zeros)
        if self._keeps_row_ids:
            assert row_ids is not None
            rows = rows.append_column(ROW_ID_FIELD.name, row_ids)
            changed = pa.nulls(rows.num_rows, pa.int64())
            rows = rows.append_column(SEQUENCE_FIELD.name, changed)
        try:
            self._assigner.expect(rows)
            self._add(rows)
        except BaseException:
            self.abort()
            raise

    def _with_kinds(self, rows: pa.Table, kinds: npt.NDArray[np.int8]) -> pa.Table:
        """Drop the rows whose kind the table ignores; keep the kinds of a primary-key table."""
        keep = np.ones(len(kinds), np.bool_)
        if self._options.ignore_delete:
            keep &= (kinds & 1) == 0
        if self._options.ignore_update_before:
            keep &= kinds != 1
        if not keep.all():
            rows, kinds = rows.filter(pa.array(keep)), kinds[keep]
        retracting = int((kinds & 1).sum())
        if self._rules is not None:
            refused = self._rules.engine.refused_kinds(kinds)
            if refused is not None:
                engine = self._options.merge_engine
                raise Invalid(f"table {self._storage.name}: with merge-engine={engine} {refused}")
            return rows.append_column(KIND_FIELD.name, pa.array(kinds, pa.int8()))
        if retracting:
            raise Invalid(
                f"table {self._storage.name} has no primary key and cannot take back rows, but "
                f"{retracting} rows are of kind -U or -D; set 'ignore-delete' to drop them"
            )
        return rows

    def _add(self, rows: pa.Table) -> None:
        row_bytes = rows.nbytes / max(rows.num_rows, 1)
        while rows.num_rows:
            room = max(1, int((self._limit - self._buffered_bytes) / max(row_bytes, 1)))
            part, rows = rows.slice(0, room), rows.slice(room)
            self._buffer.append(part)
            self._buffered_bytes += int(part.num_rows * row_bytes) + 1
            if self._buffered_bytes >= self._limit:
                self._flush(everything=False)

    def finish(self) -> list[CommitMessage]:
        """Write what is held and close every file; the writer takes no more rows.

        Returns:
            One message for each bucket that got files.
        """
        if self._closed:
            raise Invalid(f"table {self._storage.name}: this writer was finished or aborted")
        try:
            self._flush(everything=True)
            while self._open:
                self._close_oldest()
            messages = [self._message(bucket) for bucket in self._written]
        except BaseException:
            self.abort()
            raise
        self._closed = True
        return messages

    def _message(self, bucket: Bucket) -> CommitMessage:
        written = self._written[bucket]
        index = self._assigner.finished_index(*bucket)
        return CommitMessage(
            *bucket,
            self._assigner.total_buckets(bucket[0]),
            new_files=tuple(written.new_files),
            changelog_files=tuple(written.changelog_files),
            new_index_files=index.added,
            deleted_index_files=index.replaced,
            looked_up_index=index.looked_up,
            checked_snapshot=self._checked,
            blob_packs=tuple(written.blob_packs),
        )

    def abort(self) -> None:
        """Delete every file written; the writer takes no more rows."""
        self._closed = True
        self._buffer.clear()
        for writer in [*self._finished, *self._open.values()]:
            writer.abort()
        for packs in self._packs:
            packs.abort()
        self._finished.clear()
        self._open.clear()
        self._packs.clear()
        self._assigner.abort()

    # Flushing ---------------------------------------------------------------------------------

    def _flush(self, *, everything: bool) -> None:
        if not self._buffer:
            return
        self._buffered_bytes = 0
        if sum(part.nbytes for part in self._buffer) < _MAX_BATCH_BYTES:
            rows = pa.concat_tables(self._buffer)
            self._buffer.clear()
            groups = distribute(self._storage, rows, self._assigner.place)
            if len(groups.numbers) == 1 and self._stay_divided(groups.bucket(0), rows):
                self._write_bucket(groups.bucket(0), rows, is_run=True)
                return
            del rows
            groups.gather()
            self._write_groups(groups, everything)
            return
        batches = gathered(self._buffer)
        for batch in batches:
            # More than one only if their text is too large for Arrow to hold in one.
            rows = pa.Table.from_batches([batch])
            groups = distribute(self._storage, rows, self._assigner.place)
            self._write_groups(groups, everything or len(batches) > 1)

    def _stay_divided(self, bucket: Bucket, rows: pa.Table) -> bool:
        """Whether rows of one bucket are written in their parts: to gather them is to copy them."""
        parts = rows.to_batches()
        if self._blobs or rows.num_rows < _MIN_PART_ROWS * len(parts):
            return False
        if self._rules is None or bucket[1] == POSTPONE_BUCKET:
            return True
        return not self._changelog and is_sorted_run(parts, self._rules)

    def _write_groups(self, groups: BucketRows, everything: bool) -> None:
        chosen = groups.numbers if everything else _fullest(groups)
        for number in chosen:
            self._write_bucket(groups.bucket(number), groups.rows(number))
        kept = [number for number in groups.numbers if number not in set(chosen)]
        if kept:
            # Gathered, so that what was written is freed.
            rest = pa.concat_tables([groups.rows(number) for number in kept])
            self._buffer.append(rest)
            self._buffered_bytes = rest.nbytes

    def _write_bucket(self, bucket: Bucket, rows: pa.Table, *, is_run: bool = False) -> None:
        if bucket[1] == POSTPONE_BUCKET:
            # In the order of writing, without numbers: a compaction gives them.
            unknown = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
            rows = rows.append_column(SEQUENCE_FIELD.name, unknown)
            if self._blobs:
                parts = [self._with_descriptors(bucket, part) for part in rows.to_batches()]
                rows = pa.Table.from_batches(parts)
            self._write_open(bucket, rows)
            return
        first = self._first_sequence(bucket)
        if not self._keyed:
            self._write_open(bucket, rows, first)
            return
        numbers = np.arange(first, first + rows.num_rows, dtype=np.int64)
        self._next_sequence[bucket] = first + rows.num_rows
        rows = rows.append_column(SEQUENCE_FIELD.name, pa.array(numbers))
        assert self._rules is not None
        written = self._written.setdefault(bucket, _Written())
        if is_run:
            written.new_files += self._write_files(bucket, rows)
            return
        for batch in rows.to_batches():
            if self._changelog:
                changes = pa.Table.from_batches([sort_rows(batch, self._rules)])
                written.changelog_files += self._write_files(bucket, changes, changelog=True)
            # After the merge: a value that is superseded is not stored.
            merged = self._with_descriptors(bucket, merge_rows(batch, self._rules))
            written.new_files += self._write_files(bucket, pa.Table.from_batches([merged]))

    def _with_descriptors(self, bucket: Bucket, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows whose values of BLOB columns, in a primary-key table, are in packs."""
        if not self._blobs:
            return rows
        packs = BlobPacks(self._storage, *bucket)
        self._packs.append(packs)
        stored = packs.stored(rows)
        self._written.setdefault(bucket, _Written()).blob_packs += packs.paths
        return stored

    def _write_files(
        self, bucket: Bucket, rows: pa.Table, *, changelog: bool = False
    ) -> list[DataFile]:
        writer = DataFileWriter(self._storage, *bucket, changelog=changelog)
        self._finished.append(writer)
        writer.write(rows)
        return writer.finish()

    def _write_open(self, bucket: Bucket, rows: pa.Table, first: int = 0) -> None:
        """Append rows to a file that stays open for more."""
        writer = self._open.pop(bucket, None)
        if writer is None:
            while len(self._open) >= _OPEN_FILES:
                self._close_oldest()
            if self._has_parts:
                writer = DedicatedFilesWriter(self._storage, bucket[0], bucket[1])
            elif bucket[1] == POSTPONE_BUCKET:
                writer = DataFileWriter(
                    postponed_storage(self._storage), *bucket, prefix=self._postponed_prefix
                )
            else:
                writer = DataFileWriter(
                    self._storage,
                    *bucket,
                    first_sequence=first,
                    keeps_row_ids=self._keeps_row_ids,
                )
        self._open[bucket] = writer
        writer.write(rows)

    def _close_oldest(self) -> None:
        bucket, writer = self._open.popitem(last=False)
        self._finished.append(writer)
        files = writer.finish()
        self._next_sequence[bucket] = writer.next_sequence
        self._written.setdefault(bucket, _Written()).new_files += files

    def _first_sequence(self, bucket: Bucket) -> int:
        if bucket not in self._next_sequence:
            last = -1
            # The rows of an unbucketed table have no order to keep.
            if self._keyed or self._options.bucket > 0:
                known = self._sequences
                last = known.get(bucket, -1) if isinstance(known, Mapping) else known(*bucket)
            self._next_sequence[bucket] = last + 1
        return self._next_sequence[bucket]


def _fullest(groups: BucketRows) -> list[int]:
    """The buckets to write when memory is full: all when they are few, else the fullest half."""
    if len(groups.numbers) <= _FEW_BUCKETS:
        return groups.numbers
    by_size = sorted(groups.numbers, key=groups.size, reverse=True)
    chosen: list[int] = []
    rows = 0
    while rows * 2 < groups.total:
        chosen.append(by_size[len(chosen)])
        rows += groups.size(chosen[-1])
    return chosen
