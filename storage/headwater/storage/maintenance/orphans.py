"""Orphan files: what lies in a table's directories, and nothing refers to any more.

A writer or another engine's expiry that was killed, or a tag that was deleted on storage leave such
files. One goes when it is old enough for its writer to have committed it, and no snapshot, tag or
changelog of any branch names it. What cannot be read stops everything.

Source: ``OrphanFilesClean.java``, ``LocalOrphanFilesClean.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.access import FileStatus
from headwater.storage.maintenance.references import CHANGELOGS, SNAPSHOTS, references
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["OrphanFiles", "find_orphan_files"]

_METADATA = ("manifest", "index", "statistics")
_HINTS = ("EARLIEST", "LATEST")
# ManagedBlobReferenceFile.java: packs that belong to no single table file.
_BLOB_PACK = ".managed.blob"


@dataclass(frozen=True)
class OrphanFiles:
    """The files that a cleaning deleted, or would delete.

    Attributes:
        dry_run: Whether nothing was deleted.
        files: The files, by their paths.
    """

    dry_run: bool
    files: tuple[FileStatus, ...] = ()

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(file.size for file in self.files)


def find_orphan_files(
    storage: TableStorage,
    latest: Callable[[], Mapping[str, Snapshot]],
    version: Callable[[], int] = lambda: 0,
    *,
    older_than_millis: int,
) -> tuple[list[FileStatus], int]:
    """The files of a table, whatever its branch, that nothing refers to, by their paths.

    Args:
        storage: The table.
        latest: Gives the latest snapshots as the catalog has them, by their branches.
        version: Gives the version of the table's references.
        older_than_millis: How old files must be, in ms: a younger one may be about to be committed.

    Returns:
        The files, and the version of the references that they are known for.

    Raises:
        Invalid: The time is negative.
        CorruptData: A snapshot, tag, changelog or manifest is missing or cannot be read, so that it
            is not known what is needed.
        Unsupported: The table's files are not Paimon's, or where its data lies is not known here.
    """
    _check(storage, older_than_millis)
    oldest = storage.runtime.earliest_millis() - older_than_millis
    # First what may go, then what is needed: what is written meanwhile is too young to go.
    orphans, leftovers = _candidates(storage, oldest)
    names = references(storage, latest, version)
    while True:
        try:
            orphans.pop(next(names), None)
        except StopIteration as end:
            known_for: int = end.value
            break
    files = [*leftovers, *(file for files in orphans.values() for file in files)]
    return sorted(files, key=lambda file: file.path), known_for


def _check(storage: TableStorage, older_than_millis: int) -> None:
    if older_than_millis < 0:
        raise Invalid(
            "files that are yet to be written cannot be orphans: give a time of 0 or more"
        )
    options = storage.schema.options
    kind = table_type(options)
    if not kind.has_snapshots:
        raise Unsupported(f"table {storage.name} is of type {kind}: every file there is its data")
    storage.refuse(Operation.REMOVE_ORPHANS)


def _candidates(
    storage: TableStorage, oldest: int
) -> tuple[dict[str, list[FileStatus]], list[FileStatus]]:
    """Old files that others may name, by their names; and those that nobody can name."""
    by_name: dict[str, list[FileStatus]] = {}
    leftovers: list[FileStatus] = []
    prefix = storage.layout.location + "/"
    directory = storage.schema.table_options.data_directory
    below = directory.split("/") if directory else []
    for file in storage.files.walk(storage.layout.location, unfinished=True):
        if file.modified_millis >= oldest or not file.path.startswith(prefix):
            continue
        *folders, name = file.path.removeprefix(prefix).split("/")
        if _holds_named(folders, below, len(storage.schema.partition_keys)):
            if not name.endswith(_BLOB_PACK):
                by_name.setdefault(name, []).append(file)
        elif _is_leftover(folders, name):
            leftovers.append(file)
    return by_name, leftovers


def _holds_named(folders: Sequence[str], below: Sequence[str], partition_keys: int) -> bool:
    """Whether a directory is one for manifests, indexes, statistics or data."""
    if len(folders) == 1 and folders[0] in _METADATA:
        return True
    if [*folders[: len(below)]] != [*below]:
        return False
    folders = folders[len(below) :]
    return (
        len(folders) == partition_keys + 1
        and all("=" in folder for folder in folders[:-1])
        and folders[-1].startswith("bucket-")
    )


def _is_leftover(folders: Sequence[str], name: str) -> bool:
    """Whether it lies among snapshots or changelogs, and is neither."""
    if len(folders) == 3 and folders[0] == "branch" and folders[1].startswith("branch-"):
        folders = folders[2:]
    return (
        len(folders) == 1
        and folders[0] in (SNAPSHOTS, CHANGELOGS)
        and not name.startswith(f"{folders[0]}-")
        and name not in _HINTS
    )
