"""Which connector and database a table's events come from."""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Unsupported

__all__ = ["Origin", "united_origins"]


@dataclass(frozen=True)
class Origin:
    """The connector and the database that a table's events come from.

    Attributes:
        connector: The connector's name (``source.name``); None where events lack it.
        database: The database (``source.db``); None where events lack it.
    """

    connector: str | None
    database: str | None

    def to_json(self) -> str:
        """The origin as a table's state stores it."""
        return json.dumps({"connector": self.connector, "database": self.database})

    @staticmethod
    def from_json(text: str) -> Origin:
        """Read an origin that `to_json` has written."""
        parts = json.loads(text)
        return Origin(parts["connector"], parts["database"])

    def __str__(self) -> str:
        database = f"database '{self.database}'"
        return database if self.connector is None else f"connector '{self.connector}', {database}"

    def differs(self, other: Origin) -> bool:
        """Whether two origins cannot be the same; without a connector the database decides."""
        is_known = self.connector is not None and other.connector is not None
        return self.database != other.database or (is_known and self.connector != other.connector)


def united_origins(name: TableName, known: str | None, new: str | None) -> str | None:
    """The origin of a table whose events have two, as `Origin.to_json` writes them.

    Args:
        name: The table.
        known: The origin of earlier events; None if it is not known.
        new: The origin of later ones; None if they do not tell it.

    Raises:
        Unsupported: They come from different connectors or databases.
    """
    if known is None or new is None:
        return known or new
    first, second = Origin.from_json(known), Origin.from_json(new)
    if first.differs(second):
        raise Unsupported(
            f"events of {name} come from {first} and from {second}, whose rows would overwrite "
            "each other; choose a topic pattern that matches one of them, or follow them with two "
            "pipelines"
        )
    return new if first.connector is None else known
