"""`headwater group`: the groups of principals in a catalog's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connection import DEFAULT_DATABASE, DatabaseOption
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.catalog.sql.admin.groups import Groups

__all__ = ["app"]

app = typer.Typer(
    help="Groups of principals, which permissions name as group:NAME.", no_args_is_help=True
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name, without 'group:'.")]
Member = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="A person or a program: the name of a token.")
]


@app.command()
def add(group: Group, principal: Member, database_url: DatabaseOption = DEFAULT_DATABASE) -> None:
    """Add a principal to a group."""
    with _groups(database_url) as groups:
        groups.add(group, principal)
    print(f"'{principal}' is in group '{group}'")


@app.command()
def remove(
    group: Group, principal: Member, database_url: DatabaseOption = DEFAULT_DATABASE
) -> None:
    """Remove a principal from a group: running servers follow within ten seconds."""
    with _groups(database_url) as groups:
        groups.remove(group, principal)
    print(f"'{principal}' is not in group '{group}'")


@app.command("list")
def list_groups(
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Only members of this group.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option(metavar="PRINCIPAL", help="Only this principal's groups.")
    ] = None,
    database_url: DatabaseOption = DEFAULT_DATABASE,
    as_json: AsJson = False,
) -> None:
    """List groups and their members."""
    with _groups(database_url) as groups:
        found = groups.list(group=group, principal=principal).items
    print_rows(
        ["group", "principal"], [(each.group, each.principal) for each in found], as_json=as_json
    )


@contextmanager
def _groups(database_url: str) -> Iterator[Groups]:
    from headwater.catalog.sql.admin.groups import Groups
    from headwater.catalog.sql.database.open_database import opened_database

    with opened_database(database_url) as database:
        yield Groups(database)
