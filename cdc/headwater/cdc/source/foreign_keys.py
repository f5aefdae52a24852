"""Foreign keys by which a source changes rows of their children."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headwater.cdc.model.tables import TableName

__all__ = [
    "Comparison",
    "ForeignKeyAction",
    "ReferentialAction",
    "affected_children",
    "keys_that_reach",
]


class ReferentialAction(StrEnum):
    """What the server does with the rows of a child."""

    NO_ACTION = "NO ACTION"
    RESTRICT = "RESTRICT"
    CASCADE = "CASCADE"
    SET_NULL = "SET NULL"
    SET_DEFAULT = "SET DEFAULT"

    @property
    def changes_rows(self) -> bool:
        """Whether rows of the child change."""
        return self not in (ReferentialAction.NO_ACTION, ReferentialAction.RESTRICT)


class Comparison(StrEnum):
    """How the server compares the values of a column."""

    EXACT = "exact"
    """They are not text."""
    BINARY = "binary"
    """Text, of which spaces at the end may not count."""
    CASE = "case"
    """Text by a collation that has ASCII text equal where only its case differs."""
    LANGUAGE = "language"
    """Text by other rules."""


@dataclass(frozen=True)
class ForeignKeyAction:
    """A foreign key by which the server changes rows.

    Attributes:
        child: The table whose rows change.
        columns: The columns of the key.
        parent: The table that it refers to.
        parent_columns: Its columns, in the order of the key's.
        on_delete: What becomes of the rows of a deleted row of the parent.
        on_update: What becomes of the rows of one whose columns change.
        comparisons: How the server compares the values of each column.
    """

    child: TableName
    columns: Sequence[str]
    parent: TableName
    parent_columns: Sequence[str]
    on_delete: ReferentialAction
    on_update: ReferentialAction
    comparisons: Sequence[Comparison] = ()


def keys_that_reach(
    actions: Sequence[ForeignKeyAction], tables: Collection[TableName]
) -> Sequence[ForeignKeyAction]:
    """The foreign keys that change rows of some tables, and those of parents that reach them."""
    reached = set(tables)
    before = -1
    while before != len(reached):
        before = len(reached)
        reached |= {action.parent for action in actions if action.child in reached}
    return [action for action in actions if action.child in reached]


def affected_children(
    actions: Iterable[ForeignKeyAction],
    parent: TableName,
    *,
    is_deleted: bool,
    updated: Collection[str] = (),
) -> frozenset[TableName]:
    """The tables whose rows the server changes after a change of a table's rows.

    Args:
        actions: The foreign keys.
        parent: The table that changed.
        is_deleted: Whether rows of it were deleted.
        updated: The columns of it that were updated.

    Returns:
        Its children, their children and so on; itself, if one of its keys refers to it.
    """
    actions = list(actions)
    deleted: set[TableName] = {parent} if is_deleted else set()
    columns = {(parent, column) for column in updated}
    children: set[TableName] = set()
    before = -1
    # Until no more rows change.
    while before != len(deleted) + len(columns) + len(children):
        before = len(deleted) + len(columns) + len(children)
        for action in actions:
            is_reached = action.parent in deleted
            is_removed = is_reached and action.on_delete is ReferentialAction.CASCADE
            is_changed = is_reached and action.on_delete.changes_rows and not is_removed
            if any((action.parent, column) in columns for column in action.parent_columns):
                is_changed |= action.on_update.changes_rows
            if is_removed:
                deleted.add(action.child)
            if is_changed:
                columns |= {(action.child, column) for column in action.columns}
            if is_removed or is_changed:
                children.add(action.child)
    return frozenset(children)
