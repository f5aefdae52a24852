"""The rows that a deletion, an update or a merge changes, and what they become."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.maintenance.matched_rows import Matched
from headwater.storage.predicate.filter import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    filter_rows,
    to_expression,
)
from headwater.storage.rows.ingest import coerce
from headwater.storage.rows.kinds import take_row_kinds
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.padded_text import has_chars, padded_array, padded_batch
from headwater.storage.types.values import storage_value

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Assignment",
    "DeleteRows",
    "MergeRows",
    "UpdateRows",
    "WhenMatched",
    "merge_predicate",
    "merge_source",
]

Assignment: TypeAlias = "pc.Expression | pl.Expr | object"
"""A column's new value: an Arrow or Polars expression over the old row, or a constant."""
WhenMatched: TypeAlias = Literal["update", "delete"]

# No column of a table has a name with this character, which Polars does not take.
_NUMBER = "\0number"
_ROW, _SOURCE = "row", "source"
_MAX_VALUES = 1000


# Deletions and updates ------------------------------------------------------------------------


@dataclass(frozen=True)
class DeleteRows:
    """The rows that a filter is true for, which go.

    Attributes:
        storage: The table.
        predicate: The filter.
    """

    storage: TableStorage
    predicate: Predicate

    @property
    def changed(self) -> Collection[str] | None:
        """None: the rows go."""
        return None

    def match(self, rows: pa.RecordBatch) -> Matched:
        """The rows of a batch that the filter is true for."""
        return Matched(_matching(rows, self.storage, self.predicate)[0])

    def rest(self) -> pa.Table | None:
        """None: a deletion adds no rows."""
        return None


@dataclass(frozen=True)
class UpdateRows:
    """The rows that a filter is true for, with new values in some columns.

    Attributes:
        storage: The table.
        predicate: The filter; None means all rows.
        changes: New values by column.
    """

    storage: TableStorage
    predicate: Predicate | None
    changes: Mapping[str, Assignment]

    @property
    def changed(self) -> Collection[str]:
        """The columns that get new values."""
        return self.changes.keys()

    def match(self, rows: pa.RecordBatch) -> Matched:
        """The rows of a batch that the filter is true for, and their new versions."""
        numbers, found = _matching(rows, self.storage, self.predicate)
        if not len(numbers):
            return Matched(numbers)
        new = _assigned(self.storage.schema, found, self.changes)
        _check_kinds(self.storage, new, self.changes)
        return Matched(numbers, new)

    def rest(self) -> pa.Table | None:
        """None: an update adds no rows."""
        return None


def _matching(
    rows: pa.RecordBatch, storage: TableStorage, predicate: Predicate | None
) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """The numbers of the rows that a filter is true for, and the rows."""
    numbers = np.arange(rows.num_rows)
    if predicate is None:
        return numbers, pa.Table.from_batches([rows])
    numbered = pa.RecordBatch.from_arrays(
        [*rows.columns, pa.array(numbers)], names=[*rows.schema.names, _NUMBER]
    )
    kept = filter_rows(numbered, to_expression(predicate, storage.schema))
    return kept.column(_NUMBER).to_numpy(), kept.drop_columns([_NUMBER])


def _check_kinds(storage: TableStorage, rows: pa.Table, changed: Collection[str]) -> None:
    """Check that new versions of rows are not called deleted by ``rowkind.field``."""
    name = storage.schema.table_options.row_kind_field
    if not storage.schema.primary_keys or name is None or name not in changed:
        return
    _, kinds = take_row_kinds(rows, None, storage.schema, storage.name)
    if kinds is not None and (count := int((kinds & 1).sum())):
        raise Invalid(
            f"table {storage.name}: {count} rows are to be updated to the kind -U or -D, which "
            f"'rowkind.field' takes from column '{name}'; delete them, or write the rows instead"
        )


def _assigned(schema: TableSchema, rows: pa.Table, changes: Mapping[str, Assignment]) -> pa.Table:
    """Rows with new values, each computed from the old row."""
    result = rows
    for name, value in changes.items():
        result = _with_column(result, name, _padded(schema, name, _value(rows, name, value)))
    return result


