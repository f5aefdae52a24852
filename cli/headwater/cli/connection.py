"""The options by which a command reaches a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["DEFAULT_CATALOG", "CatalogOption", "TokenOption", "WarehouseOption", "open_lake"]

DEFAULT_CATALOG = "http://127.0.0.1:8080"
"""Where `headwater serve` listens unless it is told otherwise."""

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


def open_lake(catalog: str, warehouse: str | None, token: str | None) -> Lake:
    """Connect as the options say."""
    # Here, because Arrow and Polars take a second to load, and most commands fail or answer sooner.
    from headwater.client import connect

    return connect(catalog, warehouse=warehouse, token=token)
