"""The rights of principals, from grants and possession."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Row, bindparam, exists, literal_column, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.model.permissions import GRANTABLE, Access, ColumnSet, TargetType
from headwater.catalog.model.principal import Principal
from headwater.catalog.model.rights import NO_RIGHTS, Rights, Thing, expanded
from headwater.catalog.sql.admin.grants import NO_OBJECT
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, DroppedTableRow, GrantRow
from headwater.catalog.sql.database.prepared import Prepared, padded
from headwater.catalog.sql.queries.possessions import (
    MODELS,
    granted_ids,
    owned_ids,
)
from headwater.catalog.wire.permissions import PermissionColumnsModel

__all__ = ["SqlAccess"]


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
                now=self._context.runtime.now_millis(),
                **{f"principal_{at}": name for at, name in enumerate(names)},
            )
            .all()
        )
        on_catalog = _accesses(rows, NO_OBJECT, TargetType.CATALOG)
        in_catalog = _accesses(rows, NO_OBJECT, TargetType.CATALOG_ALL)
        ends_at = min((row.expires_at for row in rows if row.expires_at is not None), default=None)
        if thing.type is TargetType.CATALOG:
            return Rights(on_catalog, in_catalog, ends_at=ends_at)
        owned = found.database_owner is not None and found.database_owner == principal.name
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
        if found.owner is not None and found.owner == principal.name:
            own |= grantable
        columns = tuple(
            _columns(row.columns)
            for row in rows
            if row.resource_type == TargetType.COLUMN and row.object_id == found.id and row.columns
        )
        return Rights(own, columns=columns, ends_at=ends_at)

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


def _columns(document: str) -> ColumnSet:
    return PermissionColumnsModel.model_validate_json(document).columns()
