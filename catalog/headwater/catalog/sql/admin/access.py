"""The rights of principals, from grants and possession."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Row, bindparam, exists, literal_column, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.permissions import GRANTABLE, Access, TargetType
from headwater.catalog.model.principal import Principal
from headwater.catalog.model.rights import NO_RIGHTS, Rights, Thing, expanded
from headwater.catalog.sql.admin.attached import NO_OBJECT
from headwater.catalog.sql.admin.column_permissions import column_set
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, DroppedTableRow, GrantRow
from headwater.catalog.sql.database.prepared import Prepared, padded
from headwater.catalog.sql.queries.listing import name_page
from headwater.catalog.sql.queries.lookup import database_not_found, table_not_found
from headwater.catalog.sql.queries.names import check_page
from headwater.catalog.sql.queries.possessions import (
    MODELS,
    granted_ids,
    is_running,
    owned_ids,
)
from headwater.storage.errors import NotFound, ResourceType

__all__ = ["SqlAccess", "thing_not_found"]


@dataclass(frozen=True)
class _Found:
    """The ids and owners on the way to a thing; an id is empty where there is none."""

    database_id: str = NO_OBJECT
    database_owner: str | None = None
    id: str = NO_OBJECT
    owner: str | None = None


class SqlAccess:
    """Tells the rights of principals in one warehouse.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context

    def rights(self, principal: Principal, thing: Thing) -> Rights:
        """The rights of a principal on a thing; none if there is no such thing.

        Raises:
            Unavailable: The database did not answer.
        """
        with self._context.database.read() as connection:
            found = self._find(connection, principal, thing)
            if found is None:
                return NO_RIGHTS
            rights = self._granted(connection, principal, thing, found)
            if thing.type is TargetType.DATABASE and not rights.is_visible:
                holds = self._holds_visible(connection, principal, found.database_id)
                return Rights(holds_visible=holds)
            return rights

    def holders(
        self, thing: Thing, *, max_results: int | None = None, page_token: str | None = None
    ) -> Page[tuple[str, Rights]]:
        """Those with a right on a thing, by name, and their rights, without groups taken apart.

        Raises:
            NotFound: There is no such thing.
        """
        check_page(max_results)
        nobody = Principal("")
        row = GrantRow
        types = [type_.value for type_ in TargetType if type_ in _REACHING[thing.type]]
        with self._context.database.read() as connection:
            found = self._find(connection, nobody, thing)
            if found is None:
                raise thing_not_found(thing)
            reaching = (
                row.object_id.in_({NO_OBJECT, found.database_id, found.id}),
                row.resource_type.in_(types),
                row.warehouse == self._context.warehouse,
                is_running(self._context),
            )
            query = select(row.principal).where(*reaching, row.principal > (page_token or ""))
            query = query.group_by(row.principal).order_by(row.principal)
            if max_results is not None:
                query = query.limit(max_results + 1)
            after = page_token or ""
            owners = {each for each in (found.owner, found.database_owner) if each and each > after}
            names = sorted(owners.union(connection.execute(query).scalars()))
            page = name_page(names[: None if max_results is None else max_results + 1], max_results)
            grants = (
                connection.execute(
                    select(
                        row.principal,
                        row.object_id,
                        row.resource_type,
                        row.access,
                        row.columns,
                        row.expires_at,
                    ).where(*reaching, row.principal.between(page.items[0], page.items[-1]))
                ).all()
                if page.items
                else []
            )
        by_name: dict[str, list[Row[*tuple[object, ...]]]] = {name: [] for name in page.items}
        for grant in grants:
            by_name.setdefault(grant.principal, []).append(grant)
        held = [(name, _rights(name, thing, found, by_name[name])) for name in page.items]
        return Page(tuple(each for each in held if each[1].is_visible), page.next_token)

    def _find(self, connection: Connection, principal: Principal, thing: Thing) -> _Found | None:
        if thing.type is TargetType.CATALOG:
            return _Found()
        if thing.is_dropped:
            return self._find_dropped(connection, principal, thing.id)
        here = DatabaseRow.warehouse == self._context.warehouse
        if thing.type is TargetType.DATABASE:
            dropped = select(DroppedTableRow.database).where(
                DroppedTableRow.table_id == thing.id,
                DroppedTableRow.warehouse == self._context.warehouse,
            )
            name = dropped.scalar_subquery() if thing.id else thing.database
            database = connection.execute(
                select(DatabaseRow.id, DatabaseRow.owner).where(here, DatabaseRow.name == name)
            ).one_or_none()
            return None if database is None else _Found(*database)
        if thing.id:
            row = _BY_ID.run(connection, warehouse=self._context.warehouse, id=thing.id)
        else:
            row = _BY_NAME[thing.type].run(
                connection,
                warehouse=self._context.warehouse,
                database=thing.database,
                name=thing.name,
            )
        found = row.one_or_none()
        return None if found is None else _Found(*found)

    def _find_dropped(
        self, connection: Connection, principal: Principal, table_id: str
    ) -> _Found | None:
        """A dropped table: no database is above it, and it is also theirs who dropped it."""
        model, row = MODELS[TargetType.TABLE], DroppedTableRow
        found = connection.execute(
            select(model.owner, row.dropped_by)
            .join(model, model.id == row.table_id)
            .where(row.table_id == table_id, row.warehouse == self._context.warehouse)
        ).one_or_none()
        if found is None:
            return None
        owner = principal.name if principal.name in found else None
        return _Found(id=table_id, owner=owner)

    def _granted(
        self, connection: Connection, principal: Principal, thing: Thing, found: _Found
    ) -> Rights:
        names = padded(sorted(principal.grantees))
        rows = (
            _grants_of(len(names))
            .run(
                connection,
                database=found.database_id,
                thing=found.id,
                warehouse=self._context.warehouse,
                now=self._context.runtime.latest_millis(),
                **{f"principal_{at}": name for at, name in enumerate(names)},
            )
            .all()
        )
        return _rights(principal.name, thing, found, rows)

    def _holds_visible(
        self, connection: Connection, principal: Principal, database_id: str
    ) -> bool:
        """True if a principal may see something in a database that it has no right on."""
        for type_, model in MODELS.items():
            for ids in (
                granted_ids(self._context, principal, type_),
                owned_ids(principal, model),
            ):
                # From the principal's side: what others have here costs nothing.
                query = select(
                    exists().where(model.id.in_(ids), model.database_id + "" == database_id)
                )
                if connection.execute(query).scalar_one():
                    return True
        return False


