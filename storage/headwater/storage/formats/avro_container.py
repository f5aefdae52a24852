"""Avro container files: records in, bytes out, and the other way round.

Records are dictionaries by field name. A file's own schema decides what is read; whoever asks for
a field checks that it is there and of its type.
"""

from __future__ import annotations

import io
import lzma
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import cramjam
import fastavro

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.types.data_type import Json

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

__all__ = ["CODECS", "Record", "read_avro", "write_avro"]

Record: TypeAlias = Mapping[str, object]

CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})

# What fastavro and the decompressors below it raise for bytes that are not what they say.
_MALFORMED = (
    ValueError,
    LookupError,
    EOFError,
    TypeError,
    OverflowError,
    OSError,
    MemoryError,
    RecursionError,
    zlib.error,
    lzma.LZMAError,
    ZstdError,
    cramjam.DecompressionError,
    fastavro.schema.SchemaParseException,
)


def read_avro(data: bytes, where: str) -> list[Record]:
    """All records of a container file.

    A file cut off between two blocks reads as a shorter one: Avro keeps no count. Check the number
    of records, or the file's size, against what is known of it.

    Args:
        data: The file's content.
        where: The file's name, for the error.

    Raises:
        CorruptData: The bytes are not an Avro file of records.
    """
    records: list[Record] = []
    try:
        for record in fastavro.reader(io.BytesIO(data)):
            if not isinstance(record, dict):
                raise TypeError(f"a record was expected, not {type(record).__name__}")
            records.append(record)
    except _MALFORMED as error:
        raise CorruptData(f"{where} is not a valid Avro file: {error}") from error
    return records


def write_avro(
    schema: dict[str, Json], records: Sequence[Mapping[str, object]], codec: str
) -> bytes:
    """A container file.

    Args:
        schema: The records' Avro schema.
        records: The records.
        codec: One of `CODECS`.

    Raises:
        Unsupported: The codec is not one of them.
    """
    if codec not in CODECS:
        raise Unsupported(f"Avro codec '{codec}' is not one of {', '.join(sorted(CODECS))}")
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records, codec=codec)
    return buffer.getvalue()
