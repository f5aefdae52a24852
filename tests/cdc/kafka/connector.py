"""Events as Debezium's connectors write them, and the rows that they leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.cdc.model.tables import TableName

__all__ = ["Column", "EventTable", "connect_type"]

Row = Mapping[str, Any]
Write = Callable[[str, bytes | None, bytes | None], None]


def connect_type(base: str, name: str = "", **parameters: str) -> dict[str, Any]:
    """A type as Kafka Connect's JSON converter writes it."""
    type_: dict[str, Any] = {"type": base, "optional": True}
    if name:
        type_ |= {"name": name, "version": 1}
    if parameters:
        type_["parameters"] = parameters
    return type_


def _wrapped(schema: Mapping[str, Any], payload: Mapping[str, Any]) -> bytes:
    """A message with its schema, as Kafka Connect's JSON converter writes it."""
    message = {"schema": schema, "payload": payload}
    return json.dumps(message, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its type.
    """

    name: str
    type: Mapping[str, Any]


@dataclass
class EventTable:
    """A table whose changes are written to a topic.

    Attributes:
        name: Its name.
        topic: The topic.
        write: Writes a message to a topic: its key and its value.
        columns: Its columns; those of the key first.
        key: How many columns the key has.
        schemas: Whether each message has its schema.
        key_schemas: Whether keys have one, too.
        has_before: Whether updates have the row before.
        has_tombstones: Whether deletes have a message without a value after them.
        rows: The rows by their keys: what the events leave.
        source: More members of the events' ``source``.
    """

    name: TableName
    topic: str
    write: Write
    columns: Sequence[Column]
    key: int = 1
    schemas: bool = True
    key_schemas: bool = True
    has_before: bool = True
    has_tombstones: bool = True
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    time: int = 1_700_000_000_000
    source: Mapping[str, Any] = field(default_factory=dict)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[column.name] for column in self.columns[: self.key])

    def written_key(self, key: tuple[Any, ...]) -> bytes | None:
        """The text of a key."""
        if not self.key:
            return None
        columns = self.columns[: self.key]
        payload = {column.name: value for column, value in zip(columns, key, strict=True)}
        if not (self.schemas and self.key_schemas):
            return json.dumps(payload).encode()
        fields = [{**column.type, "optional": False, "field": column.name} for column in columns]
        schema = {"type": "struct", "fields": fields, "name": f"server.{self.name}.Key"}
        return _wrapped(schema, payload)

    def event(self, op: str, before: Row | None, after: Row | None) -> bytes:
        """The text of an event."""
        self.time += 1
        database, table = self.name
        source = {"connector": "mysql", "db": database, "table": table, "ts_ms": self.time}
        source |= self.source
        payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": self.time}
        if not self.schemas:
            return json.dumps(payload).encode()
        names = {column.name for column in self.columns}
        for image in ("before", "after"):
            values: Row | None = payload[image]  # type: ignore[assignment]
            if values is not None:
                payload[image] = {name: values[name] for name in values.keys() & names}
        row = [{**column.type, "field": column.name} for column in self.columns]
        images = [
            {"type": "struct", "fields": row, "optional": True, "field": name}
            for name in ("before", "after")
        ]
        schema = {
            "type": "struct",
            "fields": [*images, {"type": "struct", "fields": [], "field": "source"}],
            "name": f"server.{self.name}.Envelope",
        }
        return _wrapped(schema, payload)

    def snapshot(self, row: Row) -> None:
        """A row that a snapshot has read."""
        self._put("r", row)

    def insert(self, row: Row) -> None:
        """An insert."""
        self._put("c", row)

    def _put(self, op: str, row: Row) -> None:
        self.rows[self._key(row)] = dict(row)
        self.write(self.topic, self.written_key(self._key(row)), self.event(op, None, row))

    def update(self, key: tuple[Any, ...], **changes: Any) -> None:
        """An update that leaves the key as it is."""
        before = self.rows[key]
        after = self.rows[key] = {**before, **changes}
        image = before if self.has_before else None
        self.write(self.topic, self.written_key(key), self.event("u", image, after))

    def delete(self, key: tuple[Any, ...]) -> None:
        """A delete."""
        before = self.rows.pop(key)
        image = before if self.has_before else None
        self.write(self.topic, self.written_key(key), self.event("d", image, None))
        if self.has_tombstones:
            self.write(self.topic, self.written_key(key), None)

    def move(self, key: tuple[Any, ...], **new_key: Any) -> None:
        """An update of the key: a delete and an insert."""
        row = {**self.rows[key], **new_key}
        self.delete(key)
        self.insert(row)

    def truncate(self) -> None:
        """A truncation."""
        self.rows.clear()
        self.write(self.topic, None, self.event("t", None, None))
