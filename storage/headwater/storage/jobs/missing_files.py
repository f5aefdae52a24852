"""Take data files that do not exist out of a table, so that the others can be read again.

Source: ``ListUnexistingFiles.java``, ``RemoveUnexistingFilesAction.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from headwater.storage.capabilities import Operation
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.commit.vector_messages import released_vectors
from headwater.storage.errors import Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import commit_or_delete, reading, until_no_conflict
from headwater.storage.maintenance.listed_sizes import ListedSizes
from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.rows.by_bucket import by_bucket
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["remove_missing_files"]


def remove_missing_files(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    *,
    dry_run: bool = False,
) -> list[str]:
    """Take the data files of the latest snapshot that do not exist out of the table, as one commit.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Looks for the files; a directory is a task.
        dry_run: Only say which those are.

    Returns:
        The files' URIs, sorted.

    Raises:
        Unsupported: The table cannot be written, or rows whose columns are in several files lost
            some of these.
        CorruptData: A manifest or an index file is missing or damaged; the message names it.
        Conflict: Other commits changed the same files each time.
        OutcomeUnknown: The commit may have happened.
    """
    storage.refuse(Operation.READ | Operation.WRITE)

    def attempt() -> list[str]:
        base = pointer.latest()
        if base is None:
            return []
        with reading(storage, pointer, base):
            missing = _missing(storage, base, executor)
            messages = _messages((entry for _, entry in missing), base)
            messages += released_vectors(storage, base, [] if dry_run else messages)
        if messages and not dry_run:
            commit = TableCommit(storage, pointer, storage.runtime.new_uuid())
            commit_or_delete(
                commit, messages, lambda: commit.commit(messages, kind=CommitKind.OVERWRITE)
            )
        return sorted(path for path, _ in missing)

    return until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)


def _missing(
    storage: TableStorage, base: Snapshot, executor: Executor
) -> list[tuple[str, ManifestEntry]]:
    """The files of a snapshot that do not exist, with their URIs."""
    named: dict[str, ManifestEntry] = {}
    directories: dict[str, list[str]] = {}
    for entry in live_entries(storage, base):
        path, *_ = entry.file.paths(bucket_directory(storage, entry.partition, entry.bucket))
        named[path] = entry
        directories.setdefault(path.rpartition("/")[0], []).append(path)
    tasks = sorted(directories.values(), key=lambda paths: -len(paths))
    missing = {
        path for found in executor.run(partial(_absent, storage.files), tasks) for path in found
    }
    if missing and storage.schema.table_options.evolves_columns:
        present = [entry.file for path, entry in named.items() if path not in missing]
        for path in sorted(missing):
            _refuse_part_of_rows(storage, path, named[path].file, present)
    return [(path, named[path]) for path in missing]


def _absent(files: FileAccess, paths: Sequence[str]) -> list[str]:
    """Those of the files of a directory that do not exist."""
    sizes = ListedSizes(files)
    # A listing may be older than a file.
    return [path for path in paths if sizes.size(path) is None and not files.exists(path)]


def _refuse_part_of_rows(
    storage: TableStorage, path: str, lost: DataFile, present: Sequence[DataFile]
) -> None:
    """Refuse to leave rows of which other columns are still there: they would be other rows."""
    beside = next((file for file in present if _share_rows(lost, file)), None)
    if beside is not None:
        raise Unsupported(
            f"table {storage.name}: {path} does not exist, and holds some of the columns of rows "
            f"whose others are in {beside.file_name}; roll back to a snapshot or tag whose files "
            "are there"
        )


def _share_rows(one: DataFile, other: DataFile) -> bool:
    if one.first_row_id is None or other.first_row_id is None:
        return False
    return (
        one.first_row_id < other.first_row_id + other.row_count
        and other.first_row_id < one.first_row_id + one.row_count
    )


def _messages(missing: Iterable[ManifestEntry], base: Snapshot) -> list[CommitMessage]:
    """The messages that take the files away, one for each bucket."""
    return [
        CommitMessage(
            *bucket,
            entries[0].total_buckets,
            compact_before=tuple(entry.file for entry in entries),
            checked_snapshot=base.identity,
        )
        for bucket, entries in by_bucket(missing).items()
    ]
