"""Permissions: who was granted which access to what.

A server enforces them for callers who ask permission. What can be granted on what is as in
pypaimon's ``management`` package, whose requests these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.errors import Invalid

__all__ = [
    "GRANTABLE",
    "Access",
    "ColumnSet",
    "Grant",
    "Holder",
    "PermissionTarget",
    "Permissions",
    "SeenTable",
    "TargetType",
    "check_access",
    "check_principal",
]

_LONGEST_PRINCIPAL = 128


class TargetType(StrEnum):
    """The kinds of object of a permission; ``…_ALL`` is everything in it, now and later."""

    CATALOG = "CATALOG"
    CATALOG_ALL = "CATALOG_ALL"
    DATABASE = "DATABASE"
    DATABASE_ALL = "DATABASE_ALL"
    TABLE = "TABLE"
    COLUMN = "COLUMN"
    VIEW = "VIEW"
    FUNCTION = "FUNCTION"


class Access(StrEnum):
    """The kinds of access."""

    ALL = "ALL"
    CREATEDATABASE = "CREATEDATABASE"
    DESCRIBE = "DESCRIBE"
    ALTER = "ALTER"
    DROP = "DROP"
    CREATETABLE = "CREATETABLE"
    CREATEFUNCTION = "CREATEFUNCTION"
    CREATEVIEW = "CREATEVIEW"
    LIST = "LIST"
    SELECT = "SELECT"
    UPDATE = "UPDATE"
    GRANT = "GRANT"


_OF_A_DATABASE = frozenset(
    {
        Access.ALL,
        Access.DESCRIBE,
        Access.ALTER,
        Access.DROP,
        Access.GRANT,
        Access.CREATETABLE,
        Access.CREATEVIEW,
        Access.CREATEFUNCTION,
        Access.LIST,
    }
)
_OF_A_TABLE = frozenset(
    {Access.ALL, Access.SELECT, Access.UPDATE, Access.ALTER, Access.DROP, Access.GRANT}
)

GRANTABLE: Mapping[TargetType, frozenset[Access]] = {
    TargetType.CATALOG: frozenset(
        {Access.ALL, Access.ALTER, Access.DROP, Access.GRANT, Access.CREATEDATABASE}
    ),
    TargetType.CATALOG_ALL: _OF_A_DATABASE | {Access.SELECT, Access.UPDATE},
    TargetType.DATABASE: _OF_A_DATABASE,
    TargetType.DATABASE_ALL: _OF_A_TABLE,
    TargetType.TABLE: _OF_A_TABLE,
    TargetType.COLUMN: frozenset({Access.SELECT}),
    TargetType.VIEW: _OF_A_TABLE - {Access.UPDATE},
    TargetType.FUNCTION: _OF_A_TABLE - {Access.UPDATE},
}
"""Which access can be granted to what (``permission_access.py``)."""

_YEAR_10000 = 253_402_300_800_000

# The names that lead to a target, and no others may be given.
_NAMES: Mapping[TargetType, tuple[str, ...]] = {
    TargetType.CATALOG: (),
    TargetType.CATALOG_ALL: (),
    TargetType.DATABASE: ("database",),
    TargetType.DATABASE_ALL: ("database",),
    TargetType.TABLE: ("database", "table"),
    TargetType.COLUMN: ("database", "table"),
    TargetType.VIEW: ("database", "view"),
    TargetType.FUNCTION: ("database", "function"),
}


def _is_blank(text: str | None) -> bool:
    # As Java trims: control characters are blank, too.
    return text is None or all(character <= " " for character in text)


@dataclass(frozen=True)
class PermissionTarget:
    """Something that access can be granted to (``permission_resource.py``).

    A blank name is no name.

    Raises:
        Invalid: A name that leads to it is missing, or one is given that does not.
    """

    type: TargetType
    database: str | None = None
    table: str | None = None
    function: str | None = None
    view: str | None = None

    def __post_init__(self) -> None:
        """Refuse what names no target."""
        wanted = _NAMES[self.type]
        for name in ("database", "table", "function", "view"):
            given: str | None = getattr(self, name)
            if _is_blank(given):
                object.__setattr__(self, name, None)
                if name in wanted:
                    raise Invalid(f"a permission on {self.type} needs the name of its {name}")
            elif name not in wanted:
                raise Invalid(
                    f"a permission on {self.type} must not name a {name}, but "
                    f"{' and '.join(wanted) or 'nothing'}"
                )


@dataclass(frozen=True)
class ColumnSet:
    """Some columns of a table: those named, or all but those.

    Raises:
        Invalid: Not exactly one of the two is given, or it is empty, or a name is blank or twice.
    """

    names: tuple[str, ...] | None = None
    excluded: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no set of columns."""
        if (self.names is None) == (self.excluded is None):
            raise Invalid("columns: give exactly one of 'columnNames' and 'excludedColumnNames'")
        if not self.mentioned or any(_is_blank(name) for name in self.mentioned):
            raise Invalid("columns: give at least one name, and none that is empty")
        if len(set(self.mentioned)) != len(self.mentioned):
            raise Invalid("columns: a name is given twice")

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The names, included or excluded."""
        return self.names or self.excluded or ()

    def holds(self, name: str) -> bool:
        """True if a column is one of them."""
        return name in self.names if self.names is not None else name not in self.mentioned


@dataclass(frozen=True)
class Grant:
    """A permission (``permission_assignment.py``).

    Attributes:
        target: The resource that it is on.
        access: The access that it grants.
        principal: Whom.
        columns: For COLUMN, and only there: which.
        expires_at: Its end, milliseconds since the epoch; None means never. Before the year
            10000, as far as the wire's form of a time goes.

    Raises:
        Invalid: The access cannot be granted on the target, or another part is wrong.
    """

    target: PermissionTarget
    access: Access
    principal: str
    columns: ColumnSet | None = None
    expires_at: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be granted."""
        check_access(self.target, self.access)
        check_principal(self.principal)
        if self.target.type is TargetType.COLUMN and self.columns is None:
            raise Invalid("a permission on COLUMN needs 'columns'")
        if self.target.type is not TargetType.COLUMN and self.columns is not None:
            raise Invalid(f"'columns' is for a permission on COLUMN, not on {self.target.type}")
        if self.expires_at is not None and self.expires_at >= _YEAR_10000:
            raise Invalid("a permission must end before the year 10000, or never")


