"""A commit whose rows are written in steps, by this process and by tasks that run elsewhere.

A row of a later step, or of a later task of one step, wins over an earlier one of the same key:
each task has sequence numbers of its own, which grow in that order.

With dynamic buckets no two writers of a commit may put the same new key into two buckets. All tasks
of a step know the same indexes, and place new keys by their hashes alone
(`headwater.storage.write.assign.filling.share_buckets`), so they agree. The hashes come back with
the files, and when a step has ended, this process writes the indexes that the next one knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.index.hash_index import Hashes, read_hash_index, write_hash_index
from headwater.storage.index.index_file import IndexFileMeta, IndexManifestEntry, index_file_path
from headwater.storage.jobs.write import TASK_RANGE, WritePlan
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.options import ChangelogProducer
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.dynamic import DynamicBuckets, HashIndexes, hash_indexes
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["SteppedWrite", "TaskFiles", "TaskWrite", "can_be_shared"]


def can_be_shared(storage: TableStorage) -> bool:
    """Whether tasks can write a commit's rows in steps.

    Tables without a primary key cannot, as files do not keep the order that their rows have, nor
    those whose changelog has rows in the order in which they were written, nor those where a row
    may come from another partition or waits for its bucket.
    """
    schema = storage.schema
    options = schema.table_options
    return (
        bool(schema.primary_keys)
        and (options.bucket > 0 or _has_indexes(storage))
        and options.changelog_producer is not ChangelogProducer.INPUT
    )


@dataclass(frozen=True)
class TaskFiles:
    """What a task wrote; it pickles.

    Attributes:
        messages: The files of each bucket.
        new_hashes: The hashes of keys that were new in each dynamic bucket.
        rows: How many rows came.
    """

    messages: tuple[CommitMessage, ...]
    new_hashes: dict[Bucket, Hashes] = field(default_factory=dict)
    rows: int = 0


@dataclass(frozen=True)
class TaskWrite:
    """What a task knows of the commit whose rows it writes; it pickles.

    Attributes:
        plan: The write.
        first: The first of the task's sequence numbers, above those of each bucket.
        rows: How many rows all tasks of the step have, about.
        indexes: Where keys are that were written before; None without dynamic buckets.
    """

    plan: WritePlan
    first: int
    rows: int
    indexes: HashIndexes | None

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles:
        """Write the task's rows; deletes its files when that fails.

        Raises:
            Invalid: The rows do not fit the table, or are more than a task may have.
        """
        storage = self.plan.storage
        buckets: DynamicBuckets | None = None
        if self.indexes is not None:
            buckets = DynamicBuckets(storage, self.plan.states, self.indexes, self.rows)
        rows = 0
        with (
            storage.reporting_drop(),
            self.plan.writer(self.first, is_alone=False, assigner=buckets) as writer,
        ):
            for batch in batches:
                rows += batch.num_rows
                if rows > TASK_RANGE:
                    raise Invalid(
                        f"table {storage.name}: one task got more than {TASK_RANGE:,} rows; divide "
                        "them among more tasks"
                    )
                writer.write(batch, pads=True)
            messages = tuple(writer.finish())
        return TaskFiles(messages, {} if buckets is None else buckets.new_hashes(), rows)


class SteppedWrite:
    """The rows of a commit, written step by step. An error in its block deletes all files.

    Args:
        plan: The write, upon a snapshot.
    """

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._storage = plan.storage
        self._writer: TableWriter | None = None
        self._messages: list[CommitMessage] = []
        # Tasks so far, or steps of this process: each has sequence numbers of its own.
        self._begun = 0
        # The hash indexes of the snapshot, and as they are after the steps that have ended.
        self._base: HashIndexes = {}
        self._indexes: dict[bytes, dict[int, IndexFileMeta]] | None = None
        # Of the tasks of a step that has not ended.
        self._new_hashes: dict[Bucket, list[Hashes]] = {}

    def __enter__(self) -> SteppedWrite:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._abort()

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows in this process, after those of all tasks so far.

        Raises:
            Invalid: They do not fit the table.
        """
        if self._writer is None:
            self._end_step()
            is_alone, buckets = not self._begun, None
            if self._indexes is not None:
                buckets = DynamicBuckets(self._storage, self._plan.states, self._indexes)
            self._writer = self._plan.writer(
                self._next_first(), is_alone=is_alone, assigner=buckets
            )
        self._writer.write(rows, pads=True)

    def tasks(self, count: int, rows: int) -> Sequence[TaskWrite]:
        """Begin a step of tasks, after all rows so far.

        Args:
            count: How many tasks; a later one's rows win over those of earlier ones.
            rows: How many rows they have, about.

        Raises:
            Invalid: Tasks cannot write to the table, see `can_be_shared`.
        """
        if not can_be_shared(self._storage):
            raise Invalid(
                f"cannot write to {self._storage.name} by tasks: its rows must be written by one "
                "process; write them there"
            )
        self._end_step()
        self._read_indexes()
        if self._plan.states is not None and not self._storage.schema.partition_keys:
            # One look for all tasks. With partitions each task looks up those it meets.
            self._plan.states.load([EMPTY_ROW])
        return [
            TaskWrite(self._plan, self._next_first(), rows, self._indexes) for _ in range(count)
        ]

    def add(self, files: TaskFiles) -> None:
        """Take what a task of the step wrote."""
        self._messages += files.messages
        for bucket, hashes in files.new_hashes.items():
            self._new_hashes.setdefault(bucket, []).append(hashes)

    def finish(self) -> list[CommitMessage]:
        """End the last step.

        Returns:
            The messages of all writers, to be committed together.
        """
        if self._writer is not None and not self._messages and self._indexes is None:
            return self._writer.finish()
        self._end_step()
        if self._indexes is None:
            return self._messages
        return self._with_indexes(self._indexes)

    # Steps ------------------------------------------------------------------------------------

    def _next_first(self) -> int:
        self._begun += 1
        return (self._begun - 1) * TASK_RANGE

    def _end_step(self) -> None:
        if self._writer is not None:
            self._end_own_step(self._writer)
            self._writer = None
        for (partition, bucket), parts in self._new_hashes.items():
            assert self._indexes is not None
            own = self._indexes.get(partition, {})
            if bucket in own:
                entry = IndexManifestEntry(FileKind.ADD, partition, bucket, own[bucket])
                parts.append(read_hash_index(self._storage, entry))
            # Several tasks may have met the same new key.
            file = write_hash_index(
                self._storage, partition, bucket, sorted_distinct(np.concatenate(parts))
            )
            self._replace_index(partition, bucket, file)
        self._new_hashes.clear()

    def _end_own_step(self, writer: TableWriter) -> None:
        """Take what this process wrote; its indexes are those of the next step."""
        self._read_indexes()
        messages = writer.finish()
        self._messages += [
            replace(message, new_index_files=(), deleted_index_files=(), looked_up_index=None)
            for message in messages
        ]
        for message in messages:
            for file in message.new_index_files:
                self._replace_index(message.partition, message.bucket, file)

    def _read_indexes(self) -> None:
        """Read where keys are, unless that is known."""
        if self._indexes is None and _has_indexes(self._storage):
            states = self._plan.states
            self._base = {} if states is None else hash_indexes(self._storage, states.snapshot)
            self._indexes = {partition: dict(own) for partition, own in self._base.items()}

    def _replace_index(self, partition: bytes, bucket: int, file: IndexFileMeta) -> None:
        assert self._indexes is not None
        own = self._indexes.setdefault(partition, {})
        before = own.get(bucket)
        own[bucket] = file
        if before is not None and before != self._base.get(partition, {}).get(bucket):
            self._delete_index(partition, bucket, before)

    def _delete_index(self, partition: bytes, bucket: int, file: IndexFileMeta) -> None:
        # What cannot be deleted is an orphan that nothing refers to.
        with suppress(HeadwaterError):
            self._storage.files.delete(index_file_path(self._storage, partition, bucket, file))

    def _changed(
        self, indexes: HashIndexes
    ) -> dict[Bucket, tuple[IndexFileMeta, IndexFileMeta | None]]:
        """The index files that were written, each with the one that it replaces."""
        changed: dict[Bucket, tuple[IndexFileMeta, IndexFileMeta | None]] = {}
        for partition, own in indexes.items():
            base = self._base.get(partition, {})
            for bucket, file in own.items():
                if file != base.get(bucket):
                    changed[partition, bucket] = file, base.get(bucket)
        return changed

    def _with_indexes(self, indexes: HashIndexes) -> list[CommitMessage]:
        """The messages with the indexes that they were made with, and those that replace them."""
        changed = self._changed(indexes)
        looked_up = {
            message.partition: frozenset(
                file.file_name for file in self._base.get(message.partition, {}).values()
            )
            for message in self._messages
        }
        messages: list[CommitMessage] = []
        for message in self._messages:
            new, old = changed.pop((message.partition, message.bucket), (None, None))
            messages.append(
                replace(
                    message,
                    new_index_files=() if new is None else (new,),
                    deleted_index_files=() if old is None else (old,),
                    looked_up_index=looked_up[message.partition],
                )
            )
        self._messages = messages
        return messages

    def _abort(self) -> None:
        """Delete all files that were written."""
        if self._writer is not None:
            self._writer.abort()
        for message in self._messages:
            # Indexes are deleted below, whether messages have them already or not.
            delete_message_files(self._storage, replace(message, new_index_files=()))
        for (partition, bucket), (file, _) in self._changed(self._indexes or {}).items():
            self._delete_index(partition, bucket, file)


def _has_indexes(storage: TableStorage) -> bool:
    """Whether rows get their buckets by what other rows there are."""
    schema = storage.schema
    has_dynamic_buckets = bool(schema.primary_keys) and schema.table_options.bucket == -1
    return has_dynamic_buckets and not schema.crosses_partitions
