"""Grants and possessions of a principal, and lists that show no more than those lead to.

A list of a limited principal is looked up from the principal's side: by the index over principals,
and not by looking at everything and leaving out what is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TypeVarTuple

from sqlalchemy import ColumnElement, CompoundSelect, Select, or_, select, union
from sqlalchemy.engine import Connection

from headwater.catalog.model.permissions import GRANTABLE, Access, TargetType
from headwater.catalog.model.principal import Principal, current_principal
from headwater.catalog.model.rights import expanded
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    DatabaseRow,
    FunctionRow,
    GrantRow,
    NamedRow,
    TableRow,
    ViewRow,
)
from headwater.catalog.sql.queries.index_hint import along

__all__ = [
    "MODELS",
    "Sight",
    "granted_ids",
    "is_running",
    "owned_ids",
    "sight",
    "visible_databases",
]

Ts = TypeVarTuple("Ts")

MODELS: Mapping[TargetType, type[TableRow] | type[NamedRow]] = {
    TargetType.TABLE: TableRow,
    TargetType.VIEW: ViewRow,
    TargetType.FUNCTION: FunctionRow,
}
"""The rows of the things in databases."""

_TYPES: Mapping[type[TableRow] | type[NamedRow], TargetType] = {
    model: type_ for type_, model in MODELS.items()
}


def is_running(context: CatalogContext) -> ColumnElement[bool]:
    """The condition that a grant has not ended."""
    now = context.runtime.latest_millis()
    return or_(GrantRow.expires_at.is_(None), GrantRow.expires_at > now)


def granted_ids(context: CatalogContext, principal: Principal, type_: TargetType) -> Select[str]:
    """The ids of the things of a type that a principal has a grant on."""
    types = [type_.value] + [TargetType.COLUMN.value] * (type_ is TargetType.TABLE)
    return select(GrantRow.object_id).where(
        GrantRow.principal.in_(principal.grantees),
        GrantRow.warehouse == context.warehouse,
        GrantRow.resource_type.in_(types),
        is_running(context),
    )


def owned_ids(principal: Principal, model: type[TableRow] | type[NamedRow]) -> Select[str]:
    """The ids of the things that a principal owns, in every warehouse."""
    return select(model.id).where(model.owner == principal.name)


@dataclass(frozen=True)
class Sight:
    """A limited principal's view of a warehouse.

    Attributes:
        context: The warehouse.
        principal: The principal.
        in_catalog: Its rights on everything in the warehouse.
        listable: The ids of databases whose names it may list, whatever they are.
        within: Its rights on everything in a database, by the database's id.
    """

    context: CatalogContext
    principal: Principal
    in_catalog: Set[Access]
    listable: Set[str]
    within: Mapping[str, Set[Access]]

    def shows_all(
        self, model: type[TableRow] | type[NamedRow], database_id: str, *, names_only: bool
    ) -> bool:
        """True if it sees everything of a kind in a database.

        Args:
            model: The rows of the kind.
            database_id: The database.
            names_only: True if only names are asked for, for which LIST is enough.
        """
        grantable = GRANTABLE[_TYPES[model]]
        if self.in_catalog & grantable or self.within.get(database_id, frozenset()) & grantable:
            return True
        return names_only and (database_id in self.listable or Access.LIST in self.in_catalog)

    def narrowed(
        self, query: Select[*Ts], model: type[TableRow] | type[NamedRow], database_id: str
    ) -> Select[*Ts]:
        """Of a query for things of one database, those that it sees."""
        # Not by the index over databases and names, which would lead through all that is hidden.
        return query.where(model.id.in_(self.ids(model)), model.database_id + "" == database_id)

    def ids(self, model: type[TableRow] | type[NamedRow]) -> CompoundSelect[str]:
        """The ids of the things of a kind that it sees wherever they are."""
        return union(
            granted_ids(self.context, self.principal, _TYPES[model]),
            owned_ids(self.principal, model),
        )


def sight(connection: Connection, context: CatalogContext) -> Sight | None:
    """The acting principal's view of a warehouse; None if it sees everything."""
    principal = current_principal()
    if principal is None or not principal.asks_permission:
        return None
    rows = connection.execute(
        select(GrantRow.object_id, GrantRow.resource_type, GrantRow.access).where(
            GrantRow.principal.in_(principal.grantees),
            GrantRow.warehouse == context.warehouse,
            GrantRow.resource_type.in_(
                [
                    TargetType.CATALOG_ALL.value,
                    TargetType.DATABASE.value,
                    TargetType.DATABASE_ALL.value,
                ]
            ),
            is_running(context),
        )
    ).all()
    in_catalog: set[Access] = set()
    listable: set[str] = set()
    within: dict[str, set[Access]] = {}
    for object_id, name, access in rows:
        type_ = TargetType(name)
        accesses = expanded(type_, [access])
        if type_ is TargetType.CATALOG_ALL:
            in_catalog |= accesses
        elif type_ is TargetType.DATABASE_ALL:
            within.setdefault(object_id, set()).update(accesses)
        elif Access.LIST in accesses:
            listable.add(object_id)
    owned = select(DatabaseRow.id).where(
        DatabaseRow.owner == principal.name, DatabaseRow.warehouse == context.warehouse
    )
    for database_id in connection.execute(owned).scalars():
        listable.add(database_id)
        within[database_id] = set(GRANTABLE[TargetType.DATABASE_ALL])
    return Sight(context, principal, in_catalog, listable, within)


def visible_databases(
    query: Select[*Ts], context: CatalogContext, seen: Sight | None
) -> Select[*Ts]:
    """The part of a query for databases that is of a warehouse, and visible.

    Args:
        query: Of all databases.
        context: The warehouse.
        seen: The caller's view; None shows everything.
    """
    if seen is None or seen.in_catalog:
        query = along(query, DatabaseRow.warehouse, DatabaseRow.name)
        return query.where(DatabaseRow.warehouse == context.warehouse)
    principal = seen.principal
    parts: list[Select[str]] = [
        select(GrantRow.object_id).where(
            GrantRow.principal.in_(principal.grantees),
            GrantRow.warehouse == context.warehouse,
            GrantRow.resource_type.in_([TargetType.DATABASE.value, TargetType.DATABASE_ALL.value]),
            is_running(context),
        ),
        select(DatabaseRow.id).where(DatabaseRow.owner == principal.name),
    ]
    for type_, model in MODELS.items():
        granted = granted_ids(context, principal, type_)
        parts.append(select(model.database_id).where(model.id.in_(granted)))
        parts.append(select(model.database_id).where(model.owner == principal.name))
    return query.where(
        DatabaseRow.id.in_(union(*parts)),
        # Not by the index over warehouses and names, which would lead through all that is hidden.
        DatabaseRow.warehouse + "" == context.warehouse,
    )
