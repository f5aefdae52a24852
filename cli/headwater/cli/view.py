"""`headwater view`: the views of a catalog, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import (
    AddDialect,
    DropDialect,
    UpdateDialect,
    ViewSchema,
)
from headwater.cli.arguments import (
    Comment,
    IfExists,
    IfNotExists,
    MaybeDatabase,
    Options,
    OrReplace,
    Pattern,
    Unset,
    changed_properties,
    pairs,
    require_changes,
    text_of,
)
from headwater.cli.column_text import column_text, columns
from headwater.cli.connection import on_lake
from headwater.cli.named_objects import create_object, entry_changes
from headwater.cli.output import AsJson, audit, print_objects, print_properties
from headwater.storage.errors import ResourceType

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="The views of a catalog.", no_args_is_help=True)

ViewName = Annotated[
    Identifier,
    typer.Argument(parser=Identifier.parse, metavar="DATABASE.VIEW", help="The view."),
]
Dialects = Annotated[
    list[str] | None,
    typer.Option(
        "--dialect",
        metavar="NAME=QUERY",
        help="An engine's own query, such as spark='SELECT 1' or spark=@FILE; may be repeated.",
    ),
]


@app.command("list")
@on_lake
def list_views(
    lake: Lake,
    database: MaybeDatabase = None,
    pattern: Pattern = None,
    as_json: AsJson = False,
) -> None:
    """List the views of a catalog."""
    print_objects("view", lake.catalog.views, database, pattern, as_json=as_json)


@app.command()
@on_lake
def show(lake: Lake, view: ViewName, as_json: AsJson = False) -> None:
    """Show a view's queries, columns and options."""
    info = lake.catalog.views.get(view)
    schema = info.schema
    print_properties(
        [
            ("view", str(info.identifier)),
            ("id", info.id),
            ("comment", schema.comment),
            ("query", schema.query),
            *((f"dialect {name}", query) for name, query in sorted(schema.dialects.items())),
            *((f"column {column.name}", column_text(column)) for column in schema.columns),
            *((f"option {key}", value) for key, value in sorted(schema.options.items())),
            *audit(info),
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def create(
    lake: Lake,
    view: ViewName,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="The query of all other engines, @FILE, or - for standard input.",
        ),
    ],
    column: Annotated[
        list[str],
        typer.Option(
            "--column",
            metavar="'NAME TYPE'",
            help="A column of its result, such as 'price DOUBLE'; may be repeated.",
        ),
    ],
    dialect: Dialects = None,
    option: Options = None,
    comment: Comment = None,
    if_not_exists: IfNotExists = False,
    or_replace: OrReplace = False,
) -> None:
    """Create a view; engines check its query, the catalog does not."""
    schema = ViewSchema(
        columns(column), text_of(query), _queries(dialect), comment or None, pairs(option)
    )
    create_object(
        lake.catalog.views,
        ResourceType.VIEW,
        view,
        schema,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )


@app.command()
@on_lake
def alter(
    lake: Lake,
    view: ViewName,
    dialect: Dialects = None,
    drop_dialect: Annotated[
        list[str] | None,
        typer.Option("--drop-dialect", metavar="NAME", help="Remove an engine's own query."),
    ] = None,
    option: Options = None,
    unset: Unset = None,
    comment: Comment = None,
) -> None:
    """Change engines' queries, options and the comment: all of it, or nothing."""
    queries, properties = _queries(dialect), changed_properties(option, unset, comment)
    require_changes([*(drop_dialect or ()), *queries, *properties])
    views = lake.catalog.views
    known = views.get(view).schema.dialects
    kinds = (DropDialect, UpdateDialect, AddDialect)
    views.alter(view, [*entry_changes(known, queries, drop_dialect, kinds), *properties])
    print(f"view {view} is changed")


@app.command()
@on_lake
def rename(
    lake: Lake,
    view: ViewName,
    new_name: Annotated[
        Identifier,
        typer.Argument(parser=Identifier.parse, metavar="NEW_NAME", help="As DATABASE.VIEW."),
    ],
) -> None:
    """Rename a view, also into another database."""
    lake.catalog.views.rename(view, new_name)
    print(f"view {view} is now {new_name}")


@app.command()
@on_lake
def drop(lake: Lake, view: ViewName, if_exists: IfExists = False) -> None:
    """Drop a view."""
    lake.catalog.views.drop(view, ignore_if_not_exists=if_exists)
    print(f"view {view} is dropped")


def _queries(given: list[str] | None) -> dict[str, str]:
    return {name: text_of(query) for name, query in pairs(given, "--dialect", "NAME=QUERY").items()}
