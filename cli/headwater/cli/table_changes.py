"""`headwater table alter`: changes of a table's schema, on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.arguments import (
    Comment,
    Options,
    TableName,
    Unset,
    changed_properties,
    pairs,
    require_changes,
)
from headwater.cli.column_text import changed_field, field_path
from headwater.cli.connection import on_lake
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    Move,
    MoveKind,
    RenameColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["alter"]


@on_lake
def alter(
    lake: Lake,
    table: TableName,
    drop_primary_key: Annotated[
        bool, typer.Option("--drop-primary-key", help="Drop an empty table's primary key.")
    ] = False,
    unset: Unset = None,
    option: Options = None,
    comment: Comment = None,
    rename_column: Annotated[
        list[str] | None,
        typer.Option("--rename-column", metavar="COLUMN=NAME", help="Rename a column."),
    ] = None,
    drop_column: Annotated[
        list[str] | None,
        typer.Option("--drop-column", metavar="COLUMN", help="Drop a column."),
    ] = None,
    add_column: Annotated[
        list[str] | None,
        typer.Option(
            "--add-column", metavar="'NAME TYPE'", help="Add a column, such as 'price DOUBLE'."
        ),
    ] = None,
    change_type: Annotated[
        list[str] | None,
        typer.Option("--change-type", metavar="'COLUMN TYPE'", help="Give a column another type."),
    ] = None,
    nullable: Annotated[
        list[str] | None,
        typer.Option("--nullable", metavar="COLUMN", help="Let a column hold null."),
    ] = None,
    not_null: Annotated[
        list[str] | None,
        typer.Option("--not-null", metavar="COLUMN", help="Forbid null in a column."),
    ] = None,
    column_comment: Annotated[
        list[str] | None,
        typer.Option(
            "--column-comment", metavar="COLUMN=TEXT", help="Set a column's comment; '' removes it."
        ),
    ] = None,
    default: Annotated[
        list[str] | None,
        typer.Option("--default", metavar="COLUMN=VALUE", help="Set a column's default value."),
    ] = None,
    drop_default: Annotated[
        list[str] | None,
        typer.Option("--drop-default", metavar="COLUMN", help="Remove a column's default."),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(
            "--move",
            metavar="'COLUMN WHERE'",
            help="Move a column: 'price first', 'price last', 'price after dt', 'price before dt'.",
        ),
    ] = None,
) -> None:
    """Change a table's schema: make all changes, in the order of the options below, or none.

    All of them but --comment may be repeated. A nested field is PARENT.NAME; `element` and
    `value` lead into arrays and maps.
    """
    changes: list[SchemaChange] = [DropPrimaryKey()] if drop_primary_key else []
    changes += changed_properties(option, unset, comment)
    changes += (
        RenameColumn(field_path(column), name)
        for column, name in pairs(rename_column, "--rename-column", "COLUMN=NAME").items()
    )
    changes += (DropColumn(field_path(column)) for column in drop_column or ())
    changes += _typed(add_column, change_type)
    changes += (UpdateColumnNullability(field_path(column), True) for column in nullable or ())
    changes += (UpdateColumnNullability(field_path(column), False) for column in not_null or ())
    changes += (
        UpdateColumnComment(field_path(column), text or None)
        for column, text in pairs(column_comment, "--column-comment", "COLUMN=TEXT").items()
    )
    changes += (
        UpdateColumnDefaultValue(field_path(column), value)
        for column, value in pairs(default, "--default", "COLUMN=VALUE").items()
    )
    changes += (UpdateColumnDefaultValue(field_path(name), None) for name in drop_default or ())
    changes += (UpdateColumnPosition(_move(text)) for text in move or ())
    require_changes(changes)
    lake.catalog.tables.alter(table, changes)
    print(f"table {table} is at schema {lake.catalog.tables.get(table).schema.id}")


def _typed(added: list[str] | None, changed: list[str] | None) -> Iterator[SchemaChange]:
    for text in added or ():
        path, field = changed_field(text)
        yield AddColumn(path, field.type, field.description)
    for text in changed or ():
        path, field = changed_field(text)
        if not field.type.nullable or field.description is not None:
            raise typer.BadParameter(
                f"--change-type '{text}' changes the type alone; --not-null and --column-comment "
                "change the rest"
            )
        yield UpdateColumnType(path, field.type, keep_nullability=True)


def _move(text: str) -> Move:
    match text.split():
        case [column, kind] if kind.upper() in (MoveKind.FIRST, MoveKind.LAST):
            return Move(column, MoveKind(kind.upper()))
        case [column, kind, reference] if kind.upper() in (MoveKind.AFTER, MoveKind.BEFORE):
            return Move(column, MoveKind(kind.upper()), reference)
        case _:
            raise Invalid(
                f"'{text}' is not a move; write 'COLUMN first', 'COLUMN last', "
                "'COLUMN after OTHER' or 'COLUMN before OTHER'"
            )
