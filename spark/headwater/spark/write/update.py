"""Update and delete the rows that fulfil a condition of Spark's."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns
from headwater.spark.explained_write import stop_if_explained
from headwater.spark.names import quoted
from headwater.spark.row_change import Repeats, RowCounts
from headwater.spark.source.table_frame import PLACE_FIELDS
from headwater.spark.source.worker_rows import Places
from headwater.spark.write.change_commit import REWRITES, change_rows
from headwater.spark.write.changes import Changes
from headwater.spark.write.clauses import (
    Action,
    Clause,
    Default,
    Expression,
    Projection,
    assigned,
    expression,
    rewrites_rows,
)
from headwater.spark.write.condition_needs import columns_needed, rows_told, wanted_rows
from headwater.spark.write.kept_rows import kept_rows, with_kept_rows
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.spark.write.target import (
    columns_to_read,
    places_of,
    read_target,
    without_places,
)
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.maintenance.key_rewrite import rewrites_files
from headwater.storage.predicate.filter import Constant, Predicate
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = [
    "TARGET",
    "delete_counted",
    "delete_rows",
    "delete_where",
    "replace_where",
    "update_rows",
]

TARGET = "target"
"""The name of a table in a condition on its rows."""


def update_rows(
    session: CatalogSession,
    table: Table,
    values: Mapping[str, object],
    where: Expression | None = None,
    *,
    alias: str = TARGET,
) -> RowCounts:
    """Give some columns of the rows that fulfil a condition new values, as one commit.

    Args:
        session: The catalog's.
        table: The table.
        values: New values by column or field of a struct column: Spark columns or SQL text over
            the old row, or constants.
        where: A condition of Spark's; None for all rows.
        alias: The table's name in expressions.

    Raises:
        Invalid: A value does not fit its column, the column is part of the primary key, or rows
            cannot be updated there.
        NotFound: A column does not exist.
        Conflict, OutcomeUnknown: As `change_rows`.
    """
    if not values:
        raise Invalid(f"table {table.name}: an update needs a column and its new value")
    return _change(session, table, Action.UPDATE, assigned(values), where, alias)


def delete_rows(
    session: CatalogSession,
    table: Table,
    where: Expression | None = None,
    *,
    alias: str = TARGET,
) -> RowCounts:
    """Delete the rows that fulfil a condition of Spark's, as one commit; else as `update_rows`."""
    return _change(session, table, Action.DELETE, None, where, alias)


def delete_where(session: CatalogSession, table: Table, where: Expression) -> None:
    """Delete the rows that fulfil a condition, by Headwater's own job where it understands it.

    That one deletes rows of tables of any merge engine.
    """
    predicate = _own_condition(session, table, where, TARGET) if isinstance(where, str) else None
    if predicate is None:
        delete_rows(session, table, where)
    else:
        table.delete(predicate, executor=session.executor)


def _own_condition(
    session: CatalogSession, table: Table, where: str | None, alias: str
) -> Predicate | None:
    """A condition as Headwater's own, with Spark's meaning; None where only Spark can judge it."""
    if where is None:
        return Constant(True)
    return rows_told(session.spark, table.storage, where, alias)


def delete_counted(
    session: CatalogSession, table: Table, where: str | None, *, alias: str
) -> RowCounts | None:
    """Delete the rows that fulfil a condition, of tables of any merge engine.

    Returns:
        The number of rows; None where it is not known, as files were rewritten.
    """
    predicate = _own_condition(session, table, where, alias)
    if predicate is None or not rewrites_files(table.storage, deletes=True):
        return delete_rows(session, table, where, alias=alias)
    if session.explains is not None:
        names = list(table.schema.field_by_name)
        base = table.pointer.latest()
        target = read_target(session, table, base, names, predicate, rewrites=True)
        rows = target.frame if where is None else target.frame.alias(alias).where(where)
        stop_if_explained(session, rows, table=table.name, mode=REWRITES, read=target.read)
    # Without a limit on the number of rows, as Spark's tasks write the files.
    made = table.delete(predicate, executor=session.executor)
    return None if made is not None else RowCounts()


