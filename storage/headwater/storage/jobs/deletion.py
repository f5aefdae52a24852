"""Deletions carried out: planned until nothing comes in between, committed, and finished.

The steps and what a kill between them leaves are in ``docs/decisions/0030-references.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headwater.storage.errors import Conflict, CorruptData, HeadwaterError, NotFound
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.file_deletion import FILE_DELETION, delete_files
from headwater.storage.maintenance.deletion import (
    Deletion,
    OpenDeletion,
    ReferenceAuthority,
    References,
    Removal,
    delete_consumers,
    delete_roots,
    read_deletion_files,
    write_deletion_files,
)
from headwater.storage.maintenance.roots import list_roots
from headwater.storage.maintenance.unneeded import unneeded_without_tag
from headwater.storage.snapshot.files import read_snapshot_file
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import HOLD_PREFIX, Tag, read_tag_file, write_tag_file
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = [
    "FileReferences",
    "PlannedDeletion",
    "carry_out",
    "delete_tag",
    "held",
    "plan_unchanged",
]

Result = TypeVar("Result")

_ATTEMPTS = 20
# A writer that finds another's deletion open leaves it to that one for so long.
_PATIENCE_MILLIS = 10 * 60 * 1000
_HOLD_MILLIS = 60 * 60 * 1000


@dataclass(frozen=True)
class PlannedDeletion(Generic[Result]):
    """What a deletion would do.

    Attributes:
        result: What its caller gets.
        removal: The roots and consumers that go.
        files: The URIs of the other files that go.
        version: The version of the references that the plan holds for, where it followed their
            changes itself.
    """

    result: Result
    removal: Removal = field(default_factory=Removal)
    files: Sequence[str] = ()
    version: int | None = None


def carry_out(
    storage: TableStorage,
    authority: ReferenceAuthority,
    plan: Callable[[], PlannedDeletion[Result]],
    executor: Executor = FILE_DELETION,
    *,
    yields: bool = False,
) -> Result | None:
    """Plan a deletion, commit it, and delete its files.

    Args:
        storage: The table.
        authority: Serialises the deletion with changes of the table's references.
        plan: Plans from what is on storage; it is called again when references have changed.
        executor: Deletes the files.
        yields: Whether to do nothing while another deletion of the table is under way. By default
            it is finished first.

    Returns:
        The plan's result; None if another deletion is under way.

    Raises:
        Conflict: References kept changing.
        CorruptData: A root or a list cannot be read; nothing was deleted.
    """
    for _ in range(_ATTEMPTS):
        state = authority.state()
        if state.open_deletion is not None:
            if yields and _is_recent(storage, state.open_deletion):
                return None
            _finish(storage, authority, state.open_deletion.id, executor)
            continue
        planned = _planned(storage, authority, state, plan)
        if planned is None:
            continue
        if planned.removal.is_empty and not planned.files:
            return planned.result
        version = state.version if planned.version is None else planned.version
        if _commit(storage, authority, version, planned, executor):
            return planned.result
    raise Conflict(
        f"table {storage.name}: its tags, branches, consumers or files kept changing while a "
        "deletion was planned; retry"
    )


@contextmanager
def held(
    storage: TableStorage,
    pointer: SnapshotPointer,
    authority: ReferenceAuthority,
    snapshot: Snapshot,
) -> Generator[None]:
    """Keep a snapshot's files within the block, by a tag.

    A process that dies leaves the tag, which expires.

    Raises:
        Conflict: The snapshot has expired.
    """
    name = f"{HOLD_PREFIX}{storage.runtime.new_uuid()}"
    if not authority.create_tag(name, snapshot, _HOLD_MILLIS):
        raise Conflict(f"table {storage.name}: snapshot {snapshot.id} has expired; retry")
    try:
        yield
    finally:
        with suppress(HeadwaterError):
            delete_tag(storage, pointer, authority, name)


def delete_tag(
    storage: TableStorage, pointer: SnapshotPointer, authority: ReferenceAuthority, name: str
) -> bool:
    """Delete a tag, its success file, and the files that it alone kept.

    Returns:
        False, changing nothing, if there is no such tag.

    Raises:
        Conflict: References kept changing.
        CorruptData: A tag, a branch or a manifest cannot be read; nothing was deleted.
    """

    def plan() -> PlannedDeletion[bool]:
        tag = read_tag_file(storage.files, storage.layout, name)
        if tag is None:
            return PlannedDeletion(False)
        unneeded = unneeded_without_tag(storage, tag.snapshot, pointer.latest(), tag=name)
        return PlannedDeletion(True, Removal(tags={name: tag.snapshot.id}), unneeded.paths)

    return carry_out(storage, authority, plan) is True


def plan_unchanged(
    storage: TableStorage,
    authority: ReferenceAuthority,
    plan: Callable[[], PlannedDeletion[Result]],
) -> Result:
    """The result of a plan that no change of references came in between, for a dry run.

    Raises:
        Conflict, CorruptData: As `carry_out`.
    """
    for _ in range(_ATTEMPTS):
        planned = _planned(storage, authority, authority.state(), plan)
        if planned is not None:
            return planned.result
    raise Conflict(f"table {storage.name}: its references kept changing; retry")


def _planned(
    storage: TableStorage,
    authority: ReferenceAuthority,
    state: References,
    plan: Callable[[], PlannedDeletion[Result]],
) -> PlannedDeletion[Result] | None:
    """A plan from roots that stayed as they were; None if they did not."""
    location = storage.layout.location
    before = list_roots(storage.files, location)
    try:
        planned = plan()
    except (CorruptData, NotFound):
        is_same = before.is_unchanged(list_roots(storage.files, location))
        if is_same and authority.state().version == state.version:
            raise
        return None
    if planned.version is not None:
        return planned
    return planned if before.is_unchanged(list_roots(storage.files, location)) else None


def _commit(
    storage: TableStorage,
    authority: ReferenceAuthority,
    version: int,
    planned: PlannedDeletion[Result],
    executor: Executor,
) -> bool:
    """Decide a deletion and delete its files; False if references have changed."""
    files, layout = storage.files, storage.layout
    deletion = Deletion(
        storage.runtime.new_uuid(), version, planned.removal, has_files=bool(planned.files)
    )
    if deletion.has_files:
        write_deletion_files(files, layout, deletion.id, planned.files)
    if not authority.commit_deletion(deletion):
        if deletion.has_files:
            files.delete(layout.deletion(deletion.id))
        return False
    if deletion.has_files:
        _delete(storage, authority, deletion.id, planned.files, executor)
    return True


def _finish(
    storage: TableStorage, authority: ReferenceAuthority, deletion_id: str, executor: Executor
) -> None:
    """Finish a deletion whose process was killed, or is slower: deleting twice does no harm."""
    paths = read_deletion_files(storage.files, storage.layout, deletion_id)
    _delete(storage, authority, deletion_id, paths, executor)


def _delete(
    storage: TableStorage,
    authority: ReferenceAuthority,
    deletion_id: str,
    paths: Sequence[str],
    executor: Executor,
) -> None:
    delete_files(storage.files, paths, executor)
    storage.files.delete(storage.layout.deletion(deletion_id))
    authority.finish_deletion(deletion_id)


def _is_recent(storage: TableStorage, deletion: OpenDeletion) -> bool:
    return storage.runtime.now_millis() - deletion.created_at < _PATIENCE_MILLIS


@dataclass(frozen=True)
class FileReferences:
    """References of a table that no catalog serialises: an external table's.

    Engines that delete from it at the same time are not seen, as Paimon's own are not.

    Attributes:
        storage: The table.
    """

    storage: TableStorage

    def state(self) -> References:
        """Always the same version: nobody counts."""
        return References(0)

    def commit_deletion(self, deletion: Deletion) -> bool:
        """Delete the roots."""
        files, layout = self.storage.files, self.storage.layout
        delete_consumers(files, layout, deletion.removal)
        return delete_roots(files, layout, deletion.removal)

    def finish_deletion(self, deletion_id: str) -> None:
        """Do nothing: no deletion is noted."""

    def create_tag(self, name: str, snapshot: Snapshot, retained_millis: int | None) -> bool:
        """Write a tag's file; False if there is one, or the snapshot has gone."""
        files, layout = self.storage.files, self.storage.layout
        existing = read_snapshot_file(files, layout, snapshot.id)
        if existing is None or not existing.is_same_commit(snapshot):
            return False
        if read_tag_file(files, layout, name) is not None:
            return False
        created = self.storage.runtime.now_millis()
        return write_tag_file(files, layout, Tag(name, snapshot, created, retained_millis))
