"""Debezium's events in Avro, with a number of the schema registry before each record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.kafka.avro_types import avro_fields, avro_record
from headwater.cdc.kafka.connect_types import NO_SCHEMA, ConnectType, RecordSchema
from headwater.cdc.kafka.events import (
    MESSAGE,
    TRUNCATE,
    EventGroup,
    Events,
    Flags,
    Image,
    Messages,
    NoImage,
    Rows,
    check_control,
    is_logical_message,
)
from headwater.cdc.kafka.grouping import SOURCE_NAMES, check_ops, parts_of, present_rows, tables_of
from headwater.cdc.kafka.registry import SchemaRegistry
from headwater.cdc.kafka.tombstones import tombstones
from headwater.cdc.kafka.values import arrow_base
from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_decoding import PlainRows, Shape, shape_of
from headwater.storage.types.data_type import Json

__all__ = ["avro_events", "avro_tombstones"]

_HEAD_BYTES = 5


class AvroImage:
    """A record in each of some messages.

    Args:
        rows: The records, as Arrow's structs.
        shape: Their shape.
    """

    def __init__(self, rows: pa.StructArray, shape: Shape) -> None:
        self.is_present: Flags = np.asarray(rows.is_valid())
        self._columns = dict(zip(shape.parts, rows.flatten(), strict=True))
        self._shape = shape
        self.names: Sequence[str] = list(shape.parts)

    def column(self, name: str, type_: ConnectType) -> pa.Array:
        """The values of a column, see `Image.column`."""
        return _plain(self._columns[name], self._shape.parts[name], type_)


def _plain(values: pa.Array, shape: Shape, type_: ConnectType) -> pa.Array:
    """Values as Polars has them, as `arrow_base` says."""
    if type_.base == "array" and type_.item is not None:
        items = _plain(values.flatten(), shape.parts["item"], type_.item)
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask)
    if type_.base == "struct":
        fields = dict(zip(shape.parts, values.flatten(), strict=True))
        wanted = ("scale", "value") if type_.is_variable_decimal else ("srid", "wkb")
        number, content = (fields[name] for name in wanted)
        arrays = [number.cast(pa.int32()), content.cast(pa.binary())]
        return pa.StructArray.from_arrays(arrays, wanted, mask=values.is_null())
    arrow = arrow_base(type_)
    if arrow is None:
        raise Unsupported(f"values of type '{type_}' cannot be read")
    return values.cast(arrow)


def avro_events(messages: Messages, registry: SchemaRegistry) -> Events:
    """The events of messages in Avro.

    Args:
        messages: The messages; those with a null value are left out.
        registry: Has their schemas.

    Raises:
        CorruptData, Unsupported: One is not an event of Debezium.
        Forbidden, NotFound, Unavailable: The registry does not have a schema.
    """
    events = Events()
    rows = present_rows(messages.values)
    numbers = _numbers(messages, rows, messages.values)
    for number in np.unique(numbers).tolist():
        _add(events, messages, rows[numbers == number], number, registry)
    return events


def _numbers(messages: Messages, rows: Rows, parts: Sequence[bytes | None]) -> Rows:
    """The number of each message's schema, before its record."""
    heads = [(parts[row] or b"")[:_HEAD_BYTES] for row in rows.tolist()]
    joined = np.frombuffer(b"".join(head.ljust(_HEAD_BYTES, b"\xff") for head in heads), np.uint8)
    table = joined.reshape(len(rows), _HEAD_BYTES)
    is_short = np.fromiter(map(len, heads), np.int64, len(heads)) < _HEAD_BYTES
    (wrong,) = np.nonzero(is_short | (table[:, 0] != 0))
    if len(wrong):
        raise CorruptData(
            f"{messages.place(int(rows[wrong[0]]))}: the message is not in Avro with a number of "
            f"the schema registry: it begins with '{heads[wrong[0]].hex(' ')}'; correct "
            "value.format, or let the connector write keys and values with the Avro converter"
        )
    return np.ascontiguousarray(table[:, 1:]).view(">u4").ravel().astype(np.int64)


def _records(
    messages: Messages,
    rows: Rows,
    parts: Sequence[bytes | None],
    schema: Json,
    fields: Sequence[str],
) -> tuple[Shape, dict[str, pa.Array]]:
    """Some fields of the records of messages that have one schema."""
    where = f"messages from {messages.place(int(rows[0]))} on"
    shape = shape_of(schema, where)
    decoder = PlainRows(shape)
    data = b"".join([(parts[row] or b"")[_HEAD_BYTES:] for row in rows.tolist()])
    frame = decoder.decode([data], len(rows), fields, where)
    oldest = pl.CompatLevel.oldest()
    return shape, {
        name: frame.get_column(decoder.places[name]).to_arrow(compat_level=oldest)
        for name in fields
    }


