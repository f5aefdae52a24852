"""`headwater protect` and `unprotect`: flags that refuse a drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.cli.connection import on_lake

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["protect", "unprotect"]

Name = Annotated[
    str, typer.Argument(metavar="DATABASE[.TABLE]", help="The database, or the table.")
]


@on_lake
def protect(lake: Lake, name: Name) -> None:
    """Protect a database or a table from being dropped."""
    _set(lake, name, True)
    print(f"{name} is protected")


@on_lake
def unprotect(lake: Lake, name: Name) -> None:
    """Allow a database or a table to be dropped again."""
    _set(lake, name, False)
    print(f"{name} is not protected")


def _set(lake: Lake, name: str, protected: bool) -> None:
    if "." in name:
        table = Identifier.parse(name)
        lake.catalog.protection.protect_table(table, protected)
    else:
        lake.catalog.protection.protect_database(name, protected)