# The targets of grants that reach a thing.
_REACHING = {
    TargetType.CATALOG: {TargetType.CATALOG, TargetType.CATALOG_ALL},
    TargetType.DATABASE: {TargetType.CATALOG_ALL, TargetType.DATABASE, TargetType.DATABASE_ALL},
    **{
        type_: {TargetType.CATALOG_ALL, TargetType.DATABASE_ALL, type_}
        | ({TargetType.COLUMN} if type_ is TargetType.TABLE else set())
        for type_ in MODELS
    },
}


def thing_not_found(thing: Thing) -> NotFound:
    """The error about a thing that does not exist, or that the caller does not see."""
    if thing.type is TargetType.DATABASE and not thing.id:
        return database_not_found(thing.database)
    if thing.type is TargetType.TABLE and not thing.id:
        return table_not_found(Identifier(thing.database, thing.name))
    if thing.is_dropped:
        message = f"there is no dropped table {thing.id}; it was restored or purged, or never was"
    elif thing.type is TargetType.DATABASE:
        message = f"the database that table {thing.id} was in does not exist; name another"
    elif thing.id:
        message = f"no table has the id {thing.id}"
    else:
        name = Identifier(thing.database, thing.name)
        message = f"{thing.type.value.lower()} {name} does not exist"
    return NotFound(
        message,
        resource_type=ResourceType(thing.type.value),
        resource_name=thing.id or thing.name,
    )


