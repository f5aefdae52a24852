"""Avro container files: records in, bytes out, and the other way round.

Records are dictionaries by field name. A file's own schema decides what is read; whoever asks for
a field checks that it is there and of its type.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias, cast

import fastavro

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_blocks import (
    CODECS,
    MALFORMED,
    ROW_COUNT,
    Block,
    BlockReader,
    compressed,
    varint,
)
from headwater.storage.types.data_type import Json

__all__ = ["Record", "RecordBlock", "read_avro", "read_blocks", "write_avro"]

Record: TypeAlias = Mapping[str, object]

# What fastavro raises for schemas and bytes that are not what they say.
_MALFORMED = (
    *MALFORMED,
    LookupError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
    fastavro.schema.SchemaParseException,
)
_DIGEST_BYTES = 16
# Decompressed bytes of a block, as Java writes them: smaller ones cost a call for less, and do not
# compress as well; of greater ones more is read in vain by who wants some of their records.
_BLOCK_BYTES = 64_000
_ZSTD_LEVEL = 3


def read_avro(data: bytes, where: str, field: str | None = None) -> list[Record]:
    """All records of a container file.

    A file cut off between two blocks reads as a shorter one, unless `write_avro` wrote it: Avro
    keeps no count. Check the number of records, or the file's size, against what is known of it.

    Args:
        data: The file's content.
        where: The file's name, for the error.
        field: One that the records have; a file without records tells by it what it is of.

    Raises:
        CorruptData: The bytes are not an Avro file of records, or of others.
        Unsupported: The file is compressed with a codec that is not supported.
    """
    records = [record for block in read_blocks(data, where) for record in block.records()]
    if not records and field is not None:
        schema = BlockReader(data, where).schema
        fields = schema.get("fields") if isinstance(schema, dict) else None
        if not any(
            isinstance(each, dict) and each.get("name") == field
            for each in (fields if isinstance(fields, list) else ())
        ):
            raise CorruptData(f"{where} is a file of other records: they have no {field}")
    return records


def read_blocks(data: bytes, where: str) -> Iterator[RecordBlock]:
    """The blocks of a container file, whose records are not decoded yet; otherwise `read_avro`."""
    reader = BlockReader(data, where)
    for found in reader.blocks():
        yield RecordBlock(reader, found, where)


@dataclass(frozen=True)
class RecordBlock:
    """Some records of a container file.

    Attributes:
        reader: The file.
        block: Their bytes.
        where: The file's name, for the error.
    """

    reader: BlockReader
    block: Block
    where: str

    @property
    def digest(self) -> bytes:
        """Equal for blocks of the same records, provided that they were written the same way."""
        whole = hashlib.blake2b(self.reader.schema_text, digest_size=_DIGEST_BYTES)
        whole.update(f" {self.reader.codec.name} {self.block.row_count} ".encode())
        whole.update(self.block.data)
        return whole.digest()

    @cached_property
    def rows(self) -> bytes:
        """The records, decompressed but not decoded; raises CorruptData.

        Values of type bytes or string are among them as they are: what is not there is in no
        record, and to look for it costs far less than to decode them.
        """
        return self.reader.rows_of(self.block)

    def records(self) -> list[Record]:
        """The records; raises CorruptData when the bytes are none."""
        count = self.block.row_count
        rows = self.rows
        # An array is a number of items, the items, and the number 0.
        stream = io.BytesIO((varint(count) if count else b"") + rows + varint(0))
        size = stream.getbuffer().nbytes
        try:
            items = fastavro.schemaless_reader(stream, _array_of(self.reader.schema_text), None)
            if stream.tell() != size:
                raise ValueError("records do not end where they should")
            return [_record(item) for item in cast("list[object]", items)]
        except _MALFORMED as error:
            raise CorruptData(f"{self.where} is not a valid Avro file: {error}") from error


def _record(item: object) -> Record:
    if not isinstance(item, dict):
        raise TypeError(f"a record was expected, not {type(item).__name__}")
    return item


# Most of a table's metadata files have one of two schemas.
@lru_cache(maxsize=16)
def _array_of(schema_text: bytes) -> fastavro.types.Schema:
    return fastavro.parse_schema({"type": "array", "items": json.loads(schema_text)})


def write_avro(
    schema: dict[str, Json], records: Sequence[Mapping[str, object]], codec: str
) -> bytes:
    """A container file, whose header has the number of its records.

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
    count = {ROW_COUNT.decode(): str(len(records))}
    fastavro.writer(
        buffer, schema, records, codec="null", sync_interval=_BLOCK_BYTES, metadata=count
    )
    return compressed(buffer.getvalue(), CODECS[codec], _ZSTD_LEVEL)
