"""The Avro schema of a data file, as Paimon makes it (``AvroSchemaConverter.java``).

TIMESTAMP is Avro's ``timestamp-…``, and TIMESTAMP_LTZ its ``local-timestamp-…``: the other way
round than the names say, but so it is in every file. A map whose keys are not text is an array of
records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.storage.errors import Unsupported
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    Json,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    refuse_kept,
)

__all__ = ["COUNT_TYPE", "avro_schema", "has_text_keys", "refuse_for_avro"]

_INSTEAD = "set the option 'file.format' to parquet"

COUNT_TYPE = AtomicType(Root.INT)
"""The type of how often an element of a MULTISET occurs: nullable, as Paimon's Java has it."""

_NAMESPACE = "org.apache.paimon.avro.generated"
# Letters, digits and underscores of any alphabet, as Java's Avro allows.
_NAME = re.compile(r"[^\W\d]\w*")
_PLAIN = {
    Root.BOOLEAN: "boolean",
    Root.TINYINT: "int",
    Root.SMALLINT: "int",
    Root.INT: "int",
    Root.BIGINT: "long",
    Root.FLOAT: "float",
    Root.DOUBLE: "double",
    Root.CHAR: "string",
    Root.VARCHAR: "string",
    Root.BINARY: "bytes",
    Root.VARBINARY: "bytes",
    Root.BLOB: "bytes",
}


def has_text_keys(data_type: MapType | MultisetType) -> bool:
    """True if Avro's own maps, whose keys are strings, hold the type."""
    key = data_type.key if isinstance(data_type, MapType) else data_type.element
    return isinstance(key, AtomicType) and key.root in (Root.CHAR, Root.VARCHAR)


def refuse_for_avro(fields: Sequence[DataField], instead: str = _INSTEAD) -> None:
    """Refuse columns that Avro files cannot hold.

    Args:
        fields: The columns.
        instead: The other thing that a user can do, in the imperative.

    Raises:
        Unsupported: The message names the column.
    """
    for item in fields:
        refuse_kept(item)
        _refuse_name(item.name, item.name, instead)
        _refuse_type(item.type, item.name, instead)


def _refuse_name(name: str, column: str, instead: str) -> None:
    if not _NAME.fullmatch(name):
        raise Unsupported(
            f"column '{column}': Avro files cannot hold a field called '{name}', but only names of "
            "letters, digits and underscores that do not begin with a digit; rename it, or "
            f"{instead}"
        )


def _refuse_type(data_type: DataType, column: str, instead: str) -> None:
    match data_type:
        case AtomicType():
            most = {Root.TIMESTAMP: 6, Root.TIMESTAMP_LTZ: 6, Root.TIME: 3}.get(data_type.root, 9)
            if data_type.precision > most and data_type.root is not Root.DECIMAL:
                raise Unsupported(
                    f"column '{column}' is of type {data_type}, but Avro files hold "
                    f"{data_type.root} with {most} fractional digits at most; change the type, "
                    f"or {instead}"
                )
        case VariantType():
            raise Unsupported(
                f"column '{column}' has type VARIANT in it, which Avro files do not hold; {instead}"
            )
        case ArrayType() | VectorType():
            _refuse_type(data_type.element, column, instead)
        case MultisetType():
            _refuse_type(data_type.element, column, instead)
        case MapType():
            _refuse_type(data_type.key, column, instead)
            _refuse_type(data_type.value, column, instead)
        case RowType():
            for child in data_type.fields:
                _refuse_name(child.name, column, instead)
                _refuse_type(child.type, column, instead)


def avro_schema(fields: Sequence[DataField]) -> dict[str, Json]:
    """The schema of a file with these columns, of which `refuse_for_avro` refuses none."""
    record = _Names().record(fields, "record")
    return {**record, "namespace": _NAMESPACE}


class _Names:
    """Makes the types of one schema; two records of it must not have the same name."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def record(self, fields: Sequence[DataField], name: str) -> dict[str, Json]:
        # Paimon's names may clash; readers of data files do not look at them.
        unique, number = name, 0
        while unique in self._taken:
            number += 1
            unique = f"{name}_{number}"
        self._taken.add(unique)
        made: list[Json] = []
        for item in fields:
            field: dict[str, Json] = {
                "name": item.name,
                "type": self.type(item.type, f"{name}_{item.name}"),
            }
            if item.type.nullable:
                field["default"] = None
            made.append(field)
        return {"type": "record", "name": unique, "fields": made}

    def type(self, data_type: DataType, name: str) -> Json:
        bare = self._bare(data_type, name)
        return ["null", bare] if data_type.nullable else bare

    def _bare(self, data_type: DataType, name: str) -> Json:
        match data_type:
            case AtomicType():
                return _atomic(data_type)
            case VariantType():
                raise AssertionError(data_type)
            case ArrayType() | VectorType():
                return {"type": "array", "items": self.type(data_type.element, name)}
            case RowType():
                return self.record(data_type.fields, name)
            case MapType():
                return self._map(data_type, data_type.key, data_type.value, name)
            case MultisetType():
                return self._map(data_type, data_type.element, COUNT_TYPE, name)

    def _map(
        self, data_type: MapType | MultisetType, key: DataType, value: DataType, name: str
    ) -> Json:
        if has_text_keys(data_type):
            return {"type": "map", "values": self.type(value, name)}
        pair = (DataField(0, "key", key), DataField(1, "value", value))
        entries = self.record(pair, name)
        # Paimon gives keys no default.
        keys = entries["fields"]
        assert isinstance(keys, list)
        assert isinstance(keys[0], dict)
        keys[0].pop("default", None)
        return {"type": "array", "items": entries, "logicalType": "map"}


def _atomic(data_type: AtomicType) -> Json:
    match data_type.root:
        case Root.DECIMAL:
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
        case Root.DATE:
            return {"type": "int", "logicalType": "date"}
        case Root.TIME:
            return {"type": "int", "logicalType": "time-millis"}
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            local = "" if data_type.root is Root.TIMESTAMP else "local-"
            unit = "millis" if data_type.precision <= 3 else "micros"
            return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    return _PLAIN[data_type.root]
