"""The JSON about references and deletions, additions of Headwater's. See `…catalog.wire`."""

from __future__ import annotations

from pydantic import Field

from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import WireModel
from headwater.storage.maintenance.deletion import Deletion, OpenDeletion, References, Removal

__all__ = ["CommitDeletionRequest", "CommitDeletionResponse", "ReferencesModel"]

_ID = "7a5c1f0e-9c0b-4f39-8a55-0f8f9f1f0a11"


class OpenDeletionModel(WireModel):
    """A committed deletion whose files are not all gone yet.

    Attributes:
        id: Its id.
        created_at: When it was committed, in ms since the epoch.
    """

    model_config = example({"id": _ID, "createdAt": 1767225600000})

    id: str
    created_at: int


class ReferencesModel(WireModel):
    """``GET …/references``.

    Attributes:
        version: Grows with every change of tags, branches, consumers and rollbacks, and with every
            committed deletion.
        open_deletion: The deletion that is to be finished before another is committed; null for
            none.
    """

    model_config = example({"version": 17, "openDeletion": None})

    version: int
    open_deletion: OpenDeletionModel | None = None

    @staticmethod
    def from_references(references: References) -> ReferencesModel:
        """The wire form."""
        deletion = references.open_deletion
        model = None
        if deletion is not None:
            model = OpenDeletionModel(id=deletion.id, created_at=deletion.created_at)
        return ReferencesModel(version=references.version, open_deletion=model)

    def references(self) -> References:
        """The references."""
        deletion = self.open_deletion
        if deletion is None:
            return References(self.version)
        return References(self.version, OpenDeletion(deletion.id, deletion.created_at))


class CommitDeletionRequest(WireModel):
    """``POST …/deletions``.

    Attributes:
        id: A unique id, by which the request may be repeated.
        version: The version of the references that the deletion was planned from.
        snapshots_before: Snapshots with smaller ids are deleted; 0 for none.
        changelogs_before: Changelogs with smaller ids are deleted. A deleted snapshot that is not
            before it leaves its changelog.
        tags: The ids of the snapshots that the tags to delete name, by tag.
        consumers: When each consumer to delete was last moved, in ms since the epoch, by id.
        has_files: Whether the caller deletes other files, and then finishes the deletion.
    """

    model_config = example(
        {
            "id": _ID,
            "version": 17,
            "snapshotsBefore": 40,
            "changelogsBefore": 40,
            "tags": {},
            "consumers": {},
            "hasFiles": True,
        }
    )

    id: str
    version: int
    snapshots_before: int = Field(default=0, ge=0)
    changelogs_before: int = Field(default=0, ge=0)
    tags: dict[str, int] = Field(default_factory=dict)
    consumers: dict[str, int] = Field(default_factory=dict)
    has_files: bool = False

    @staticmethod
    def from_deletion(deletion: Deletion) -> CommitDeletionRequest:
        """The wire form."""
        removal = deletion.removal
        return CommitDeletionRequest(
            id=deletion.id,
            version=deletion.version,
            snapshots_before=removal.snapshots_before,
            changelogs_before=removal.changelogs_before,
            tags=dict(removal.tags),
            consumers=dict(removal.consumers),
            has_files=deletion.has_files,
        )

    def deletion(self) -> Deletion:
        """The deletion."""
        removal = Removal(self.snapshots_before, self.changelogs_before, self.tags, self.consumers)
        return Deletion(self.id, self.version, removal, self.has_files)


class CommitDeletionResponse(WireModel):
    """Whether the deletion was committed; otherwise references have changed since it was planned.

    Attributes:
        success: Whether it was.
    """

    model_config = example({"success": True})

    success: bool
