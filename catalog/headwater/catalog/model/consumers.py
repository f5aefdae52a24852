"""Consumers, and how a catalog is asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page

__all__ = ["ConsumerInfo", "ConsumerLag", "Consumers"]


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
    """

    consumer_id: str
    next_snapshot: int
    updated_at: int | None = None
    lag: ConsumerLag | None = None
    is_rolled_back: bool = False


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

    def reset(self, identifier: Identifier, consumer_id: str, next_snapshot: int | None) -> None:
        """Move a consumer (creating it if need be); None deletes it."""
        ...
