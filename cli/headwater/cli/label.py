"""`headwater label`: labels, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.labels import Entity, EntityType, Label
from headwater.catalog.model.page import all_pages
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="Labels of databases, tables, views and functions.", no_args_is_help=True)

EntityKind = Annotated[
    EntityType,
    typer.Argument(metavar="TYPE", case_sensitive=False, help="DATABASE, TABLE, VIEW or FUNCTION."),
]
EntityName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="DATABASE or DATABASE.NAME, depending on the type."),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The label's name.")]


@app.command("list")
@on_lake
def list_labels(
    lake: Lake, entity_type: EntityKind, name: EntityName, as_json: AsJson = False
) -> None:
    """List the labels of a DATABASE, TABLE, VIEW or FUNCTION itself."""
    entity = Entity(entity_type, name)
    found = all_pages(lambda token: lake.catalog.labels.list(entity, page_token=token))
    rows = [(label.key, label.value) for label in found]
    print_rows(["key", "value"], rows, as_json=as_json)


@app.command("set")
@on_lake
def set_label(
    lake: Lake,
    entity_type: EntityKind,
    name: EntityName,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value; may be empty.")],
) -> None:
    """Set a label, or replace its value."""
    entity = Entity(entity_type, name)
    lake.catalog.labels.set(entity, Label(key, value))
    print(f"label {key} of {entity} is set")


@app.command("unset")
@on_lake
def unset_label(lake: Lake, entity_type: EntityKind, name: EntityName, key: Key) -> None:
    """Take a label away, if it is there."""
    entity = Entity(entity_type, name)
    lake.catalog.labels.unset(entity, key)
    print(f"{entity} has no label {key}")