def replace_where(session: CatalogSession, table: Table, rows: DataFrame, where: str) -> RowCounts:
    """Delete the rows that fulfil a condition and add others that do, as one commit.

    Args:
        session: The catalog's.
        table: The table.
        rows: The new rows, with the table's columns; a column may be missing.
        where: The condition, as SQL text.

    Raises:
        Invalid: A new row does not fulfil the condition.
        Unsupported: New rows could be older than those that they replace.
        Conflict, OutcomeUnknown: As `change_rows`.
        Unavailable: As `with_kept_rows`.
    """
    storage = table.storage
    if storage.schema.primary_keys and storage.schema.table_options.sequence_fields:
        raise Unsupported(
            f"table {storage.name}: rows of a table with 'sequence.field' cannot be replaced, as "
            "new ones may be older than those deleted; delete the rows, then insert others"
        )
    condition = sf.expr(where)
    if rewrites_rows(storage, [Clause(Action.DELETE)]):
        raise Unsupported(
            f"table {storage.name}: rows of a table whose merge engine is "
            f"{storage.schema.table_options.merge_engine}, or that ignores deletes, cannot be "
            "replaced in one commit; delete the rows, then insert others"
        )
    assignment = StoreAssignment(session.spark, table.name)
    projection = Projection(storage, assignment, TARGET)
    predicate = wanted_rows(session.spark, storage, where, TARGET)
    names = list(storage.schema.field_by_name)
    given = {name: sf.col(quoted(name)) for name in names if name in rows.columns}
    insert = Clause(Action.INSERT, None, given)
    projection.check([Clause(Action.DELETE), insert])

    def replace() -> RowCounts:
        # Computed once, though a conflict may have it written twice.
        new = projection.changes(kept_rows(session, rows), [insert])
        if session.explains is None:
            read = CharColumns.from_session(session.spark, storage.schema.fields).read(new)
            wrong = read.where(~sf.coalesce(condition, sf.lit(False))).limit(1).count()
            if wrong:
                raise Invalid(f"table {storage.name}: new rows do not fulfil the condition {where}")

        def plan(table: Table, base: Snapshot | None, rewrites: bool) -> Changes:
            target = read_target(session, table, base, names, predicate, rewrites=rewrites)
            old = target.frame.alias(TARGET).where(condition)
            gone = projection.changes(old, [Clause(Action.DELETE)], target.places)
            added = without_places(new, target.frame)
            return Changes(
                gone.unionByName(added),
                target.predicate,
                adds=True,
                is_serial=True,
                repeats=Repeats.REPLACED,
                read=target.read,
            )

        return change_rows(session, table, "REPLACE", plan, predicate)

    return with_kept_rows(storage.name, replace)


def _change(
    session: CatalogSession,
    table: Table,
    action: Action,
    values: Mapping[str, Column | Default] | None,
    where: Expression | None,
    alias: str,
) -> RowCounts:
    storage = table.storage
    condition = None if where is None else expression(where)
    clause = Clause(action, condition, values)
    assignment = StoreAssignment(session.spark, table.name)
    predicate = wanted_rows(session.spark, storage, where, alias)
    projection = Projection(storage, assignment, alias)
    projection.check([clause])

    def changes(frame: DataFrame) -> DataFrame:
        rows = frame.alias(alias)
        if condition is not None:
            rows = rows.where(condition)
        return projection.changes(rows, [Clause(action, None, values)], places_of(frame))

    def plan(table: Table, base: Snapshot | None, rewrites: bool) -> Changes | None:
        if base is None:
            return None
        names = list(storage.schema.field_by_name)
        if storage.schema.tracking_fields:
            result = columns_needed(session.spark, storage, PLACE_FIELDS[Places.FILES], changes)
            names = columns_to_read(storage, names, result)
        target = read_target(session, table, base, names, predicate, rewrites=rewrites)
        return Changes(
            changes(target.frame),
            target.predicate,
            columns=projection.changed,
            read=target.read,
        )

    return change_rows(
        session, table, action.name, plan, predicate, rewrites=rewrites_rows(storage, [clause])
    )
