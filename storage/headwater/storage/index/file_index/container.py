"""The container of a data file's indexes: a head that names them, then their bodies.

Integers are big-endian; names are in Java's modified UTF-8. The head ends with bytes that the
format reserves and that readers skip: Headwater puts CRC-32 checksums there, one of each body in
the order of the head and then one of the head before it. Source: ``FileIndexFormat.java``,
``spec/fileindex.mdx``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from headwater.storage.errors import CorruptData

__all__ = ["Bytes", "IndexContainer", "RandomBytes", "damaged_index", "write_container"]

_MAGIC = 1493475289347502
_VERSION = 1
# The start of an index that was never given a row.
_EMPTY = -1
_FIXED = struct.Struct(">qii")
_NUMBER = struct.Struct(">I")
_CHECKSUMS = b"headwater.crc32"
_REPAIR = (
    "rebuild it with 'headwater table rewrite-file-indexes', or read without indexes with "
    "'file-index.read.enabled' = 'false'"
)
# Read at once: the heads of all but extremely wide tables' indexes, and small indexes whole.
_FIRST_READ = 1 << 14


def damaged_index(where: str, why: str) -> CorruptData:
    """The error about a damaged index, which says how to repair it."""
    return CorruptData(f"{where} {why}; {_REPAIR}")


class RandomBytes(Protocol):
    """Bytes that can be read from anywhere."""

    @property
    def size(self) -> int:
        """Their number."""
        ...

    def read(self, start: int, length: int) -> bytes:
        """So many bytes from there; fewer at the end."""
        ...


@dataclass(frozen=True)
class Bytes:
    """Bytes in memory.

    Attributes:
        data: The bytes.
    """

    data: bytes

    @property
    def size(self) -> int:
        """Their number."""
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        """So many bytes from there; fewer at the end."""
        return self.data[start : start + length]


@dataclass(frozen=True)
class IndexContainer:
    """The indexes of one data file.

    Attributes:
        source: The container's bytes.
        where: The container's location in error messages.
        places: Start and length of each index's body by the name of the column and by kind; None
            for an index that holds no row.
        checksums: The CRC-32 of each body, by name and kind; None if the writer left them out.
    """

    source: RandomBytes
    where: str
    places: Mapping[str, Mapping[str, tuple[int, int] | None]]
    checksums: Mapping[tuple[str, str], int] | None

    @classmethod
    def open(cls, source: RandomBytes, where: str) -> Self:
        """Read the head, and compare it with its checksum if it has one.

        Raises:
            CorruptData: It is not the head of such a container; the message names `where`.
        """
        head = source.read(0, _FIRST_READ)
        if len(head) < _FIXED.size:
            raise damaged_index(where, f"is truncated: it has {len(head)} bytes")
        magic, version, head_length = _FIXED.unpack_from(head)
        if magic != _MAGIC:
            raise damaged_index(where, "does not begin as a file index does")
        if version != _VERSION:
            raise damaged_index(where, f"has version {version}; Headwater reads {_VERSION}")
        if not _FIXED.size < head_length <= source.size:
            raise damaged_index(where, f"is truncated: expected a head of {head_length} bytes")
        if head_length > len(head):
            head = source.read(0, head_length)
        cursor = _Cursor(head[:head_length], _FIXED.size)
        try:
            places = _places(cursor, head_length, source.size)
            checksums = _checksums(cursor, places)
        except (struct.error, UnicodeError, ValueError) as error:
            raise damaged_index(where, f"has a malformed head: {error}") from error
        return cls(source, where, places, checksums)

    def body(self, name: str, kind: str) -> bytes | None:
        """The body of an index that is there; None if it holds no row.

        Raises:
            CorruptData: The container is shorter than its head says, or the body does not match its
                checksum.
        """
        place = self.places[name][kind]
        if place is None:
            return None
        data = self.source.read(*place)
        if len(data) != place[1]:
            raise damaged_index(self.where, f"is truncated within the {kind} index of '{name}'")
        if self.checksums is not None:
            expected, actual = self.checksums[name, kind], zlib.crc32(data)
            if actual != expected:
                raise self.malformed(
                    name, kind, f"checksum mismatch: expected {expected:08x}, got {actual:08x}"
                )
        return data

    def bodies(self) -> dict[str, dict[str, bytes | None]]:
        """All bodies, by name and kind, in the container's order; raises CorruptData as `body`."""
        return {
            name: {kind: self.body(name, kind) for kind in kinds}
            for name, kinds in self.places.items()
        }

    def malformed(self, name: str, kind: str, why: object) -> CorruptData:
        """The error about one of the indexes."""
        return damaged_index(f"{self.where}: the {kind} index of '{name}'", f"is malformed: {why}")


