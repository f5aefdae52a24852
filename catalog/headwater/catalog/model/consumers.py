"""Consumers, and how a catalog is asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page

__all__ = ["MAX_LEASE_MILLIS", "ConsumerInfo", "ConsumerLag", "ConsumerLease", "Consumers"]

MAX_LEASE_MILLIS = 24 * 3_600_000
"""The longest that a lease may last: a reader that died keeps others waiting until it ends."""


@dataclass(frozen=True)
class ConsumerLag:
    """The distance of a consumer from the latest snapshot.

    Attributes:
        snapshots: Snapshots not yet consumed.
        records: Rows that a stream has yet to read of them; None when not known.
        millis: The time since the oldest of them was committed; None if unknown.
    """

    snapshots: int
    records: int | None = None
    millis: int | None = None


@dataclass(frozen=True)
class ConsumerInfo:
    """A saved position in a table's history.

    Attributes:
        consumer_id: The name readers use.
        next_snapshot: The first snapshot not yet consumed.
        updated_at: The time of its last move, milliseconds since the epoch; None if unknown.
        lag: Its distance from the latest snapshot; None from a catalog that does not tell.
        is_rolled_back: True if the last snapshot that it consumed is no longer part of the table's
            history.
        full_read: True if its reader still reads all rows of the next snapshot, with which it
            began, and not yet changes.
    """

    consumer_id: str
    next_snapshot: int
    updated_at: int | None = None
    lag: ConsumerLag | None = None
    is_rolled_back: bool = False
    full_read: bool = False


@dataclass(frozen=True)
class ConsumerLease:
    """The right of one reader to move a consumer.

    Attributes:
        consumer_id: The consumer.
        owner: A name that the reader alone has, of at most 255 characters.
        expires_at: The moment from which another reader may take it, milliseconds since the epoch.
    """

    consumer_id: str
    owner: str
    expires_at: int


class Consumers(Protocol):
    """The consumers of one warehouse's tables."""

    def list(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ConsumerInfo]:
        """The saved positions; those past the table's ``consumer.expiration-time`` are none."""
        ...

    def reset(
        self,
        identifier: Identifier,
        consumer_id: str,
        next_snapshot: int | None,
        *,
        full_read: bool = False,
        owner: str | None = None,
        force: bool = False,
    ) -> None:
        """Move a consumer (creating it if need be); None deletes it.

        Args:
            identifier: The table.
            consumer_id: The consumer.
            next_snapshot: The first snapshot not yet consumed.
            full_read: All rows of that snapshot are to be consumed, not its changes.
            owner: The reader that moves it by its lease.
            force: Take the lease away from the reader that has it, which then fails.

        Raises:
            Conflict: `owner` does not have the lease (any more); or without one, a reader has it
                and is alive.
        """
        ...

    def lease(
        self,
        identifier: Identifier,
        consumer_id: str,
        owner: str,
        millis: int,
        *,
        renew: bool = False,
    ) -> ConsumerLease | None:
        """Take the right to move a consumer, or have it last longer.

        Args:
            identifier: The table.
            consumer_id: The consumer.
            owner: The reader.
            millis: The time from now on for which the reader has it, at most `MAX_LEASE_MILLIS`.
            renew: Do not take it anew: a reader that lost it must not go on.

        Returns:
            The lease in force, which is another reader's while that one is alive; None when
            nobody has it and it was not to be taken anew.

        Raises:
            Invalid: The consumer's id, the owner or the time is not one.
        """
        ...

    def release(self, identifier: Identifier, consumer_id: str, owner: str) -> None:
        """Give a lease back; nothing happens when the owner does not have it."""
        ...
