"""What the lake's table becomes when the source's does, as changes for one ``alter``.

A column keeps its field id, and so its rows, through renames, moves and wider types. A type that
the lake cannot cast to is a new column under the old name: the source's table is read again then.
Options, partitions and columns of the lake's table that the source does not have stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.model.type_changes import holds, wider_type
from headwater.cdc.sink.appended_rows import check_kind_column
from headwater.storage.errors import HeadwaterError, Unsupported
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema_change import (
    AddColumn,
    DropColumn,
    Move,
    MoveKind,
    RenameColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from headwater.storage.types.data_type import DataField, DataType

__all__ = ["Narrowing", "lake_columns", "schema_changes"]


class Narrowing(StrEnum):
    """What happens when a column of the source can hold less than before."""

    KEEP = "keep"
    FAIL = "fail"


def schema_changes(
    existing: TableSchema,
    old: SourceTable,
    new: SourceTable,
    renames: Sequence[tuple[str, str]] = (),
    *,
    narrowing: Narrowing = Narrowing.KEEP,
) -> Sequence[SchemaChange]:
    """The changes of the lake's table, to be applied in one ``alter``; none if it stays.

    Args:
        existing: The schema of the lake's table.
        old: The source's table before.
        new: The source's table after.
        renames: The old and the new name of each renamed column; all happen at once.
        narrowing: What happens when a column of the source can hold less than before.

    Raises:
        Unsupported: The primary key changed, a type is narrower and `narrowing` is FAIL, a column
            has the name of that of row kinds, or the lake does not allow a change.
    """
    check_kind_column(new)
    draft = _Draft(existing, old, new, dict(renames), narrowing)
    changes = draft.changes()
    if not changes:
        return ()
    try:
        apply_changes(existing, changes, now_millis=0, has_snapshots=True)
    except HeadwaterError as error:
        raise _unsupported(new, f"the lake's table rejects it: {error.message}") from error
    return changes


def lake_columns(new: SourceTable, existing: TableSchema) -> Sequence[SourceColumn]:
    """The source's columns with the types that the lake's columns have, which may be wider.

    Raises:
        Unsupported: The lake's table lacks a column.
    """
    fields = {field.name: field.type for field in existing.fields}
    missing = [column.name for column in new.columns if column.name not in fields]
    if missing:
        raise _unsupported(new, f"column '{missing[0]}' is not in the lake's table")
    return tuple(replace(column, type=fields[column.name]) for column in new.columns)


def _unsupported(table: SourceTable, problem: str) -> Unsupported:
    return Unsupported(
        f"cannot change the lake's table of {table.name}: {problem}; drop the lake's table, and "
        "follow the source's table as a new one"
    )


class _Draft:
    """The lake's columns while changes are gathered."""

    def __init__(
        self,
        existing: TableSchema,
        old: SourceTable,
        new: SourceTable,
        renames: Mapping[str, str],
        narrowing: Narrowing,
    ) -> None:
        self._existing = existing
        self._old = old
        self._new = new
        self._renames = renames
        self._narrowing = narrowing
        self._fields: list[DataField] = list(existing.fields)
        self._changes: list[SchemaChange] = []
        self._former = self._former_columns()

    def _former_columns(self) -> Mapping[str, SourceColumn]:
        """Each column's former self, by its new name."""
        kept = {column.name for column in self._new.columns}
        renamed_to = set(self._renames.values())
        former = {}
        for column in self._old.columns:
            name = self._renames.get(column.name)
            if name is None and column.name not in renamed_to:
                name = column.name
            if name in kept:
                former[name] = column
        return former

    def changes(self) -> Sequence[SchemaChange]:
        key = tuple(self._renames.get(name, name) for name in self._old.primary_key)
        if key != tuple(self._new.primary_key):
            raise _unsupported(
                self._new,
                f"its primary key was ({', '.join(key)}) and is "
                f"({', '.join(self._new.primary_key)})",
            )
        self._drop_columns()
        self._rename_columns()
        for column in self._new.columns:
            if column.name in self._former:
                self._change_type(column, self._former[column.name])
        self._arrange()
        self._comment_columns()
        if self._old.comment != self._new.comment:
            comment = self._new.comment or None
            if comment != self._existing.comment:
                self._changes.append(UpdateComment(comment))
        return tuple(self._changes)

    def _field(self, name: str) -> DataField | None:
        return next((item for item in self._fields if item.name == name), None)

    def _drop(self, name: str) -> None:
        self._changes.append(DropColumn((name,)))
        self._fields = [item for item in self._fields if item.name != name]

    def _drop_columns(self) -> None:
        kept = {column.name for column in self._former.values()}
        for column in self._old.columns:
            if column.name not in kept and self._field(column.name) is not None:
                self._drop(column.name)

    def _rename_columns(self) -> None:
        pending = {
            old: new
            for old, new in self._renames.items()
            if old != new and self._field(old) is not None
        }
        while pending:
            names = {item.name for item in self._fields}
            free = next((old for old, new in pending.items() if new not in names), None)
            if free is not None:
                self._rename(free, pending.pop(free))
                continue
            # Names in a circle: one steps aside.
            old = next(iter(pending))
            if pending[old] not in pending:
                raise _unsupported(
                    self._new, f"the lake's table has a column '{pending[old]}' of its own"
                )
            aside = _unused(names | set(pending.values()))
            self._rename(old, aside)
            pending[aside] = pending.pop(old)

    def _rename(self, old: str, new: str) -> None:
        self._changes.append(RenameColumn((old,), new))
        self._fields = [
            replace(item, name=new) if item.name == old else item for item in self._fields
        ]

    def _change_type(self, column: SourceColumn, former: SourceColumn) -> None:
        field = self._field(column.name)
        if field is None:
            return
        is_narrower = not holds(column.type, former.type)
        if is_narrower and self._narrowing is Narrowing.FAIL:
            raise Unsupported(
                f"cannot change the lake's table of {self._new.name}: column '{column.name}' was "
                f"{former.type} and is {column.type}, which holds less; allow the lake to keep the "
                "wider type, or undo the change: "
                f"ALTER TABLE {self._new.name} MODIFY {column.name} {former.source_type}"
            )
        wider = wider_type(field.type, column.type)
        if wider is None:
            if column.name in self._existing_key():
                raise _unsupported(
                    self._new,
                    f"column '{column.name}' of the key is {field.type} in the lake, and "
                    f"{column.type} is needed",
                )
            # `_arrange` adds it again.
            self._drop(column.name)
            return
        if wider != field.type:
            self._changes.append(UpdateColumnType((column.name,), wider, keep_nullability=True))
        if column.type.nullable and not field.type.nullable:
            self._changes.append(UpdateColumnNullability((column.name,), nullable=True))

    def _existing_key(self) -> set[str]:
        keys = (*self._existing.primary_keys, *self._existing.partition_keys)
        return {self._renames.get(name, name) for name in keys}

    def _arrange(self) -> None:
        """Add what is missing and move what is elsewhere, from the first column to the last."""
        present = [item.name for item in self._fields]
        order = _with_own_columns([column.name for column in self._new.columns], present)
        staying = _longest_run([order.index(name) for name in present])
        columns = {column.name: column for column in self._new.columns}
        previous: str | None = None
        for at, name in enumerate(order):
            kind = MoveKind.FIRST if previous is None else MoveKind.AFTER
            move = Move(name, kind, previous)
            if name not in present:
                self._add(columns[name], move)
            elif at not in staying:
                self._changes.append(UpdateColumnPosition(move))
            previous = name

    def _add(self, column: SourceColumn, move: Move) -> None:
        # Rows that are there have no value yet.
        type_: DataType = replace(column.type, nullable=True)
        self._changes.append(AddColumn((column.name,), type_, column.comment or None, move))

    def _comment_columns(self) -> None:
        for column in self._new.columns:
            field, former = self._field(column.name), self._former.get(column.name)
            if field is None or former is None or former.comment == column.comment:
                continue
            comment = column.comment or None
            if comment != field.description:
                self._changes.append(UpdateColumnComment((column.name,), comment))


def _unused(names: set[str]) -> str:
    number = 0
    while f"_renamed_{number}" in names:
        number += 1
    return f"_renamed_{number}"


def _with_own_columns(wanted: Sequence[str], present: Sequence[str]) -> Sequence[str]:
    """The wanted order, with the lake's own columns behind those that they are behind now."""
    order = list(wanted)
    for at, name in enumerate(present):
        if name not in order:
            order.insert(order.index(present[at - 1]) + 1 if at else 0, name)
    return order


def _longest_run(positions: Sequence[int]) -> set[int]:
    """The most positions that are in ascending order already."""
    longest: list[int] = []
    runs: list[list[int]] = []
    for position in positions:
        run: list[int] = []
        for earlier in runs:
            if earlier[-1] < position and len(earlier) > len(run):
                run = earlier
        runs.append([*run, position])
        longest = max(longest, runs[-1], key=len)
    return set(longest)
