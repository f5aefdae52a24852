"""The columns of ``ALTER TABLE … ADD COLUMNS`` and ``ALTER COLUMN``, as changes of a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.spark.sql.ddl.column_types import read_type
from headwater.spark.sql.ddl.columns import read_column, read_default, refuse_alike
from headwater.spark.sql.names import column_name, column_path, fields_inside
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import AlreadyExists, ResourceType, Unsupported
from headwater.storage.schema.change import (
    AddColumn,
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
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import (
    DataField,
)

__all__ = [
    "read_added_columns",
    "read_altered_columns",
    "read_changed_column",
    "renamed_column",
]


# What begins an alteration, and no new name.
_ALTERATIONS = ("TYPE", "COMMENT", "FIRST", "AFTER", "SET", "DROP")


def read_added_columns(statement: Statement, schema: TableSchema) -> list[SchemaChange]:
    """Read what follows ``ADD COLUMNS``: columns, in brackets or not.

    Raises:
        AlreadyExists: There is a column of a name.
        Unsupported: A column has a default: rows there would not have it.
    """
    brackets = statement.accept("(")
    changes: list[AddColumn] = []
    while True:
        changes.append(_read_added_column(statement, schema, [each.path for each in changes]))
        if not statement.accept(","):
            break
    if brackets:
        statement.expect(")")
    statement.end()
    return list(changes)


def _read_added_column(
    statement: Statement, schema: TableSchema, added: Sequence[tuple[str, ...]]
) -> AddColumn:
    mark = statement.mark()
    parts = statement.name_parts()
    outer = column_path(schema.fields, parts[:-1]) if len(parts) > 1 else ()
    names = [field.name for field in fields_inside(schema.fields, outer)]
    names += [path[-1] for path in added if path[:-1] == outer]
    _refuse_taken(parts[-1], names, statement.fold)
    # The definition begins with the path's last name.
    statement.reset(mark + 2 * (len(parts) - 1))
    field = read_column(statement)
    refuse_alike([field], statement.fold)
    if field.default_value is not None:
        raise Unsupported(
            f"column '{'.'.join(parts)}' cannot be added with a DEFAULT, which the rows there "
            "would not have: add it, then ALTER COLUMN … SET DEFAULT for rows to come"
        )
    move = _read_move(statement, schema, names, (*outer, field.name))
    return AddColumn((*outer, field.name), field.type, field.description, move)


def renamed_column(
    schema: TableSchema, path: tuple[str, ...], new_name: str, fold: Callable[[str], str]
) -> RenameColumn:
    """Another name of a column, or of a field; raises AlreadyExists for that of one beside it."""
    beside = fields_inside(schema.fields, path[:-1])
    _refuse_taken(new_name, [field.name for field in beside if field.name != path[-1]], fold)
    return RenameColumn(path, new_name)


def _refuse_taken(name: str, names: Sequence[str], fold: Callable[[str], str]) -> None:
    """Refuse the name of a column that to the session is one of those there; AlreadyExists."""
    if fold(name) in map(fold, names):
        raise AlreadyExists(
            f"column '{name}' exists already",
            resource_type=ResourceType.COLUMN,
            resource_name=name,
        )


def _read_move(
    statement: Statement, schema: TableSchema, names: Sequence[str], path: Sequence[str]
) -> Move | None:
    if statement.accept("FIRST"):
        return Move(path[-1], MoveKind.FIRST)
    if statement.accept("AFTER"):
        reference = statement.name()
        if len(path) == 1:
            known = [DataField(-1, name, schema.fields[0].type) for name in names]
            reference = column_name(known, reference)
        return Move(path[-1], MoveKind.AFTER, reference)
    return None


def read_altered_columns(statement: Statement, schema: TableSchema) -> list[SchemaChange]:
    """Read what follows ``ALTER COLUMN``: columns with what is to become of them.

    Raises:
        Invalid: Nothing is to become of one.
        NotFound: There is no such column.
    """
    changes: list[SchemaChange] = []
    while True:
        path = column_path(schema.fields, statement.name_parts())
        before = len(changes)
        while (change := _read_alteration(statement, schema, path)) is not None:
            changes.append(change)
        if len(changes) == before:
            raise statement.unexpected(
                "TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, or SET or DROP DEFAULT"
            )
        if not statement.accept(","):
            break
    statement.end()
    return changes


def read_changed_column(statement: Statement, schema: TableSchema) -> list[SchemaChange]:
    """Read what follows ``CHANGE COLUMN``: ``a b INT COMMENT 'x' AFTER c``, or as `ALTER COLUMN`.

    Raises:
        AlreadyExists: There is a column of the new name.
        Invalid: Something else than a type, a comment and a place is given.
        NotFound: There is no such column.
    """
    mark = statement.mark()
    path = column_path(schema.fields, statement.name_parts())
    if any(map(statement.peek, _ALTERATIONS)):
        statement.reset(mark)
        return read_altered_columns(statement, schema)
    new_name = statement.name()
    changes: list[SchemaChange] = []
    if new_name != path[-1]:
        changes.append(renamed_column(schema, path, new_name, statement.fold))
        path = (*path[:-1], new_name)
    changes.append(UpdateColumnType(path, read_type(statement), keep_nullability=True))
    if statement.accept("COMMENT"):
        changes.append(UpdateColumnComment(path, statement.string()))
    if (place := _read_place(statement, schema, path)) is not None:
        changes.append(place)
    statement.end()
    return changes


def _read_alteration(
    statement: Statement, schema: TableSchema, path: tuple[str, ...]
) -> SchemaChange | None:
    if statement.accept("TYPE"):
        # Whether nulls are allowed is another change.
        return UpdateColumnType(path, read_type(statement), keep_nullability=True)
    if statement.accept("COMMENT"):
        return UpdateColumnComment(path, statement.string())
    if statement.accept("SET", "NOT", "NULL"):
        return UpdateColumnNullability(path, nullable=False)
    if statement.accept("DROP", "NOT", "NULL"):
        return UpdateColumnNullability(path, nullable=True)
    if len(path) > 1 and statement.peek("SET", "DEFAULT"):
        raise Unsupported(
            f"'{'.'.join(path)}' takes no default, as no row would get it: only whole "
            "columns have one"
        )
    if statement.accept("SET", "DEFAULT"):
        default = read_default(statement, schema.column(path[0]).type)
        return UpdateColumnDefaultValue(path, default)
    if statement.accept("DROP", "DEFAULT"):
        return UpdateColumnDefaultValue(path, None)
    return _read_place(statement, schema, path)


def _read_place(
    statement: Statement, schema: TableSchema, path: tuple[str, ...]
) -> UpdateColumnPosition | None:
    move = _read_move(statement, schema, [field.name for field in schema.fields], path)
    if move is None:
        return None
    if len(path) > 1:
        raise Unsupported(
            f"'{'.'.join(path)}' is not moved: only whole columns change their places"
        )
    return UpdateColumnPosition(move)
