"""`headwater db`: the SQL database that holds a catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.connection import DEFAULT_DATABASE, DatabaseOption

__all__ = ["app"]

app = typer.Typer(help="The SQL database that holds a catalog.", no_args_is_help=True)


@app.command()
def current(database_url: DatabaseOption = DEFAULT_DATABASE) -> None:
    """Show the database's revision, and the command to run if this version needs another."""
    from headwater.migrations import current as current_revision
    from headwater.migrations import newest

    found, wanted = current_revision(database_url), newest()
    if found is None:
        print("the database has no tables yet: run 'headwater db upgrade'")
    elif found < wanted:
        print(f"the database is at revision {found}; the newest is {wanted}: ", end="")
        print("run 'headwater db upgrade'")
    elif found > wanted:
        print(
            f"the database is at revision {found}, made by a newer version of Headwater; ", end=""
        )
        print(f"this one knows revisions up to {wanted}")
    else:
        print(f"the database is at revision {found}, the newest")


@app.command()
def upgrade(database_url: DatabaseOption = DEFAULT_DATABASE) -> None:
    """Upgrade the database to this version's schema; `serve` does so itself on SQLite."""
    from headwater.migrations import upgrade as bring_up

    print(f"the database is at revision {bring_up(database_url)}")


@app.command()
def downgrade(
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="The revision of the earlier version.")
    ],
    discard: Annotated[
        bool,
        typer.Option(
            "--discard",
            help="Lose the views, functions, permissions, tokens and warehouses that the revision "
            "has no place for.",
        ),
    ] = False,
    database_url: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Take the database back to an earlier version's schema; stop the servers first."""
    from headwater.migrations import downgrade as bring_down

    print(f"the database is at revision {bring_down(database_url, revision, discard=discard)}")
