"""Rows that several tasks leave in files, and one writer gives their buckets.

With dynamic buckets no two writers of a commit may meet the same new key. Tasks that have not been
given their rows by key write them as rows that wait (``bucket-postpone``), files that no snapshot
ever names; whoever commits reads these, places the rows, and deletes them. The rows are still there
when other commits come first, so it starts over then. One that is killed leaves orphan files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.jobs.write import WritePlan
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.postponed import POSTPONED
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["commit_staged", "needs_staging", "staging_writer"]

_BATCH_ROWS = 65536


def needs_staging(storage: TableStorage) -> bool:
    """True if rows get their buckets by what other rows of the commit there are."""
    return bool(storage.schema.primary_keys) and storage.schema.table_options.bucket == -1


def staging_writer(storage: TableStorage) -> TableWriter:
    """A writer of one task's rows, whose messages are for `commit_staged` alone."""
    return TableWriter(storage, max_sequence_numbers={}, assigner=POSTPONED)


def commit_staged(
    plan: WritePlan,
    commit: TableCommit,
    staged: Sequence[CommitMessage],
    executor: Executor,
    *,
    identifier: int = BATCH_IDENTIFIER,
) -> Snapshot | None:
    """Place the rows that tasks left, and commit them; their files are deleted in any case.

    Memory is that of one writer, ``write-buffer-size``.

    Args:
        plan: The write.
        commit: Commits to the table.
        staged: From all tasks.
        executor: Runs the compaction that is due then.
        identifier: The commit user's number of this commit.

    Returns:
        The snapshot with the rows; None when there was nothing to write or to replace.

    Raises:
        Conflict: Other commits were faster each time.
        OutcomeUnknown: The commit may have happened.
        CorruptData: A file is missing or damaged; the message names it.
    """

    def attempt() -> Snapshot | None:
        upon = plan.upon(commit.pointer.latest())
        with upon.writer() as writer:
            for rows, kinds in _staged_rows(plan.storage, staged):
                writer.write(rows, kinds, stored_blobs=managed_blob_columns(plan.storage.schema))
            written = writer.finish()
        return upon.commit(commit, written, executor, identifier=identifier)

    try:
        return until_no_conflict(plan.retries, attempt)
    finally:
        for message in staged:
            # The rows that were placed refer to the packs.
            delete_message_files(plan.storage, message, keeps_packs=True)


def _staged_rows(
    storage: TableStorage, staged: Sequence[CommitMessage]
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    columns = [field.name for field in storage.schema.fields]
    for message in staged:
        directory = bucket_directory(storage, message.partition, message.bucket)
        values = partition_values(storage, message.partition)
        files = BucketFiles(storage, directory, values)
        for batch in files.changes(message.new_files, columns, None, True, _BATCH_ROWS):
            yield batch.select(columns), batch.column(KIND_FIELD.name)
