"""`headwater protect` and `unprotect`: flags that refuse a drop."""

from __future__ import annotations

from typing import Annotated

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

__all__ = ["protect", "unprotect"]

Name = Annotated[
    str, typer.Argument(metavar="DATABASE[.TABLE]", help="The database, or the table.")
]


def protect(
    name: Name,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Refuse to drop a database or a table from now on."""
    _set(name, True, catalog, warehouse, token, location)
    print(f"{name} is protected")


def unprotect(
    name: Name,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Let a database or a table be dropped again."""
    _set(name, False, catalog, warehouse, token, location)
    print(f"{name} is not protected")


def _set(
    name: str,
    protected: bool,
    catalog: str,
    warehouse: str | None,
    token: str | None,
    location: str | None,
) -> None:
    with open_lake(catalog, warehouse, token, location) as lake:
        protection = lake.catalog.protection
        if "." in name:
            protection.protect_table(Identifier.parse(name), protected)
        else:
            protection.protect_database(name, protected)
