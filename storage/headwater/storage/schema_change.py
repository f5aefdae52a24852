"""The public name of `headwater.storage.schema.change`."""

from __future__ import annotations

from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    Move,
    MoveKind,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
    schema_change_from_json,
    schema_change_json,
)

__all__ = [
    "AddColumn",
    "DropColumn",
    "DropPrimaryKey",
    "Move",
    "MoveKind",
    "RemoveOption",
    "RenameColumn",
    "SchemaChange",
    "SetOption",
    "UpdateColumnComment",
    "UpdateColumnDefaultValue",
    "UpdateColumnNullability",
    "UpdateColumnPosition",
    "UpdateColumnType",
    "UpdateComment",
    "schema_change_from_json",
    "schema_change_json",
]
