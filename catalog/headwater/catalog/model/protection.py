"""Protection: a flag on a database or a table that refuses to drop it."""

from __future__ import annotations

from typing import Protocol

from headwater.catalog.model.identifier import Identifier

__all__ = ["Protection"]


class Protection(Protocol):
    """The protection flags of one warehouse.

    A drop of what is protected raises `Forbidden`, and so does a drop of a database that holds a
    protected table. Everything else goes on as without the flag.
    """

    def is_database_protected(self, name: str) -> bool:
        """True if a database cannot be dropped; NotFound (DATABASE)."""
        ...

    def is_table_protected(self, identifier: Identifier) -> bool:
        """True if a table cannot be dropped; NotFound (TABLE)."""
        ...

    def protect_database(self, name: str, protected: bool = True) -> None:
        """Set a database's flag, or take it back; NotFound (DATABASE)."""
        ...

    def protect_table(self, identifier: Identifier, protected: bool = True) -> None:
        """Set a table's flag, or take it back; NotFound (TABLE)."""
        ...
