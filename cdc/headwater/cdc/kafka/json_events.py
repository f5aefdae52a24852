"""Debezium's events in JSON, with or without the schema in each message."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.kafka.connect_types import (
    JSON_TEXT,
    NO_SCHEMA,
    ConnectType,
    RecordSchema,
    json_schema,
)
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
)
from headwater.cdc.kafka.grouping import SOURCE_NAMES, check_ops, parts_of, present_rows, tables_of
from headwater.cdc.kafka.json_text import Cells, JsonBatch
from headwater.cdc.kafka.tombstones import tombstones
from headwater.cdc.kafka.values import arrow_base
from headwater.storage.errors import CorruptData, Unsupported

__all__ = ["json_events", "json_tombstones"]

# Around the schema of a message, as Kafka Connect's converter writes it.
_HEAD, _MIDDLE = b'{"schema":', b',"payload":'
# More are slower to find.
_MAX_PREFIXES = 100
_DIGITS = b"-0123456789"
# What values begin with, by the base of their type.
_FIRST_LETTERS = {
    "boolean": b"tf",
    "string": b'"',
    "bytes": b'"',
    **{f"int{bits}": _DIGITS for bits in (8, 16, 32, 64)},
    # NaN and the infinities are strings.
    **{f"float{bits}": _DIGITS + b'"' for bits in (32, 64)},
}
_SPECIAL_FLOATS = pa.array(["NaN", "Infinity", "-Infinity"])


class JsonImage:
    """A row in each of some messages.

    Args:
        batch: The messages.
        cells: The row's object in each.
    """

    def __init__(self, batch: JsonBatch, cells: Cells) -> None:
        self._batch = batch
        self.is_present: Flags = ~batch.is_null(cells)
        self._members = batch.members(cells)
        self.names: Sequence[str] = list(self._members.cells)

    def column(self, name: str, type_: ConnectType) -> pa.Array:
        """The values of a column, see `Image.column`."""
        return _values(self._batch, self._members[name], type_)


def json_events(messages: Messages, *, has_schema: bool | None = None) -> Events:
    """The events of messages in JSON.

    Args:
        messages: The messages; those with a null value are left out.
        has_schema: Whether each has its schema; None reads both.

    Raises:
        CorruptData, Unsupported: One is not an event of Debezium.
    """
    rows = present_rows(messages.values)
    if not len(rows):
        return Events()
    texts = [messages.values[row] or b"" for row in rows.tolist()]
    subject = f"messages from {messages.place(int(rows[0]))} on"
    batch, envelope, schema_codes = _unwrapped(
        texts, subject, lambda at: f"{messages.place(int(rows[at]))}: the message", is_envelope=True
    )
    if has_schema is not None:
        _check_schemas(messages, rows, schema_codes, has_schema)
    members = batch.members(envelope)
    ops = batch.text(members["op"])
    events = Events()
    changes = _change_rows(messages, rows, ops, schema_codes)
    source = batch.members(members["source"].take(changes))
    sources = [batch.text(source[name]) for name in SOURCE_NAMES]
    tables = tables_of(sources, messages, rows[changes])
    events.source_time = _latest(batch, source["ts_ms"])
    letters = np.frombuffer("".join(ops.take(changes).to_pylist()).encode(), np.uint8)
    (truncates,) = np.nonzero(letters == TRUNCATE)
    events.truncations = {
        int(rows[changes[at]]): (tables.value(at), tables.origin(at)) for at in truncates.tolist()
    }
    keys = _Keys(messages, rows[changes])
    (with_rows,) = np.nonzero(letters != TRUNCATE)
    codes = tables.codes, schema_codes.codes[changes], keys.codes
    for part in parts_of(with_rows, *codes):
        first = int(part[0])
        places = changes[part]
        schema, key_schema = schema_codes.schema(int(changes[first])), keys.schema(first)
        before, after = (
            JsonImage(batch, members[name].take(places)) for name in ("before", "after")
        )
        key, images = keys.image(part)
        events.groups.append(
            EventGroup(
                tables.value(first),
                rows[places],
                letters[part],
                _columns(schema, key_schema, after, before, images),
                key,
                before,
                after,
                images,
                key_schema.name,
                origin=tables.origin(first),
            )
        )
    return events


def json_tombstones(messages: Messages, rows: Rows) -> list[EventGroup]:
    """Messages without a value, as deletes by their keys.

    Args:
        messages: The messages.
        rows: Those that count.

    Raises:
        CorruptData, Unsupported: A key does not say which table it is of.
    """
    keys = _Keys(messages, rows)
    topics = messages.topic[rows].astype(np.int64)
    groups = []
    for part in parts_of(np.arange(len(rows)), keys.codes, topics):
        schema = keys.schema(int(part[0]))
        _, images = keys.image(part)
        if not schema.columns:
            schema = RecordSchema(schema.name, [(name, JSON_TEXT) for name in images.names])
        groups.append(tombstones(messages, rows[part], schema, images))
    return groups


def _unwrapped(
    texts: Sequence[bytes], subject: str, place: Callable[[int], str], *, is_envelope: bool
) -> tuple[JsonBatch, Cells, _Codes]:
    """What messages have, without the schema around it; and the schemas."""
    payloads = _payloads(texts)
    if payloads is not None:
        parts, codes, prefixes = payloads
        schemas = [prefix[len(_HEAD) : -len(_MIDDLE)].decode() for prefix in prefixes]
        try:
            batch = JsonBatch(parts, subject, place)
        except CorruptData:
            # Perhaps they have more than both: all of each is looked at.
            pass
        else:
            is_null = np.array([False, *(schema == "null" for schema in schemas)])
            codes = np.where(is_null[codes], 0, codes)
            return batch, batch.values, _Codes(codes, schemas, place, is_envelope=is_envelope)
    batch = JsonBatch(texts, subject, place)
    top = batch.members(batch.values)
    payload, schema = top["payload"], top["schema"]
    is_wrapped = payload.is_present & schema.is_present
    inner = Cells(
        np.where(is_wrapped, payload.begins, batch.values.begins),
        np.where(is_wrapped, payload.ends, batch.values.ends),
    )
    zero = np.where(is_wrapped, 1, 0)
    encoded = batch.text(Cells(schema.begins * zero, schema.ends * zero)).dictionary_encode()
    numbers = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy() + 1
    schemas = encoded.dictionary.to_pylist()
    return batch, inner, _Codes(numbers, schemas, place, is_envelope=is_envelope)


def _payloads(texts: Sequence[bytes]) -> tuple[list[bytes], Rows, list[bytes]] | None:
    """The payloads of messages that begin with their schema, as Kafka Connect writes them.

    Many messages have the same schema, which is longer than they are: it is read once.

    Returns:
        The payloads, the number of each message's schema from 1 on, and what is before payloads; or
        None where messages are otherwise.
    """
    array = pa.array(texts, pa.binary())
    codes, begins = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    if not pc.all(pc.ends_with(array, b"}")).as_py():
        return None
    left, prefixes = np.arange(len(texts)), list[bytes]()
    while len(left):
        first = texts[int(left[0])]
        prefix = first[: first.find(_MIDDLE) + len(_MIDDLE)]
        if len(prefixes) == _MAX_PREFIXES or not _is_prefix(prefix):
            return None
        prefixes.append(prefix)
        has_it = np.asarray(pc.starts_with(array.take(pa.array(left)), prefix))
        codes[left[has_it]], begins[left[has_it]] = len(prefixes), len(prefix)
        left = left[~has_it]
    pairs = zip(texts, begins.tolist(), strict=True)
    return [text[begin:-1] for text, begin in pairs], codes, prefixes


@lru_cache(maxsize=1000)
def _is_prefix(prefix: bytes) -> bool:
    """Whether only a payload and a bracket are missing behind it."""
    try:
        message = json.loads(prefix + b"0}")
    except ValueError:
        return False
    return prefix.startswith(_HEAD) and list(message) == ["schema", "payload"]


def _check_schemas(messages: Messages, rows: Rows, schemas: _Codes, has_schema: bool) -> None:
    (wrong,) = np.nonzero((schemas.codes > 0) != has_schema)
    if len(wrong):
        raise Unsupported(
            f"{messages.place(int(rows[wrong[0]]))}: debezium-json.schema-include is "
            f"{str(has_schema).lower()}, and the message has {'no' if has_schema else 'a'} schema; "
            "leave the option out"
        )


def _change_rows(messages: Messages, rows: Rows, ops: pa.Array, schemas: _Codes) -> Rows:
    """The rows of changes; the others are of messages that have no rows of tables."""
    for row in np.flatnonzero(ops.is_null()).tolist():
        place = messages.place(int(rows[row]))
        name = schemas.schema(row).name
        check_control(name, messages.topics[int(messages.topic[rows[row]])], place)
    check_ops(ops, messages, rows)
    return np.flatnonzero(pc.fill_null(pc.not_equal(ops, chr(MESSAGE)), False))


def _latest(batch: JsonBatch, times: Cells) -> int:
    # It feeds a metric only: what is not an integer counts as absent.
    latest = pl.Series(batch.text(times)).cast(pl.Int64, strict=False).max()
    return latest if isinstance(latest, int) else 0


class _Codes:
    """The schema of each message by a number; 0 without one."""

    def __init__(
        self,
        codes: Rows,
        texts: Sequence[str],
        place: Callable[[int], str],
        *,
        is_envelope: bool,
    ) -> None:
        self.codes, self._texts, self._place = codes, texts, place
        self._is_envelope = is_envelope

    def schema(self, row: int) -> RecordSchema:
        """The schema of a message; one without a name or columns where it has none.

        Raises:
            CorruptData: It is not the schema of a struct.
        """
        code = int(self.codes[row])
        if not code:
            return NO_SCHEMA
        try:
            return _schema(self._texts[code - 1], self._is_envelope)
        except CorruptData:
            # Once more, for the message's place.
            place = self._place(row)
            return json_schema(self._texts[code - 1], place, is_envelope=self._is_envelope)


@lru_cache(maxsize=1000)
def _schema(text: str, is_envelope: bool) -> RecordSchema:
    return json_schema(text, "a message in JSON", is_envelope=is_envelope)


class _Keys:
    """The keys of messages.

    Args:
        messages: The messages.
        rows: Those whose keys are wanted.

    Attributes:
        codes: The schema of each key by a number; 0 without a key.
    """

    def __init__(self, messages: Messages, rows: Rows) -> None:
        keys = [messages.keys[row] for row in rows.tolist()]
        self._present = present_rows(keys)
        # Where each row's key is among those present.
        self._at = np.cumsum([key is not None for key in keys]) - 1
        self.codes: Rows = np.zeros(len(rows), np.int64)
        self._batch: JsonBatch | None = None
        if not len(self._present):
            return
        where = f"keys of messages from {messages.place(int(rows[self._present[0]]))} on"
        texts = [keys[row] or b"" for row in self._present.tolist()]
        present = rows[self._present]
        self._batch, self._cells, self._schemas = _unwrapped(
            texts,
            where,
            lambda at: f"{messages.place(int(present[at]))}: the key",
            is_envelope=False,
        )
        self.codes[self._present] = self._schemas.codes + 1

    def schema(self, row: int) -> RecordSchema:
        """The schema of a row's key."""
        if self._batch is None or not self.codes[row]:
            return NO_SCHEMA
        return self._schemas.schema(int(self._at[row]))

    def image(self, rows: Rows) -> tuple[Sequence[str] | None, Image]:
        """The names of the columns that all keys of some rows have, and the keys."""
        if self._batch is None or not self.codes[rows[0]]:
            return None, NoImage(len(rows))
        image = JsonImage(self._batch, self._cells.take(self._at[rows]))
        return image.names, image


