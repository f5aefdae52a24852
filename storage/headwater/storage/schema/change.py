"""Changes of a schema as data, and their wire form (``SchemaChange.java``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema.given import given_options
from headwater.storage.types.data_type import DataType, Json, parse_type, type_json

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
    "check_changes",
    "schema_change_from_json",
    "schema_change_json",
]


class MoveKind(StrEnum):
    """The new place of a column."""

    FIRST = "FIRST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"
    LAST = "LAST"


@dataclass(frozen=True)
class Move:
    """Put a column first, last, or beside another one."""

    field_name: str
    kind: MoveKind
    reference: str | None = None


@dataclass(frozen=True)
class SetOption:
    """Set a table option."""

    key: str
    value: str


@dataclass(frozen=True)
class RemoveOption:
    """Remove a table option."""

    key: str


@dataclass(frozen=True)
class UpdateComment:
    """Set or remove the table's comment."""

    comment: str | None


@dataclass(frozen=True)
class AddColumn:
    """Add a column, or a field of a nested row: rows there are read null."""

    path: tuple[str, ...]
    type: DataType
    comment: str | None = None
    move: Move | None = None


@dataclass(frozen=True)
class RenameColumn:
    """Give a column another name; its id, and so its data, stays."""

    path: tuple[str, ...]
    new_name: str


@dataclass(frozen=True)
class DropColumn:
    """Drop a column; a later column of that name is another one."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class UpdateColumnType:
    """Give a column another type: the values that it has are cast to it when they are read."""

    path: tuple[str, ...]
    new_type: DataType
    keep_nullability: bool = False


@dataclass(frozen=True)
class UpdateColumnNullability:
    """Let a column hold nulls, or forbid it."""

    path: tuple[str, ...]
    nullable: bool


@dataclass(frozen=True)
class UpdateColumnComment:
    """Set or remove a column's comment."""

    path: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True)
class UpdateColumnDefaultValue:
    """Set or remove a column's default."""

    path: tuple[str, ...]
    default_value: str | None


@dataclass(frozen=True)
class UpdateColumnPosition:
    """Move a column."""

    move: Move


@dataclass(frozen=True)
class DropPrimaryKey:
    """Make an empty primary-key table an append table."""


SchemaChange: TypeAlias = (
    SetOption
    | RemoveOption
    | UpdateComment
    | AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefaultValue
    | UpdateColumnPosition
    | DropPrimaryKey
)


def check_changes(table: str, changes: Sequence[SchemaChange]) -> None:
    """Refuse changes that a caller did not mean.

    Raises:
        Invalid: There is none, or something that is no schema change, or an option is no text.
    """
    if not changes:
        raise Invalid(f"table {table}: name at least one schema change")
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise Invalid(
                f"table {table}: {change!r} is no schema change; use those of "
                "headwater.storage.schema_change, such as AddColumn and SetOption"
            )
        if isinstance(change, SetOption):
            given_options({change.key: change.value})


