"""Columns of old files as columns of the present schema: matched by field id, cast, or null.

Fields of nested rows are matched by id as well. A value is cast from the type it was written with
straight to the present one, whatever types the column had in between.

Source: ``SchemaEvolutionUtil.java``, ``FormatReaderMapping.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.casts.cast import cast
from headwater.storage.casts.type_changes import equal_types, is_widening, keeps_form
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    arrow_field,
    refuse_kept,
    to_arrow,
)
from headwater.storage.types.local_time import Zone, utc
from headwater.storage.types.nested_arrays import (
    list_with,
    map_entries,
    map_with,
    struct_with,
)
from headwater.storage.types.padded_text import has_chars, padded_array

__all__ = ["StoredColumn", "evolve", "stored_column"]

_TEXTS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)


@dataclass(frozen=True)
class StoredColumn:
    """The source in a file of a column of the present schema.

    Attributes:
        wanted: The column as the present schema has it.
        stored: The column as the file's schema has it; None when the file is older than it.
        newer: Whether the file is newer than the present schema. Nobody decided that its values
            should become those of an older type, so none may be lost.
    """

    wanted: DataField
    stored: DataField | None
    newer: bool = False

    def convert(self, column: pa.Array | None, rows: int, where: str, zone: Zone = utc) -> pa.Array:
        """The present column.

        Args:
            column: The file's column; None when `stored` is None.
            rows: The number of rows.
            where: The file, for errors.
            zone: Of local times, see `cast`.

        Raises:
            CorruptData: The file's column is not of the type its schema says.
            Invalid: A value cannot become one of the present type.
            Unsupported: Paimon has no cast from the file's type to the present one; or values of a
                newer file could be lost.
        """
        if self.stored is None or column is None:
            return pa.nulls(rows, to_arrow(self.wanted.type))
        if self.newer and not _is_safe(self.stored.type, self.wanted.type):
            raise Unsupported(
                f"{where}: column '{self.wanted.name}' became {self.stored.type} since it was "
                f"opened as {self.wanted.type}; open the table again"
            )
        try:
            return evolve(column, self.stored.type, self.wanted.type, zone)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            raise CorruptData(
                f"{where}: column '{self.stored.name}' is stored as {column.type}, which is not "
                f"{self.stored.type}: {error}"
            ) from error
        except (Invalid, Unsupported) as error:
            raise type(error)(
                f"{where}: column '{self.wanted.name}' was written as {self.stored.type} and "
                f"cannot be read as {self.wanted.type}: {error.message}; change the column's type "
                "back to read it"
            ) from error


def stored_column(wanted: DataField, schema: TableSchema, present: TableSchema) -> StoredColumn:
    """A column of the `present` schema in files written with `schema`.

    Raises:
        Unsupported: Headwater does not read its type.
    """
    refuse_kept(wanted)
    return StoredColumn(wanted, schema.field_by_id.get(wanted.id), schema.id > present.id)


def evolve(array: pa.Array, stored: DataType, wanted: DataType, zone: Zone = utc) -> pa.Array:
    """Turn a column of type `stored` into one of type `wanted`.

    Args:
        array: The column.
        stored: Its type.
        wanted: The type it gets.
        zone: Of local times, see `cast`.

    Raises:
        pa.ArrowInvalid: The array does not hold values of `stored`.
        Invalid: A value cannot become one of `wanted`.
        Unsupported: Paimon has no cast between the types.
    """
    target = to_arrow(wanted)
    if array.type.equals(target) and _same(stored, wanted):
        return array
    match stored, wanted:
        case AtomicType(), AtomicType():
            plain = array.cast(to_arrow(stored))
            if has_chars(stored) and not equal_types(stored, wanted):
                # Whatever the file's format, and whatever engine wrote it.
                plain = padded_array(plain, stored)
                if wanted.root not in _TEXTS:
                    plain = pc.utf8_rtrim(plain, " ")
            if keeps_form(stored, wanted):
                return plain.cast(target)
            return cast(plain, stored, wanted, zone)
        case ArrayType(), ArrayType():
            values = evolve(array.flatten(), stored.element, wanted.element, zone)
            return list_with(array, values, target)
        case VectorType(), VectorType() if stored.length == wanted.length:
            plain = array.cast(to_arrow(stored))
            _refuse_null_elements(plain, stored)
            return plain.cast(target)
        case MapType(), MapType():
            keys, values = map_entries(array)
            keys = evolve(keys, stored.key, wanted.key, zone)
            values = evolve(values, stored.value, wanted.value, zone)
            return map_with(array, keys, values, target)
        case MultisetType(), MultisetType():
            keys, counts = map_entries(array)
            keys = evolve(keys, stored.element, wanted.element, zone)
            return map_with(array, keys, counts.cast(pa.int32()), target)
        case VariantType(), VariantType():
            parts = [array.field(item.name) for item in target]
            return struct_with(array, parts, list(target))
        case RowType(), RowType():
            return _row(array, stored, wanted, zone)
        case _:
            return cast(evolve(array, stored, stored), stored, wanted, zone)


def _refuse_null_elements(array: pa.Array, stored: VectorType) -> None:
    if array.flatten().null_count:
        raise pa.ArrowInvalid(f"an element of a {stored} is null")


def _same(stored: DataType, wanted: DataType) -> bool:
    """Whether the types differ at most in what Arrow's types do not show, but field ids count."""
    if stored == wanted:
        return True
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
            return keeps_form(stored, wanted) and not has_chars(stored)
        case VariantType(), VariantType():
            return True
        case _:
            return False


def _is_safe(stored: DataType, wanted: DataType) -> bool:
    """Whether no value is lost, also inside a nested type."""
    match stored, wanted:
        case RowType(), RowType():
            old = {child.id: child for child in stored.fields}
            return all(
                child.id not in old or _is_safe(old[child.id].type, child.type)
                for child in wanted.fields
            )
        case ArrayType(), ArrayType():
            return _is_safe(stored.element, wanted.element)
        case MultisetType(), MultisetType():
            return _is_safe(stored.element, wanted.element)
        case MapType(), MapType():
            return _is_safe(stored.key, wanted.key) and _is_safe(stored.value, wanted.value)
    return is_widening(stored, wanted)


def _row(array: pa.Array, stored: RowType, wanted: RowType, zone: Zone) -> pa.Array:
    old = {child.id: child for child in stored.fields}
    children: list[pa.Array] = []
    for child in wanted.fields:
        source = old.get(child.id)
        if source is None:
            children.append(pa.nulls(len(array), to_arrow(child.type)))
        else:
            children.append(evolve(array.field(source.name), source.type, child.type, zone))
    return struct_with(array, children, [arrow_field(child) for child in wanted.fields])
