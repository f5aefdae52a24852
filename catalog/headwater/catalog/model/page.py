"""Listings come in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Page", "all_pages"]

T = TypeVar("T", covariant=True)
OtherT = TypeVar("OtherT")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing.

    Attributes:
        items: In the order of their names (snapshots: newest first).
        next_token: Ask with it for the next page; None on the last.
    """

    items: Sequence[T]
    next_token: str | None = None

    def map(self, other: Callable[[T], OtherT]) -> Page[OtherT]:
        """The page with something else for each item."""
        return Page(tuple(other(item) for item in self.items), self.next_token)


def all_pages(page: Callable[[str | None], Page[T]]) -> list[T]:
    """Everything there is, asked for page by page.

    Args:
        page: Gives the page of a token; of None, the first.
    """
    found: list[T] = []
    token: str | None = None
    while True:
        result = page(token)
        found += result.items
        token = result.next_token
        if token is None:
            return found
