"""`headwater function`: the functions of a catalog, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.column import Column
from headwater.catalog.model.functions import (
    AddDefinition,
    DropDefinition,
    FileDefinition,
    FunctionDefinition,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
    UpdateDefinition,
)
from headwater.catalog.model.identifier import Identifier
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

app = typer.Typer(help="The functions of a catalog.", no_args_is_help=True)

_SQL, _JSON = "ENGINE=EXPRESSION", "ENGINE=JSON"

FunctionName = Annotated[
    Identifier,
    typer.Argument(parser=Identifier.parse, metavar="DATABASE.FUNCTION", help="The function."),
]
Sql = Annotated[
    list[str] | None,
    typer.Option(
        "--sql",
        metavar=_SQL,
        help="An engine's expression, such as trino='length * width'; may be repeated.",
    ),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        "--definition",
        metavar=_JSON,
        help="A definition as the API's JSON, or ENGINE=@FILE; may be repeated.",
    ),
]


@app.command("list")
@on_lake
def list_functions(
    lake: Lake,
    database: MaybeDatabase = None,
    pattern: Pattern = None,
    as_json: AsJson = False,
) -> None:
    """List the functions of a catalog."""
    print_objects("function", lake.catalog.functions, database, pattern, as_json=as_json)


@app.command()
@on_lake
def show(lake: Lake, function: FunctionName, as_json: AsJson = False) -> None:
    """Show a function's parameters, definitions and options."""
    info = lake.catalog.functions.get(function)
    spec = info.spec
    print_properties(
        [
            ("function", str(info.identifier)),
            ("id", info.id),
            ("comment", spec.comment),
            ("deterministic", spec.is_deterministic),
            *_parameters("takes", spec.input_params),
            *_parameters("gives", spec.return_params),
            *(
                (f"definition {engine}", _definition_text(definition))
                for engine, definition in sorted(spec.definitions.items())
            ),
            *((f"option {key}", value) for key, value in sorted(spec.options.items())),
            *audit(info),
        ],
        as_json=as_json,
    )


def _parameters(word: str, given: tuple[Column, ...] | None) -> list[tuple[str, str]]:
    return [(f"{word} {column.name}", column_text(column)) for column in given or ()]


def _definition_text(definition: FunctionDefinition) -> str:
    match definition:
        case SqlDefinition():
            return f"SQL: {definition.definition}"
        case LambdaDefinition():
            return f"{definition.language}: {definition.definition}"
        case FileDefinition():
            files = ", ".join(file.uri for file in definition.file_resources or ())
            place = f"{definition.class_name}.{definition.function_name}"
            return f"{definition.language}: {place}" + (f" in {files}" if files else "")


@app.command()
@on_lake
def create(
    lake: Lake,
    function: FunctionName,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="'NAME TYPE'",
            help="A parameter, such as 'length DOUBLE'; may be repeated.",
        ),
    ] = None,
    returns: Annotated[
        list[str] | None,
        typer.Option(
            "--returns", metavar="'NAME TYPE'", help="A column of the result; may be repeated."
        ),
    ] = None,
    sql: Sql = None,
    definition: Definitions = None,
    not_deterministic: Annotated[
        bool,
        typer.Option(
            "--not-deterministic", help="Say that the same input may give different results."
        ),
    ] = False,
    option: Options = None,
    comment: Comment = None,
    if_not_exists: IfNotExists = False,
    or_replace: OrReplace = False,
) -> None:
    """Create a function; engines check its definitions, the catalog does not."""
    spec = FunctionSpec(
        input_params=None if param is None else columns(param),
        return_params=None if returns is None else columns(returns),
        definitions=_definitions(sql, definition),
        is_deterministic=not not_deterministic,
        comment=comment or None,
        options=pairs(option),
    )
    create_object(
        lake.catalog.functions,
        ResourceType.FUNCTION,
        function,
        spec,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )


@app.command()
@on_lake
def alter(
    lake: Lake,
    function: FunctionName,
    sql: Sql = None,
    definition: Definitions = None,
    drop_definition: Annotated[
        list[str] | None,
        typer.Option("--drop-definition", metavar="ENGINE", help="Remove an engine's definition."),
    ] = None,
    option: Options = None,
    unset: Unset = None,
    comment: Comment = None,
) -> None:
    """Change definitions, options and the comment: all of it, or nothing."""
    definitions = _definitions(sql, definition)
    properties = changed_properties(option, unset, comment)
    require_changes([*(drop_definition or ()), *definitions, *properties])
    functions = lake.catalog.functions
    known = functions.get(function).spec.definitions
    kinds = (DropDefinition, UpdateDefinition, AddDefinition)
    changes = entry_changes(known, definitions, drop_definition, kinds)
    functions.alter(function, [*changes, *properties])
    print(f"function {function} is changed")


@app.command()
@on_lake
def drop(lake: Lake, function: FunctionName, if_exists: IfExists = False) -> None:
    """Drop a function."""
    lake.catalog.functions.drop(function, ignore_if_not_exists=if_exists)
    print(f"function {function} is dropped")


def _definitions(
    sql: list[str] | None, definitions: list[str] | None
) -> dict[str, FunctionDefinition]:
    # Here, because the API's models take a while to build.
    from headwater.catalog.wire.functions import definition_from_json

    found: dict[str, FunctionDefinition] = {
        engine: SqlDefinition(text_of(text)) for engine, text in pairs(sql, "--sql", _SQL).items()
    }
    for engine, text in pairs(definitions, "--definition", _JSON).items():
        if engine in found:
            raise typer.BadParameter(f"the definition for {engine} is there twice")
        found[engine] = definition_from_json(text_of(text))
    return found
