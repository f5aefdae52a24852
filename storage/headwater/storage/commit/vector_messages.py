"""Former deletion vectors of files that a commit replaces, or marks again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headwater.storage.index.deletion_files import (
    DeletionFile,
    deletion_files_by_bucket,
    read_deletion_vector,
    replaced_vectors,
)
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.index_file import DELETION_VECTORS
from headwater.storage.index.manifest import has_one_file_a_bucket, index_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["released_vectors"]


def released_vectors(
    storage: TableStorage, base: Snapshot, messages: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Take away the former deletion vectors of files that messages replace, or mark again.

    The writer that replaced the files has read them without their deleted rows, and a new vector
    holds what the former one did. With data evolution a compaction leaves deleted rows where they
    are, and their vectors move with them. Buckets whose messages name the index files that they
    replace are left out.

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
    moved: dict[tuple[bytes, int], dict[str, DeletionVector]] = {}
    places: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
    if storage.schema.table_options.evolves_columns:
        buckets = {(each.partition, each.bucket) for each in messages}
        places = deletion_files_by_bucket(storage, entries, buckets)
    for message in messages:
        if (message.partition, message.bucket) in done:
            continue
        where = message.partition, message.bucket
        for name, vector in _moved_vectors(storage, places.get(where, {}), message):
            moved.setdefault(where, {})[name] = vector
        left = {file.file_name for file in message.compact_before}
        left -= {file.file_name for file in message.compact_after}
        if rolls:
            vectors = (each.vectors or () for each in message.new_index_files)
            left |= {each.data_file for own in vectors for each in own}
        gone.setdefault((message.partition, message.bucket, message.total_buckets), set()).update(
            left
        )
    released: list[CommitMessage] = []
    for (partition, bucket, total), names in gone.items():
        own = moved.get((partition, bucket))
        new, deleted = replaced_vectors(
            storage, entries, partition, bucket, merge=own, remove=names
        )
        if deleted:
            released.append(
                CommitMessage(
                    partition,
                    bucket,
                    total,
                    new_index_files=tuple(new),
                    deleted_index_files=tuple(deleted),
                    checked_snapshot=base.identity,
                )
            )
    return released


def _moved_vectors(
    storage: TableStorage, places: Mapping[str, DeletionFile], message: CommitMessage
) -> Iterator[tuple[str, DeletionVector]]:
    """The vector of deleted rows of a file that a compaction joined others in, by its name.

    Source: ``DataEvolutionCompactDeletionVectorRewriter.java``.

    Args:
        storage: The table.
        places: The places of the vectors of the files before.
        message: The result of the compaction.
    """
    for new in message.compact_after:
        if new.first_row_id is None:
            continue
        positions: list[npt.NDArray[np.int64]] = []
        for old in message.compact_before:
            place = places.get(old.file_name)
            if place is None or old.first_row_id is None:
                continue
            deleted = ~read_deletion_vector(storage.files, place).kept(0, old.row_count)
            positions.append(np.flatnonzero(deleted) + old.first_row_id - new.first_row_id)
        if positions:
            yield new.file_name, DeletionVector.from_positions(np.concatenate(positions))
