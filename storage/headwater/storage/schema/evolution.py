"""The next version of a schema: changes applied by one pure function.

Source: ``SchemaManager.generateTableSchema`` in ``SchemaManager.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from headwater.storage.casts.type_changes import (
    equal_types,
    keeps_form,
    refuse_type_change,
)
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.options import is_true
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
)
from headwater.storage.schema.column_directives import (
    apply_directive,
    refuse_directive,
    without_dropped_column,
)
from headwater.storage.schema.default_values import check_default_value
from headwater.storage.schema.option_changes import (
    check_option_change,
    indexed_by,
    is_unchanged,
    listed_names,
    options_about,
    renamed_in_options,
)
from headwater.storage.schema.rules import (
    check_schema,
    keys_from_option,
    reassign_field_ids,
    with_key_nullability,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.table_type import table_type
from headwater.storage.schema.type_rules import is_blob
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    FieldIds,
    MapType,
    RowType,
)

__all__ = ["apply_changes"]

_NO_CASTS = "disable-explicit-type-casting"


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    now_millis: int,
    has_snapshots: bool,
) -> TableSchema:
    """The next version of a schema, with every change applied in order.

    The schema itself when the changes leave it as it is: then no version is added.

    Args:
        schema: The present version.
        changes: The changes.
        now_millis: The new version's time.
        has_snapshots: Whether the table has data: some options may change only while it has none.

    Raises:
        NotFound: A column does not exist (COLUMN).
        AlreadyExists: A column of that name exists (COLUMN).
        Invalid: A change is not allowed; the message says why.
    """
    draft = _Draft(schema, has_snapshots)
    for change in changes:
        draft.apply(change)
    options = dict(draft.options)
    # An empty table without keys may get them as options, as at its creation.
    primary_keys = keys_from_option(options, "primary-key", tuple(draft.primary_keys))
    changed = replace(
        schema,
        id=schema.id + 1,
        fields=with_key_nullability(draft.fields, primary_keys, options),
        highest_field_id=draft.ids.highest,
        primary_keys=primary_keys,
        partition_keys=keys_from_option(options, "partition", schema.partition_keys),
        options=options,
        comment=draft.comment,
        time_millis=now_millis,
        version=max(schema.version, 3),
    )
    check_schema(changed, schema.field_by_name)
    same = replace(changed, id=schema.id, time_millis=schema.time_millis, version=schema.version)
    # By their texts: types that are equal may be written in another way.
    return schema if same.to_json() == schema.to_json() else changed


class _Draft:
    """A schema while changes are being applied."""

    def __init__(self, schema: TableSchema, has_snapshots: bool) -> None:
        self.schema = schema
        self.fields: list[DataField] = list(schema.fields)
        self.options: dict[str, str] = dict(schema.options)
        self.primary_keys: list[str] = list(schema.primary_keys)
        self.comment = schema.comment
        self.ids = FieldIds(schema.highest_field_id)
        self.has_snapshots = has_snapshots

    def apply(self, change: SchemaChange) -> None:
        match change:
            case SetOption(key, value):
                keys = (self.primary_keys, self.schema.partition_keys)
                if not is_unchanged(self.options, key, value, *keys):
                    self._check_option_change(key, value)
                    self.options[key] = value
            case RemoveOption(key):
                if key in self.options:
                    self._check_option_change(key, None)
                    del self.options[key]
            case UpdateComment(comment):
                self.comment = comment
            case AddColumn():
                self._add(change)
            case RenameColumn(path, new_name):
                self._rename(path, new_name)
            case DropColumn(path):
                self._drop(path)
            case UpdateColumnType(path, new_type, keep_nullability):
                self._refuse_key(path, self.schema.partition_keys, "update partition column")
                self._refuse_key(path, self.primary_keys, "update primary key")
                self._refuse_indexed(path, "change the type of")
                self._replace(path, lambda f: self._retyped(f, path, new_type, keep_nullability))
                self._refuse_other_buckets(path)
            case UpdateColumnNullability(path, nullable):
                if nullable:
                    primary = self.schema.primary_keys
                    self._refuse_key(path, primary, "change nullability of primary key")
                self._replace(path, lambda f: self._with_nullability(f, path, nullable))
            case UpdateColumnComment(path, text):
                self._refuse_directive(path, text, "a column that is there keeps its type")
                self._replace(path, lambda f: replace(f, description=text))
            case UpdateColumnDefaultValue(path, text):
                self._refuse_default_of_part(path)
                self._replace(path, lambda f: self._with_default(f, path, text))
            case UpdateColumnPosition(move):
                self._move(move)
            case DropPrimaryKey():
                if self.has_snapshots:
                    raise Invalid("the primary key of a table that holds data cannot be dropped")
                self.primary_keys = []

    def _check_option_change(self, key: str, value: str | None) -> None:
        check_option_change(self.options, key, value, has_snapshots=self.has_snapshots)

    def _refuse_key(self, path: tuple[str, ...], keys: Sequence[str], change: str) -> None:
        if len(path) == 1 and path[0] in keys:
            # Clients match on Paimon's sentence (``SchemaManager.java``).
            raise Invalid(f"Cannot {change}: [{path[0]}]; make a new table with other keys instead")

    def _refuse_default_of_part(self, path: tuple[str, ...]) -> None:
        """Refuse a path to elements of an array or values of a map, which are not fields."""
        field_path = _field_path(self.fields, path)
        if field_path != path:
            raise Invalid(
                f"'{'.'.join(path)}' has no default of its own: set that of "
                f"'{'.'.join(field_path)}'"
            )

    def _add(self, change: AddColumn) -> None:
        name = _last(change.path)
        if not change.type.nullable:
            raise Invalid(
                f"column '{'.'.join(change.path)}' cannot be added NOT NULL: "
                "rows there would have no value for it"
            )
        added = DataField(self.ids.take(), name, change.type, change.comment)
        if len(change.path) > 1:
            self._refuse_directive(change.path, change.comment, "this is a nested column")
        elif self._has_directives:
            added = apply_directive(added, self.options)
        added = replace(added, type=reassign_field_ids(added.type, self.ids))

        def edit(fields: list[DataField]) -> list[DataField]:
            _require_absent(fields, name)
            if change.move is not None:
                return _placed(fields, added, change.move)
            return self._appended(fields, added, is_column=len(change.path) == 1)

        self.fields = _edit_level(self.fields, change.path, edit)

    @property
    def _has_directives(self) -> bool:
        return table_type(self.options).has_snapshots

    def _refuse_directive(self, path: tuple[str, ...], comment: str | None, reason: str) -> None:
        if self._has_directives:
            refuse_directive(".".join(path), comment, reason)

    def _appended(
        self, fields: list[DataField], added: DataField, *, is_column: bool
    ) -> list[DataField]:
        """The fields with one more at their end, or before the first partition column."""
        before = is_true(self.options, "add-column-before-partition")
        keys = self.schema.partition_keys if is_column and before else ()
        at = next((at for at, f in enumerate(fields) if f.name in keys), len(fields))
        return [*fields[:at], added, *fields[at:]]

    def _refuse_indexed(self, path: tuple[str, ...], do: str) -> None:
        option = indexed_by(self.options, path[0]) if len(path) == 1 else None
        if option is not None:
            raise Invalid(f"cannot {do} column '{path[0]}': option '{option}' makes an index of it")

    def _with_default(self, item: DataField, path: tuple[str, ...], text: str | None) -> DataField:
        check_default_value(".".join(path), item.type, text)
        return replace(item, default_value=text)

    def _rename(self, path: tuple[str, ...], new_name: str) -> None:
        name = _last(path)
        self._refuse_indexed(path, "rename")
        self._refuse_key(path, self.schema.partition_keys, "rename partition column")
        if not new_name:
            raise Invalid(f"column '{name}' cannot be renamed to an empty name")

        def edit(fields: list[DataField]) -> list[DataField]:
            _require_absent(fields, new_name)
            at = _index(fields, name)
            if len(path) == 1 and is_blob(fields[at].type):
                raise Invalid(
                    f"column '{name}' cannot be renamed: its files of type BLOB bear its name"
                )
            return [*fields[:at], replace(fields[at], name=new_name), *fields[at + 1 :]]

        self.fields = _edit_level(self.fields, path, edit)
        if len(path) == 1:
            self.primary_keys = [new_name if k == name else k for k in self.primary_keys]
            self.options = renamed_in_options(self.options, {name: new_name})

    def _drop(self, path: tuple[str, ...]) -> None:
        name = _last(path)
        keys = (*self.schema.partition_keys, *self.primary_keys)
        self._refuse_key(path, keys, "drop partition key or primary key")
        if len(path) == 1:
            dropped = self.fields[_index(self.fields, name)]
            self.options = without_dropped_column(self.options, dropped)
            for option in options_about(self.options, name):
                raise Invalid(
                    f"cannot drop column '{name}': option '{option}' names it; remove that first"
                )

        def edit(fields: list[DataField]) -> list[DataField]:
            at = _index(fields, name)
            if len(fields) == 1:
                raise Invalid(
                    f"Cannot drop all fields in table: column '{name}' is the last one; add "
                    "another one first"
                )
            return [*fields[:at], *fields[at + 1 :]]

        self.fields = _edit_level(self.fields, path, edit)

    def _replace(self, path: tuple[str, ...], change: Callable[[DataField], DataField]) -> None:
        # Array elements and map values have no field of their own: the path's tail names them.
        field_path = _field_path(self.fields, path)
        name = _last(field_path)

        def edit(fields: list[DataField]) -> list[DataField]:
            at = _index(fields, name)
            return [*fields[:at], change(fields[at]), *fields[at + 1 :]]

        self.fields = _edit_level(self.fields, field_path, edit)

    def _retyped(
        self, item: DataField, path: tuple[str, ...], new_type: DataType, keep_nullability: bool
    ) -> DataField:
        depth = len(path) - len(_field_path(self.fields, path))

        def change(old: DataType) -> DataType:
            wanted = replace(new_type, nullable=old.nullable) if keep_nullability else new_type
            self._refuse_not_null(old, wanted.nullable, path)
            self._refuse_type_change(".".join(path), old, wanted)
            return wanted

        retyped = replace(item, type=_edit_inner(item.type, depth, change))
        # The default stays, so it must be a value of the new type.
        check_default_value(".".join(path), retyped.type, retyped.default_value)
        return retyped

    def _refuse_other_buckets(self, path: tuple[str, ...]) -> None:
        """Refuse a type with which values that are in a bucket would belong to another.

        Nothing tells a compacted file's readers with which types its rows came to its bucket.
        """
        name = path[0]
        if not self.has_snapshots or name not in listed_names(self.options.get("bucket-key", "")):
            return
        new = self.fields[_index(self.fields, name)]
        old = next((item.type for item in self.schema.fields if item.id == new.id), None)
        if old is not None and not keeps_form(old, new.type):
            raise Invalid(
                f"column '{name}' of type {old} cannot become {new.type}: 'bucket-key' names it, "
                "so its rows would belong to other buckets than those they are in; of a table that "
                "holds data it can only become a type that keeps the values, such as a longer "
                "VARCHAR"
            )

    def _refuse_type_change(self, column: str, old: DataType, new: DataType) -> None:
        explicit = not is_true(self.options, _NO_CASTS)
        refuse_type_change(column, old, new, explicit=explicit)
        if is_blob(old) and not equal_types(old, new):
            raise Invalid(
                f"column '{column}' of type {old} cannot become {new}: its values are in files of "
                "type BLOB; add a column of the new type instead"
            )

    def _with_nullability(
        self, item: DataField, path: tuple[str, ...], nullable: bool
    ) -> DataField:
        depth = len(path) - len(_field_path(self.fields, path))

        def change(old: DataType) -> DataType:
            self._refuse_not_null(old, nullable, path)
            return replace(old, nullable=nullable)

        return replace(item, type=_edit_inner(item.type, depth, change))

    def _refuse_not_null(self, old: DataType, nullable: bool, path: tuple[str, ...]) -> None:
        disabled = self.options.get("alter-column-null-to-not-null.disabled", "true").lower()
        if old.nullable and not nullable and disabled != "false":
            raise Invalid(
                f"column '{'.'.join(path)}' may hold nulls and cannot become NOT NULL; option "
                "'alter-column-null-to-not-null.disabled' = 'false' allows it"
            )

    def _move(self, move: Move) -> None:
        at = _index(self.fields, move.field_name)
        moved = self.fields[at]
        rest = [*self.fields[:at], *self.fields[at + 1 :]]
        if move.reference == move.field_name:
            raise Invalid(f"column '{move.field_name}' cannot be moved beside itself")
        self.fields = _placed(rest, moved, move)


def _last(path: tuple[str, ...]) -> str:
    if not path or not all(path):
        raise Invalid("a schema change needs a column name")
    return path[-1]


def _index(fields: Sequence[DataField], name: str) -> int:
    for at, item in enumerate(fields):
        if item.name == name:
            return at
    raise NotFound(
        f"column '{name}' does not exist; the columns are {', '.join(f.name for f in fields)}",
        resource_type=ResourceType.COLUMN,
        resource_name=name,
    )


def _require_absent(fields: Sequence[DataField], name: str) -> None:
    if any(item.name == name for item in fields):
        raise AlreadyExists(
            f"column '{name}' exists already",
            resource_type=ResourceType.COLUMN,
            resource_name=name,
        )


def _placed(fields: list[DataField], item: DataField, move: Move) -> list[DataField]:
    match move.kind:
        case MoveKind.FIRST:
            at = 0
        case MoveKind.LAST:
            at = len(fields)
        case MoveKind.AFTER | MoveKind.BEFORE:
            if move.reference is None:
                raise Invalid(f"moving column '{item.name}' {move.kind} needs another column")
            at = _index(fields, move.reference) + (move.kind is MoveKind.AFTER)
    return [*fields[:at], item, *fields[at:]]


Edit: TypeAlias = Callable[[list[DataField]], list[DataField]]


def _edit_level(fields: list[DataField], path: tuple[str, ...], edit: Edit) -> list[DataField]:
    """Apply an edit to the list of fields that holds the path's last name."""
    if len(path) <= 1:
        return edit(fields)
    at = _index(fields, path[0])
    inner = _edit_row(fields[at].type, path[1:], edit)
    return [*fields[:at], replace(fields[at], type=inner), *fields[at + 1 :]]


