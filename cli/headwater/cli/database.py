"""`headwater database`: the databases of a catalog, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.arguments import (
    Database,
    IfExists,
    IfNotExists,
    Options,
    Pattern,
    Unset,
    pairs,
    require_changes,
)
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, audit, print_properties, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(
    help="The databases of a catalog, which hold tables, views and functions.", no_args_is_help=True
)


@app.command("list")
@on_lake
def list_databases(lake: Lake, pattern: Pattern = None, as_json: AsJson = False) -> None:
    """List the databases."""
    print_rows(["database"], [(name,) for name in lake.list_databases(pattern)], as_json=as_json)


@app.command()
@on_lake
def show(lake: Lake, database: Database, as_json: AsJson = False) -> None:
    """Show a database's location and options."""
    info = lake.get_database(database)
    print_properties(
        [
            ("database", info.name),
            ("id", info.id),
            ("location", info.location),
            ("protected", lake.catalog.protection.is_database_protected(database)),
            *((f"option {key}", value) for key, value in sorted(info.options.items())),
            *audit(info),
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def create(
    lake: Lake, database: Database, option: Options = None, if_not_exists: IfNotExists = False
) -> None:
    """Create a database; the option comment=TEXT is its comment."""
    options = pairs(option)
    lake.create_database(database, options, ignore_if_exists=if_not_exists)
    print(f"database {database} is there")


@app.command()
@on_lake
def alter(lake: Lake, database: Database, option: Options = None, unset: Unset = None) -> None:
    """Set and remove a database's options."""
    updates, removals = pairs(option), unset or []
    require_changes([*updates, *removals])
    lake.alter_database(database, updates=updates, removals=removals)
    print(f"database {database} is changed")


@app.command()
@on_lake
def drop(
    lake: Lake,
    database: Database,
    cascade: Annotated[
        bool,
        typer.Option(
            "--cascade", help="Also drop what is in it; views and functions cannot be restored."
        ),
    ] = False,
    if_exists: IfExists = False,
) -> None:
    """Drop an empty database, or with --cascade a database and all that is in it."""
    lake.drop_database(database, cascade=cascade, ignore_if_not_exists=if_exists)
    print(f"database {database} is dropped")
