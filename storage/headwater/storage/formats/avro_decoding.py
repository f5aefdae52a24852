"""The bytes of Avro rows as Arrow columns.

Polars decodes them. It is given plain types only, under names of our own: a date is a whole number
to it, a decimal bytes, and a map a list of pairs. What they mean is known here.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData
from headwater.storage.formats.avro_blocks import header, varint
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    Json,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from headwater.storage.types.nested_arrays import list_with, map_with, struct_with

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PlainRows", "RowDecoder", "Shape", "shape_of"]

Octets: TypeAlias = npt.NDArray[np.uint8]

_SYNC = bytes(16)
# No field has a name with this character.
_ROW = "\0row"
_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
# Values of a row that ends what is decoded: it is there only if all rows before it were.
_GUARDS = {
    "boolean": b"\x01",
    "int": varint(0x55AA55A),
    "long": varint(0x55AA55AA55A),
    "float": b"\x11\x22\x33\x44",
    "double": b"\x11\x22\x33\x44\x55\x66\x77\x33",
    "bytes": b"\x0eHeadwtr",
    "string": b"\x0eHeadwtr",
}


@dataclass(frozen=True)
class Shape:
    """A type in a file's schema.

    Attributes:
        kind: A primitive type, ``record``, ``array`` or ``map``.
        branch: The number of the union's branch that holds values; None outside of unions.
        logical: The meaning of the values: ``date``, ``decimal``…; else empty.
        precision: Of a decimal.
        scale: Of a decimal.
        parts: The fields of a record, the item of an array, the key and the value of a map.
    """

    kind: str
    branch: int | None = None
    logical: str = ""
    precision: int = 0
    scale: int = 0
    parts: Mapping[str, Shape] = field(default_factory=dict)

    def plain(self, names: list[str], columns: Sequence[str] = ()) -> Json:
        """The same bytes' schema without names and logical types.

        Args:
            names: Those of the records before, which this one's name differs from.
            columns: Of the rows themselves, the names of their fields.
        """
        bare: Json = self.kind
        if self.kind == "array":
            bare = {"type": "array", "items": self.parts["item"].plain(names)}
        elif self.kind in ("record", "map"):
            name = f"r{len(names)}"
            names.append(name)
            fields: list[Json] = [
                {"name": columns[at] if columns else f"f{at}", "type": part.plain(names)}
                for at, part in enumerate(self.parts.values())
            ]
            bare = {"type": "record", "name": name, "fields": fields}
            if self.kind == "map":
                bare = {"type": "array", "items": bare}
        if self.branch is None:
            return bare
        return ["null", bare] if self.branch else [bare, "null"]

    def guard(self) -> bytes:
        """The bytes of a value that hardly occurs."""
        mark = b"" if self.branch is None else varint(self.branch)
        if self.kind in ("array", "map"):
            return mark + b"\x00"
        if self.kind == "record":
            return mark + b"".join(part.guard() for part in self.parts.values())
        return mark + _GUARDS[self.kind]


class PlainRows:
    """Decodes rows of one shape as Polars has them, whatever logical types say they mean.

    Args:
        shape: The shape of the rows, a record.
        names: Of some fields, the names of their columns; of others they are made up.

    Attributes:
        places: The name of each field's column.
    """

    def __init__(self, shape: Shape, names: Mapping[str, str] | None = None) -> None:
        given = {} if names is None else names
        self.places = {name: given.get(name, f"f{at}") for at, name in enumerate(shape.parts)}
        plain = shape.plain([], list(self.places.values()))
        assert isinstance(plain, dict)
        self._header = header(plain, "null", _SYNC)
        self._guard = shape.guard()
        self._guards: dict[tuple[str, ...], pl.DataFrame] = {}

    def decode(
        self, data: Sequence[bytes], row_count: int, fields: Sequence[str], path: str
    ) -> pl.DataFrame:
        """Rows.

        Args:
            data: Their bytes, decompressed, in any number of pieces.
            row_count: The number of rows.
            fields: The fields to decode, at least one.
            path: The file, for errors.

        Raises:
            CorruptData: The bytes are not those of so many rows.
        """
        if row_count > sum(map(len, data)):
            # Before memory is taken for them.
            raise CorruptData(f"file {path} cannot be read: it cannot have {row_count} rows")
        columns = tuple(self.places[name] for name in fields)
        frame = self._frame([*data, self._guard], row_count + 1, columns, path)
        if columns not in self._guards:
            self._guards[columns] = self._frame([self._guard], 1, columns, path)
        if not frame.tail(1).equals(self._guards[columns]):
            raise CorruptData(f"file {path} cannot be read: rows do not end where they should")
        return frame.head(row_count)

    def _frame(
        self, data: Sequence[bytes], row_count: int, columns: Sequence[str], path: str
    ) -> pl.DataFrame:
        # Polars takes long to load, and most tables are not Avro.
        import polars as pl

        size = sum(map(len, data))
        head = self._header + varint(row_count) + varint(size)
        source = io.BytesIO(b"".join([head, *data, _SYNC]))
        try:
            frame = pl.read_avro(source, columns=list(columns))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise CorruptData(f"file {path} cannot be read: {error}") from error
        if frame.height != row_count:
            raise CorruptData(f"file {path} cannot be read: rows are missing")
        return frame


class RowDecoder:
    """Decodes the rows of one file.

    Args:
        schema: The schema in the file's header.
        path: The file, for errors.

    Raises:
        CorruptData: The schema is not one of rows, or has types that no data file has.
    """

    def __init__(self, schema: Json, path: str) -> None:
        self._path = path
        shape = _Schema(path).shape(schema, "")
        # Rows that may be null are those of a record around them, to the byte.
        self._is_nullable = shape.kind == "record" and shape.branch is not None
        if not self._is_nullable:
            shape = shape_of(schema, path)
        self._columns = shape.parts
        whole = Shape("record", parts={_ROW: shape}) if self._is_nullable else shape
        self._rows = PlainRows(whole)

    def check(self, columns: Sequence[DataField]) -> None:
        """Raises CorruptData when the file lacks a column."""
        for item in columns:
            if item.name not in self._columns:
                raise CorruptData(f"file {self._path} lacks column '{item.name}'")

    def decode(
        self, data: Sequence[bytes], row_count: int, columns: Sequence[DataField]
    ) -> pa.RecordBatch:
        """Rows.

        Args:
            data: Their bytes, decompressed, in any number of pieces.
            row_count: The number of rows.
            columns: The columns to read, at least one, each in the type that the file has.

        Raises:
            CorruptData: The bytes are not those of so many rows.
        """
        names = [item.name for item in columns]
        arrays = self._arrays(data, row_count, names)
        found = [
            self._column(array, self._columns[item.name], item.type, item.name)
            for array, item in zip(arrays, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(found, names)

    def _arrays(
        self, data: Sequence[bytes], row_count: int, names: Sequence[str]
    ) -> Sequence[pa.Array]:
        """Columns as Polars has them."""
        wanted = [_ROW] if self._is_nullable else names
        frame = self._rows.decode(data, row_count, wanted, self._path)
        arrays = [
            frame.get_column(self._rows.places[name]).to_arrow(compat_level=_oldest())
            for name in wanted
        ]
        if not self._is_nullable:
            return arrays
        (rows,) = arrays
        if rows.null_count:
            raise CorruptData(f"file {self._path} holds a row that is null")
        stored = dict(zip(self._columns, rows.flatten(), strict=True))
        return [stored[name] for name in names]

    def _column(self, array: pa.Array, shape: Shape, data_type: DataType, column: str) -> pa.Array:
        match data_type:
            case AtomicType() if shape.kind in _PRIMITIVES:
                return self._atomic(array, shape, data_type, column)
            case ArrayType() | VectorType() if shape.kind == "array":
                part = shape.parts["item"]
                values = self._column(array.flatten(), part, data_type.element, column)
                return list_with(array, values, pa.list_(values.type))
            case MapType() if shape.kind in ("map", "array"):
                return self._map(array, shape, data_type.key, data_type.value, column)
            case MultisetType() if shape.kind in ("map", "array"):
                return self._map(array, shape, data_type.element, AtomicType(Root.INT), column)
            case RowType() if shape.kind == "record":
                stored = dict(zip(shape.parts, array.flatten(), strict=True))
                children = [item for item in data_type.fields if item.name in stored]
                arrays = [
                    self._column(stored[item.name], shape.parts[item.name], item.type, column)
                    for item in children
                ]
                fields = [
                    pa.field(item.name, child.type)
                    for item, child in zip(children, arrays, strict=True)
                ]
                return struct_with(array, arrays, fields)
        raise self._strange(shape, data_type, column)

    def _strange(self, shape: Shape, data_type: DataType, column: str) -> CorruptData:
        stored = shape.logical or shape.kind
        return CorruptData(
            f"file {self._path}: column '{column}' is stored as {stored}, which is not {data_type}"
        )

    def _map(
        self, array: pa.Array, shape: Shape, key: DataType, value: DataType, column: str
    ) -> pa.Array:
        pair = shape if shape.kind == "map" else shape.parts["item"]
        if pair.kind not in ("map", "record") or len(pair.parts) != 2:
            raise self._strange(shape, MapType(key, value), column)
        first, second = pair.parts.values()
        entries = array.flatten().flatten()
        keys = self._column(entries[0], first, key, column)
        values = self._column(entries[1], second, value, column)
        return map_with(array, keys, values, pa.map_(keys.type, values.type))

    def _atomic(
        self, array: pa.Array, shape: Shape, data_type: AtomicType, column: str
    ) -> pa.Array:
        logical = shape.logical.removeprefix("local-")
        match shape.kind, logical:
            case "int", "date":
                return array.view(pa.date32())
            case "int", "time-millis":
                return array.view(pa.time32("ms"))
            case "long", "time-micros":
                return array.view(pa.time64("us"))
            case "long", "timestamp-millis" | "timestamp-micros" | "timestamp-nanos":
                # Moments and local times bear the same names in files of different writers.
                zone = "UTC" if data_type.root is Root.TIMESTAMP_LTZ else None
                return array.view(pa.timestamp(_UNITS[logical.partition("-")[2]], zone))
            case "bytes", "decimal":
                return self._decimals(array, shape, column)
            case "string", _:
                return array.cast(pa.string())
            case "bytes", _:
                return array.cast(pa.binary())
        return array

    def _decimals(self, array: pa.Array, shape: Shape, column: str) -> pa.Array:
        """Numbers in two's complement, the highest byte first."""
        filled = pc.fill_null(array, b"")
        ends = np.concatenate([[0], np.cumsum(pc.binary_length(filled).to_numpy())])
        lengths = np.diff(ends)
        if lengths.max(initial=0) > 16:
            raise CorruptData(
                f"file {self._path}: column '{column}' holds a number of more than 16 bytes"
            )
        joined = b"".join(_content(filled))
        data = np.frombuffer(joined, np.uint8)
        octets = np.zeros((len(array), 16), np.uint8)
        holding = np.flatnonzero(lengths)
        octets[holding[data[ends[holding]] >= 0x80]] = 0xFF
        octets[np.arange(16) >= 16 - lengths[:, None]] = data
        words = pa.py_buffer(np.ascontiguousarray(octets[:, ::-1]))
        made = pa.Array.from_buffers(
            pa.decimal128(shape.precision, shape.scale), len(array), [None, words]
        )
        made = pc.if_else(array.is_valid(), made, pa.scalar(None, made.type))
        try:
            made.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptData(
                f"file {self._path}: column '{column}' holds a number beyond {made.type}: {error}"
            ) from error
        return made