def _edit_row(data_type: DataType, path: tuple[str, ...], edit: Edit) -> DataType:
    match data_type:
        case RowType():
            return replace(data_type, fields=tuple(_edit_level(list(data_type.fields), path, edit)))
        case ArrayType() if len(path) > 1 and path[0] == "element":
            return replace(data_type, element=_edit_row(data_type.element, path[1:], edit))
        case MapType() if len(path) > 1 and path[0] == "value":
            return replace(data_type, value=_edit_row(data_type.value, path[1:], edit))
    raise Invalid(f"'{path[0]}' is not inside a nested row; the type there is {data_type}")


def _field_path(fields: Sequence[DataField], path: tuple[str, ...]) -> tuple[str, ...]:
    """The path without a tail of ``element`` and ``value``, which name no fields."""
    _last(path)
    names = list(path)
    while len(names) > 1 and not _is_field(fields, names):
        names.pop()
    return tuple(names)


def _is_field(fields: Sequence[DataField], names: Sequence[str]) -> bool:
    level: Sequence[DataField] = fields
    data_type: DataType | None = None
    for at, name in enumerate(names):
        match data_type:
            case ArrayType() if name == "element":
                data_type = data_type.element
            case MapType() if name == "value":
                data_type = data_type.value
            case None | RowType():
                if isinstance(data_type, RowType):
                    level = data_type.fields
                data_type = level[_index(level, name)].type
                if at == len(names) - 1:
                    return True
            case _:
                raise Invalid(f"'{'.'.join(names)}': {data_type} has no part '{name}'")
    return False


def _edit_inner(
    data_type: DataType, depth: int, change: Callable[[DataType], DataType]
) -> DataType:
    """Apply a change to the type so many array elements and map values deep."""
    if depth == 0:
        return change(data_type)
    match data_type:
        case ArrayType():
            return replace(data_type, element=_edit_inner(data_type.element, depth - 1, change))
        case MapType():
            return replace(data_type, value=_edit_inner(data_type.value, depth - 1, change))
    raise Invalid(f"{data_type} has no inner type")
