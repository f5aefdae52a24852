"""The outcome of a check of a table: damages, warnings and counts."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MOST_DAMAGES", "Damage", "Root", "TableCheck"]

MOST_DAMAGES = 1000
"""The number of damages that are listed; the others are only counted."""


@dataclass(frozen=True)
class Root:
    """Something that needs files: its name, and the URI of its own."""

    name: str
    path: str


@dataclass(frozen=True)
class Damage:
    """A file that is not as it has to be.

    Attributes:
        needed_by: The schema, snapshot, tag or changelog that needs it, and its branch.
        problem: A sentence that names the file.
        root: The URI of the file that leads to it; empty where the catalog does.
    """

    needed_by: str
    problem: str
    root: str


@dataclass
class TableCheck:
    """The outcome of a check.

    Attributes:
        damages: The damages, at most `MOST_DAMAGES`.
        damage_count: The number of them.
        warnings: Sentences about files that may have been lost, or deleted on purpose.
        notes: Sentences about what is not as usual, and harms nothing.
        feed_was_read: Whether tags and consumers were compared with the change feed.
        schemas, snapshots, tags, changelogs, manifests, data_files, index_files: How many were
            looked at; a manifest is a list of files or a list of manifests.
        rows: The rows in the data files, changelog files and retractions included.
        unread: Files whose content this engine does not read; that they are there was checked.
        orphans: The files that nothing needs and that are older than a day; None when it is not
            known what is needed.
        orphan_bytes: Their bytes.
    """

    damages: list[Damage] = field(default_factory=list)
    damage_count: int = 0
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    feed_was_read: bool = False
    schemas: int = 0
    snapshots: int = 0
    tags: int = 0
    changelogs: int = 0
    manifests: int = 0
    data_files: int = 0
    index_files: int = 0
    rows: int = 0
    unread: int = 0
    orphans: int | None = None
    orphan_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage_count
