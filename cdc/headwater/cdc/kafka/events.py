"""Debezium's events of many messages, grouped by table and schema, as they were sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.kafka.connect_types import ConnectType
from headwater.cdc.kafka.origins import Origin
from headwater.cdc.kafka.positions import Partition
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Unsupported

__all__ = [
    "CREATE",
    "DELETE",
    "MESSAGE",
    "OPS",
    "READ",
    "TRUNCATE",
    "UPDATE",
    "EventGroup",
    "Events",
    "Image",
    "Messages",
    "NoImage",
    "check_control",
    "is_logical_message",
    "table_name",
]

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CREATE, READ, UPDATE, DELETE, TRUNCATE, MESSAGE = (ord(op) for op in "crudtm")
OPS = frozenset("crudtm")

# Messages of Debezium that are not of rows.
_CONTROL_SCHEMAS = (
    "io.debezium.connector.common.Heartbeat",
    "io.debezium.connector.common.TransactionMetadataValue",
)
_CONNECTORS = "io.debezium.connector."
_SCHEMA_CHANGES = ".SchemaChangeValue"
_LOGICAL_MESSAGES = ".MessageValue"
_HEARTBEATS = "__debezium-heartbeat."


@dataclass(frozen=True)
class Messages:
    """Messages of some partitions, those of a partition in their order.

    Attributes:
        topics: The topics' names.
        topic: The number of each message's topic.
        partition, offset: Where it is.
        keys, values: Its bytes; None for null.
    """

    topics: Sequence[str]
    topic: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]

    def __len__(self) -> int:
        return len(self.values)

    def place(self, row: int) -> str:
        """Where a message is, for errors."""
        topic = self.topics[int(self.topic[row])]
        return f"topic '{topic}', partition {self.partition[row]}, offset {self.offset[row]}"

    def key(self, row: int) -> tuple[str, int, int]:
        """The topic, partition and offset of a message."""
        topic = self.topics[int(self.topic[row])]
        return topic, int(self.partition[row]), int(self.offset[row])

    @property
    def size(self) -> int:
        """How many bytes they have."""
        return sum(len(value) for part in (self.keys, self.values) for value in part if value)

    @staticmethod
    def joined(parts: Sequence[Messages]) -> Messages:
        """All messages of some parts, one after the other."""
        topics = sorted({name for part in parts for name in part.topics})
        numbers = {name: number for number, name in enumerate(topics)}
        codes = [np.array([numbers[name] for name in part.topics], np.int32) for part in parts]
        none = np.zeros(0, np.int32)
        return Messages(
            topics,
            np.concatenate(
                [none, *(code[part.topic] for code, part in zip(codes, parts, strict=True))]
            ),
            np.concatenate([none, *(part.partition for part in parts)]),
            np.concatenate([none.astype(np.int64), *(part.offset for part in parts)]),
            [key for part in parts for key in part.keys],
            [value for part in parts for value in part.values],
        )

    def slice(self, begin: int, end: int) -> Messages:
        """Some of the messages."""
        return Messages(
            self.topics,
            self.topic[begin:end],
            self.partition[begin:end],
            self.offset[begin:end],
            self.keys[begin:end],
            self.values[begin:end],
        )

    def take(self, rows: Rows) -> Messages:
        """Some of the messages, by their numbers."""
        places = rows.tolist()
        return Messages(
            self.topics,
            self.topic[rows],
            self.partition[rows],
            self.offset[rows],
            [self.keys[row] for row in places],
            [self.values[row] for row in places],
        )

    def chunks(self, size: int) -> Iterator[Messages]:
        """The messages in parts of so many bytes, one message at least."""
        lengths = (len(value or b"") + 1 for value in self.values)
        ends = np.cumsum(np.fromiter(lengths, np.int64, len(self)))
        begin = 0
        while begin < len(self):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + size, side="right")))
            yield self.slice(begin, end)
            begin = end

    def by_partition(self) -> dict[Partition, Rows]:
        """The numbers of the messages of each partition."""
        codes = self.topic.astype(np.int64) << 32 | self.partition
        return {
            (self.topics[code >> 32], code & 0xFFFFFFFF): np.flatnonzero(codes == code)
            for code in np.unique(codes).tolist()
        }

    def ends(self) -> dict[Partition, int]:
        """The offset after the last message of each partition."""
        return {at: int(self.offset[rows].max()) + 1 for at, rows in self.by_partition().items()}


class Image(Protocol):
    """A row of the table in each message, as it was sent."""

    @property
    def names(self) -> Sequence[str]:
        """The columns that are there."""

    @property
    def is_present(self) -> Flags:
        """Which messages have one."""

    def column(self, name: str, type_: ConnectType) -> pa.Array:
        """The values of a column as Arrow's, see `arrow_base`; null where a message has none.

        Raises:
            CorruptData, Invalid: A value is not of that type.
        """


@dataclass(frozen=True)
class NoImage:
    """Rows that no message has."""

    rows: int
    names: Sequence[str] = ()

    @property
    def is_present(self) -> Flags:
        """Which messages have one: none."""
        return np.zeros(self.rows, np.bool_)

    def column(self, name: str, type_: ConnectType) -> pa.Array:
        """Nulls."""
        del name, type_
        return pa.nulls(self.rows)


@dataclass(frozen=True)
class EventGroup:
    """Messages of one table whose rows and keys have one schema, in their order.

    Attributes:
        table: The table.
        rows: The number of each message among all.
        ops: What happened, as the letter's code.
        columns: The columns with their types.
        key: The names of the key's columns; None where messages have no key.
        before, after, keys: The rows before and after, and the messages' keys.
        key_schema: The name of the keys' schema; empty without one.
        are_tombstones: Whether the messages have no values.
        origin: The connector and the database that they come from; None if they do not tell it.
    """

    table: TableName
    rows: Rows
    ops: npt.NDArray[np.uint8]
    columns: Sequence[tuple[str, ConnectType]]
    key: Sequence[str] | None
    before: Image
    after: Image
    keys: Image
    key_schema: str = ""
    are_tombstones: bool = False
    origin: Origin | None = None


@dataclass
class Events:
    """The events of some messages.

    Attributes:
        groups: Their rows.
        truncations: Messages that empty a table, with its origin.
        source_time: When the last change was written at the source, ms since 1970; 0 if not known.
    """

    groups: list[EventGroup] = field(default_factory=list)
    truncations: dict[int, tuple[TableName, Origin]] = field(default_factory=dict)
    source_time: int = 0


def table_name(
    database: str | None, schema: str | None, table: str | None, where: str
) -> TableName:
    """The table that an event's ``source`` names: PostgreSQL's and others' by their schema.

    Raises:
        Unsupported: It names none.
    """
    namespace = schema or database
    if not table or not namespace:
        raise Unsupported(
            f"{where}: the event's source names no table (db '{database}', schema '{schema}', "
            f"table '{table}'); keep 'source' in the connector's events, and follow relational "
            "databases"
        )
    return TableName(namespace, table)


def is_logical_message(schema: str) -> bool:
    """Whether messages with a schema are logical messages of PostgreSQL, which are of no table."""
    return schema.startswith(_CONNECTORS) and schema.endswith(_LOGICAL_MESSAGES)


def check_control(schema: str, topic: str, where: str) -> None:
    """Check that a message without an operation is one of Debezium's that has no rows.

    Args:
        schema: The name of its schema; empty without one.
        topic: Its topic.
        where: Where it is, for messages.

    Raises:
        Unsupported: It is another one.
    """
    if schema in _CONTROL_SCHEMAS or topic.startswith(_HEARTBEATS):
        return
    if schema.startswith(_CONNECTORS) and schema.endswith(_SCHEMA_CHANGES):
        return
    what = f"has the schema '{schema}'" if schema else "has no schema and no 'op'"
    raise Unsupported(
        f"{where}: the message is not an event of Debezium with 'before', 'after', 'source' and "
        f"'op': it {what}; leave the topic out, or let the connector send whole events (without "
        "ExtractNewRecordState)"
    )
