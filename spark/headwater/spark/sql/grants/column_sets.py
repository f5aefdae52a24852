"""Sets of a table's columns, of which one principal has at most one in a table's grants."""

from __future__ import annotations

from headwater.catalog.model.permissions import ColumnSet
from headwater.storage.errors import Invalid

__all__ = ["less", "text_of", "together"]


def together(first: ColumnSet, second: ColumnSet) -> ColumnSet:
    """The columns that are in one of two sets or in both.

    Raises:
        Invalid: These are all columns, which is no set of some.
    """
    if first.names is not None and second.names is not None:
        return ColumnSet(names=tuple(dict.fromkeys((*first.names, *second.names))))
    hidden = [
        name for name in (*first.mentioned, *second.mentioned)
        if not first.holds(name) and not second.holds(name)
    ]  # fmt: skip
    if not hidden:
        raise Invalid("with those that are granted already these are all columns: leave them out")
    return ColumnSet(excluded=tuple(dict.fromkeys(hidden)))


def less(first: ColumnSet, second: ColumnSet) -> ColumnSet | None:
    """The columns of the first set that are not in the second; None if there are none."""
    if first.names is not None:
        left = tuple(name for name in first.names if not second.holds(name))
        return ColumnSet(names=left) if left else None
    if second.names is not None:
        return ColumnSet(excluded=tuple(dict.fromkeys((*first.mentioned, *second.names))))
    # All but some, less all but others: those others which are not among the first.
    left = tuple(name for name in second.mentioned if first.holds(name))
    return ColumnSet(names=left) if left else None


def text_of(columns: ColumnSet) -> str:
    """The columns as a statement names them."""
    names = ", ".join(columns.mentioned)
    return names if columns.names is not None else f"* EXCEPT ({names})"
