"""Tags, and how a catalog is asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["TagInfo", "Tags"]


@dataclass(frozen=True)
class TagInfo:
    """A named snapshot.

    Attributes:
        name: The tag.
        snapshot: The snapshot that it names.
        created_at: Milliseconds since the epoch, or None for a tag that does not say.
        retained_millis: The retention, milliseconds; None means for ever.
    """

    name: str
    snapshot: Snapshot
    created_at: int | None = None
    retained_millis: int | None = None


class Tags(Protocol):
    """The tags of one warehouse's tables."""

    def create(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
        snapshot_uuid: str | None = None,
    ) -> None:
        """Name a snapshot (the latest when None); AlreadyExists (TAG), NotFound (SNAPSHOT).

        Args:
            identifier: The table or branch.
            tag: The tag's name.
            snapshot_id: The snapshot.
            retained_millis: How long the tag is kept, in ms; None is as long as the table's
                ``tag.default-time-retained`` says, and for ever without that option.
            snapshot_uuid: The snapshot's uuid, where its number alone does not do: a rollback may
                have given that to another commit, and the snapshot is then not found.
        """
        ...

    def get(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        ...

    def list(
        self,
        identifier: Identifier,
        *,
        prefix: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Tag names."""
        ...

    def replace(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
    ) -> None:
        """Let a tag name another snapshot (the latest when None); NotFound (TAG, SNAPSHOT).

        Files that only the tag kept are not deleted. `retained_millis` is as for `create`.
        """
        ...

    def rename(self, identifier: Identifier, tag: str, new_name: str) -> None:
        """Rename a tag; NotFound (TAG), AlreadyExists (TAG), Invalid."""
        ...

    def delete(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag, and no files that only it kept; NotFound (TAG)."""
        ...