def schema_change_json(change: SchemaChange) -> dict[str, Json]:
    """The change as a REST request has it."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case RemoveOption(key):
            return {"action": "removeOption", "key": key}
        case UpdateComment(comment):
            return {"action": "updateComment", "comment": comment}
        case AddColumn(path, data_type, comment, move):
            document: dict[str, Json] = {
                "action": "addColumn",
                "fieldNames": list(path),
                "dataType": type_json(data_type),
                "comment": comment,
            }
            if move is not None:
                document["move"] = _move_json(move)
            return document
        case RenameColumn(path, new_name):
            return {"action": "renameColumn", "fieldNames": list(path), "newName": new_name}
        case DropColumn(path):
            return {"action": "dropColumn", "fieldNames": list(path)}
        case UpdateColumnType(path, new_type, keep_nullability):
            return {
                "action": "updateColumnType",
                "fieldNames": list(path),
                "newDataType": type_json(new_type),
                "keepNullability": keep_nullability,
            }
        case UpdateColumnNullability(path, nullable):
            return {
                "action": "updateColumnNullability",
                "fieldNames": list(path),
                "newNullability": nullable,
            }
        case UpdateColumnComment(path, comment):
            return {
                "action": "updateColumnComment",
                "fieldNames": list(path),
                "newComment": comment,
            }
        case UpdateColumnDefaultValue(path, default_value):
            return {
                "action": "updateColumnDefaultValue",
                "fieldNames": list(path),
                "newDefaultValue": default_value,
            }
        case UpdateColumnPosition(move):
            return {"action": "updateColumnPosition", "move": _move_json(move)}
        case DropPrimaryKey():
            return {"action": "dropPrimaryKey"}


def _move_json(move: Move) -> dict[str, Json]:
    return {
        "fieldName": move.field_name,
        "referenceFieldName": move.reference,
        "type": str(move.kind),
    }


def schema_change_from_json(document: Json) -> SchemaChange:
    """Read a change from a request; raises Invalid saying what is wrong with it."""
    if not isinstance(document, dict):
        raise Invalid(f"a schema change must be a JSON object, not {document!r}")
    reader = _Reader(document)
    match document.get("action"):
        case "setOption":
            return SetOption(reader.text("key"), reader.text("value"))
        case "removeOption":
            return RemoveOption(reader.text("key"))
        case "updateComment":
            return UpdateComment(reader.optional_text("comment"))
        case "addColumn":
            move = document.get("move")
            return AddColumn(
                reader.path(),
                parse_type(reader.present("dataType")),
                reader.optional_text("comment"),
                None if move is None else _move_from_json(move),
            )
        case "renameColumn":
            return RenameColumn(reader.path(), reader.text("newName"))
        case "dropColumn":
            return DropColumn(reader.path())
        case "updateColumnType":
            return UpdateColumnType(
                reader.path(),
                parse_type(reader.present("newDataType")),
                reader.flag("keepNullability", False),
            )
        case "updateColumnNullability":
            return UpdateColumnNullability(reader.path(), reader.flag("newNullability"))
        case "updateColumnComment":
            return UpdateColumnComment(reader.path(), reader.optional_text("newComment"))
        case "updateColumnDefaultValue":
            return UpdateColumnDefaultValue(reader.path(), reader.optional_text("newDefaultValue"))
        case "updateColumnPosition":
            return UpdateColumnPosition(_move_from_json(reader.present("move")))
        case "dropPrimaryKey":
            return DropPrimaryKey()
        case action:
            raise Unsupported(f"unknown schema change {action!r}")


def _move_from_json(document: Json) -> Move:
    if not isinstance(document, dict):
        raise Invalid("a column's 'move' must be a JSON object")
    reader = _Reader(document)
    kind = reader.text("type").upper()
    if kind not in set(MoveKind):
        raise Invalid(f"a column's move must be one of {', '.join(MoveKind)}; not '{kind}'")
    return Move(
        reader.text("fieldName"), MoveKind(kind), reader.optional_text("referenceFieldName")
    )


@dataclass(frozen=True)
class _Reader:
    document: Mapping[str, Json]

    def present(self, key: str) -> Json:
        if self.document.get(key) is None:
            raise Invalid(f"schema change {self.document.get('action')!r} lacks '{key}'")
        return self.document[key]

    def text(self, key: str) -> str:
        value = self.present(key)
        if not isinstance(value, str):
            raise Invalid(f"schema change: '{key}' must be a string, not {value!r}")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self.document.get(key) is None else self.text(key)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = default if self.document.get(key) is None else self.document[key]
        if not isinstance(value, bool):
            raise Invalid(f"schema change: '{key}' must be true or false, not {value!r}")
        return value

    def path(self) -> tuple[str, ...]:
        value = self.present("fieldNames")
        if not isinstance(value, list) or not value:
            raise Invalid("schema change: 'fieldNames' must be a non-empty list of names")
        return tuple(str(name) for name in value)
