"""Databases, and how a catalog is asked about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.catalog.model.audit import Audited
from headwater.catalog.model.page import Page

__all__ = ["DatabaseInfo", "Databases"]


@dataclass(frozen=True)
class DatabaseInfo(Audited):
    """A database: ``id`` is a UUID, ``location`` a URI."""

    id: str
    name: str
    location: str
    options: Mapping[str, str] = field(default_factory=dict)


class Databases(Protocol):
    """The databases of one warehouse."""

    def list(
        self,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Database names."""
        ...

    def create(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database."""
        ...

    def get(self, name: str) -> DatabaseInfo:
        """A database; NotFound (DATABASE)."""
        ...

    def alter(self, name: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Set and remove options."""
        ...

    def drop(self, name: str) -> None:
        """Drop a database with all tables, views and functions in it."""
        ...
