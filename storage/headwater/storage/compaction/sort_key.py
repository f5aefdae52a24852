"""The orders in which a sort compaction puts rows: by columns, or along a curve through them.

Source: ``OrderSorter.java``, ``ZorderSorter.java``, ``HibertSorter.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options.choices import SortStrategy
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.rows.hilbert import hilbert_order
from headwater.storage.rows.ordering import OrderColumn, RowOrder
from headwater.storage.rows.z_order import Bytes, z_order
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField, to_arrow

__all__ = ["SortKey", "sort_key"]

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class SortKey:
    """The order that rows are put in; it pickles.

    Attributes:
        strategy: The kind of order.
        fields: The columns, the most significant first.
        text_bytes: Z-order: the bytes of text and binary values that count.
        order: Compares what `arrays` gives.
    """

    strategy: SortStrategy
    fields: tuple[DataField, ...]
    text_bytes: int = 8
    order: RowOrder = field(init=False, compare=False)

    def __post_init__(self) -> None:
        columns = [OrderColumn(to_arrow(each.type), True) for each in self.fields]
        order = RowOrder(columns)
        if self.strategy is not SortStrategy.ORDER:
            schema = pa.schema([(each.name, to_arrow(each.type)) for each in self.fields])
            no_rows = pa.RecordBatch.from_pylist([], schema)
            order = RowOrder([OrderColumn(pa.int64())] * len(self.arrays(no_rows)))
        object.__setattr__(self, "order", order)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [each.name for each in self.fields]

    def arrays(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The values that rows are sorted by.

        Args:
            rows: Rows with the columns, and maybe more.
        """
        columns = [rows.column(name) for name in self.columns]
        types = [each.type for each in self.fields]
        match self.strategy:
            case SortStrategy.ORDER:
                return columns
            case SortStrategy.ZORDER:
                return _words(z_order(columns, types, self.text_bytes))
            case SortStrategy.HILBERT:
                return _words(hilbert_order(columns, types))


def sort_key(schema: TableSchema, strategy: str, columns: Sequence[str]) -> SortKey:
    """The key for names as users give them.

    Args:
        schema: The table's schema.
        strategy: ``order``, ``zorder`` or ``hilbert``, in any case.
        columns: The columns to sort by.

    Raises:
        Invalid: There is no such strategy or column, or the columns do not make a key.
        NotFound: A column does not exist.
        Unsupported: A column's type has no order.
    """
    try:
        chosen = SortStrategy(strategy.strip().lower())
    except ValueError:
        raise Invalid(f"rows are sorted by order, zorder or hilbert, not by '{strategy}'") from None
    names = [name.strip() for name in columns]
    if not any(names):
        raise Invalid(f"sorting by {chosen} needs the columns to sort by")
    if len(set(names)) < len(names):
        raise Invalid(f"the columns to sort by, {', '.join(names)}, name one twice")
    if chosen is SortStrategy.HILBERT and len(names) < 2:
        raise Invalid("a Hilbert curve needs at least two columns; sort by order instead")
    fields = tuple(schema.column(name) for name in names)
    text_bytes = CompactionOptions(schema.options).z_order_text_bytes
    try:
        return SortKey(chosen, fields, text_bytes)
    except Invalid as error:
        raise Unsupported(
            f"rows cannot be sorted by {', '.join(names)}: {error.message}"
        ) from error


def _words(rows: Bytes) -> list[pa.Array]:
    """Bytes as whole numbers that compare as they do, the most significant first."""
    count, width = rows.shape
    padded = np.zeros((count, width + -width % 8), np.uint8)
    padded[:, -width:] = rows
    words = padded.view(">u8").astype(np.uint64) ^ _SIGN
    return [pa.array(np.ascontiguousarray(word).view(np.int64)) for word in words.T]
