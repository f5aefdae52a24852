"""Procedures about whole objects of the catalog: views, functions, repair."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from headwater.catalog.model.column import Column
from headwater.catalog.model.functions import FunctionSpec
from headwater.catalog.model.views import AddDialect, DropDialect, UpdateDialect, ViewChange
from headwater.catalog.wire.functions import AlterFunctionRequest
from headwater.catalog.wire.named_objects import ColumnModel
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.spark.sql.ddl.views import DIALECT
from headwater.storage.errors import Conflict, Invalid

__all__ = [
    "alter_function",
    "alter_view_dialect",
    "create_function",
    "drop_function",
    "repair",
]

_COLUMNS: TypeAdapter[list[ColumnModel]] = TypeAdapter(list[ColumnModel])


def alter_view_dialect(arguments: Arguments) -> Rows:
    """Give a view a query for an engine, replace it, or take it away."""
    dialect = arguments.text("engine") or DIALECT
    action = arguments.required("action").lower()
    change: ViewChange
    match action:
        case "add":
            change = AddDialect(dialect, arguments.required("query"))
        case "update":
            change = UpdateDialect(dialect, arguments.required("query"))
        case "drop":
            if arguments.text("query") is not None:
                raise Invalid("sys.alter_view_dialect: 'drop' takes no query")
            change = DropDialect(dialect)
        case _:
            raise Invalid(
                f"sys.alter_view_dialect: the action is 'add', 'update' or 'drop', not '{action}'"
            )
    arguments.context.catalog.catalog.views.alter(arguments.identifier("view"), [change])
    return [(True,)]


def create_function(arguments: Arguments) -> Rows:
    """Keep a function for the engines that call it."""
    spec = FunctionSpec(
        input_params=_columns(arguments, "inputParams"),
        return_params=_columns(arguments, "returnParams"),
        is_deterministic=arguments.flag("deterministic", default=True),
        comment=arguments.text("comment"),
        options=arguments.options(),
    )
    functions = arguments.context.catalog.catalog.functions
    functions.create(arguments.identifier("function"), spec)
    return [(True,)]


def _columns(arguments: Arguments, name: str) -> tuple[Column, ...]:
    try:
        models = _COLUMNS.validate_json(arguments.required(name))
    except ValidationError as error:
        raise _malformed(name, error) from None
    return tuple(model.column() for model in models)


def alter_function(arguments: Arguments) -> Rows:
    """Change a function."""
    try:
        text = f'{{"changes": [{arguments.required("change")}]}}'
        request = AlterFunctionRequest.model_validate_json(text)
    except ValidationError as error:
        raise _malformed("change", error) from None
    functions = arguments.context.catalog.catalog.functions
    functions.alter(arguments.identifier("function"), [item.change() for item in request.changes])
    return [(True,)]


def _malformed(name: str, error: ValidationError) -> Invalid:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    return Invalid(f"argument '{name}' is not such JSON as is expected: {where} {problem['msg']}")


def drop_function(arguments: Arguments) -> Rows:
    """Drop a function."""
    arguments.context.catalog.catalog.functions.drop(arguments.identifier("function"))
    return [(True,)]


def repair(arguments: Arguments) -> Rows:
    """Make the catalog and storage agree: take over what other writers left there."""
    context = arguments.context
    refused: list[str] = []
    for name in str(arguments.values["database_or_table"]).split(","):
        whole = ".".join(context.whole_name([part.strip().strip("`") for part in name.split(".")]))
        refused += map(str, context.catalog.reconcile(whole or None, apply=True).refused)
    if refused:
        raise Conflict(f"the catalog and storage do not agree yet: {'; '.join(refused)}")
    return [(True,)]
