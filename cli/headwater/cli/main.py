"""The `headwater` command: all subcommands together."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from headwater.cli import (
    audit,
    branch,
    consumer,
    database,
    db,
    demo,
    dropped,
    fsck,
    function,
    group,
    label,
    maintain,
    openapi,
    partition,
    permission,
    policy,
    protection,
    reconcile,
    serve,
    table,
    tag,
    token,
    view,
    warehouse,
)
from headwater.cli.cdc import command as cdc
from headwater.cli.printable_stream import printable_output
from headwater.cli.sql import command as sql
from headwater.storage.errors import HeadwaterError

__all__ = ["app", "main"]

app = typer.Typer(
    name="headwater",
    help="Headwater: an open catalog and engine for Apache Paimon tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SERVER, _CATALOG = "The server", "Contents of a catalog"
app.command("serve", rich_help_panel=_SERVER)(serve.serve)
for _group, _name in (
    (db.app, "db"),
    (token.app, "token"),
    (group.app, "group"),
    (warehouse.app, "warehouse"),
):
    app.add_typer(_group, name=_name, rich_help_panel=_SERVER)
app.command("openapi", rich_help_panel=_SERVER)(openapi.openapi)
for _group, _name in (
    (database.app, "database"),
    (table.app, "table"),
    (partition.app, "partition"),
    (branch.app, "branch"),
    (tag.app, "tag"),
    (consumer.app, "consumer"),
    (view.app, "view"),
    (function.app, "function"),
    (permission.app, "permission"),
    (policy.app, "policy"),
    (label.app, "label"),
    (dropped.app, "dropped"),
    (cdc.app, "cdc"),
):
    app.add_typer(_group, name=_name, rich_help_panel=_CATALOG)
app.command("sql", rich_help_panel=_CATALOG)(sql.sql)
app.command("maintain", rich_help_panel=_CATALOG)(maintain.maintain)
app.command("fsck", rich_help_panel=_CATALOG)(fsck.fsck)
app.command("reconcile", rich_help_panel=_CATALOG)(reconcile.reconcile)
app.command("protect", rich_help_panel=_CATALOG)(protection.protect)
app.command("unprotect", rich_help_panel=_CATALOG)(protection.unprotect)
app.command("audit", rich_help_panel=_CATALOG)(audit.audit)
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
    with printable_output():
        try:
            app()
        except HeadwaterError as error:
            line = " ".join(error.message.split())
            print(f"headwater: {line}", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