def _columns(
    schema: RecordSchema, key: RecordSchema, *images: Image
) -> Sequence[tuple[str, ConnectType]]:
    """The columns of a group: those of the schema, else those that rows have, as text."""
    if schema.columns:
        return schema.columns
    types = dict(key.columns)
    names = dict.fromkeys(name for image in images for name in image.names)
    return [(name, types.get(name, JSON_TEXT)) for name in names]


# Values -----------------------------------------------------------------------------------------


def _values(batch: JsonBatch, cells: Cells, type_: ConnectType) -> pa.Array:
    """Values as Arrow has them, see `arrow_base`.

    Raises:
        CorruptData: One is of another type.
    """
    if type_.base == "array" and type_.item is not None:
        owners, items = batch.items(cells)
        lengths = np.bincount(owners, minlength=len(cells.begins))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nulls = batch.is_null(cells)
        mask = pa.array(nulls) if nulls.any() else None
        values = _values(batch, items, type_.item)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)
    if type_.is_variable_decimal or type_.is_geometry:
        return _pairs(batch, cells, type_)
    arrow = arrow_base(type_)
    if arrow is None:
        raise Unsupported(f"values of type '{type_}' cannot be read")
    letters = _FIRST_LETTERS.get(type_.base)
    if letters is not None:
        problem = f"is not of type '{type_}'"
        batch.check(cells, batch.begins_with(cells, letters), problem)
    text = batch.text(cells)
    if type_.base == "bytes":
        return _bytes(batch, cells, text)
    if type_.base.startswith(("int", "float")):
        return _numbers(batch, cells, text, arrow)
    return text if text.type == arrow else text.cast(arrow)


