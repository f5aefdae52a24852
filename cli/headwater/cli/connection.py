"""The arguments by which a command reaches a catalog and a table of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.storage.errors import NotFound

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = [
    "DEFAULT_CATALOG",
    "DEFAULT_DATABASE",
    "CatalogOption",
    "DatabaseOption",
    "LocationOption",
    "TableName",
    "TokenOption",
    "WarehouseOption",
    "open_lake",
]

DEFAULT_CATALOG = "http://127.0.0.1:8080"
"""Where `headwater serve` listens unless it is told otherwise."""

DEFAULT_DATABASE = "sqlite:///headwater.db"
"""The database of `headwater serve` unless it is told otherwise."""

DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database-url",
        envvar="HEADWATER_DATABASE_URL",
        metavar="URL",
        help="The database, such as sqlite:///file.db, postgresql://user@host/name or "
        "mariadb://user@host/name.",
    ),
]
TableName = Annotated[str, typer.Argument(metavar="DATABASE.TABLE", help="The table.")]

CatalogOption = Annotated[
    str,
    typer.Option(
        "--catalog",
        envvar="HEADWATER_CATALOG",
        metavar="ADDRESS",
        help="A server's URL, a SQL database's URL, or the folder of an embedded catalog.",
    ),
]
WarehouseOption = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        envvar="HEADWATER_CATALOG_WAREHOUSE",
        metavar="NAME",
        help="Which of the catalog's warehouses; not needed if there is one.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="HEADWATER_CATALOG_TOKEN",
        metavar="TOKEN",
        help="The bearer token that the server asks for.",
    ),
]
LocationOption = Annotated[
    str | None,
    typer.Option(
        "--location",
        envvar="HEADWATER_CATALOG_LOCATION",
        metavar="LOCATION",
        help="With a SQL database's URL: the folder or URI where the tables lie.",
    ),
]


def open_lake(catalog: str, warehouse: str | None, token: str | None, location: str | None) -> Lake:
    """Connect as the options say.

    Raises:
        NotFound: The address is a folder without a catalog; looking must not make one.
    """
    # Here, because Arrow and Polars take a second to load, and most mistakes are found sooner.
    from headwater.client import connect
    from headwater.client.connect import DATABASE_FILE

    if "://" not in catalog and not Path(catalog, DATABASE_FILE).expanduser().is_file():
        raise NotFound(f"the folder '{catalog}' holds no catalog: it has no {DATABASE_FILE}")
    return connect(catalog, warehouse=warehouse, token=token, location=location)
