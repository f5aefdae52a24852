"""Statistics of a table's rows, as ANALYZE computes them for planners.

The rows are read once, a split at a time, each batch vectorised; what is kept of a column has a
fixed size. The parts of splits are put together, so that tasks may compute them.

Source: ``PaimonAnalyzeTableColumnCommand.scala``, Spark's ``CommandUtils.computeColumnStats``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Invalid
from headwater.storage.read.split import read_split
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.scan.split import Split
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.table_statistics import ColumnStatistics
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import MAX_LENGTH, DataField
from headwater.storage.types.local_time import utc

__all__ = ["ColumnSummary", "RowSummary", "analysed_columns", "summarize_split"]

_BATCH_ROWS = 65536
_TEXT = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_WIDTHS = {
    Root.BOOLEAN: 1,
    Root.TINYINT: 1,
    Root.SMALLINT: 2,
    Root.INT: 4,
    Root.BIGINT: 8,
    Root.FLOAT: 4,
    Root.DOUBLE: 8,
    Root.DECIMAL: 8,
    Root.DATE: 4,
    Root.TIME: 4,
    Root.TIMESTAMP: 8,
    Root.TIMESTAMP_LTZ: 8,
}
"""Bytes of a value (``DataType.defaultSize`` of Spark)."""
_WIDE_DECIMAL = 16
_LONG_DIGITS = 18
_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)


# Distinct values --------------------------------------------------------------------------------

_EXACT = 1 << 18
_INDEX_BITS = 14
_REGISTERS = 1 << _INDEX_BITS


@dataclass
class DistinctCount:
    """Counts distinct values by their 64-bit hashes, in at most about 2 MB.

    Up to 262,144 different values it is exact, but for hashes that are equal by chance. From then
    on it is estimated by HyperLogLog of 16,384 registers, with a standard error of 0.8 percent.
    """

    _hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    _registers: npt.NDArray[np.uint8] | None = None

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Take in the hashes of some values."""
        if self._registers is None:
            self._hashes = sorted_distinct(np.concatenate([self._hashes, hashes]))
            if len(self._hashes) <= _EXACT:
                return
            hashes, self._hashes = self._hashes, np.empty(0, np.uint64)
            self._registers = np.zeros(_REGISTERS, np.uint8)
        index = (hashes >> np.uint64(64 - _INDEX_BITS)).astype(np.int64)
        # The place of the first bit that is set, of those that are left; a bit ends them.
        rest = (hashes << np.uint64(_INDEX_BITS)) | np.uint64(1 << (_INDEX_BITS - 1))
        # Only the power of two counts: rounding up to the next one must not happen.
        top = (rest >> np.uint64(11)).astype(np.float64)
        _, exponents = np.frexp(top)
        ranks = np.where(top > 0, 54 - exponents, 54).astype(np.uint8)
        np.maximum.at(self._registers, index, ranks)

    def merge(self, other: DistinctCount) -> None:
        """Take in the values that another has counted."""
        if other._registers is None:
            self.add(other._hashes)
            return
        if self._registers is None:
            own, self._hashes = self._hashes, np.empty(0, np.uint64)
            self._registers = other._registers.copy()
            self.add(own)
            return
        np.maximum(self._registers, other._registers, out=self._registers)

    def count(self) -> int:
        """The number of different values."""
        if self._registers is None:
            return len(self._hashes)
        weight = 0.7213 / (1 + 1.079 / _REGISTERS)
        powers = np.exp2(-self._registers.astype(np.float64))
        return round(weight * _REGISTERS**2 / float(powers.sum()))


# Columns ----------------------------------------------------------------------------------------