def _pairs(batch: JsonBatch, cells: Cells, type_: ConnectType) -> pa.Array:
    """Decimals with their scale, or geometries with their SRID."""
    members = batch.members(cells)
    names = ("scale", "value") if type_.is_variable_decimal else ("srid", "wkb")
    if type_.is_variable_decimal:
        are_whole = ~batch.is_null(members[names[0]]) & ~batch.is_null(members[names[1]])
        batch.check(cells, are_whole, "lacks 'scale' or 'value'")
    types = (ConnectType("int32"), ConnectType("bytes"))
    arrays = [_values(batch, members[name], part) for name, part in zip(names, types, strict=True)]
    return pa.StructArray.from_arrays(arrays, names, mask=pa.array(batch.is_null(cells)))


def _bytes(batch: JsonBatch, cells: Cells, text: pa.Array) -> pa.Array:
    decoded = pl.Series(text).str.decode("base64", strict=False)
    batch.check(cells, decoded.is_not_null().to_numpy(), "is not bytes in Base64")
    return decoded.to_arrow().cast(pa.binary())


def _numbers(batch: JsonBatch, cells: Cells, text: pa.Array, arrow: pa.DataType) -> pa.Array:
    is_string = batch.is_string(cells)
    if is_string.any():
        is_special = np.asarray(pc.is_in(text, _SPECIAL_FLOATS))
        batch.check(cells, is_special | ~is_string, f"is not a number of type {arrow}")
    try:
        numbers = text.cast(arrow)
    except pa.ArrowInvalid:
        dtype = pl.Series(pa.nulls(0, arrow)).dtype
        fits = pl.Series(text).cast(dtype, strict=False).is_not_null().to_numpy()
        batch.check(cells, fits, f"does not fit into the type {arrow}")
        raise
    if pa.types.is_floating(arrow):
        is_finite = np.asarray(pc.fill_null(pc.is_finite(numbers), True))
        batch.check(cells, is_finite | is_string, f"does not fit into the type {arrow}")
    return numbers
