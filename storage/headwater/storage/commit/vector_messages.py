"""Former deletion vectors of files that a commit replaces or marks anew."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.index.deletion_files import replaced_vectors
from headwater.storage.index.index_file import DELETION_VECTORS
from headwater.storage.index.manifest import has_one_file_a_bucket, index_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["released_vectors"]


def released_vectors(
    storage: TableStorage, base: Snapshot, messages: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Take away the former deletion vectors of files that messages replace or mark anew.

    Whoever replaced the files has read them without their deleted rows, and a new vector holds what
    the former one did. Buckets whose messages name the index files that they replace are left out.

    Args:
        storage: The table.
        base: The snapshot that the files were read in.
        messages: The results of compactions, or of files written again.

    Returns:
        Messages to be committed together with the others; none when no file has a vector. The
        vectors beside those that go are moved to new index files.

    Raises:
        CorruptData: An index file is missing or damaged; the message names it.
    """
    entries = index_entries(storage, base)
    if not entries:
        return []
    rolls = not has_one_file_a_bucket(storage, DELETION_VECTORS)
    done = {(each.partition, each.bucket) for each in messages if each.deleted_index_files}
    gone: dict[tuple[bytes, int, int], set[str]] = {}
    for message in messages:
        if (message.partition, message.bucket) in done:
            continue
        left = {file.file_name for file in message.compact_before}
        left -= {file.file_name for file in message.compact_after}
        if rolls:
            vectors = (each.vectors or () for each in message.new_index_files)
            left |= {each.data_file for own in vectors for each in own}
        gone.setdefault((message.partition, message.bucket, message.total_buckets), set()).update(
            left
        )
    found: list[CommitMessage] = []
    for (partition, bucket, total), names in gone.items():
        new, deleted = replaced_vectors(storage, entries, partition, bucket, remove=names)
        if deleted:
            found.append(
                CommitMessage(
                    partition,
                    bucket,
                    total,
                    new_index_files=tuple(new),
                    deleted_index_files=tuple(deleted),
                    checked_snapshot=base.identity,
                )
            )
    return found
