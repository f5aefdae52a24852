"""Files of the values of one BLOB column: whole values one after another, and where each begins.

An entry is a magic number, the value, the entry's length and a checksum of all that. Behind the
entries stand their lengths, as differences in zigzag varints, -1 for a null and -2 for a row whose
value is that of an older file, then the length of that index and the format's version. A value is
read by its range; one that nobody asks for is not read.

Source: ``BlobFormatWriter.java``, ``BlobFileMeta.java``, ``RawBlobElementSerializer.java``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.avro_encoding import zigzag_varints
from headwater.storage.formats.file_writer import give_up
from headwater.storage.formats.protocol import WrittenFile, readable

__all__ = [
    "BLOB_SUFFIX",
    "ENTRY_START",
    "FRAME_BYTES",
    "NULL_LENGTH",
    "PLACEHOLDER_LENGTH",
    "BlobEntries",
    "BlobFileWriter",
    "blob_entries",
    "check_blobs",
    "read_blobs",
]

BLOB_SUFFIX = ".blob"
NULL_LENGTH = -1
PLACEHOLDER_LENGTH = -2
"""The length of a row whose value did not change: it is that of an older file."""

_Longs = npt.NDArray[np.int64]
_MAGIC = struct.pack("<i", 1481511375)
_TAIL = struct.Struct("<qI")
_END = struct.Struct("<iB")
_VERSION = 1
FRAME_BYTES = len(_MAGIC) + _TAIL.size
"""Bytes that an entry has beside the value."""
ENTRY_START = len(_MAGIC)
"""Those of them that are before it."""
# Values that follow each other in a file are read together, up to so many bytes.
_RUN_BYTES = 16 * 1024**2


@dataclass(frozen=True)
class BlobEntries:
    """The places of a file's entries.

    Attributes:
        path: The file's URI.
        lengths: Of each row: bytes of its entry, -1 for a null, -2 for an older file's value.
        offsets: Of each row: the first byte of its entry; of no use without one.
    """

    path: str
    lengths: _Longs
    offsets: _Longs


def blob_entries(files: FileAccess, path: str, size: int, row_count: int) -> BlobEntries:
    """Read a file's index.

    Args:
        files: Access to the storage.
        path: The file's URI.
        size: Bytes of the file.
        row_count: Its rows, as the manifest says.

    Raises:
        CorruptData: The file is missing, cut short or damaged, or has other rows.
        Unsupported: It is of a later version of the format.
    """
    with readable(path), files.open_input(path) as stream:
        if size < _END.size or stream.size() != size:
            raise CorruptData(
                f"file {path} has {stream.size()} bytes where {size} were written, and at least "
                f"{_END.size} are needed"
            )
        stream.seek(size - _END.size)
        index_bytes, version = _END.unpack(stream.read(_END.size))
        if version != _VERSION:
            raise Unsupported(
                f"file {path} is of version {version} of the format of BLOB files; version "
                f"{_VERSION} is read"
            )
        end = size - _END.size - index_bytes
        if index_bytes < 0 or end < 0:
            raise CorruptData(f"file {path}: its index of {index_bytes} bytes is not inside it")
        stream.seek(end)
        lengths = _decoded(stream.read(index_bytes), path)
    if len(lengths) != row_count:
        raise CorruptData(f"file {path} has {len(lengths)} rows where {row_count} were written")
    present = lengths >= 0
    if (lengths < PLACEHOLDER_LENGTH).any() or (lengths[present] < FRAME_BYTES).any():
        raise CorruptData(f"file {path}: its index has a length that no entry has")
    ends = np.cumsum(np.where(present, lengths, 0))
    if (len(ends) and ends[-1] != end) or (not len(ends) and end):
        raise CorruptData(f"file {path}: its entries do not end where its index begins")
    return BlobEntries(path, lengths, ends - np.where(present, lengths, 0))


def _decoded(index: bytes, path: str) -> _Longs:
    """The lengths from differences in zigzag varints."""
    octets = np.frombuffer(index, np.uint8)
    if not len(octets):
        return np.empty(0, np.int64)
    last = np.flatnonzero(octets < 0x80)
    if not len(last) or last[-1] != len(octets) - 1:
        raise CorruptData(f"file {path}: its index is cut short")
    first = np.concatenate([[0], last[:-1] + 1])
    places = np.arange(len(octets)) - np.repeat(first, last - first + 1)
    if places.max() > 9:
        raise CorruptData(f"file {path}: a number of its index is too long")
    parts = (octets & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    numbers = np.bitwise_or.reduceat(parts, first)
    deltas = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)
    return np.cumsum(deltas)


def read_blobs(
    files: FileAccess, path: str, offsets: _Longs, lengths: _Longs
) -> Iterator[memoryview]:
    """The values of entries, in the order of the file.

    Args:
        files: Access to the storage.
        path: The file's URI.
        offsets: The first byte of each entry, ascending.
        lengths: The bytes of each entry.

    Raises:
        CorruptData: The file is missing or cut short, or an entry is damaged.
    """
    with readable(path), files.open_input(path) as stream:
        for run in _runs(offsets, lengths):
            start = int(offsets[run.start])
            stream.seek(start)
            size = int(offsets[run.stop - 1] + lengths[run.stop - 1]) - start
            data = memoryview(stream.read(size))
            if len(data) != size:
                raise CorruptData(f"file {path} is cut short: it ends before byte {start + size}")
            # One value may be as large as a file of other columns: a loop over them costs nothing.
            for at in run:
                begin = int(offsets[at]) - start
                yield _value(data[begin : begin + int(lengths[at])], path, start + begin)


def check_blobs(files: FileAccess, path: str, size: int, row_count: int, *, deep: bool) -> int:
    """The rows of a file, all of whose entries are read if `deep`; raises as `blob_entries`."""
    entries = blob_entries(files, path, size, row_count)
    if deep:
        present = entries.lengths >= 0
        for _ in read_blobs(files, path, entries.offsets[present], entries.lengths[present]):
            pass
    return len(entries.lengths)


def _runs(offsets: _Longs, lengths: _Longs) -> Iterator[range]:
    """Entries that are read at once: they follow each other, and are not too many bytes."""
    ends = offsets + lengths
    follows = np.flatnonzero(ends[:-1] != offsets[1:]) + 1
    for start, stop in pairwise([0, *follows.tolist(), len(offsets)]):
        at = start
        while at < stop:
            limit = offsets[at] + _RUN_BYTES
            until = max(at + 1, int(np.searchsorted(ends[at:stop], limit, "right")) + at)
            yield range(at, until)
            at = until


def _value(entry: memoryview, path: str, offset: int) -> memoryview:
    length, checksum = _TAIL.unpack(entry[-_TAIL.size :])
    if entry[: len(_MAGIC)] != _MAGIC or length != len(entry):
        raise CorruptData(f"file {path}: no entry of {len(entry)} bytes begins at byte {offset}")
    if zlib.crc32(entry[:-4]) != checksum:
        raise CorruptData(
            f"file {path}: the entry at byte {offset} is damaged: its checksum is another"
        )
    return entry[len(_MAGIC) : -_TAIL.size]


class BlobFileWriter:
    """Writes one file; it appears when `close` returns, and never otherwise.

    Args:
        files: Access to the storage.
        path: The file's URI.
    """

    def __init__(self, files: FileAccess, path: str) -> None:
        self.path = path
        self._stack = ExitStack()
        self._sink: pa.NativeFile = self._stack.enter_context(files.open_output(path))
        self._lengths: list[int] = []
        self._size = 0

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        return len(self._lengths)

    @property
    def size(self) -> int:
        """Bytes of the entries written so far."""
        return self._size

    def write(self, value: pa.Buffer | None) -> None:
        """Append the value of a row."""
        if value is None:
            self._lengths.append(NULL_LENGTH)
            return
        length = value.size + FRAME_BYTES
        size = struct.pack("<q", length)
        checksum = zlib.crc32(size, zlib.crc32(value, zlib.crc32(_MAGIC)))
        for part in (_MAGIC, value, size, struct.pack("<I", checksum)):
            self._sink.write(part)
        self._lengths.append(length)
        self._size += length

    def leave(self, count: int) -> None:
        """Append rows whose values are those of older files."""
        self._lengths += [PLACEHOLDER_LENGTH] * count

    def close(self) -> WrittenFile:
        """Finish the file; it is there, durably, when this returns."""
        lengths = np.array(self._lengths, np.int64)
        # All of them are in one buffer, one after another.
        index = zigzag_varints(np.diff(lengths, prepend=np.int64(0))).buffers()[2].to_pybytes()
        with self._stack:
            self._sink.write(index)
            self._sink.write(_END.pack(len(index), _VERSION))
            size = int(self._sink.tell())
        return WrittenFile(self.path, size, self.row_count)

    def abort(self) -> None:
        """Give the file up; nothing of it stays."""
        give_up(self._stack)
