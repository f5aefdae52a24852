"""References of tables serialised with deletions of their files, and how a catalog does it."""

from __future__ import annotations

from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.storage.maintenance.deletion import Deletion, References

__all__ = ["TableReferences"]


class TableReferences(Protocol):
    """The references of one warehouse's tables: tags, branches, consumers and rollbacks.

    The version is one of a table with all its branches.
    """

    def state(self, identifier: Identifier) -> References:
        """The version of a table's references; storage reflects every change up to it."""
        ...

    def commit_deletion(self, identifier: Identifier, deletion: Deletion) -> bool:
        """Decide a deletion, and delete its roots from the branch that the identifier names.

        The same deletion may be committed again, as by a caller whose response was lost.

        Returns:
            False, changing nothing, if references have changed since it was planned, or another
            deletion of the table is open.
        """
        ...

    def finish_deletion(self, identifier: Identifier, deletion_id: str) -> None:
        """Forget an open deletion whose files are gone; nothing happens when it is another's."""
        ...
