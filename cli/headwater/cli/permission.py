"""`headwater permission`: grants, on the command line."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    Holder,
    PermissionTarget,
    SeenTable,
    TargetType,
)
from headwater.catalog.table.display import time_text
from headwater.cli.arguments import duration
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="Permissions: who may do what with what.", no_args_is_help=True)

_KINDS = ("table", "view", "function")
_IN_A_DATABASE = {
    TargetType.TABLE: "table",
    TargetType.COLUMN: "table",
    TargetType.VIEW: "view",
    TargetType.FUNCTION: "function",
}

Principal = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="The name of a token, or group:NAME.")
]
AccessName = Annotated[
    Access, typer.Argument(metavar="ACCESS", case_sensitive=False, help="Such as SELECT or ALL.")
]
TargetKind = Annotated[
    TargetType,
    typer.Argument(
        metavar="TYPE",
        case_sensitive=False,
        help="CATALOG, CATALOG_ALL, DATABASE, DATABASE_ALL, TABLE, COLUMN, VIEW or FUNCTION; "
        "..._ALL is everything in it.",
    ),
]
TargetName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="The target, depending on its type: DATABASE, DATABASE.NAME or nothing.",
    ),
]


@app.command("list")
@on_lake
def list_permissions(
    lake: Lake,
    target_type: TargetKind,
    name: TargetName = None,
    principal: Annotated[
        str | None, typer.Option(metavar="PRINCIPAL", help="Only this principal's grants.")
    ] = None,
    access: Annotated[
        Access | None,
        typer.Option(metavar="ACCESS", case_sensitive=False, help="Only this access."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the grants on exactly this target."""
    target = _target(target_type, name)
    permissions = lake.catalog.permissions
    found = all_pages(
        lambda token: permissions.list(target, principal=principal, access=access, page_token=token)
    )
    print_rows(
        ["principal", "access", "columns", "until"],
        [
            (grant.principal, str(grant.access), _columns_text(grant), time_text(grant.expires_at))
            for grant in found
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def who(
    lake: Lake, target_type: TargetKind, name: TargetName = None, as_json: AsJson = False
) -> None:
    """List who has a right on a CATALOG, DATABASE, TABLE, VIEW or FUNCTION, from wherever."""
    target = _target(target_type, name)
    found = all_pages(lambda token: lake.catalog.permissions.who(target, page_token=token))
    print_rows(
        ["principal", "access", "columns"],
        [(each.principal, _accesses_text(each), _sets_text(each)) for each in found],
        as_json=as_json,
    )


@app.command()
@on_lake
def of(lake: Lake, principal: Principal, as_json: AsJson = False) -> None:
    """List the tables that a principal sees, and what it may do with them."""
    found = all_pages(lambda token: lake.catalog.permissions.of(principal, page_token=token))
    print_rows(
        ["table", "access", "columns"],
        [(str(each.identifier), _accesses_text(each), _sets_text(each)) for each in found],
        as_json=as_json,
    )


@app.command("grant")
@on_lake
def grant_access(
    lake: Lake,
    principal: Principal,
    access: AccessName,
    target_type: TargetKind,
    name: TargetName = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="NAME", help="With COLUMN: on this column; may be repeated."
        ),
    ] = None,
    except_column: Annotated[
        list[str] | None,
        typer.Option(
            "--except-column",
            metavar="NAME",
            help="With COLUMN: on all columns but this; may be repeated.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires-in",
            metavar="DURATION",
            help="The time until it expires, such as '90 d'; by default never.",
        ),
    ] = None,
) -> None:
    """Grant access; it replaces one of the same target, access and principal."""
    until = None
    if expires is not None:
        lasts = duration(expires, "--expires-in") // timedelta(milliseconds=1)
        until = lake.runtime.earliest_millis() + lasts
    columns = _columns(target_type, column, except_column)
    grant = Grant(_target(target_type, name), access, principal, columns, until)
    lake.catalog.permissions.grant(grant)
    print(f"{principal} is granted {access} on {_shown(target_type, name)}")


@app.command()
@on_lake
def revoke(
    lake: Lake,
    principal: Principal,
    access: AccessName,
    target_type: TargetKind,
    name: TargetName = None,
) -> None:
    """Revoke a grant; nothing happens if there is none."""
    target = _target(target_type, name)
    lake.catalog.permissions.revoke(target, access, principal)
    print(f"{principal} is not granted {access} on {_shown(target_type, name)}")


def _target(target_type: TargetType, name: str | None) -> PermissionTarget:
    kind = _IN_A_DATABASE.get(target_type)
    if kind is None:
        return PermissionTarget(target_type, name)
    if name is None:
        raise typer.BadParameter(f"a permission on {target_type} needs a NAME, DATABASE.NAME")
    identifier = Identifier.parse(name)
    table, view, function = (identifier.name if kind == each else None for each in _KINDS)
    return PermissionTarget(
        target_type, identifier.database, table=table, view=view, function=function
    )


def _columns(
    target_type: TargetType, names: list[str] | None, excluded: list[str] | None
) -> ColumnSet | None:
    given = bool(names) + bool(excluded)
    if given != (target_type is TargetType.COLUMN):
        raise typer.BadParameter(
            "give --column or --except-column with the type COLUMN, and only there"
        )
    if not given:
        return None
    return ColumnSet(tuple(names) if names else None, tuple(excluded) if excluded else None)


def _shown(target_type: TargetType, name: str | None) -> str:
    return str(target_type) if name is None else f"{target_type} {name}"


def _columns_text(grant: Grant) -> str | None:
    return None if grant.columns is None else _set_text(grant.columns)


def _set_text(columns: ColumnSet) -> str:
    names = ", ".join(columns.mentioned)
    return names if columns.names is not None else f"all but {names}"


def _accesses_text(of: Holder | SeenTable) -> str:
    return str(Access.ALL) if Access.ALL in of.accesses else ", ".join(sorted(of.accesses))


def _sets_text(of: Holder | SeenTable) -> str | None:
    return "; ".join(map(_set_text, of.columns)) or None
