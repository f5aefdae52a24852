"""Descriptors: what says where the value of a BLOB lies, as a file, an offset and a length.

Source: ``BlobDescriptor.java``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData
from headwater.storage.types.arrow_numbers import numpy_values

__all__ = ["Descriptors", "are_descriptors", "descriptor", "is_descriptor"]

_MAGIC = 0x424C4F4244455343
_VERSION = 2
# A version and "BLOBDESC", as other engines tell a descriptor from a value.
_HEADS = tuple(struct.pack("<BQ", version, _MAGIC) for version in (0, 1, _VERSION))
_HEAD = _HEADS[-1]
_LENGTH = struct.Struct("<i")
_PLACE = struct.Struct("<qq")
_START = len(_HEAD) + _LENGTH.size


def descriptor(uri: str, offset: int, length: int) -> bytes:
    """The descriptor of a value.

    Args:
        uri: The file's URI.
        offset: The value's first byte.
        length: Its bytes.
    """
    text = uri.encode()
    return _HEAD + _LENGTH.pack(len(text)) + text + _PLACE.pack(offset, length)


def is_descriptor(value: pa.Buffer) -> bool:
    """True if a value is a descriptor, as other engines would take it."""
    return value[: len(_HEAD)].to_pybytes() in _HEADS


def are_descriptors(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A mask of the values that are descriptors; null is none."""
    known = pa.array(_HEADS, values.type)
    return pc.is_in(pc.binary_slice(values, 0, len(_HEAD)), value_set=known)


@dataclass(frozen=True)
class Descriptors:
    """The descriptors of a column.

    Attributes:
        uris: The files' URIs, each once.
        numbers: Of each row: the number of its file; -1 for a null.
        offsets: Of each row: the value's first byte.
        lengths: Of each row: the value's bytes; 0 for a null.
    """

    uris: tuple[str, ...]
    numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    @staticmethod
    def of(column: pa.Array, where: str) -> Descriptors:
        """Take the descriptors of a column apart.

        Args:
            column: The column.
            where: The column's name and place, for errors.

        Raises:
            CorruptData: A value is no descriptor of the version that is read.
        """
        valid = column.is_valid()
        # Some formats give them with small offsets.
        present = column.drop_null().cast(pa.large_binary())
        sizes = numpy_values(pc.binary_length(present))
        told = pc.binary_slice(present, 0, len(_HEAD))
        if len(present) and (
            not pc.all(pc.equal(told, pa.scalar(_HEAD, told.type))).as_py()
            or (sizes < _START + _PLACE.size).any()
        ):
            raise CorruptData(f"{where}: a value is no descriptor of a BLOB of version {_VERSION}")
        encoded = pc.binary_slice(present, _START, -_PLACE.size).dictionary_encode()
        lengths = _numbers(pc.binary_slice(present, len(_HEAD), _START), "<i4")
        if (lengths != sizes - _START - _PLACE.size).any():
            raise CorruptData(f"{where}: a descriptor of a BLOB is cut short")
        places = _numbers(pc.binary_slice(present, -_PLACE.size), "<i8").reshape(-1, 2)
        try:
            uris = tuple(uri.decode() for uri in encoded.dictionary.to_pylist())
        except UnicodeDecodeError as error:
            raise CorruptData(f"{where}: the URI of a descriptor is not text: {error}") from error
        mask = valid.to_numpy(zero_copy_only=False)
        numbers = np.full(len(column), -1, np.int64)
        offsets, spans = (np.zeros(len(column), np.int64) for _ in range(2))
        numbers[mask] = encoded.indices.to_numpy()
        offsets[mask], spans[mask] = places[:, 0], places[:, 1]
        return Descriptors(uris, numbers, offsets, spans)


def _numbers(column: pa.Array, form: str) -> npt.NDArray[np.int64]:
    """The numbers that the values of a ``large_binary`` column without nulls are, end to end."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.empty(0, np.int64)
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data[int(bounds[0]) : int(bounds[-1])], form).astype(np.int64)
