"""Names of tables: ``database.table``, and ``table$branch_b`` for a branch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headwater.storage.errors import Invalid
from headwater.storage.files.layout import MAIN_BRANCH

__all__ = ["SYSTEM_DATABASE", "Identifier"]

SYSTEM_DATABASE = "sys"
"""The database of a warehouse's own system tables."""

_BRANCH_PREFIX = "branch_"


@dataclass(frozen=True)
class Identifier:
    """A table's name (``Identifier.java``).

    Attributes:
        database: The database.
        name: The object's qualified name within it, including a ``$branch_…`` part.
        table_id: The id of the table that is meant; None for whichever table has the name. A
            catalog rejects an identifier whose name another table has by now. Names are equal
            whatever their ids.
    """

    database: str
    name: str
    table_id: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    def with_table_id(self, table_id: str | None) -> Identifier:
        """The same name, of the table with this id alone."""
        return replace(self, table_id=table_id)

    @property
    def table(self) -> str:
        """The table's own name, without a branch."""
        return self.name.split("$", 1)[0]

    @property
    def branch(self) -> str:
        """The branch; ``main`` unless the name says otherwise."""
        for part in self.name.split("$")[1:]:
            if part.startswith(_BRANCH_PREFIX):
                return part.removeprefix(_BRANCH_PREFIX)
        return MAIN_BRANCH

    @property
    def system_table(self) -> str | None:
        """The system table that is meant, such as ``snapshots``; None for a table or branch.

        Raises:
            Invalid: There are more parts than a table, a branch and a system table.
        """
        table, *parts = self.name.split("$")
        if parts and parts[0].startswith(_BRANCH_PREFIX):
            parts = parts[1:]
        if not table or len(parts) > 1:
            raise Invalid(
                f"'{self}' is not a table name; after the table come at most one $branch_… and "
                "one system table"
            )
        return parts[0].lower() if parts else None

    @property
    def without_system_table(self) -> Identifier:
        """The table or branch whose system table is meant."""
        kept = f"${_BRANCH_PREFIX}{self.branch}" if self.branch != MAIN_BRANCH else ""
        return replace(self, name=f"{self.table}{kept}")

    @staticmethod
    def parse(text: str) -> Identifier:
        """Read ``database.table``; backquotes around either part are taken off.

        Raises:
            Invalid: The text has no dot, or an empty part.
        """
        database, dot, name = text.partition(".")
        database, name = database.strip().strip("`"), name.strip().strip("`")
        if not dot or not database or not name:
            raise Invalid(f"'{text}' is not a table name; write it as database.table")
        return Identifier(database, name)
