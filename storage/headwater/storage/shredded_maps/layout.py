"""The layout of a shredded MAP column in one file, and the metadata in which the file records it.

The column is a struct of ``__field_mapping``, an array with the number of the key whose value is in
each of the columns ``__col_0``, ``__col_1``, … (-1 for none); of these columns; and of
``__overflow``, a map from the numbers of the keys that found no column to their values. The numbers
of the keys are in the metadata of the column, in the Arrow schema that the file holds.

Source: ``MapSharedShreddingDefine.java``, ``MapSharedShreddingUtils.java``,
``Lz4BlockCompressor.java``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import ArrayType, DataField, MapType, RowType

__all__ = [
    "CODECS",
    "MAPPING",
    "OVERFLOW",
    "ColumnLayout",
    "column_layout",
    "column_name",
    "stored_column",
]

MAPPING = "__field_mapping"
OVERFLOW = "__overflow"
CODECS = ("none", "lz4", "zstd")
"""The codecs that the dictionary of keys may have, and so the files."""

_LAYOUT, _SHREDDED = b"paimon.map.storage-layout", b"shared-shredding"
_PREFIX = b"paimon.map.shared-shredding."
_VERSION, _KNOWN_VERSION = _PREFIX + b"version", 1
_KEYS = _PREFIX + b"field-dict"
_KEYS_CODEC = _PREFIX + b"field-dict-compression"
_KEYS_BYTES = _PREFIX + b"field-dict-original-size"
_PLACES = _PREFIX + b"field-columns"
_OVERFLOWING = _PREFIX + b"overflow-set"
_COLUMNS = _PREFIX + b"num-columns"
_WIDEST = _PREFIX + b"max-row-width"
# The two sizes before the bytes of LZ4.
_LZ4_HEADER = 8


def column_name(number: int) -> str:
    """The name of the field that holds values of keys."""
    return f"__col_{number}"


def stored_column(column: DataField, columns: Iterable[int]) -> DataField:
    """A MAP column as files hold it, with these columns for its keys."""
    assert isinstance(column.type, MapType)
    # A row without a key has null in the key's column, whatever the values are.
    value = replace(column.type.value, nullable=True)
    number = AtomicType(Root.INT)
    types = [
        (MAPPING, ArrayType(number)),
        *((column_name(at), value) for at in columns),
        (OVERFLOW, MapType(replace(number, nullable=False), value)),
    ]
    fields = tuple(DataField(at, name, each) for at, (name, each) in enumerate(types))
    return replace(column, type=RowType(fields, column.type.nullable))


@dataclass(frozen=True)
class ColumnLayout:
    """The form of a MAP column in one file.

    Attributes:
        keys: The number of each key.
        columns: The number of columns for values.
        places: The columns in which the values of each key are, by its number.
        overflowing: The numbers of the keys that did not find a column in each row.
        widest: The most keys of a row.
    """

    keys: Mapping[str, int]
    columns: int
    places: Mapping[int, Sequence[int]]
    overflowing: frozenset[int]
    widest: int

    @property
    def used_columns(self) -> list[int]:
        """The columns that hold values."""
        return sorted({column for columns in self.places.values() for column in columns})

    def metadata(self, codec: str) -> dict[bytes, bytes]:
        """The metadata of the column, the keys compressed with one of `CODECS`."""
        keys = _json(dict(sorted(self.keys.items())))
        places = {str(number): sorted(each) for number, each in sorted(self.places.items())}
        return {
            _LAYOUT: _SHREDDED,
            _VERSION: _number(_KNOWN_VERSION),
            _KEYS_CODEC: codec.encode(),
            _KEYS_BYTES: _number(len(keys)),
            # As Java makes text of bytes.
            _KEYS: _compressed(keys, codec).decode("latin-1").encode(),
            _PLACES: _json(places),
            _OVERFLOWING: _json(sorted(self.overflowing)),
            _COLUMNS: _number(self.columns),
            _WIDEST: _number(self.widest),
        }


def column_layout(metadata: Mapping[bytes, bytes] | None, where: str) -> ColumnLayout | None:
    """The form of a column with such metadata; None if it is not of this form.

    Args:
        metadata: The column's metadata in the Arrow schema of its file.
        where: The file and the column, for errors.

    Raises:
        CorruptData: The metadata is malformed.
        Unsupported: It is of a version that is not known.
    """
    if metadata is None or metadata.get(_LAYOUT) != _SHREDDED:
        return None
    try:
        version = int(metadata[_VERSION])
        if version != _KNOWN_VERSION:
            raise Unsupported(
                f"{where} is stored by its keys in version {version} of that form; Headwater "
                f"reads version {_KNOWN_VERSION}"
            )
        return _parsed(metadata)
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise CorruptData(
            f"{where} is stored by its keys, but what the file says of them is malformed: "
            f"{type(error).__name__} {error}"
        ) from error


def _parsed(metadata: Mapping[bytes, bytes]) -> ColumnLayout:
    size, codec = int(metadata[_KEYS_BYTES]), metadata.get(_KEYS_CODEC, b"zstd").decode().lower()
    text = _expanded(metadata[_KEYS].decode().encode("latin-1"), size, codec)
    found = ColumnLayout(
        keys={str(key): int(number) for key, number in json.loads(text).items()},
        columns=int(metadata[_COLUMNS]),
        places={
            int(number): [int(each) for each in columns]
            for number, columns in json.loads(metadata[_PLACES]).items()
        },
        overflowing=frozenset(int(number) for number in json.loads(metadata[_OVERFLOWING])),
        widest=int(metadata[_WIDEST]),
    )
    numbers = set(found.keys.values())
    if len(numbers) < len(found.keys) or min(numbers, default=0) < 0:
        raise ValueError("keys share a number")
    if any(not 0 <= column < found.columns for column in found.used_columns):
        raise ValueError(f"there are {found.columns} columns, and others are named")
    return found


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _number(value: int) -> bytes:
    return str(value).encode()


def _compressed(data: bytes, codec: str) -> bytes:
    if codec == "none":
        return data
    if codec == "lz4":
        packed = bytes(pa.Codec("lz4_raw").compress(data))
        return b"".join(each.to_bytes(4, "little") for each in (len(packed), len(data))) + packed
    return bytes(pa.Codec("zstd", compression_level=1).compress(data))


def _expanded(data: bytes, size: int, codec: str) -> bytes:
    if codec not in CODECS:
        raise ValueError(f"its codec is '{codec}'")
    if codec == "none":
        found = data
    elif codec == "lz4":
        stated = [int.from_bytes(data[at : at + 4], "little") for at in (0, 4)]
        if stated != [len(data) - _LZ4_HEADER, size]:
            raise ValueError("its keys are cut off")
        found = bytes(pa.Codec("lz4_raw").decompress(data[_LZ4_HEADER:], size))
    else:
        found = bytes(pa.Codec("zstd").decompress(data, size))
    if len(found) != size:
        raise ValueError("its keys are cut off")
    return found
