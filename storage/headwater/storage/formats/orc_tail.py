"""The tail of an ORC file: its stripes, the types of its columns, and their statistics.

Arrow's reader of ORC files streams a whole file and shows neither statistics nor the writer's time
zone. Both stand in the file's tail, which is read here; and a view of the file with a tail that
names one stripe alone makes Arrow read just that stripe, still a batch at a time.

Source: ORC's specification; ``OrcReaderFactory.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.random_reads import RandomReads
from headwater.storage.formats.avro_blocks import MALFORMED
from headwater.storage.formats.orc_messages import Message, expand, message, unpacked, written

__all__ = [
    "FOOTER_LENGTH",
    "METADATA_NAME",
    "METADATA_VALUE",
    "USER_METADATA",
    "OrcTail",
    "Stripe",
    "in_chunks",
]

_MAGIC = b"ORC"
_GUESS_BYTES = 1 << 14
# Fields of messages, as ``orc_proto.proto`` numbers them.
FOOTER_LENGTH, _COMPRESSION, _CHUNK_BYTES, _METADATA_LENGTH, _POSTSCRIPT_MAGIC = 1, 2, 3, 5, 8000
_STRIPES, _TYPES, USER_METADATA, _ROWS = 3, 4, 5, 6
METADATA_NAME, METADATA_VALUE = 1, 2
_KIND, _CHILDREN, _NAMES = 1, 2, 3
_STRUCT = 12


def in_chunks(data: bytes, kind: int, chunk_bytes: int) -> bytes:
    """A part of a file as one with a codec has it, though it is not compressed.

    Args:
        data: The part.
        kind: The number of the file's codec; 0 for none.
        chunk_bytes: The most bytes that a chunk holds.
    """
    if not kind:
        return data
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    # The lowest bit says that a chunk is not compressed.
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)


@dataclass(frozen=True)
class Stripe:
    """Rows of a file that can be read without the others.

    Attributes:
        offset: Its first byte.
        index_length: Bytes of its indexes.
        data_length: Bytes of its data.
        footer_length: Bytes of its footer.
        row_count: Rows.
    """

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    row_count: int


class OrcTail:
    """The tail of one file.

    Args:
        source: The file, or the end of it that has the tail.
        path: Its name, for errors.
        start: The bytes of the file before those of the source.

    Attributes:
        path: The file's name.
        footer_at: The place of the footer in the source.
        footer_bytes: The footer, expanded.
        kind_of_codec: The number of the codec in ``CompressionKind``.
        chunk_bytes: The most bytes that a compressed chunk holds.
        stripes: The stripes, in their order.
        row_count: Rows of the file.
        columns: The number of each top-level column's type.

    Raises:
        CorruptData: The file is no ORC file, or is cut off.
        Unsupported: Its tail is compressed with a codec that is not supported.
    """

    def __init__(self, source: pa.NativeFile, path: str, start: int = 0) -> None:
        self.path = path
        self._start = start
        self._source = source
        size = int(source.size())
        end = self.content(max(0, size - _GUESS_BYTES), size)
        length = end[-1] if end else 0
        if len(end) <= length or not size:
            raise self._corrupt("it is not an ORC file")
        self._postscript_bytes = end[-1 - length : -1]
        self._postscript = self._message(self._postscript_bytes)
        if self._postscript.get(_POSTSCRIPT_MAGIC) != [_MAGIC]:
            raise self._corrupt("it is not an ORC file, or it is cut off")
        self.kind_of_codec = self._whole(self._postscript, _COMPRESSION)
        self.chunk_bytes = self._whole(self._postscript, _CHUNK_BYTES) or 1 << 18
        footer_end = size - 1 - length
        self.footer_at = footer_end - self._whole(self._postscript, FOOTER_LENGTH)
        if self.footer_at + start < len(_MAGIC) or self.footer_at < 0:
            raise self._corrupt("its footer is longer than the file")
        self.footer_bytes = self._expanded(self.footer_at, footer_end)
        self._footer = self._message(self.footer_bytes)
        self.row_count = self._whole(self._footer, _ROWS)
        stripes = map(self._stripe, self._parts(self._footer, _STRIPES))
        self.stripes = tuple(stripes)
        self._types = list(self._parts(self._footer, _TYPES))
        self.columns = self._named_columns()

    def _corrupt(self, why: str) -> CorruptData:
        return CorruptData(f"file {self.path} cannot be read: {why}")

    def content(self, start: int, end: int) -> bytes:
        """The bytes of the source from `start` to `end`."""
        found: bytes = self._source.read_at(end - start, start)
        if len(found) != end - start:
            raise self._corrupt("it is cut off")
        return found

    def _message(self, data: bytes) -> Message:
        try:
            return message(data)
        except ValueError as error:
            raise self._corrupt(f"its tail is malformed: {error}") from error

    def _part(self, start: int, end: int) -> Message:
        return self._message(self._expanded(start, end))

    def _expanded(self, start: int, end: int) -> bytes:
        data = self.content(start, end)
        try:
            return expand(data, self.kind_of_codec, self.chunk_bytes)
        except NotImplementedError as error:
            raise Unsupported(
                f"file {self.path} is compressed with {error}, which Headwater does not read"
            ) from error
        except MALFORMED as error:
            raise self._corrupt(f"its tail is malformed: {error}") from error

    def _whole(self, fields: Message, number: int) -> int:
        value = fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise self._corrupt("its tail is malformed")
        return value

    def _parts(self, fields: Message, number: int) -> Iterator[Message]:
        for value in fields.get(number, []):
            if isinstance(value, int):
                raise self._corrupt("its tail is malformed")
            yield self._message(value)

    def _stripe(self, fields: Message) -> Stripe:
        numbers = [self._whole(fields, number) for number in (1, 2, 3, 4, 5)]
        stripe = Stripe(*numbers)
        if self._stripe_end(stripe) > self.footer_at + self._start:
            raise self._corrupt("a stripe ends behind the file's footer")
        return stripe

    def _stripe_end(self, stripe: Stripe) -> int:
        return stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length

    def _named_columns(self) -> dict[str, int]:
        if not self._types or self._whole(self._types[0], _KIND) != _STRUCT:
            raise self._corrupt("its rows have no columns")
        children = list(unpacked(self._types[0].get(_CHILDREN, [])))
        names = [bytes(name) for name in self._types[0].get(_NAMES, [])]
        if len(names) != len(children) or any(each >= len(self._types) for each in children):
            raise self._corrupt("its columns are malformed")
        try:
            return {name.decode(): at for name, at in zip(names, children, strict=True)}
        except UnicodeDecodeError as error:
            raise self._corrupt(f"its columns' names are malformed: {error}") from error

    def entry(self, name: bytes) -> bytes | None:
        """The value of the user metadata of a name; None when there is none."""
        for found in self._parts(self._footer, USER_METADATA):
            value = found.get(METADATA_VALUE, [b""])[-1]
            if found.get(METADATA_NAME) == [name] and isinstance(value, bytes):
                return value
        return None

    def kind(self, column: str) -> int:
        """The number of a top-level column's type in ``Type.Kind``."""
        return self._whole(self._types[self.columns[column]], _KIND)

    @cached_property
    def _statistics(self) -> Sequence[Sequence[Message]]:
        length = self._whole(self._postscript, _METADATA_LENGTH)
        if not length:
            return ()
        metadata = self._part(self.footer_at - length, self.footer_at)
        return [list(self._parts(each, 1)) for each in self._parts(metadata, 1)]

    def statistics(self, stripe: int, column: str) -> Message | None:
        """The statistics of a top-level column in a stripe; None when the file has none."""
        if len(self._statistics) != len(self.stripes):
            return None
        found = self._statistics[stripe]
        at = self.columns[column]
        return found[at] if at < len(found) else None

    def statistics_part(self, fields: Message, number: int) -> Message | None:
        """A message in a message; None when it is not there."""
        return next(self._parts(fields, number), None)

    def writer_zone(self, stripe: int) -> str:
        """The time zone of the process that wrote a stripe; empty when the file does not say."""
        found = self.stripes[stripe]
        end = self._stripe_end(found)
        zone = self._part(end - found.footer_length, end).get(3, [b""])[-1]
        return zone.decode(errors="replace") if isinstance(zone, bytes) else ""

    def view(self, stripe: int) -> pa.NativeFile:
        """The file as if it had one stripe only."""
        if len(self.stripes) == 1:
            self._source.seek(0)
            return self._source
        footer = written(
            {
                **self._footer,
                _STRIPES: [self._footer[_STRIPES][stripe]],
                _ROWS: [self.stripes[stripe].row_count],
            }
        )
        footer = in_chunks(footer, self.kind_of_codec, self.chunk_bytes)
        tail = footer + self.end_with({FOOTER_LENGTH: [len(footer)], _METADATA_LENGTH: [0]})
        return pa.PythonFile(_View(self._source, self.footer_at, tail), mode="r")

    def end_with(self, fields: Message) -> bytes:
        """The bytes after the footer, with other values of some fields; as it is without any."""
        postscript = written({**self._postscript, **fields}) if fields else self._postscript_bytes
        return postscript + bytes([len(postscript)])


class _View(RandomReads):
    """The first bytes of a file, and others after them."""

    def __init__(self, source: pa.NativeFile, kept: int, tail: bytes) -> None:
        super().__init__(kept + len(tail))
        self._source = source
        self._kept = kept
        self._tail = tail

    def range(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`."""
        found = b""
        if start < self._kept:
            found = self._source.read_at(min(end, self._kept) - start, start)
        if end > self._kept:
            found += self._tail[max(start - self._kept, 0) : end - self._kept]
        return found