def _padded(
    schema: TableSchema, name: str, column: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """A column with its CHAR values padded, if it has the type of the table's."""
    data_type = schema.column(name).type
    if not has_chars(data_type) or column.type != to_arrow(data_type):
        return column
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.chunked_array([padded_array(chunk, data_type) for chunk in chunks], column.type)


def _with_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows with a column in the place of the one of that name; behind them where it was not read,
    as those of BLOBs are not.
    """
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, column) if at < 0 else rows.set_column(at, name, column)


def _value(rows: pa.Table, name: str, value: Assignment) -> pa.Array | pa.ChunkedArray:
    if isinstance(value, pc.Expression):
        from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

        steps = [
            Declaration("table_source", TableSourceNodeOptions(rows)),
            Declaration("project", ProjectNodeOptions([value], [name])),
        ]
        try:
            # One thread: several would mix the rows up.
            return Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
        except pa.ArrowException as error:
            raise Invalid(f"column '{name}' cannot be set to {value}: {error}") from error
    if type(value).__module__.split(".")[0] == "polars":
        return _polars_value(rows, name, value)
    try:
        # Of NumPy's times, Arrow takes arrays of every unit alone.
        scalar = (
            pa.array(np.array([value]))[0] if isinstance(value, np.datetime64) else pa.scalar(value)
        )
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise Invalid(f"column '{name}' cannot be set to {value!r}: {error}") from error
    return pa.repeat(scalar, rows.num_rows)


def _polars_value(rows: pa.Table, name: str, value: object) -> pa.ChunkedArray:
    import polars as pl

    if not isinstance(value, pl.Expr):
        raise Invalid(f"column '{name}' cannot be set to a {type(value).__name__} of Polars")
    if not _is_of_single_rows(value):
        raise Invalid(
            f"column '{name}' cannot be set to {value}: it depends on other rows, and those that "
            "change are computed some at a time; compute it before, and merge it"
        )
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    free = "value"
    while free in rows.column_names:
        free += "_"
    try:
        # Beside the columns of the frame, so that one value becomes as many as there are rows.
        result = frame.with_columns(value.alias(free)).get_column(free)
    except pl.exceptions.PolarsError as error:
        raise Invalid(f"column '{name}' cannot be set to {value}: {error}") from error
    return pa.chunked_array([result.to_arrow()])


def _is_of_single_rows(expression: pl.Expr) -> bool:
    """Whether each value follows from its own row; Python's functions are taken to do so."""
    from polars.exceptions import PolarsError

    try:
        if not expression.meta.is_row_separable():
            return False
    except PolarsError:
        return True
    return all(map(_is_of_single_rows, expression.meta.pop()))


# Merges ---------------------------------------------------------------------------------------


@dataclass
class MergeRows:
    """The rows that have the same values as a source's in some columns.

    Attributes:
        storage: The table.
        source: The source's rows, from `merge_source`.
        on: The columns. Null equals nothing but in a key column that may hold it, where it is a
            value like others.
        when_matched: The change of the table's row; None leaves it.
        inserts: Whether the source's rows without a match are added.
    """

    storage: TableStorage
    source: pa.Table
    on: Sequence[str]
    when_matched: WhenMatched | None
    inserts: bool
    _keys: pl.DataFrame = field(init=False)
    _seen: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self._keys = self._comparable(self.source, _SOURCE)
        self._seen = np.zeros(self.source.num_rows, np.bool_)

    @property
    def predicate(self) -> Predicate | None:
        """The values, or their range, in each of the columns."""
        return merge_predicate(self.storage, self.source, self.on)

    @property
    def changed(self) -> Collection[str] | None:
        """The source's columns that are not matched by; None if the rows that match go."""
        if self.when_matched is None:
            return ()
        if self.when_matched == "delete":
            return None
        return [name for name in self.source.column_names if name not in self.on]

    def match(self, rows: pa.RecordBatch) -> Matched:
        """The rows of a batch that a row of the source matches.

        Raises:
            Invalid: Several rows of the source match one row, or a key would change.
        """
        padded = padded_batch(rows, self.storage.schema.columns(self.on))
        own = self._comparable(pa.Table.from_batches([padded]), _ROW)
        on = [str(at) for at in range(len(self.on))]
        pairs = own.join(self._keys, on=on, how="inner", nulls_equal=True)
        taken = pairs.get_column(_ROW).to_numpy()
        source = pairs.get_column(_SOURCE).to_numpy()
        self._seen[source] = True
        if self.when_matched is None:
            return Matched(np.empty(0, np.int64))
        values, counts = np.unique(taken, return_counts=True)
        if len(values) < len(taken):
            twice = rows.slice(int(values[counts > 1][0]), 1).select(list(self.on)).to_pylist()[0]
            raise Invalid(
                f"table {self.storage.name}: several rows of the source match the row with "
                f"{', '.join(f'{name} = {value!r}' for name, value in twice.items())}; make the "
                "source's values distinct"
            )
        if self.when_matched == "delete" or not len(taken):
            return Matched(taken)
        return Matched(taken, self._updated(rows, taken, source))

    def _comparable(self, rows: pa.Table, name: str) -> pl.DataFrame:
        """The columns of the match by number, and the numbers of the rows that can match."""
        frame = _numbered_keys(rows, self.on, name)
        keys = _nullable_keys(self.storage.schema)
        return frame.drop_nulls([str(at) for at, each in enumerate(self.on) if each not in keys])

    def _updated(
        self, rows: pa.RecordBatch, taken: npt.NDArray[np.int64], source: npt.NDArray[np.int64]
    ) -> pa.Table:
        result = pa.Table.from_batches([rows]).take(pa.array(taken))
        new = self.source.take(pa.array(source))
        for name in self.source.column_names:
            if name in self.on:
                continue
            if name in self.storage.schema.primary_keys:
                old = _padded(self.storage.schema, name, result.column(name))
                same = pc.fill_null(pc.equal(old, new.column(name)), False)
                nulls = pc.and_(pc.is_null(old), pc.is_null(new.column(name)))
                if not pc.all(pc.or_(same, nulls)).as_py():
                    raise Invalid(
                        f"table {self.storage.name}: the source changes column '{name}' of rows "
                        "that it matches, but it is part of the primary key; match on it, too, or "
                        "leave it out of the source"
                    )
            result = _with_column(result, name, new.column(name))
        _check_kinds(self.storage, result, self.source.column_names)
        return result

    def rest(self) -> pa.Table | None:
        """The source's rows that matched none."""
        return self.source.filter(pa.array(~self._seen)) if self.inserts else None


def _nullable_keys(schema: TableSchema) -> set[str]:
    """The columns of the primary key that may hold null, which equals null there."""
    return {item.name for item in schema.columns(schema.primary_keys) if item.type.nullable}


def _numbered_keys(rows: pa.Table, on: Sequence[str], name: str) -> pl.DataFrame:
    """The columns of a match, called by their numbers, and the rows' numbers by a name."""
    import polars as pl

    names = [*(str(at) for at in range(len(on))), name]
    columns = [*(rows.column(each) for each in on), pa.array(np.arange(rows.num_rows))]
    frame = pl.from_arrow(pa.table(columns, names=names))
    assert isinstance(frame, pl.DataFrame)
    return frame


def merge_source(storage: TableStorage, source: pa.Table, on: Sequence[str]) -> pa.Table:
    """A source's rows in the types of the table's columns; it may have some of them only.

    Raises:
        Invalid: A column is not the table's, or a value does not fit it, or a row cannot be
            matched by a column.
    """
    schema = storage.schema
    if not on:
        raise Invalid(f"table {storage.name}: name the columns that rows are to be matched by")
    for name in on:
        kind = schema.column(name).type
        if not isinstance(kind, AtomicType) or kind.root is Root.BLOB:
            raise Invalid(
                f"table {storage.name}: rows cannot be matched by column '{name}' of type {kind}"
            )
        if name not in source.column_names:
            raise Invalid(f"table {storage.name}: the source has no column '{name}'")
    own = [item for item in schema.fields if item.name in source.column_names]
    partition_keys = tuple(name for name in schema.partition_keys if name in source.column_names)
    some = replace(schema, fields=tuple(own), primary_keys=(), partition_keys=partition_keys)
    # Nulls become default values when rows are written: before, they match none.
    zone = storage.runtime.time_zone
    return coerce(source, some, storage.name, zone, keeps_nulls=True, pads=True)


def merge_predicate(storage: TableStorage, source: pa.Table, on: Sequence[str]) -> Predicate | None:
    """A condition that every row fulfils that a source's rows match; None for none.

    Args:
        storage: The table.
        source: The source's rows, from `merge_source`.
        on: The columns that are compared.
    """
    parts = [
        part
        for name in on
        if (part := _among(storage.schema, name, source.column(name))) is not None
    ]
    return And(tuple(parts)) if parts else None


def _among(schema: TableSchema, name: str, column: pa.ChunkedArray) -> Predicate | None:
    """The condition that a column has one of some values, or lies between them."""
    data_type = schema.column(name).type
    if not isinstance(data_type, AtomicType) or data_type.root in (Root.FLOAT, Root.DOUBLE):
        return None
    values = pc.drop_null(column)
    among: Predicate | None = _among_values(name, data_type, values) if len(values) else None
    if len(values) == len(column) or name not in _nullable_keys(schema):
        return among if len(values) else Constant(False)
    if not len(values):
        return IsNull(name)
    return None if among is None else Or((IsNull(name), among))


def _among_values(name: str, data_type: AtomicType, values: pa.ChunkedArray) -> Predicate | None:
    """The condition that a column has one of some values, none of them null."""
    distinct = pc.unique(values)
    if len(distinct) <= _MAX_VALUES:
        return In(name, tuple(storage_value(each, data_type) for each in distinct))
    try:
        ends = pc.min_max(values)
    except pa.ArrowNotImplementedError:
        return None
    low, high = (storage_value(ends[each], data_type) for each in ("min", "max"))
    return And((Comparison(name, ">=", low), Comparison(name, "<=", high)))
