"""`headwater db`: the SQL database that holds a catalog."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="The SQL database that holds a catalog.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    # With it, `db` stays a group of commands although it has one only.
    pass


@app.command()
def upgrade(
    database_url: Annotated[
        str,
        typer.Option(
            envvar="HEADWATER_DATABASE_URL",
            metavar="URL",
            help="The database, such as sqlite:///file.db or postgresql+psycopg://user@host/name.",
        ),
    ] = "sqlite:///headwater.db",
) -> None:
    """Bring the database to this version's schema; `serve` does it by itself on SQLite."""
    from headwater.migrations import upgrade as bring_up

    print(f"the database is at revision {bring_up(database_url)}")
