"""`headwater dropped`: dropped tables that can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.table.display import time_text
from headwater.cli.arguments import MaybeDatabase
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="Dropped tables that can be restored.", no_args_is_help=True)

TableId = Annotated[
    str, typer.Argument(metavar="ID", help="The table's id, as 'headwater dropped list' shows it.")
]


@app.command("list")
@on_lake
def list_dropped(
    lake: Lake,
    database: MaybeDatabase = None,
    as_json: AsJson = False,
) -> None:
    """List the dropped tables that can be restored, and the end of that time."""
    dropped = lake.catalog.dropped_tables
    found = all_pages(lambda token: dropped.list(database=database, page_token=token))
    print_rows(
        ["id", "table", "dropped", "by", "kept until"],
        [
            [
                info.id,
                str(info.identifier),
                time_text(info.dropped_at),
                info.dropped_by,
                time_text(info.kept_until),
            ]
            for info in found
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def restore(
    lake: Lake,
    table_id: TableId,
    to: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="DATABASE.TABLE",
            help="The restored table's name; by default its old one.",
        ),
    ] = None,
) -> None:
    """Restore a dropped table with its history."""
    destination = None if to is None else Identifier.parse(to)
    restored = lake.catalog.dropped_tables.restore(table_id, destination)
    print(f"table {restored} is restored")


@app.command()
@on_lake
def purge(
    lake: Lake,
    table_id: TableId,
) -> None:
    """Delete a dropped table and its files for good."""
    lake.catalog.dropped_tables.purge(table_id)
    print(f"dropped table {table_id} is purged")
