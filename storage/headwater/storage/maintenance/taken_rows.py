"""Take rows out of the files of an append table, by their positions.

With ``deletion-vectors.enabled`` vectors mark the rows; without, the files that hold them are
written anew. A file of which no row is left goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.commit.vector_messages import released_vectors
from headwater.storage.index.deletion_files import replaced_vectors
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.scan.split import Split
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["TakenRows", "messages_of_taken", "rewritten"]

_BATCH_ROWS = 65536


@dataclass
class TakenRows:
    """The changes of one bucket of an append table; it pickles.

    Attributes:
        partition: Serialised partition values.
        bucket: The bucket's number.
        total_buckets: Buckets of the partition.
        vectors: The deleted rows of files that stay, by name, those deleted before among them.
        before: Files that go.
        after: Files in their place.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    vectors: dict[str, DeletionVector] = field(default_factory=dict)
    before: list[DataFile] = field(default_factory=list)
    after: list[DataFile] = field(default_factory=list)

    @staticmethod
    def of(split: Split) -> TakenRows:
        """No changes yet of a split's bucket."""
        return TakenRows(split.partition, split.bucket, split.total_buckets)

    def take(
        self, storage: TableStorage, file: DataFile, opened: DataFileReader, taken: DeletionVector
    ) -> None:
        """Take rows out of a file.

        Args:
            storage: The table.
            file: The file.
            opened: Its reader.
            taken: The rows; those that were deleted before are left out of the file, too.

        Raises:
            CorruptData: The file is missing or damaged; the message names it.
        """
        gone = opened.deletion_vector.merged(taken)
        if len(gone) == file.row_count:
            self.before.append(file)
        elif storage.schema.table_options.deletion_vectors_enabled:
            self.vectors[file.file_name] = gone
        else:
            columns = storage.schema.moved_columns
            rows = (
                pa.Table.from_batches([gone.without(batch, start)])
                for start, batch in opened.positions(columns, None, _BATCH_ROWS)
            )
            self.after += rewritten(storage, self.partition, self.bucket, file, rows)
            self.before.append(file)

    def message(self, base: SnapshotIdentity) -> CommitMessage:
        """The files, as read in a snapshot; vectors are left out, see `messages_of_taken`."""
        return CommitMessage(
            self.partition,
            self.bucket,
            self.total_buckets,
            compact_before=tuple(self.before),
            compact_after=tuple(self.after),
            checked_snapshot=base,
        )


def rewritten(
    storage: TableStorage, partition: bytes, bucket: int, file: DataFile, rows: Iterable[pa.Table]
) -> list[DataFile]:
    """The rows of a file that stay, as new files in its place in the order.

    Args:
        storage: The table, which has no primary key.
        partition: The file's, serialised.
        bucket: The file's.
        file: The file that goes.
        rows: Its rows that stay, with the columns that move with rows.
    """
    writer = DataFileWriter(
        storage,
        partition,
        bucket,
        source=FileSource.APPEND,
        first_sequence=file.min_sequence_number,
        keeps_row_ids=storage.schema.table_options.tracks_rows,
    )
    try:
        for table in rows:
            writer.write(table)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def messages_of_taken(
    storage: TableStorage, base: Snapshot, taken: Iterable[TakenRows]
) -> list[CommitMessage]:
    """The messages that take rows out of an append table; the caller deletes their files.

    Args:
        storage: The table.
        base: The snapshot that the rows were read in.
        taken: The changes of buckets; one bucket's may come in several parts.

    Raises:
        CorruptData: An index file is missing or damaged; no file is left behind then.
    """
    parts = list(taken)
    messages = [each.message(base.identity) for each in parts]
    if not storage.schema.table_options.deletion_vectors_enabled:
        messages = [each for each in messages if each.compact_before or each.compact_after]
        try:
            return [*messages, *released_vectors(storage, base, messages)]
        except BaseException:
            _delete(storage, messages)
            raise
    return _marked(storage, base, parts)


def _marked(
    storage: TableStorage, base: Snapshot, parts: Sequence[TakenRows]
) -> list[CommitMessage]:
    """The messages with the deletion vectors of their buckets."""
    buckets: dict[tuple[bytes, int], TakenRows] = {}
    for part in parts:
        whole = buckets.setdefault(
            (part.partition, part.bucket),
            TakenRows(part.partition, part.bucket, part.total_buckets),
        )
        whole.vectors |= part.vectors
        whole.before += part.before
    entries = index_entries(storage, base)
    done: list[CommitMessage] = []
    try:
        for (partition, bucket), whole in buckets.items():
            new, old = replaced_vectors(
                storage,
                entries,
                partition,
                bucket,
                merge=whole.vectors,
                remove={file.file_name for file in whole.before},
            )
            done.append(
                CommitMessage(
                    partition,
                    bucket,
                    whole.total_buckets,
                    compact_before=tuple(whole.before),
                    new_index_files=tuple(new),
                    deleted_index_files=tuple(old),
                    checked_snapshot=base.identity,
                )
            )
    except BaseException:
        _delete(storage, done)
        raise
    return done


def _delete(storage: TableStorage, messages: Sequence[CommitMessage]) -> None:
    for message in messages:
        delete_message_files(storage, message)