def _add(
    events: Events, messages: Messages, rows: Rows, number: int, registry: SchemaRegistry
) -> None:
    """Add the events of messages that have one schema."""
    where = f"messages from {messages.place(int(rows[0]))} on"
    schema = registry.schema(number)
    record = avro_record(schema, where, is_envelope=True)
    names = avro_fields(schema, where)
    if "op" not in names:
        for topic in np.unique(messages.topic[rows]).tolist():
            check_control(record.name, messages.topics[topic], where)
        return
    if is_logical_message(record.name):
        return
    if not {"before", "after", "source"} <= set(names):
        raise Unsupported(f"{where}: the schema '{record.name}' is not one of Debezium's events")
    fields = ["before", "after", "source", "op"]
    shape, columns = _records(messages, rows, messages.values, schema, fields)
    ops = columns["op"].cast(pa.string())
    if ops.null_count:
        raise CorruptData(f"{where}: an event has no operation")
    check_ops(ops, messages, rows)
    is_change = pc.not_equal(ops, chr(MESSAGE))
    rows, ops = rows[np.asarray(is_change)], ops.filter(is_change)
    columns = {name: column.filter(is_change) for name, column in columns.items()}
    source = dict(zip(shape.parts["source"].parts, columns["source"].flatten(), strict=True))
    nulls = pa.nulls(len(rows), pa.string())
    sources = [source.get(name, nulls).cast(pa.string()) for name in SOURCE_NAMES]
    tables = tables_of(sources, messages, rows)
    if "ts_ms" in source:
        events.source_time = max(events.source_time, pc.max(source["ts_ms"]).as_py() or 0)
    letters = np.frombuffer("".join(ops.to_pylist()).encode(), np.uint8)
    (truncates,) = np.nonzero(letters == TRUNCATE)
    events.truncations |= {
        int(rows[at]): (tables.value(at), tables.origin(at)) for at in truncates.tolist()
    }
    keys = _key_numbers(messages, rows)
    (with_rows,) = np.nonzero(letters != TRUNCATE)
    for part in parts_of(with_rows, tables.codes, keys):
        before, after = (
            AvroImage(columns[name].take(pa.array(part)), shape.parts[name])
            for name in ("before", "after")
        )
        key_schema, images = _key_image(messages, rows[part], int(keys[part[0]]), registry)
        events.groups.append(
            EventGroup(
                tables.value(int(part[0])),
                rows[part],
                letters[part],
                record.columns,
                None if key_schema is None else [name for name, _ in key_schema.columns],
                before,
                after,
                images,
                "" if key_schema is None else key_schema.name,
                origin=tables.origin(int(part[0])),
            )
        )


def _key_numbers(messages: Messages, rows: Rows) -> Rows:
    """The number of each key's schema, and one more; 0 without a key."""
    numbers = np.zeros(len(rows), np.int64)
    with_key = present_rows([messages.keys[row] for row in rows.tolist()])
    if len(with_key):
        numbers[with_key] = _numbers(messages, rows[with_key], messages.keys) + 1
    return numbers


def avro_tombstones(messages: Messages, rows: Rows, registry: SchemaRegistry) -> list[EventGroup]:
    """Messages without a value, as deletes by their keys.

    Args:
        messages: The messages.
        rows: Those that count.
        registry: Has the schemas of their keys.

    Raises:
        CorruptData, Unsupported: A key does not say which table it is of.
    """
    groups = []
    numbers = _key_numbers(messages, rows)
    topics = messages.topic[rows].astype(np.int64)
    for part in parts_of(np.arange(len(rows)), numbers, topics):
        schema, images = _key_image(messages, rows[part], int(numbers[part[0]]), registry)
        groups.append(tombstones(messages, rows[part], schema or NO_SCHEMA, images))
    return groups


def _key_image(
    messages: Messages, rows: Rows, number: int, registry: SchemaRegistry
) -> tuple[RecordSchema | None, Image]:
    """The keys' schema, and the keys."""
    if not number:
        return None, NoImage(len(rows))
    where = f"keys of messages from {messages.place(int(rows[0]))} on"
    schema = registry.schema(number - 1)
    record = avro_record(schema, where, is_envelope=False)
    names = [name for name, _ in record.columns]
    shape, columns = _records(messages, rows, messages.keys, schema, names)
    structs = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return record, AvroImage(structs, shape)