def check_access(target: PermissionTarget, access: str) -> Access:
    """An access by its name in any case; raises Invalid when the target does not have it."""
    grantable = GRANTABLE[target.type]
    name = access.upper()
    if name not in grantable:
        raise Invalid(
            f"'{name}' cannot be granted on {target.type}, but {', '.join(sorted(grantable))}"
        )
    return Access(name)


def check_principal(principal: str) -> None:
    """Refuse what cannot be a principal; raises Invalid."""
    # Counted as Java does, which its clients check before they send.
    length = len(principal.encode("utf-16-le", "surrogatepass")) // 2
    if _is_blank(principal) or length > _LONGEST_PRINCIPAL:
        raise Invalid(
            f"a principal has 1 to {_LONGEST_PRINCIPAL} characters, not all of them blank"
        )


@dataclass(frozen=True)
class Holder:
    """Somebody with a right on a thing, from whatever it comes.

    Attributes:
        principal: The principal, or a group as ``group:NAME``.
        accesses: The accesses on the thing itself.
        columns: The columns of a table that may be selected beside.
    """

    principal: str
    accesses: frozenset[Access]
    columns: tuple[ColumnSet, ...] = ()


@dataclass(frozen=True)
class SeenTable:
    """A table that a principal sees, if only its name.

    Attributes:
        identifier: The table.
        accesses: The principal's accesses on it.
        columns: The columns that it may select beside.
    """

    identifier: Identifier
    accesses: frozenset[Access]
    columns: tuple[ColumnSet, ...] = ()


class Permissions(Protocol):
    """The grants of one warehouse.

    They are on the thing and not on its name: they follow it when it is renamed, stay with a
    dropped table that is restored, and are gone when it is.
    """

    def list(
        self,
        target: PermissionTarget,
        *,
        principal: str | None = None,
        access: Access | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Grant]:
        """The grants on exactly this target that have not ended, by principal and access.

        Raises:
            NotFound: There is no such target (DATABASE, TABLE, VIEW, FUNCTION).
        """
        ...

    def who(
        self,
        target: PermissionTarget,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Holder]:
        """Everybody with a right on a thing: by grants on it and on what it is in, or as its owner.

        Groups are not taken apart. A page may be short and still not be the last.

        Args:
            target: The thing: no COLUMN, and nothing that ends in ``_ALL``.
            max_results: The size of a page; None means everything.
            page_token: The end of the previous page.

        Raises:
            NotFound: There is no such thing (DATABASE, TABLE, VIEW, FUNCTION).
            Invalid: The target is no thing.
        """
        ...

    def of(
        self,
        principal: str,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[SeenTable]:
        """The tables that a principal sees by itself, by the groups kept here, and as an owner.

        Args:
            principal: The principal, or a group as ``group:NAME``.
            max_results: The size of a page; None means everything.
            page_token: The end of the previous page.
        """
        ...

    def grant(self, grant: Grant) -> None:
        """Record a grant, in place of one of the same target, access and principal.

        Raises:
            NotFound: There is no such target (DATABASE, TABLE, COLUMN, VIEW, FUNCTION).
            Invalid: It would have ended already.
        """
        ...

    def revoke(self, target: PermissionTarget, access: Access, principal: str) -> None:
        """Take a grant back; it is no error when there is none.

        Raises:
            NotFound: There is no such target (DATABASE, TABLE, VIEW, FUNCTION).
        """
        ...