def _content(array: pa.Array) -> list[bytes]:
    """The bytes of a ``large_binary`` column end to end."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return []
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return [memoryview(data)[bounds[0] : bounds[-1]].tobytes()]


def _oldest() -> pl.CompatLevel:
    import polars as pl

    return pl.CompatLevel.oldest()


def shape_of(schema: Json, path: str) -> Shape:
    """The shape of a file's rows.

    Args:
        schema: The schema in the file's header.
        path: The file, for errors.

    Raises:
        CorruptData: The schema is not one of rows, or has types that are not read.
    """
    shape = _Schema(path).shape(schema, "")
    if shape.kind != "record" or shape.branch is not None:
        raise CorruptData(f"file {path} cannot be read: its schema is not one of rows")
    return shape


class _Schema:
    """Reads the schema of one file, in which a record may be named again where it occurs again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, Shape] = {}

    def _error(self, node: Json) -> CorruptData:
        return CorruptData(f"file {self._path} cannot be read: no data file has the type {node!r}")

    def shape(self, node: Json, namespace: str) -> Shape:
        match node:
            case ["null", other] if other != "null":
                return self._branch(other, namespace, 1)
            case [other, "null"] if other != "null":
                return self._branch(other, namespace, 0)
            case str():
                if node in _PRIMITIVES:
                    return Shape(node)
                known = self._named.get(node) or self._named.get(f"{namespace}.{node}")
                if known is None:
                    raise self._error(node)
                return known
            case {"type": "record", "name": str(name), "fields": list(fields)}:
                return self._record(name, fields, _text(node, "namespace"), namespace)
            case {"type": "array", "items": items}:
                return Shape("array", parts={"item": self.shape(items, namespace)})
            case {"type": "map", "values": values}:
                parts = {"key": Shape("string"), "value": self.shape(values, namespace)}
                return Shape("map", parts=parts)
            case {"type": str(kind), **rest} if kind in _PRIMITIVES:
                precision, scale = rest.get("precision"), rest.get("scale")
                return Shape(
                    kind,
                    logical=_text(node, "logicalType"),
                    precision=precision if isinstance(precision, int) else 0,
                    scale=scale if isinstance(scale, int) else 0,
                )
            case {"type": (dict() | list()) as inner}:
                return self.shape(inner, namespace)
        raise self._error(node)

    def _branch(self, node: Json, namespace: str, number: int) -> Shape:
        found = self.shape(node, namespace)
        if found.branch is not None:
            raise self._error(node)
        return replace(found, branch=number)

    def _record(self, name: str, fields: list[Json], own: str, outer: str) -> Shape:
        namespace, _, _ = name.rpartition(".")
        namespace = namespace or own or outer
        parts: dict[str, Shape] = {}
        for item in fields:
            match item:
                case {"name": str(label), "type": inner} if label not in parts:
                    parts[label] = self.shape(inner, namespace)
                case _:
                    raise self._error(item)
        found = Shape("record", parts=parts)
        self._named[name if "." in name else f"{namespace}.{name}"] = found
        return found


def _text(node: Json, key: str) -> str:
    found = node.get(key) if isinstance(node, dict) else None
    return found if isinstance(found, str) else ""
