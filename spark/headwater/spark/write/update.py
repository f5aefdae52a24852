"""Update and delete the rows that fulfil a condition of Spark's."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.row_change import RowCounts
from headwater.spark.write.change_commit import Changes, change_rows
from headwater.spark.write.clauses import (
    Action,
    Clause,
    Expression,
    Projection,
    expression,
    refuse_change,
)
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.spark.write.target import read_target
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.predicate.filter import Predicate, parse_predicate
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["delete_rows", "delete_where", "update_rows"]

_TARGET = "target"


def update_rows(
    session: CatalogSession,
    table: Table,
    values: Mapping[str, object],
    where: Expression | None = None,
    *,
    alias: str = _TARGET,
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
    columns = {name: expression(value) for name, value in values.items()}
    return _change(session, table, Action.UPDATE, columns, where, alias)


def delete_rows(
    session: CatalogSession,
    table: Table,
    where: Expression | None = None,
    *,
    alias: str = _TARGET,
) -> RowCounts:
    """Delete the rows that fulfil a condition of Spark's, as one commit; else as `update_rows`."""
    return _change(session, table, Action.DELETE, None, where, alias)


def delete_where(session: CatalogSession, table: Table, where: Expression) -> None:
    """Delete the rows that fulfil a condition, by Headwater's own job where it understands it.

    That one deletes rows of tables of any merge engine.
    """
    if isinstance(where, str):
        try:
            predicate = parse_predicate(where, table.schema)
        except Unsupported:
            predicate = None
        if predicate is not None:
            table.delete(predicate, executor=session.executor)
            return
    delete_rows(session, table, where)


def _change(
    session: CatalogSession,
    table: Table,
    action: Action,
    values: Mapping[str, Column] | None,
    where: Expression | None,
    alias: str,
) -> RowCounts:
    storage = table.storage
    condition = None if where is None else expression(where)
    clause = Clause(action, condition, values)
    refuse_change(storage, [clause])
    assignment = StoreAssignment(session.spark, table.name)
    predicate = _pruning(storage, where)
    projection = Projection(storage, assignment, alias)
    projection.check([clause])
    keyed = bool(storage.schema.primary_keys)

    def plan(table: Table, base: Snapshot | None) -> Changes | None:
        if base is None:
            return None
        names = list(storage.schema.field_by_name)
        target = read_target(session, table, base, names, predicate)
        rows = target.frame.alias(alias)
        if condition is not None:
            rows = rows.where(condition)
        places = [] if keyed else [FILE_COLUMN, POSITION_COLUMN]
        frame = projection.changes(rows, [Clause(action, None, values)], places)
        return Changes(frame, target.predicate)

    return change_rows(session, table, action.name, plan, predicate)


def _pruning(storage: TableStorage, where: Expression | None) -> Predicate | None:
    """The condition as one that files are chosen by; None where only Spark understands it."""
    if not isinstance(where, str):
        return None
    try:
        return parse_predicate(where, storage.schema)
    except (Invalid, NotFound, Unsupported):
        return None
