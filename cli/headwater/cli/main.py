"""The `headwater` command: one place that knows every room."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from headwater.cli import (
    branch,
    database,
    demo,
    dropped,
    openapi,
    protection,
    serve,
    table,
    tag,
    token,
    warehouse,
)
from headwater.storage.errors import HeadwaterError

__all__ = ["app", "main"]

app = typer.Typer(
    name="headwater",
    help="Headwater: an open catalog and engine for Apache Paimon tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.add_typer(database.app, name="db")
app.add_typer(table.app, name="table")
app.add_typer(branch.app, name="branch")
app.add_typer(tag.app, name="tag")
app.add_typer(dropped.app, name="dropped")
app.command("protect")(protection.protect)
app.command("unprotect")(protection.unprotect)
app.add_typer(token.app, name="token")
app.add_typer(warehouse.app, name="warehouse")
app.command("openapi")(openapi.openapi)
app.command("demo")(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {version('headwater')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    # Typer runs the callback above while it reads the command line; nothing is left to do here.
    del show_version


def main() -> None:
    """Run the command line: exit code 0 when done, 1 for an error, 2 for a wrong command line.

    An error that Headwater raises on purpose is one line on standard error.
    """
    try:
        app()
    except HeadwaterError as error:
        line = " ".join(error.message.split())
        print(f"headwater: {line}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
