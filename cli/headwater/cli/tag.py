"""`headwater tag`: the tags of a table, on the command line."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from headwater.cli.connection import (
    DEFAULT_CATALOG,
    CatalogOption,
    LocationOption,
    TokenOption,
    WarehouseOption,
    open_lake,
)
from headwater.cli.output import AsJson, print_rows, time_text
from headwater.storage.options import parse_duration

__all__ = ["app"]

app = typer.Typer(help="The tags of a table or a branch.", no_args_is_help=True)

TableName = Annotated[
    str, typer.Argument(metavar="DATABASE.TABLE", help="The table, or table$branch_NAME.")
]
TagName = Annotated[str, typer.Argument(metavar="TAG", help="The tag.")]


@app.command("list")
def list_tags(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List a table's tags: which snapshot each names, and when its time is over."""
    with open_lake(catalog, warehouse, token, location) as lake:
        rows = [
            (
                tag.name,
                tag.snapshot.id,
                time_text(tag.created_at),
                None
                if tag.created_at is None or tag.retained_millis is None
                else time_text(tag.created_at + tag.retained_millis),
            )
            for tag in lake.table(name).tags()
        ]
    print_rows(["tag", "snapshot", "created at", "expires at"], rows, as_json=as_json)


@app.command()
def create(
    name: TableName,
    tag: TagName,
    snapshot: Annotated[
        int | None, typer.Option(min=1, help="Which snapshot; the latest unless given.")
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long to keep it, such as '7 d'; else the table's tag.default-time-retained.",
        ),
    ] = None,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Name a snapshot, so that expiry keeps what it needs to be read."""
    retained = (
        None if retain is None else timedelta(milliseconds=parse_duration(retain, "--retain"))
    )
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.table(name).create_tag(tag, snapshot, retained=retained)


@app.command()
def delete(
    name: TableName,
    tag: TagName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Delete a tag, and the files that it alone kept."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.table(name).delete_tag(tag)


@app.command()
def expire(
    name: TableName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which would go.")] = False,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """Delete the tags whose time is over, and list them."""
    with open_lake(catalog, warehouse, token, location) as lake:
        rows = [(tag,) for tag in lake.table(name).expire_tags(dry_run=dry_run)]
    print_rows(["tag"], rows, as_json=as_json)
