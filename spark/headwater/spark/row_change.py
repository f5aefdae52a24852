"""The part of a change of rows that its tasks and its commit must know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["LOSES", "MATCHED", "MOVES", "Repeats", "RowChange", "RowCounts", "writer_of"]

MATCHED = "="
"""In place of a row's kind: a row of the table that a source's row matches, and that stays."""
LOSES = "!"
"""In place of a row's kind: a new version that is older than its row by ``sequence.field``."""
MOVES = "#"
"""In place of a row's kind: a new version with another primary key."""

_PROPERTY = "headwater.{}-rows"
_WRITER = "headwater.writer"


class Repeats(StrEnum):
    """The treatment of a row of a table with several changes.

    It is refused, or a second deletion counts for nothing, or a row is added in the place of the
    one of its key that is deleted.
    """

    REFUSED = "refused"
    DROPPED = "dropped"
    REPLACED = "replaced"


@dataclass(frozen=True)
class RowChange:
    """A change of rows as one commit.

    Attributes:
        writer: Names the change, by which its snapshot is found again.
        operation: ``UPDATE``, ``DELETE``, ``MERGE``, ``INSERT``.
        is_plain: True if all rows are added, and columns say nothing of changes.
        is_serial: True if no other commit may have changed rows of the same buckets since the
            rows were read; in a primary-key table always.
        repeats: As in `Repeats`.
        rewrites: True if files of a primary-key table are written anew.
        predicate: A SQL condition that the rows that were read fulfil; None for all rows.
        columns: In a table with data evolution, the columns that rows get new values of.
    """

    writer: str
    operation: str
    is_plain: bool = False
    is_serial: bool = False
    repeats: Repeats = Repeats.REFUSED
    rewrites: bool = False
    predicate: str | None = None
    columns: tuple[str, ...] = ()

    def properties(self, counts: RowCounts) -> Mapping[str, str]:
        """The properties of the snapshot of a change of so many rows."""
        return {**counts.properties(self.operation), _WRITER: self.writer}


@dataclass(frozen=True)
class RowCounts:
    """The rows that a change touched.

    Attributes:
        inserted: Rows added.
        updated: Rows with new values.
        deleted: Rows taken away.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def affected(self) -> int:
        """All of them."""
        return self.inserted + self.updated + self.deleted

    def plus(self, other: RowCounts) -> RowCounts:
        """The rows of two changes."""
        return RowCounts(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
        )

    def properties(self, operation: str) -> Mapping[str, str]:
        """The snapshot's properties that tell of a change."""
        counts = {_PROPERTY.format(name): str(count) for name, count in asdict(self).items()}
        return {"headwater.operation": operation, **counts}

    @staticmethod
    def of(snapshot: Snapshot | None) -> RowCounts:
        """The rows that a snapshot's properties tell of."""
        properties = {} if snapshot is None else snapshot.properties
        names = ("inserted", "updated", "deleted")
        return RowCounts(*(int(properties.get(_PROPERTY.format(name), 0)) for name in names))


def writer_of(snapshot: Snapshot) -> str | None:
    """The name of the change that made a snapshot; None where none did."""
    return snapshot.properties.get(_WRITER)