@dataclass
class _Cursor:
    data: bytes
    at: int

    def integer(self) -> int:
        (number,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return int(number)

    def text(self) -> str:
        (length,) = struct.unpack_from(">H", self.data, self.at)
        begin = self.at + 2
        self.at = begin + length
        if self.at > len(self.data):
            raise ValueError("a name is cut off")
        return _from_modified_utf8(self.data[begin : self.at])


def _places(
    head: _Cursor, head_length: int, size: int
) -> dict[str, dict[str, tuple[int, int] | None]]:
    places: dict[str, dict[str, tuple[int, int] | None]] = {}
    for _ in range(head.integer()):
        kinds = places.setdefault(head.text(), {})
        for _ in range(head.integer()):
            kind, start, length = head.text(), head.integer(), head.integer()
            if start == _EMPTY:
                kinds[kind] = None
                continue
            if start < head_length or length < 0 or start + length > size:
                raise ValueError(f"an index of {length} bytes at {start} is beyond its end")
            kinds[kind] = start, length
    return places


def _checksums(
    head: _Cursor, places: Mapping[str, Mapping[str, object]]
) -> dict[tuple[str, str], int] | None:
    """The checksums of the bodies; None if the reserved bytes are another writer's."""
    length = head.integer()
    reserved = head.data[head.at :]
    if length != len(reserved):
        raise ValueError(f"expected {length} reserved bytes, got {len(reserved)}")
    if not reserved.startswith(_CHECKSUMS):
        return None
    names = [(name, kind) for name, kinds in places.items() for kind in kinds]
    numbers = reserved[len(_CHECKSUMS) :]
    if len(numbers) != _NUMBER.size * (len(names) + 1):
        raise ValueError(f"{len(names)} indexes have {len(numbers)} bytes of checksums")
    *bodies, expected = (number for (number,) in _NUMBER.iter_unpack(numbers))
    actual = zlib.crc32(head.data[: -_NUMBER.size])
    if actual != expected:
        raise ValueError(f"checksum mismatch: expected {expected:08x}, got {actual:08x}")
    return dict(zip(names, bodies, strict=True))


def write_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """A container, with checksums.

    Args:
        indexes: The indexes' bodies by name and kind, in the order in which they are written;
            None for an index that was given no row.
    """
    names = {text: _modified_utf8(text) for kinds in indexes.values() for text in kinds}
    names |= {name: _modified_utf8(name) for name in indexes}
    count = sum(len(kinds) for kinds in indexes.values())
    reserved = len(_CHECKSUMS) + _NUMBER.size * (count + 1)
    length = _FIXED.size + 8 + sum(2 + len(names[name]) + 4 for name in indexes) + reserved
    length += sum(2 + len(names[kind]) + 8 for kinds in indexes.values() for kind in kinds)
    parts = [_FIXED.pack(_MAGIC, _VERSION, length), struct.pack(">i", len(indexes))]
    bodies: list[bytes] = []
    checksums: list[bytes] = []
    start = length
    for name, kinds in indexes.items():
        parts += [struct.pack(">H", len(names[name])), names[name], struct.pack(">i", len(kinds))]
        for kind, body in kinds.items():
            parts += [struct.pack(">H", len(names[kind])), names[kind]]
            checksums.append(_NUMBER.pack(zlib.crc32(body or b"")))
            if body is None:
                parts.append(struct.pack(">ii", _EMPTY, 0))
                continue
            parts.append(struct.pack(">ii", start, len(body)))
            bodies.append(body)
            start += len(body)
    head = b"".join([*parts, _NUMBER.pack(reserved), _CHECKSUMS, *checksums])
    return b"".join([head, _NUMBER.pack(zlib.crc32(head)), *bodies])


def _modified_utf8(text: str) -> bytes:
    """UTF-8 with surrogates as characters of their own, and 0 as two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(unit) for (unit,) in struct.iter_unpack(">H", units))
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _from_modified_utf8(data: bytes) -> str:
    halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
