"""Rows of single keys, read from the source again, and keys that the source lacks."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.log_rows import ReadAgainError
from headwater.cdc.sink.comparison import Comparison, Difference
from headwater.cdc.sink.row_mapping import RowMapping, any_values, row_schema, with_kind
from headwater.cdc.source.key_ranges import KeyRange
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import ConsistentRead
from headwater.cdc.source.source import Source
from headwater.storage.errors import Conflict
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import to_arrow

__all__ = ["missing_in_source", "read_again"]

_KEYS_AT_ONCE = 100_000


def read_again(
    source: Source,
    table: SourceTable,
    mapping: RowMapping,
    keys: pa.Table,
    seen: Position,
    bad_dates: BadDates,
) -> Generator[pa.RecordBatch, None, Position]:
    """The rows of keys as the source has them; deletes of those that it lacks.

    Args:
        source: The source.
        table: The table as it is known.
        mapping: How its rows become the lake's; it has the source's key.
        keys: The keys, in the lake's types.
        seen: The position that is to be seen at least.
        bad_dates: What to do with dates that the lake does not have.

    Returns:
        A position that has all that was seen.

    Raises:
        ReadAgainError: The table has other columns meanwhile.
    """
    settled = seen
    lake_table = mapping.source
    schema = row_schema(lake_table)
    names = list(lake_table.primary_key)
    frame = pl.DataFrame(keys.select(names)).unique()
    for part in frame.iter_slices(_KEYS_AT_ONCE):
        wanted = part.to_arrow().cast(keys.select(names).schema)
        present: list[pl.DataFrame] = []
        with source.consistent_read(seen) as read:
            _check(read, table)
            for batch in read.rows_of_keys(lake_table, wanted, bad_dates):
                present.append(pl.DataFrame(pa.table(batch.select(names))))
                yield mapping.rows(with_kind(batch, RowKind.UPDATE_AFTER, schema))
            settled = settled.union(read.settled())
        absent = part
        if present:
            absent = part.join(pl.concat(present), on=names, how="anti")
        if len(absent):
            yield mapping.rows(_deletes(absent.to_arrow().cast(wanted.schema), lake_table))
    return settled


def missing_in_source(
    source: Source,
    table: Table,
    source_table: SourceTable,
    mapping: RowMapping,
    seen: Position,
) -> Iterator[pa.RecordBatch]:
    """Deletes of the keys of the lake's table that the source lacks.

    Args:
        source: The source.
        table: The lake's table, which has all changes up to `seen` and no others.
        source_table: The source's table as it is known.
        mapping: How its rows become the lake's.
        seen: The position that is to be seen at least.

    Raises:
        ReadAgainError: The table has other columns meanwhile.
    """
    names = list(mapping.target.primary_key)
    columns = [column for column in mapping.target.columns if column.name in names]
    read_columns = [each for each in mapping.source.columns if each.name in mapping.identity]
    read_table = replace(mapping.source, columns=tuple(read_columns))
    schema = pa.schema([(column.name, to_arrow(column.type)) for column in columns])
    with Comparison(names, schema) as comparison:
        in_lake = table.scan(columns=schema.names, where=mapping.where).to_batches()
        comparison.add_lake(batch.cast(schema) for batch in in_lake)
        with source.consistent_read(seen) as read:
            _check(read, source_table)
            comparison.add_source(map(mapping.keys, read.rows(read_table, KeyRange())))
        for batch in comparison.differences().batches(Difference.EXTRA):
            yield _deletes(pa.table(batch.select(names)), mapping.target)


def _check(read: ConsistentRead, table: SourceTable) -> None:
    try:
        read.check(table)
    except Conflict as error:
        raise ReadAgainError(error.message) from error


def _deletes(keys: pa.Table, table: SourceTable) -> pa.RecordBatch:
    """Deletes of keys; columns that are not of the key have any value."""
    schema = row_schema(table)
    count = keys.num_rows
    columns: list[pa.Array] = []
    for column in table.columns:
        if column.name in keys.column_names:
            columns.append(keys.column(column.name).combine_chunks())
        elif column.type.nullable:
            columns.append(pa.nulls(count, to_arrow(column.type)))
        else:
            columns.append(any_values(to_arrow(column.type), count))
    kinds = pa.array(np.full(count, RowKind.DELETE, np.int8))
    return pa.RecordBatch.from_arrays([*columns, kinds], schema=schema)
