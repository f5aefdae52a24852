"""The records of manifests as columns.

All blocks of one schema are decoded at once. What that does not take (an old writer's schema, bytes
that are not what they say) is decoded record by record, which tells what is wrong and where; and so
are few entries, which takes less time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from headwater.storage.errors import CorruptData
from headwater.storage.formats.avro_container import RecordBlock
from headwater.storage.formats.avro_decoding import PlainRows, Shape, shape_of
from headwater.storage.manifest.entries import COLUMNS, Entries, EntryColumn, Form, entry_types
from headwater.storage.manifest.records import (
    MANIFEST_VERSION,
    check_versions,
    converted,
    read_entry,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = ["decode_entries"]

_VERSION = "_VERSION"
_WHOLE = ("int", "long")
_MILLIS = ("", "timestamp-millis", "local-timestamp-millis")
# Milliseconds since the epoch of the years 1 to 9999.
_FIRST_MILLI, _LAST_MILLI = -62_135_596_800_000, 253_402_300_799_999
_ARITY_BYTES = 4
# Some 80 entries take as long one way as the other.
_LEAST_BYTES = 32 << 10


def decode_entries(blocks: Sequence[RecordBlock]) -> Entries:
    """The entries of some blocks of manifests, in order.

    Raises:
        CorruptData: A block is malformed; the message names its file.
        Unsupported: An entry has a format version of the future.
    """
    parts: list[Entries] = []
    for alike in _by_schema(blocks):
        frame = _decoded(alike)
        if frame is not None:
            parts.append(Entries(frame))
            continue
        for block in alike:
            records = block.records()
            check_versions(records, block.where)
            parts.append(Entries(converted(records, read_entry, block.where)))
    return Entries.concat(parts)


def _by_schema(blocks: Sequence[RecordBlock]) -> Iterator[list[RecordBlock]]:
    alike: list[RecordBlock] = []
    for block in blocks:
        if alike and alike[-1].reader.schema_text != block.reader.schema_text:
            yield alike
            alike = []
        alike.append(block)
    if alike:
        yield alike


@dataclass(frozen=True)
class _Layout:
    """The way in which one schema's records are decoded.

    Attributes:
        rows: Decodes them.
        names: The columns that the records have, by field.
    """

    rows: PlainRows
    names: Mapping[str, str]


# Most manifests have one of a few schemas.
@lru_cache(maxsize=16)
def _layout(schema_text: bytes) -> _Layout | None:
    """The layout of records; None when their fields are not of the usual forms."""
    try:
        fields = dict(_flat("", shape_of(json.loads(schema_text), "of a manifest")))
    except (CorruptData, ValueError, RecursionError):
        return None
    for column in COLUMNS:
        found = fields.get(column.field)
        if column.required if found is None else not _is_usual(found, column):
            return None
    version = fields.get(_VERSION)
    if version is None or version.kind not in _WHOLE or version.branch is not None:
        return None
    names = {column.field: column.name for column in COLUMNS if column.field in fields}
    wide = {name: _wide(part) for name, part in fields.items()}
    return _Layout(PlainRows(Shape("record", parts=wide), {**names, _VERSION: _VERSION}), names)


def _wide(shape: Shape) -> Shape:
    """The same bytes, as all whole numbers are written alike."""
    parts = {name: _wide(part) for name, part in shape.parts.items()}
    return replace(shape, kind="long" if shape.kind == "int" else shape.kind, parts=parts)


def _flat(prefix: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    """The fields of a record and of the records in it, which are the same bytes."""
    for name, part in shape.parts.items():
        if part.kind == "record" and part.branch is None:
            yield from _flat(f"{prefix}{name}.", part)
        else:
            yield f"{prefix}{name}", part


def _is_usual(shape: Shape, column: EntryColumn) -> bool:
    if column.required and shape.branch is not None:
        return False
    item = shape.parts.get("item")
    match column.form:
        case Form.NUMBER:
            logical = _MILLIS if column.name == "creation_time" else ("",)
            return shape.kind in _WHOLE and shape.logical in logical
        case Form.BYTES:
            return shape.kind == "bytes" and not shape.logical
        case Form.TEXT:
            return shape.kind == "string" and not shape.logical
        case Form.TEXTS:
            plain = Shape("string")
            return shape.kind == "array" and item == plain
        case Form.NUMBERS:
            # Only a count of nulls may be missing.
            counts = column.name.endswith("_nulls")
            return (
                shape.kind == "array"
                and item is not None
                and item.kind in _WHOLE
                and not item.logical
                and (counts or item.branch is None)
            )


def _decoded(blocks: Sequence[RecordBlock]) -> pl.DataFrame | None:
    """The entries of blocks of one schema; None when they must be looked at one by one."""
    if sum(len(block.rows) for block in blocks) < _LEAST_BYTES:
        return None
    import polars as pl

    first = blocks[0]
    layout = _layout(first.reader.schema_text)
    if layout is None:
        return None
    try:
        frame = layout.rows.decode(
            [block.rows for block in blocks],
            sum(block.block.row_count for block in blocks),
            [_VERSION, *layout.names],
            first.where,
        )
    except CorruptData:
        return None
    if not (frame.get_column(_VERSION) == MANIFEST_VERSION).all():
        return None
    types = entry_types()
    lacking = [
        pl.lit(None, data_type).alias(name)
        for name, data_type in types.items()
        if name not in frame.columns
    ]
    if lacking:
        frame = frame.with_columns(lacking)
    frame = frame[list(types)]
    return frame if _is_sound(frame) else None


def _is_sound(frame: pl.DataFrame) -> bool:
    """True if all values are such that `read_entry` would take them."""
    for name, least, most in (
        ("kind", 0, 1),
        ("file_source", 0, 1),
        ("creation_time", _FIRST_MILLI, _LAST_MILLI),
    ):
        values = frame.get_column(name)
        low, high = values.min(), values.max()
        if isinstance(low, int) and isinstance(high, int) and not least <= low <= high <= most:
            return False
    for name in ("key", "value"):
        counts = frame.get_column(f"{name}_nulls")
        if counts.null_count():
            # There are as many counts as the row has fields.
            rows = frame.get_column(f"{name}_min").filter(counts.is_null())
            if (rows.bin.size() < _ARITY_BYTES).any():
                return False
    return True
