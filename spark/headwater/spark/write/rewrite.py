"""Change rows of tables whose merge engine merges a written row with the stored one.

There a change cannot be told by writing rows, see `headwater.storage.maintenance.key_rewrite`: the
files that hold the rows are written anew. Spark finds the rows and computes their new versions,
which come to this process; it writes the files, as the SDK does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.errors import own_errors
from headwater.spark.row_change import LOSES, MATCHED, MOVES, Repeats, RowChange, RowCounts
from headwater.spark.write.changes import Changes
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.jobs.change import change_table
from headwater.storage.maintenance.keyed_changes import KeyedChanges
from headwater.storage.maintenance.row_matchers import merge_source
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["rewrite_rows"]

_MOST_ROWS = 1_000_000
"""The rows that this process holds at once."""


def rewrite_rows(
    session: CatalogSession,
    table: Table,
    operation: str,
    plan: Callable[[Table, Snapshot | None], Changes | None],
    predicate: Predicate | None,
) -> RowCounts:
    """Change rows of a primary-key table by writing their files anew, as one commit.

    Args:
        session: The catalog's.
        table: The table.
        operation: The name of the operation in the snapshot's properties.
        plan: The changes of a snapshot's rows.
        predicate: Only rows that fulfil it can change.

    Raises:
        Invalid: Several changes meet in one row, or a key changes.
        Unsupported: More rows change than this process may hold.
        Conflict, OutcomeUnknown: As `change_table`.
    """
    change = RowChange(table.storage.runtime.new_uuid(), operation)
    counts = RowCounts()

    def matcher(base: Snapshot | None) -> KeyedChanges:
        nonlocal counts
        found = plan(table, base)
        rows = None if found is None else _collected(table.storage, found)
        repeats = Repeats.REFUSED if found is None else found.repeats
        made = _keyed(table.storage, rows, repeats)
        counts = RowCounts(made.inserted.num_rows, made.updated.num_rows, made.deleted.num_rows)
        return made

    def properties() -> Mapping[str, str]:
        return change.properties(counts)

    change_table(
        table.storage,
        table.pointer,
        session.executor,
        predicate,
        matcher,
        rewrites=True,
        is_serial=True,
        properties=properties,
    )
    return counts


def _collected(storage: TableStorage, changes: Changes) -> pa.Table:
    with own_errors():
        rows = changes.frame.limit(_MOST_ROWS + 1).toArrow()
    if rows.num_rows > _MOST_ROWS:
        raise Unsupported(
            f"table {storage.name}: more than {_MOST_ROWS:,} rows change, of a table whose merge "
            f"engine is {storage.schema.table_options.merge_engine}; change them part by part, by "
            "conditions on the partition or the key"
        )
    return rows


def _keyed(storage: TableStorage, rows: pa.Table | None, repeats: Repeats) -> KeyedChanges:
    """The changes by what they do; raises Invalid where it is not clear what a row becomes."""
    names = list(storage.schema.field_by_name)
    key = list(storage.schema.primary_keys)
    if rows is None:
        none = merge_source(storage, storage.schema.arrow.empty_table(), key)
        return KeyedChanges(storage, none, none, none)
    kinds = rows.column(ROW_KIND_COLUMN)
    if pc.any(pc.equal(kinds, MOVES)).as_py():
        raise Invalid(
            f"table {storage.name}: rows are to be updated to another primary key, which is not "
            "possible; match on the primary key, too, or delete the rows and write them anew"
        )
    _refuse_repeats(storage, rows.select([*key, ROW_KIND_COLUMN]), repeats)
    # Of a row that only stays there is the key alone.
    rows = rows.filter(pc.not_equal(kinds, MATCHED))
    kinds = rows.column(ROW_KIND_COLUMN)
    whole = merge_source(storage, rows.select(names), key)

    def of(*wanted: str) -> pa.Table:
        return whole.filter(pc.is_in(kinds, pa.array(wanted)))

    gone = of("-D")
    if repeats is Repeats.DROPPED:
        first = gone.select(key).append_column("at", pa.array(np.arange(gone.num_rows)))
        gone = gone.take(first.group_by(key).aggregate([("at", "min")]).column("at_min"))
    return KeyedChanges(storage, of("+U", LOSES), gone, of("+I"))


def _refuse_repeats(storage: TableStorage, rows: pa.Table, repeats: Repeats) -> None:
    key = [name for name in rows.column_names if name != ROW_KIND_COLUMN]
    kinds = rows.column(ROW_KIND_COLUMN)
    new = pc.equal(kinds, "+I")
    old = pc.invert(new)
    if repeats is Repeats.DROPPED:
        old = pc.and_(old, pc.or_(pc.not_equal(kinds, "-D"), pc.equal(kinds, MATCHED)))
    counted = (
        rows.append_column("old", old.cast("int64"))
        .append_column("new", new.cast("int64"))
        .group_by(key)
        .aggregate([("old", "sum"), ("new", "sum")])
    )
    met = pc.or_(
        pc.greater(counted.column("old_sum"), 1),
        pc.and_(pc.greater(counted.column("old_sum"), 0), pc.greater(counted.column("new_sum"), 0)),
    )
    wrong = counted.filter(met).select(key)
    if wrong.num_rows:
        (row,) = wrong.slice(0, 1).to_pylist()
        one = ", ".join(f"{name} = {value!r}" for name, value in row.items())
        raise Invalid(
            f"table {storage.name}: several rows of the source match or add the row with {one}; "
            "make the source's rows distinct"
        )
