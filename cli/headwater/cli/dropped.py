"""`headwater dropped`: dropped tables that can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.identifier import Identifier
from headwater.cli.connection import (
    DEFAULT_CATALOG,
    CatalogOption,
    LocationOption,
    TokenOption,
    WarehouseOption,
    open_lake,
)
from headwater.cli.output import AsJson, print_rows, time_text

if TYPE_CHECKING:
    from headwater.catalog.dropped_tables import DroppedTableInfo

__all__ = ["app"]

app = typer.Typer(help="Dropped tables that can be restored.", no_args_is_help=True)

TableId = Annotated[
    str, typer.Argument(metavar="ID", help="The table's id, as 'headwater dropped list' shows it.")
]


@app.command("list")
def list_dropped(
    database: Annotated[
        str | None, typer.Argument(metavar="[DATABASE]", help="Only what was in this database.")
    ] = None,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List the dropped tables that can be restored, and until when."""
    found: list[DroppedTableInfo] = []
    with open_lake(catalog, warehouse, token, location) as lake:
        page_token = None
        while True:
            page = lake.catalog.dropped_tables.list(database=database, page_token=page_token)
            found += page.items
            page_token = page.next_token
            if page_token is None:
                break
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
def restore(
    table_id: TableId,
    to: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="DATABASE.TABLE", help="What to call it; what it was called without."
        ),
    ] = None,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Undo a drop: the table is what it was, with its history."""
    destination = None if to is None else Identifier.parse(to)
    with open_lake(catalog, warehouse, token, location) as lake:
        restored = lake.catalog.dropped_tables.restore(table_id, destination)
    print(f"table {restored} is restored")


@app.command()
def purge(
    table_id: TableId,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Delete a dropped table and its files for good."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.catalog.dropped_tables.purge(table_id)
    print(f"dropped table {table_id} is purged")
