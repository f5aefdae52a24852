"""The JSON about permissions, which is not in the public API document: see pypaimon's
``management`` package and `…catalog.wire`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pydantic import Field, JsonValue

from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    Holder,
    PermissionTarget,
    SeenTable,
    TargetType,
    check_access,
)
from headwater.catalog.wire.examples import ORDERS, example
from headwater.catalog.wire.tables import IdentifierModel, Listed, Paged, WireModel
from headwater.storage.errors import Invalid

__all__ = [
    "GrantModel",
    "HolderModel",
    "ListHoldersResponse",
    "ListPermissionsResponse",
    "ListSeenTablesResponse",
    "PermissionColumnsModel",
    "PermissionResourceModel",
    "RevokePermissionRequest",
    "SeenTableModel",
    "parse_target_type",
]

_ORDERS_COLUMNS: dict[str, JsonValue] = {"type": "COLUMN", "database": "sales", "table": "orders"}
_GRANT: dict[str, JsonValue] = {
    "resource": _ORDERS_COLUMNS,
    "access": "SELECT",
    "principal": "ada",
    "columns": {"excludedColumnNames": ["amount"]},
    "expireTime": "2099-12-31T00:00:00Z",
}

_HOLDER: dict[str, JsonValue] = {"principal": "ada", "access": ["SELECT"], "columns": []}
_SEEN: dict[str, JsonValue] = {"identifier": ORDERS, "access": ["SELECT"], "columns": []}

_INSTANT = re.compile(
    r"(?P<seconds>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{0,9}))?Z", re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI = timedelta(milliseconds=1)


def _is_none(value: object) -> bool:
    return value is None


def parse_target_type(text: str) -> TargetType:
    """A type by its name in any case; raises Invalid."""
    name = text.upper()
    if name not in set(TargetType):
        raise Invalid(f"'{text}' is not a resource type, but {', '.join(TargetType)}")
    return TargetType(name)


def _millis(text: str) -> int:
    """Milliseconds since the epoch of an ISO-8601 instant, as Java writes it; raises Invalid."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise Invalid(f"expireTime: '{text}' is not an instant such as 2027-01-31T00:00:00Z")
    fraction = (match["fraction"] or "").ljust(9, "0")
    if not fraction.endswith("000000"):
        raise Invalid(f"expireTime: '{text}' is more precise than a millisecond")
    try:
        seconds = datetime.fromisoformat(match["seconds"].upper()).replace(tzinfo=UTC)
    except ValueError as error:
        raise Invalid(f"expireTime: '{text}' is no time: {error}") from error
    return (seconds - _EPOCH) // _MILLI + int(fraction[:3])


def _instant(millis: int) -> str:
    """The other way round."""
    moment = _EPOCH + millis * _MILLI
    timespec = "milliseconds" if millis % 1000 else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


class PermissionResourceModel(WireModel):
    """The resource of a permission.

    Attributes:
        type: CATALOG, CATALOG_ALL, DATABASE, DATABASE_ALL, TABLE, COLUMN, VIEW or FUNCTION.
    """

    model_config = example(_ORDERS_COLUMNS)

    type: str
    database: str | None = Field(default=None, exclude_if=_is_none)
    table: str | None = Field(default=None, exclude_if=_is_none)
    function: str | None = Field(default=None, exclude_if=_is_none)
    view: str | None = Field(default=None, exclude_if=_is_none)

    @staticmethod
    def of(target: PermissionTarget) -> PermissionResourceModel:
        """The wire form."""
        return PermissionResourceModel(
            type=target.type,
            database=target.database,
            table=target.table,
            function=target.function,
            view=target.view,
        )

    def target(self) -> PermissionTarget:
        """The target; raises Invalid."""
        return PermissionTarget(
            parse_target_type(self.type), self.database, self.table, self.function, self.view
        )


class PermissionColumnsModel(WireModel):
    """The columns that a permission on COLUMN is on: exactly one of the two."""

    model_config = example({"excludedColumnNames": ["amount"]})

    column_names: list[str] | None = Field(default=None, exclude_if=_is_none)
    excluded_column_names: list[str] | None = Field(default=None, exclude_if=_is_none)

    @staticmethod
    def of(columns: ColumnSet) -> PermissionColumnsModel:
        """The wire form."""
        return PermissionColumnsModel(
            column_names=None if columns.names is None else list(columns.names),
            excluded_column_names=None if columns.excluded is None else list(columns.excluded),
        )

    def columns(self) -> ColumnSet:
        """The columns; raises Invalid."""
        names, excluded = self.column_names, self.excluded_column_names
        return ColumnSet(
            None if names is None else tuple(names),
            None if excluded is None else tuple(excluded),
        )


