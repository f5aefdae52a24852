"""Rows in any order merged into a sorted run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.storage.merge.engine import PickingEngine, RowGroups
from headwater.storage.merge.groups import groups_of_rows
from headwater.storage.merge.rules import MergeRules, added_rows
from headwater.storage.rows.gather import take_rows
from headwater.storage.rows.ordering import Comparable, argsort

__all__ = ["is_sorted_run", "merge_rows", "sort_rows"]

_FEW_ROWS = 1024


def merge_rows(rows: pa.RecordBatch, rules: MergeRules) -> pa.RecordBatch:
    """Rows in any order as a sorted run: sorted by key, the rows of each key merged into one.

    A merged row may retract: it is still to be merged with the key's older rows.

    Args:
        rows: The table's columns, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``.
        rules: The table's rules for merging. With `ignore_delete`, retracting rows are dropped.
    """
    if rules.ignore_delete and (added := added_rows(rows)) is not None:
        rows = rows.filter(added)
    if rows.num_rows == 0:
        return rows
    keys = rules.key_order.encode([rows.column(name) for name in rules.keys])
    if bool(np.all(np.greater(keys[1:], keys[:-1]))):
        # A sorted run already, as Spark's clustered writes hand it in: no need to copy it.
        return rows
    newness = rules.newness(rows)
    in_order = bool(np.all(np.greater_equal(newness[1:], newness[:-1])))
    by_age = None if in_order else np.argsort(newness, kind="stable")
    order, firsts = groups_of_rows(keys, by_age)
    if isinstance(rules.engine, PickingEngine):
        # Keys with one row need no looking for.
        groups = RowGroups(len(order), firsts, lambda names: rows.select(list(names)))
        return take_rows([rows], order[rules.engine.merge(groups, ())])
    sizes = np.diff(np.append(firsts, len(order)))
    shared = sizes > 1
    if not shared.any():
        return take_rows([rows], order)
    candidates = order[np.repeat(shared, sizes)]
    groups = RowGroups(
        len(candidates),
        np.cumsum(sizes[shared]) - sizes[shared],
        lambda names: take_rows([rows.select(list(names))], candidates),
    )
    merged = rules.merge(groups, rows.schema.names)
    result = order[firsts]
    if not isinstance(merged, pa.RecordBatch):
        result[shared] = candidates[merged]
        return take_rows([rows], result)
    result[shared] = rows.num_rows + np.arange(len(groups.firsts))
    computed = pa.RecordBatch.from_arrays(merged.columns, schema=rows.schema)
    return take_rows([rows, computed], result)


def is_sorted_run(batches: Sequence[pa.RecordBatch], rules: MergeRules) -> bool:
    """Whether rows are a sorted run as they are, which `merge_rows` would not change.

    Args:
        batches: The rows, with the table's columns and ``_VALUE_KIND``.
        rules: The table's rules for merging.
    """
    if rules.ignore_delete and any(added_rows(batch) is not None for batch in batches):
        return False
    # Rows in no order are told by the first of them, before all keys are encoded.
    first = [batch.slice(0, _FEW_ROWS) for batch in batches[:1]]
    return _ascends(first, rules) and _ascends(batches, rules)


def _ascends(batches: Sequence[pa.RecordBatch], rules: MergeRules) -> bool:
    """Whether the key of each row is greater than that of the row before it."""
    keys = [[batch.column(name) for name in rules.keys] for batch in batches if batch.num_rows]
    encoding = rules.key_order.encoding(keys)
    last: Comparable | None = None
    for columns in keys:
        encoded = rules.key_order.encode(columns, encoding)
        follows = last is None or bool(np.greater(encoded[:1], last).all())
        if not follows or not bool(np.all(np.greater(encoded[1:], encoded[:-1]))):
            return False
        last = encoded[-1:]
    return True


def sort_rows(rows: pa.RecordBatch, rules: MergeRules) -> pa.RecordBatch:
    """All rows sorted by key; those of one key keep their order."""
    keys = rules.key_order.encode([rows.column(name) for name in rules.keys])
    return take_rows([rows], argsort(keys))
