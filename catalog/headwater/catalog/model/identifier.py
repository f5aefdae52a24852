"""Names of tables: ``database.table``, and ``table$branch_b`` for a branch."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.files.layout import MAIN_BRANCH

__all__ = ["Identifier"]

_BRANCH_PREFIX = "branch_"


@dataclass(frozen=True)
class Identifier:
    """A table's name (``Identifier.java``).

    Attributes:
        database: The database.
        name: The object's whole name, a ``$branch_…`` part included.
    """

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

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