class GrantModel(WireModel):
    """A permission: the body of ``POST …/permissions/grant``, and what is listed.

    Attributes:
        resource: The resource that it is on.
        access: The access that it grants.
        principal: Whom.
        columns: The columns, for COLUMN only.
        expire_time: Its end, an ISO-8601 instant in UTC with no more than milliseconds.
    """

    model_config = example(_GRANT)

    resource: PermissionResourceModel
    access: str
    principal: str
    columns: PermissionColumnsModel | None = Field(default=None, exclude_if=_is_none)
    expire_time: str | None = Field(default=None, exclude_if=_is_none)

    @staticmethod
    def of(grant: Grant) -> GrantModel:
        """The wire form."""
        return GrantModel(
            resource=PermissionResourceModel.of(grant.target),
            access=grant.access,
            principal=grant.principal,
            columns=None if grant.columns is None else PermissionColumnsModel.of(grant.columns),
            expire_time=None if grant.expires_at is None else _instant(grant.expires_at),
        )

    def grant(self) -> Grant:
        """The permission; raises Invalid."""
        target = self.resource.target()
        return Grant(
            target,
            check_access(target, self.access),
            self.principal,
            None if self.columns is None else self.columns.columns(),
            None if self.expire_time is None else _millis(self.expire_time),
        )


class RevokePermissionRequest(WireModel):
    """``POST …/permissions/revoke``."""

    model_config = example(
        {
            "resource": _ORDERS_COLUMNS,
            "access": "SELECT",
            "principal": "ada",
        }
    )

    resource: PermissionResourceModel
    access: str
    principal: str


class HolderModel(WireModel):
    """Somebody with a right on a thing.

    Attributes:
        principal: The principal, or a group as `group:NAME`.
        access: The kinds of access to the thing itself, ALL among them if it is everything.
        columns: Sets of columns that may be selected beside; for tables only.
    """

    model_config = example(_HOLDER)

    principal: str
    access: list[str]
    columns: list[PermissionColumnsModel] = Field(default_factory=list)

    @staticmethod
    def of(holder: Holder) -> HolderModel:
        """The wire form."""
        return HolderModel(
            principal=holder.principal,
            access=sorted(holder.accesses),
            columns=[PermissionColumnsModel.of(each) for each in holder.columns],
        )

    def holder(self) -> Holder:
        """The value; raises Invalid."""
        accesses = frozenset(Access(name) for name in self.access)
        return Holder(self.principal, accesses, tuple(each.columns() for each in self.columns))


class ListHoldersResponse(Paged):
    """A page of holders of rights.

    Attributes:
        holders: Those with a right on the thing, by name.
    """

    model_config = example({"holders": [_HOLDER], "nextPageToken": None})

    holders: list[HolderModel]


class SeenTableModel(WireModel):
    """A table that a principal sees.

    Attributes:
        access: The kinds of access to it; none if only its name is seen.
        columns: Sets of columns that may be selected beside.
    """

    model_config = example(_SEEN)

    identifier: IdentifierModel
    access: list[str]
    columns: list[PermissionColumnsModel] = Field(default_factory=list)

    @staticmethod
    def of(seen: SeenTable) -> SeenTableModel:
        """The wire form."""
        return SeenTableModel(
            identifier=IdentifierModel.of(seen.identifier),
            access=sorted(seen.accesses),
            columns=[PermissionColumnsModel.of(each) for each in seen.columns],
        )

    def seen(self) -> SeenTable:
        """The value; raises Invalid."""
        accesses = frozenset(Access(name) for name in self.access)
        columns = tuple(each.columns() for each in self.columns)
        return SeenTable(self.identifier.identifier(), accesses, columns)


class ListSeenTablesResponse(Paged):
    """A page of the tables that a principal sees.

    Attributes:
        tables: The tables, by database and name.
    """

    model_config = example({"tables": [_SEEN], "nextPageToken": None})

    tables: list[SeenTableModel]


class ListPermissionsResponse(Listed[GrantModel]):
    """Permissions."""

    model_config = example({"permissions": [_GRANT], "nextPageToken": None})

    items: list[GrantModel] | None = Field(default=None, alias="permissions")
