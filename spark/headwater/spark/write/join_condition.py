"""The columns that a merge's condition demands to be equal.

They only tell which rows need not be read. Spark itself reads and judges the condition.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyspark.sql.types as st
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.spark.names import column_of

__all__ = ["equal_columns"]


def equal_columns(
    condition: str,
    target: st.StructType,
    source: st.StructType,
    target_alias: str,
    source_alias: str,
) -> dict[str, str]:
    """Columns of the source by the target's columns that they equal in every pair of rows.

    Args:
        condition: The merge's condition; one that cannot be read demands nothing.
        target: The target's schema.
        source: The source's schema.
        target_alias: The target's name in the condition.
        source_alias: The source's.
    """
    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except SqlglotError:
        return {}
    sides = {target_alias.casefold(): target.names, source_alias.casefold(): source.names}

    def side(column: exp.Column) -> tuple[str, str] | None:
        parts = [part.name for part in column.parts]
        if len(parts) == 2:
            alias = parts[0].casefold()
            # A struct's field looks the same as a table's column.
            if any(column_of(parts[0], names) for names in sides.values()):
                return None
            found = column_of(parts[1], sides[alias]) if alias in sides else None
            return None if found is None else (alias, found)
        if len(parts) != 1:
            return None
        own = [(alias, column_of(parts[0], names)) for alias, names in sides.items()]
        known = [(alias, name) for alias, name in own if name is not None]
        return known[0] if len(known) == 1 else None

    pairs: dict[str, str] = {}
    for part in _conjuncts(parsed):
        left, right = part.args.get("this"), part.args.get("expression")
        if not isinstance(part, exp.EQ):
            continue
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            continue
        ends = dict(end for end in (side(left), side(right)) if end is not None)
        if len(ends) == 2:
            pairs.setdefault(ends[target_alias.casefold()], ends[source_alias.casefold()])
    return pairs


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node
