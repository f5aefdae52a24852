"""The rights of a caller to a table's files, which show all of the table."""

from __future__ import annotations

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, TargetType
from headwater.catalog.model.principal import Scope, current_principal
from headwater.catalog.model.rights import Thing
from headwater.catalog.sql import SqlCatalog
from headwater.storage.errors import Forbidden

__all__ = ["may_write_files", "refuse_hidden_partitions", "refuse_withheld_files"]


def refuse_withheld_files(catalog: Catalog, name: Identifier) -> None:
    """Refuse the files of a table of which policies show the caller only a part.

    Args:
        catalog: The table's.
        name: The table.

    Raises:
        Forbidden: Policies restrict what the caller sees.
    """
    if catalog.policies.access(name).restriction:
        raise Forbidden(
            f"policies restrict what you see of table {name}, and a token for its files would show "
            f"all of it; read rows with POST …/tables/{name.name}/read"
        )


def refuse_hidden_partitions(catalog: Catalog, name: Identifier) -> None:
    """Refuse to tell of partitions whose rows or values the caller may not be shown.

    Raises:
        Forbidden: Policies restrict the caller on the table, or it may not select the columns that
            the table is partitioned by.
    """
    if catalog.policies.access(name).restriction:
        raise Forbidden(
            f"policies restrict what you see of table {name}, and its partitions tell of all rows"
        )
    caller = current_principal()
    if caller is None or not caller.asks_permission or not isinstance(catalog, SqlCatalog):
        return
    rights = catalog.access.rights(caller, Thing(TargetType.TABLE, name.database, name.table))
    if Access.SELECT in rights.own or Access.UPDATE in rights.own:
        return
    hidden = rights.hidden_columns(catalog.tables.get(name).schema.partition_keys)
    if hidden:
        raise Forbidden(
            f"'{caller.name}' may not do that: the partitions of table {name} tell the values of "
            f"columns {', '.join(hidden)}, which it may not select"
        )


def may_write_files(catalog: Catalog, name: Identifier) -> bool:
    """True if the caller may write to a table.

    Raises:
        Forbidden: The caller may not read all of it, as its files show all.
    """
    caller = current_principal()
    if caller is None:
        return True
    if not caller.asks_permission:
        return caller.has(Scope.WRITE)
    thing = Thing(TargetType.TABLE, name.database, name.table)
    # Without permissions in the catalog, nobody who asks for them is let in.
    rights = catalog.access.rights(caller, thing).own if isinstance(catalog, SqlCatalog) else ()
    if Access.SELECT not in rights and Access.UPDATE not in rights:
        raise Forbidden(
            f"'{caller.name}' may select some columns of table {name}, and a token for its files "
            f"would show all; read rows with POST …/tables/{name.name}/read"
        )
    return caller.has(Scope.WRITE) and Access.UPDATE in rights
