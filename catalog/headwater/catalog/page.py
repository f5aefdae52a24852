"""Listings come in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Page"]

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing.

    Attributes:
        items: In the order of their names (snapshots: newest first).
        next_token: Ask with it for the next page; None on the last.
    """

    items: Sequence[T]
    next_token: str | None = None
