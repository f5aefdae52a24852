"""The rights of a caller to some columns of a table."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, TargetType
from headwater.catalog.model.principal import current_principal
from headwater.catalog.model.rights import Thing
from headwater.catalog.sql import SqlCatalog
from headwater.storage.errors import Conflict, Forbidden
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["refuse_hidden_columns"]


def refuse_hidden_columns(
    catalog: Catalog,
    name: Identifier,
    present: TableSchema,
    read_by: Sequence[TableSchema],
    columns: Sequence[str] | None,
) -> None:
    """Refuse columns that the caller may not select, whatever they are called where they are read.

    Permissions name columns of the table's latest schema. In an earlier one, and in a branch, the
    same name may be another column's.

    Args:
        catalog: The table's.
        name: The table or branch.
        present: The latest schema of the table's main branch.
        read_by: The schemas that rows are read by.
        columns: The columns; None for all.

    Raises:
        Forbidden: The caller may not select one of them, or it is another column in one of the
            schemas.
        Conflict: The table's columns have changed meanwhile.
    """
    caller = current_principal()
    if caller is None or not caller.asks_permission or not isinstance(catalog, SqlCatalog):
        return
    rights = catalog.access.rights(caller, Thing(TargetType.TABLE, name.database, name.table))
    if Access.SELECT in rights.own:
        return
    # The rights are those of one schema: a renamed column takes them along.
    if catalog.tables.get(Identifier(name.database, name.table)).schema != present:
        raise Conflict(f"the columns of table {name} have changed meanwhile; read it again")
    for schema in read_by:
        asked = [each.name for each in schema.fields] if columns is None else columns
        known = [each for each in asked if each in schema.field_by_name]
        hidden = rights.hidden_columns(known)
        if hidden:
            raise Forbidden(
                f"'{caller.name}' may not do that: it needs SELECT on columns "
                f"{', '.join(hidden)} of table {name}"
            )
        for each in known:
            column = present.field_by_name.get(each)
            if column is None or column.id != schema.field_by_name[each].id:
                raise Forbidden(
                    f"table {name}: '{caller.name}' may select some of its columns, and '{each}' "
                    f"is not the same column in schema {schema.id} of the rows asked for; read the "
                    "latest rows instead"
                )