@dataclass
class ColumnSummary:
    """The statistics of some of a column's values.

    Attributes:
        data_type: The column's type.
        nulls: Nulls.
        values: Values that are not null.
        low: The smallest value, as an array of one; None without values, and for text and bytes.
        high: The greatest value, as an array of one; None as for `low`.
        length: The lengths of all values together.
        longest: The length of the longest.
        distinct: The different values.
    """

    data_type: AtomicType
    nulls: int = 0
    values: int = 0
    low: pa.Array | None = None
    high: pa.Array | None = None
    length: int = 0
    longest: int = 0
    distinct: DistinctCount = field(default_factory=DistinctCount)

    def add(self, column: pa.Array) -> None:
        """Take in some values."""
        present = column.drop_null()
        self.nulls += len(column) - len(present)
        self.values += len(present)
        if not len(present):
            return
        self.distinct.add(_hashes(present))
        root = self.data_type.root
        if root in _TEXT or root in _BYTES:
            lengths = pc.utf8_length(present) if root in _TEXT else pc.binary_length(present)
            self.length += pc.sum(lengths).as_py()
            self.longest = max(self.longest, pc.max(lengths).as_py())
            return
        self.longest = _width(self.data_type)
        self.length += self.longest * len(present)
        self._extend(*_ends(present))

    def merge(self, other: ColumnSummary) -> None:
        """Take in the statistics of further values."""
        self.nulls += other.nulls
        self.values += other.values
        self.length += other.length
        self.longest = max(self.longest, other.longest)
        self.distinct.merge(other.distinct)
        if other.low is not None and other.high is not None:
            self._extend(other.low, other.high)

    def _extend(self, low: pa.Array, high: pa.Array) -> None:
        lows = low if self.low is None else pa.concat_arrays([self.low, low])
        highs = high if self.high is None else pa.concat_arrays([self.high, high])
        self.low, self.high = _ends(lows)[0], _ends(highs)[1]

    def statistics(self, column_id: int) -> ColumnStatistics:
        """The statistics as a file of them has them."""
        return ColumnStatistics(
            column_id,
            self.distinct.count(),
            None if self.low is None else _text(self.low, self.data_type),
            None if self.high is None else _text(self.high, self.data_type),
            self.nulls,
            -(-self.length // self.values) if self.values else None,
            self.longest if self.values else None,
        )


def _ends(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The smallest and the greatest value, each as an array; NaN is the greatest, as in Java."""
    if pa.types.is_floating(values.type):
        nan = values.filter(pc.is_nan(values)).slice(0, 1)
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        if not len(numbers):
            return nan, nan
        low, high = _ends_of_numbers(numbers)
        return low, nan if len(nan) else high
    return _ends_of_numbers(values)


def _ends_of_numbers(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    ends = pc.min_max(values)
    return pa.array([ends["min"]], values.type), pa.array([ends["max"]], values.type)


def _hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    import polars as pl

    if pa.types.is_floating(values.type):
        # The zeros are one value, and all NaN are.
        values = pc.if_else(pc.equal(values, 0), pa.scalar(0, values.type), values)
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    series = pl.from_arrow(values)
    assert isinstance(series, pl.Series)
    hashes: npt.NDArray[np.uint64] = series.hash(seed=1).to_numpy()
    return hashes


def _width(data_type: AtomicType) -> int:
    if data_type.root is Root.DECIMAL and data_type.precision > _LONG_DIGITS:
        return _WIDE_DECIMAL
    return _WIDTHS[data_type.root]


def _text(value: pa.Array, data_type: AtomicType) -> str:
    """A value as Paimon's serialisers print it (``Serializer.serializeToString``)."""
    if data_type.root in (Root.DATE, Root.TIME):
        # Days, and milliseconds of the day.
        return str(value.cast(pa.int32())[0].as_py())
    # Moments are printed as they are in UTC.
    return str(cast(value, data_type, _STRING, utc)[0].as_py())


# Rows -------------------------------------------------------------------------------------------


@dataclass
class RowSummary:
    """The statistics of some rows.

    Attributes:
        columns: Those of columns, by name.
        rows: The rows.
    """

    columns: dict[str, ColumnSummary]
    rows: int = 0

    @staticmethod
    def of_none(fields: Sequence[DataField]) -> RowSummary:
        """Those of no rows."""
        types = {item.name: item.type for item in fields}
        return RowSummary(
            {name: ColumnSummary(each) for name, each in types.items() if _is_counted(each)}
        )

    def merge(self, other: RowSummary) -> None:
        """Take in the statistics of further rows."""
        self.rows += other.rows
        for name, column in self.columns.items():
            column.merge(other.columns[name])


def _is_counted(data_type: object) -> TypeGuard[AtomicType]:
    if not isinstance(data_type, AtomicType):
        return False
    return data_type.root in _WIDTHS or data_type.root in _TEXT or data_type.root in _BYTES


def analysed_columns(
    schema: TableSchema, table: str, names: Sequence[str] | None
) -> tuple[DataField, ...]:
    """The columns whose values are looked at.

    Args:
        schema: The table's schema.
        table: Its name in error messages.
        names: Their names; None means all whose types have statistics.

    Raises:
        NotFound: A column does not exist.
        Invalid: A column is named twice, or its type has no statistics.
    """
    if names is None:
        return tuple(item for item in schema.fields if _is_counted(item.type))
    fields = schema.columns(names)
    for item in fields:
        if not _is_counted(item.type):
            raise Invalid(
                f"table {table}: column '{item.name}' of type {item.type} has no statistics; leave "
                "it out"
            )
    if len({item.name for item in fields}) < len(fields):
        raise Invalid(f"table {table}: a column to analyse is named twice: {', '.join(names)}")
    return tuple(fields)


def summarize_split(storage: TableStorage, split: Split, fields: Sequence[DataField]) -> RowSummary:
    """The statistics of a split's rows.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    summary = RowSummary.of_none(fields)
    names = [item.name for item in fields]
    if not names and split.is_counted:
        return replace(summary, rows=split.row_count)
    for batch in read_split(storage, split, columns=names, batch_rows=_BATCH_ROWS):
        summary.rows += batch.num_rows
        for name, column_summary in summary.columns.items():
            column_summary.add(batch.column(name))
    return summary
