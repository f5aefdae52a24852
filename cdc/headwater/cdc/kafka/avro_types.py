"""Schemas of Avro as Kafka Connect's converter writes them, as types of Kafka Connect."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.cdc.kafka.connect_types import ConnectType, RecordSchema
from headwater.storage.errors import CorruptData
from headwater.storage.types.data_type import Json

__all__ = ["avro_fields", "avro_record"]

_CONNECT = "org.apache.kafka.connect.data"
_BASES = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "bytes",
    "string": "string",
}
# Where the converter is another one: what Avro itself calls the types.
_LOGICAL = {
    "date": f"{_CONNECT}.Date",
    "time-millis": f"{_CONNECT}.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": f"{_CONNECT}.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": f"{_CONNECT}.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "decimal": f"{_CONNECT}.Decimal",
    "uuid": "io.debezium.data.Uuid",
}


class _Reader:
    """Reads one schema, in which a record may be named where it occurs again."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, Mapping[str, Json]] = {}

    def record(self, node: Json, namespace: str = "") -> tuple[str, Mapping[str, Json]]:
        """The full name of a record, and the types of its fields."""
        record = self._resolved(node)
        if record.get("type") != "record":
            raise CorruptData(f"{self._where}: its schema is not one of records")
        own = str(record.get("namespace") or "").strip(".")
        name = str(record.get("name"))
        full = name if "." in name else f"{own or namespace}.{name}".strip(".")
        fields = record.get("fields")
        items = fields if isinstance(fields, list) else []
        types: dict[str, Json] = {}
        self._named[full] = record
        for item in items:
            if not isinstance(item, dict):
                raise CorruptData(f"{self._where}: a field of {full} is not one of Avro")
            types[str(item.get("name"))] = item.get("type")
            self._note(item.get("type"), full.rpartition(".")[0])
        return str(record.get("connect.name") or full), types

    def _note(self, node: Json, namespace: str) -> None:
        """Remember the records within a type."""
        if isinstance(node, list):
            for item in node:
                self._note(item, namespace)
        elif isinstance(node, dict) and node.get("type") == "record":
            self.record(node, namespace)
        elif isinstance(node, dict):
            for name in ("type", "items", "values"):
                if isinstance(node.get(name), dict | list):
                    self._note(node[name], namespace)

    def _resolved(self, node: Json) -> Mapping[str, Json]:
        """A type without the union around it."""
        if isinstance(node, list):
            others = [item for item in node if item != "null"]
            if len(others) != 1:
                raise CorruptData(f"{self._where}: a union of {len(others)} types is not read")
            return self._resolved(others[0])
        if isinstance(node, dict):
            inner = node.get("type")
            return self._resolved(inner) if isinstance(inner, dict | list) else node
        if isinstance(node, str) and node not in _BASES:
            for name, record in self._named.items():
                if name == node or name.rpartition(".")[2] == node:
                    return record
        return {"type": node}

    def type(self, node: Json) -> ConnectType:
        """A column's type."""
        resolved = self._resolved(node)
        kind, logical = str(resolved.get("type")), str(resolved.get("logicalType") or "")
        name = str(resolved.get("connect.name") or _LOGICAL.get(logical, ""))
        if kind == "array":
            return ConnectType("array", name, item=self.type(resolved.get("items")))
        if kind == "record":
            return ConnectType("struct", name or str(resolved.get("name")))
        base = str(resolved.get("connect.type") or _BASES.get(kind, kind))
        if name != _LOGICAL["decimal"]:
            return ConnectType(base, name)
        numbers = [resolved.get(key) for key in ("scale", "precision")]
        parameters = resolved.get("connect.parameters")
        known = parameters if isinstance(parameters, dict) else {}
        precision = known.get("connect.decimal.precision", 0 if known else numbers[1])
        # Without a precision the converter writes 64, which is not the column's.
        return ConnectType(base, name, int(str(numbers[0] or 0)), int(str(precision or 0)))


def avro_record(schema: Json, where: str, *, is_envelope: bool) -> RecordSchema:
    """Read the schema of messages.

    Args:
        schema: The schema.
        where: Whose it is, for messages.
        is_envelope: Whether the columns are those within its fields ``after`` and ``before``.

    Raises:
        CorruptData: It is not a schema of records.
    """
    reader = _Reader(where)
    name, fields = reader.record(schema)
    if is_envelope:
        row = fields.get("after") or fields.get("before")
        fields = reader.record(row)[1] if row is not None else {}
    return RecordSchema(name, [(column, reader.type(node)) for column, node in fields.items()])


def avro_fields(schema: Json, where: str) -> list[str]:
    """The names of a record's fields.

    Raises:
        CorruptData: It is not a schema of records.
    """
    return list(_Reader(where).record(schema)[1])
