"""`headwater warehouse`: the warehouses in a catalog's database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.table.display import time_text
from headwater.cli.arguments import Unset, pairs
from headwater.cli.connection import DEFAULT_DATABASE, DatabaseOption
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.catalog.sql.admin.warehouses import Warehouses

__all__ = ["app"]

app = typer.Typer(
    help="The warehouses in a catalog's database, which all of its servers serve.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The warehouse's name.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="A storage option, such as s3.endpoint=http://minio:9000; may be repeated. Write a "
        "secret as KEY=- to be asked for it, or to read it from standard input: others on the "
        "machine can see a command line.",
    ),
]


@app.command()
def add(
    name: Name,
    location: Annotated[
        str, typer.Argument(metavar="LOCATION", help="The folder or URI of its tables.")
    ],
    option: Options = None,
    database_url: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Add a warehouse; running servers serve it at once."""
    options = _asked(option)
    with _warehouses(database_url) as warehouses:
        print(f"warehouse '{name}' is at {warehouses.add(name, location, options).location}")


@app.command("list")
def list_warehouses(
    database_url: DatabaseOption = DEFAULT_DATABASE, as_json: AsJson = False
) -> None:
    """List the warehouses in the database.

    Option values that may be secret are shown as ***.
    """
    with _warehouses(database_url) as warehouses:
        found = warehouses.list().items
    print_rows(
        ["name", "location", "options", "changed"],
        [
            [
                info.name,
                info.location,
                ", ".join(f"{key}={value}" for key, value in info.shown_options.items()) or None,
                time_text(info.updated_at),
            ]
            for info in found
        ],
        as_json=as_json,
    )


@app.command("set")
def set_options(
    name: Name,
    option: Options = None,
    unset: Unset = None,
    database_url: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Change a warehouse's options; running servers follow within five seconds."""
    options = _asked(option)
    if not options and not unset:
        raise typer.BadParameter("give --option or --unset")
    with _warehouses(database_url) as warehouses:
        warehouses.set(name, options, unset or [])
    print(f"warehouse '{name}' is changed")


@app.command()
def remove(name: Name, database_url: DatabaseOption = DEFAULT_DATABASE) -> None:
    """Remove an empty warehouse; running servers stop serving it within five seconds."""
    with _warehouses(database_url) as warehouses:
        warehouses.remove(name)
    print(f"warehouse '{name}' is removed")


@app.command("rotate-key")
def rotate_key(database_url: DatabaseOption = DEFAULT_DATABASE) -> None:
    """Encrypt warehouses' options and access keys' secrets with the first of the keys.

    The keys are those of HEADWATER_SECRET_KEYS or HEADWATER_SECRET_KEYS_FILE.
    """
    from headwater.catalog.sql.admin.sealed_options import option_keys
    from headwater.catalog.sql.admin.tokens import Tokens
    from headwater.catalog.sql.admin.warehouses import Warehouses
    from headwater.catalog.sql.database.open_database import opened_database

    keys = option_keys(os.environ)
    with opened_database(database_url) as database:
        warehouses = Warehouses(database, database.runtime, keys).rotate_key()
        secrets = Tokens(database, database.runtime, keys).rotate_key()
    print(
        f"the options of {warehouses} warehouses and the secrets of {secrets} access keys are "
        "encrypted anew"
    )


def _asked(options: list[str] | None) -> dict[str, str]:
    return {key: _secret(key) if value == "-" else value for key, value in pairs(options).items()}


def _secret(key: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(key, hide_input=True))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise typer.BadParameter(f"there is no line for {key} on standard input")
    return line


@contextmanager
def _warehouses(database_url: str) -> Iterator[Warehouses]:
    from headwater.catalog.sql.admin.sealed_options import option_keys
    from headwater.catalog.sql.admin.warehouses import Warehouses
    from headwater.catalog.sql.database.open_database import opened_database

    keys = option_keys(os.environ)
    with opened_database(database_url) as database:
        yield Warehouses(database, database.runtime, keys)