def _lookup(type_: TargetType, *named: tuple[InstrumentedAttribute[str], str]) -> Prepared:
    """The statement that finds the ids and owners of a thing and of its database."""
    model = MODELS[type_]
    return Prepared(
        select(DatabaseRow.id, DatabaseRow.owner, model.id, model.owner)
        .join(model, model.database_id == DatabaseRow.id)
        .where(
            DatabaseRow.warehouse == bindparam("warehouse"),
            *(column == bindparam(value) for column, value in named),
        )
    )


_BY_NAME = {
    type_: _lookup(type_, (DatabaseRow.name, "database"), (model.name, "name"))
    for type_, model in MODELS.items()
}
_BY_ID = _lookup(TargetType.TABLE, (MODELS[TargetType.TABLE].id, "id"))


@cache
def _grants_of(names: int) -> Prepared:
    """The statement for the grants to so many names on a thing and on what is above it."""
    return Prepared(
        select(
            GrantRow.object_id,
            GrantRow.resource_type,
            GrantRow.access,
            GrantRow.columns,
            GrantRow.expires_at,
        ).where(
            GrantRow.object_id.in_(
                [literal_column(f"'{NO_OBJECT}'"), bindparam("database"), bindparam("thing")]
            ),
            GrantRow.resource_type.in_([literal_column(f"'{each.value}'") for each in TargetType]),
            GrantRow.warehouse == bindparam("warehouse"),
            GrantRow.principal.in_([bindparam(f"principal_{at}") for at in range(names)]),
            or_(GrantRow.expires_at.is_(None), GrantRow.expires_at > bindparam("now")),
        )
    )


def _rights(
    name: str, thing: Thing, found: _Found, rows: Sequence[Row[*tuple[object, ...]]]
) -> Rights:
    """The rights of a principal on a thing, from what was granted to it and what it owns."""
    on_catalog = _accesses(rows, NO_OBJECT, TargetType.CATALOG)
    in_catalog = _accesses(rows, NO_OBJECT, TargetType.CATALOG_ALL)
    ends_at = min((row.expires_at for row in rows if row.expires_at is not None), default=None)
    if thing.type is TargetType.CATALOG:
        return Rights(on_catalog, in_catalog, ends_at=ends_at)
    owned = found.database_owner is not None and found.database_owner == name
    in_database = in_catalog & GRANTABLE[TargetType.DATABASE_ALL]
    if found.database_id:
        in_database |= _accesses(rows, found.database_id, TargetType.DATABASE_ALL)
    if owned:
        in_database |= GRANTABLE[TargetType.DATABASE_ALL]
    if thing.type is TargetType.DATABASE:
        own = _accesses(rows, found.database_id, TargetType.DATABASE)
        own |= in_catalog & GRANTABLE[TargetType.DATABASE]
        if owned:
            own |= GRANTABLE[TargetType.DATABASE]
        return Rights(own, in_database, ends_at=ends_at)
    grantable = GRANTABLE[thing.type]
    own = _accesses(rows, found.id, thing.type) | (in_database & grantable)
    if found.owner is not None and found.owner == name:
        own |= grantable
    columns = tuple(
        column_set(row.columns)
        for row in rows
        if row.resource_type == TargetType.COLUMN and row.object_id == found.id and row.columns
    )
    if columns:
        # They hold whatever else was granted, also to groups, and for owners.
        own -= {Access.SELECT, Access.ALL}
    return Rights(own, columns=columns, ends_at=ends_at)


def _accesses(
    rows: Sequence[Row[*tuple[object, ...]]], object_id: str, type_: TargetType
) -> frozenset[Access]:
    return expanded(
        type_,
        [
            row.access
            for row in rows
            if row.object_id == object_id and row.resource_type == type_.value
        ],
    )
