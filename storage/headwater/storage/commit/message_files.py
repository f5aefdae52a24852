"""The files that messages of writers name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from headwater.storage.errors import HeadwaterError
from headwater.storage.index.index_file import index_file_path
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["delete_data_files", "delete_message_files", "written_names"]


def delete_message_files(
    storage: TableStorage,
    message: CommitMessage,
    *,
    keep: Collection[str] = (),
    keeps_packs: bool = False,
) -> None:
    """Delete the files of a message that was not, and will not be, committed.

    Args:
        storage: The table.
        message: The message.
        keep: Names of files that stay. Those that the message replaces stay in any case: an
            upgraded file stands on both sides of a compaction.
        keeps_packs: True if packs of BLOBs stay, to which rows of the table may refer.
    """
    for pack in () if keeps_packs else message.blob_packs:
        # What cannot be deleted stays, and no row refers to it.
        with suppress(HeadwaterError):
            storage.files.delete(pack)
    kept = {*keep, *(name for file in message.compact_before for name in file.names)}
    added = (*message.new_files, *message.compact_after, *message.changelog_files)
    delete_data_files(storage, message, added, kept)
    for index in message.new_index_files:
        if index.file_name not in kept:
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                storage.files.delete(
                    index_file_path(storage, message.partition, message.bucket, index)
                )


def delete_data_files(
    storage: TableStorage,
    message: CommitMessage,
    files: Iterable[DataFile],
    kept: Collection[str] = (),
) -> None:
    """Delete some data files of a message's bucket, but for those whose names are kept."""
    directory = bucket_directory(storage, message.partition, message.bucket)
    for file in files:
        for name, path in zip(file.names, file.paths(directory), strict=True):
            if name not in kept:
                # What cannot be deleted is an orphan that nothing refers to.
                with suppress(HeadwaterError):
                    storage.files.delete(path)


def written_names(messages: Sequence[CommitMessage]) -> set[str]:
    """The names of all files that writers wrote."""
    names: set[str] = set()
    for message in messages:
        data = (*message.new_files, *message.compact_after, *message.changelog_files)
        names.update(name for file in data for name in file.names)
        names.update(file.file_name for file in message.new_index_files)
    return names
