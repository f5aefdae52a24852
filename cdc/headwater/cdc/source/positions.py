"""Positions in the log of a source, whatever its kind."""

from __future__ import annotations

from typing import Protocol

from headwater.storage.errors import Invalid

__all__ = ["READ_AGAIN", "Position", "of_different_servers", "union"]

READ_AGAIN = "read the tables again: headwater cdc resnapshot --all"
"""What helps where the log between a position and the source's present one is lost."""


class Position(Protocol):
    """The transactions of a source that were read: always whole ones.

    As text it is what pipelines record, and what the source reads again.
    """

    def contains(self, other: Position) -> bool:
        """Whether all transactions of the other position are in this one.

        False for a position of another kind.
        """

    def union(self, other: Position) -> Position:
        """The transactions of both positions.

        Raises:
            Invalid: They are of different servers.
        """


def union(one: Position | None, other: Position) -> Position:
    """The transactions of both positions; None has no transaction.

    Raises:
        Invalid: They are of different servers.
    """
    return other if one is None else one.union(other)


def of_different_servers(one: Position, other: Position) -> Invalid:
    """The error of two positions that have nothing to do with each other."""
    return Invalid(f"positions '{one}' and '{other}' are of different servers; use one source")
