"""Tables as the catalog has them, and how it is asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.audit import Audited
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import NamedObjects
from headwater.catalog.model.page import Page
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.schema.change import SchemaChange
from headwater.storage.schema.table_schema import Schema, TableSchema

__all__ = ["TableInfo", "Tables", "dropped_table"]


@dataclass(frozen=True)
class TableInfo(Audited):
    """A table as the catalog has it.

    Attributes:
        id: A UUID.
        identifier: The name, bound to the id: no operation by it reaches another table.
        path: A URI.
        is_external: Whether the files are not the catalog's own.
        schema: The latest schema.
    """

    id: str
    identifier: Identifier
    path: str
    is_external: bool
    schema: TableSchema

    def __post_init__(self) -> None:
        """Bind the name to the id."""
        object.__setattr__(self, "identifier", self.identifier.with_table_id(self.id))


_NEW_HANDLE = "take a new handle, by its new name if it was renamed"


def dropped_table(identifier: Identifier, advice: str = _NEW_HANDLE) -> NotFound:
    """The error about a table whose name another table has."""
    return NotFound(
        f"table {identifier} was dropped, and there is another of its name now; {advice}",
        resource_type=ResourceType.TABLE,
        resource_name=str(identifier),
    )


class Tables(NamedObjects[Schema, SchemaChange, TableInfo], Protocol):
    """The tables of one warehouse: named objects that have files.

    A table is shown with its latest schema; an alteration makes one new version of it. To drop a
    table deletes its files, too, unless it is external.
    """

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Table names, of one type (option ``type``) if so asked."""
        ...

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[TableInfo]:
        """Tables with their latest schemas."""
        ...

    def create(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; Invalid when the schema is not allowed."""
        ...

    def get_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        ...

    def replace(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and no data; its id and history stay.

        Its partition keys stay, too: Unsupported otherwise, and for a table that is external or
        not made of Paimon's files.
        """
        ...

    def register(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name.

        Outside the warehouse it becomes an external table, inside it one of the catalog's own.
        """
        ...

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name, and another database if so asked."""
        ...
