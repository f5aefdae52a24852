"""Messages without a value: of a compacted topic they may be all that is left of a delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headwater.cdc.kafka.connect_types import JSON_TEXT, ConnectType, RecordSchema, lake_type
from headwater.cdc.kafka.events import DELETE, EventGroup, Image, Messages, NoImage, Rows
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.storage.errors import Unsupported

__all__ = ["check_keys_tell_tables", "tombstone_rows", "tombstone_types", "tombstones"]

_KEY = ".Key"
_PLAIN = frozenset({"boolean", "int8", "int16", "int32", "int64", "string"})
# The connector's prefix, the database or schema, and the table.
_MIN_PARTS = 3


def tombstone_rows(messages: Messages, compacted: Mapping[str, bool | None]) -> Rows:
    """The messages without a value in compacted topics. Of other topics they repeat a delete.

    Args:
        messages: The messages.
        compacted: Whether topics are compacted; one of which that is not known may be.
    """
    numbers = [
        number for number, name in enumerate(messages.topics) if compacted.get(name) is not False
    ]
    counts = np.isin(messages.topic, numbers)
    if not counts.any():
        return np.zeros(0, np.int64)
    pairs = zip(messages.keys, messages.values, strict=True)
    is_empty = (key is not None and value is None for key, value in pairs)
    return np.flatnonzero(counts & np.fromiter(is_empty, bool, len(messages)))


def tombstones(messages: Messages, rows: Rows, schema: RecordSchema, keys: Image) -> EventGroup:
    """Deletes of one table of one topic, by messages without values.

    Args:
        messages: The messages.
        rows: Their numbers.
        schema: That of their keys.
        keys: Their keys.

    Raises:
        Unsupported: Neither the schema nor the topic names the table.
    """
    topic = messages.topics[int(messages.topic[rows[0]])]
    table = _table(schema.name, topic)
    if table is None:
        raise Unsupported(
            f"{messages.place(int(rows[0]))}: {_unclear(topic, schema.name)}, so that it is not "
            "known which table a message without a value is of; let the connector write schemas"
        )
    none = NoImage(len(rows))
    return EventGroup(
        table,
        rows,
        np.full(len(rows), DELETE, np.uint8),
        schema.columns,
        [name for name, _ in schema.columns],
        none,
        none,
        keys,
        schema.name,
        are_tombstones=True,
    )


def tombstone_types(
    key: Sequence[tuple[str, ConnectType]], table: SourceTable
) -> dict[str, ConnectType]:
    """The types of the keys of messages without a value.

    Keys without a schema have those of the table, where JSON writes the values as they are.

    Args:
        key: The columns of the keys.
        table: The table.

    Raises:
        Unsupported: The table's key has other columns, or values that only a schema tells.
    """
    types = dict(key)
    if types.keys() != set(table.primary_key):
        raise Unsupported(
            f"the key of {table.name} is ({', '.join(table.primary_key) or 'none'}), and a message "
            f"without a value has the key ({', '.join(types)}); create the lake's tables again: "
            "headwater cdc resnapshot --all --replace"
        )
    for column in table.columns:
        if types.get(column.name) == JSON_TEXT:
            types[column.name] = _type_without_schema(column, table.name)
    return types


def _type_without_schema(column: SourceColumn, table: TableName) -> ConnectType:
    base, _, name = column.source_type.partition(" ")
    if base == JSON_TEXT.base:
        return JSON_TEXT
    plain = ConnectType(base)
    if base in _PLAIN and lake_type(ConnectType(base, name)) == lake_type(plain):
        return plain
    raise Unsupported(
        f"column '{column.name}' of {table} has the type '{column.source_type}', and a message "
        "without a value has its key without a schema, so that the value is not known; let the "
        "connector write keys with their schemas (key.converter.schemas.enable=true)"
    )


def check_keys_tell_tables(
    messages: Messages, group: EventGroup, compacted: Mapping[str, bool | None]
) -> None:
    """Check that a message without a value would tell the table of those with one.

    Raises:
        Unsupported: It would not, and the topic is compacted.
    """
    if group.key is None:
        return
    for number in np.unique(messages.topic[group.rows]).tolist():
        topic = messages.topics[number]
        is_compacted = compacted.get(topic)
        if is_compacted is not False and _table(group.key_schema, topic) != group.table:
            what, remedy = "is compacted", "do not compact it (cleanup.policy)"
            if is_compacted is None:
                what = "may be compacted, as its settings cannot be read"
                remedy = f"{remedy}, and grant the user DescribeConfigs on it"
            raise Unsupported(
                f"topic '{topic}' {what}, and {_unclear(topic, group.key_schema)} for rows "
                f"of {group.table}: a message that is left of a delete would not tell the table; "
                "let the connector write keys with their schemas, use a topic for each table, or "
                f"{remedy}"
            )


def _table(schema: str, topic: str) -> TableName | None:
    """The table that a key's schema names, or the topic without one."""
    parts = (schema.removesuffix(_KEY) if schema else topic).split(".")
    if len(parts) < _MIN_PARTS or (schema and not schema.endswith(_KEY)):
        return None
    return TableName(parts[-2], parts[-1])


def _unclear(topic: str, schema: str) -> str:
    return f"its keys have the schema '{schema}'" if schema else f"its name is '{topic}'"
