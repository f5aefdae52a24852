"""Columns of old files as columns of the present schema: matched by field id, widened, or null.

Source: ``SchemaEvolutionUtil.java``, ``FormatReaderMapping.java``. Fields of nested rows are
matched by id as well. Types change only where every value survives (`type_widening`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.schema import TableSchema
from headwater.storage.type_widening import is_widening
from headwater.storage.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    arrow_field,
    to_arrow,
)

__all__ = ["StoredColumn", "evolve", "stored_column"]


@dataclass(frozen=True)
class StoredColumn:
    """Where a column of the present schema comes from in a file.

    Attributes:
        wanted: The column as the present schema has it.
        stored: The column as the file's schema has it; None when the file is older than it.
    """

    wanted: DataField
    stored: DataField | None

    def convert(self, column: pa.Array | None, rows: int, where: str) -> pa.Array:
        """The present column.

        Args:
            column: What the file holds; None when `stored` is None.
            rows: How many rows there are.
            where: The file, for errors.

        Raises:
            CorruptData: The file's column is not of the type its schema says.
            Unsupported: The type was changed in a way that may lose values.
        """
        if self.stored is None or column is None:
            return pa.nulls(rows, to_arrow(self.wanted.type))
        try:
            return evolve(column, self.stored.type, self.wanted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            raise CorruptData(
                f"{where}: column '{self.stored.name}' is stored as {column.type}, which is not "
                f"{self.stored.type}: {error}"
            ) from error
        except Unsupported as error:
            raise Unsupported(f"{where}: column '{self.wanted.name}': {error.message}") from error


def stored_column(wanted: DataField, schema: TableSchema) -> StoredColumn:
    """A present column in files written with `schema`."""
    return StoredColumn(wanted, schema.field_by_id.get(wanted.id))


def evolve(array: pa.Array, stored: DataType, wanted: DataType) -> pa.Array:
    """Turn a column of type `stored` into one of type `wanted`.

    Raises:
        pa.ArrowInvalid: The array does not hold values of `stored`.
        Unsupported: Values could be lost.
    """
    target = to_arrow(wanted)
    if array.type.equals(target) and _same(stored, wanted):
        return array
    match stored, wanted:
        case AtomicType(), AtomicType() if is_widening(stored, wanted):
            return array.cast(to_arrow(stored)).cast(target)
        case ArrayType(), ArrayType():
            values = evolve(array.flatten(), stored.element, wanted.element)
            return pa.ListArray.from_arrays(_offsets(array), values, target, mask=array.is_null())
        case MapType(), MapType():
            pairs = _pairs(array)
            entries = pairs.flatten()
            keys = evolve(entries.field(0), stored.key, wanted.key)
            values = evolve(entries.field(1), stored.value, wanted.value)
            return _map(pairs, keys, values, target)
        case MultisetType(), MultisetType():
            pairs = _pairs(array)
            entries = pairs.flatten()
            keys = evolve(entries.field(0), stored.element, wanted.element)
            return _map(pairs, keys, entries.field(1).cast(pa.int32()), target)
        case RowType(), RowType():
            return _row(array, stored, wanted)
        case _:
            raise Unsupported(f"reading {stored} as {wanted} is not supported")


def _same(stored: DataType, wanted: DataType) -> bool:
    """Whether the types differ at most in what Arrow's types do not show, but field ids count."""
    match stored, wanted:
        case RowType(), RowType():
            return len(stored.fields) == len(wanted.fields) and all(
                old.id == new.id and old.name == new.name and _same(old.type, new.type)
                for old, new in zip(stored.fields, wanted.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return _same(stored.element, wanted.element)
        case MultisetType(), MultisetType():
            return _same(stored.element, wanted.element)
        case MapType(), MapType():
            return _same(stored.key, wanted.key) and _same(stored.value, wanted.value)
        case AtomicType(), AtomicType():
            return is_widening(stored, wanted)
        case _:
            return False


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets into the flattened values, which leave out those of null lists."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _pairs(array: pa.Array) -> pa.Array:
    """A map column as lists of structs."""
    return array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))


def _map(pairs: pa.Array, keys: pa.Array, values: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.MapArray.from_arrays(_offsets(pairs), keys, values, target, mask=pairs.is_null())


def _row(array: pa.Array, stored: RowType, wanted: RowType) -> pa.Array:
    old = {child.id: child for child in stored.fields}
    children: list[pa.Array] = []
    for child in wanted.fields:
        source = old.get(child.id)
        if source is None:
            children.append(pa.nulls(len(array), to_arrow(child.type)))
        else:
            children.append(evolve(array.field(source.name), source.type, child.type))
    return pa.StructArray.from_arrays(
        children, fields=[arrow_field(child) for child in wanted.fields], mask=array.is_null()
    )
