"""Rows that take the place of those with the same ``upsert-key``, of tables without a primary key.

Source: ``RewriteUpsertTable.scala``.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns
from headwater.spark.names import quoted
from headwater.spark.row_change import RowCounts
from headwater.spark.write.clauses import DEFAULT
from headwater.spark.write.column_check import check_columns
from headwater.spark.write.merge import MergeBuilder
from headwater.storage.errors import Invalid
from headwater.storage.rows.ingest import ROW_KIND_COLUMN

__all__ = ["upsert_rows"]

_OLD, _NEW, _NUMBER = "_headwater_old", "_headwater_new", "_headwater_number"


def upsert_rows(session: CatalogSession, table: Table, rows: DataFrame) -> RowCounts:
    """Update the rows of a table by new ones of the same ``upsert-key``, and add the others.

    Null equals null in the key. With ``sequence.field`` the greatest of the new rows of a key
    counts, and updates a row none of whose sequence fields is greater, or null, on either side.
    Without it all new rows count.

    Args:
        session: The catalog's.
        table: The table, with an ``upsert-key``.
        rows: The new rows; nullable columns may be missing.

    Raises:
        Invalid: The frame does not fit the table, or several new rows update one row.
        Conflict, Unavailable, OutcomeUnknown: As `MergeBuilder.execute`.
    """
    schema = table.schema
    if ROW_KIND_COLUMN in rows.columns and ROW_KIND_COLUMN not in schema.field_by_name:
        raise Invalid(
            f"table {table.name} has an 'upsert-key', so that its rows have no kinds: leave the "
            f"column {ROW_KIND_COLUMN} out, and delete rows by a condition"
        )
    rows = CharColumns.from_session(session.spark, schema.fields).read(rows)
    check_columns(rows.schema, table.storage)
    keys, ages = schema.table_options.upsert_keys, schema.table_options.sequence_fields
    if lacking := [name for name in (*keys, *ages) if name not in rows.columns]:
        raise Invalid(
            f"table {table.name}: new rows lack {', '.join(lacking)} of 'upsert-key' or "
            "'sequence.field'"
        )
    newer: Column | None = None
    if ages:
        first = Window.partitionBy(*map(_column, keys)).orderBy(*[_column(n).desc() for n in ages])
        numbered = rows.withColumn(_NUMBER, sf.row_number().over(first))
        rows = numbered.where(sf.col(_NUMBER) == 1).drop(_NUMBER)
        newer = reduce(
            Column.__and__, [_column(name, _OLD) <= _column(name, _NEW) for name in ages]
        )
    values = {
        name: _column(name, _NEW) if name in rows.columns else DEFAULT
        for name in schema.field_by_name
    }
    merge = MergeBuilder(
        session,
        table,
        rows,
        list(keys),
        target_alias=_OLD,
        source_alias=_NEW,
        nulls_match=True,
    )
    merge.when_matched_update(values, newer)
    return merge.when_not_matched_insert(values).execute()


def _column(name: str, frame: str | None = None) -> Column:
    return sf.col(quoted(name) if frame is None else f"{frame}.{quoted(name)}")
