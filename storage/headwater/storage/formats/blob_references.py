"""Files beside data files that name the packs in which the values of their BLOB columns lie.

A pack holds values of several rows, and several data files may refer to it. Such a file names each
pack once, with a checksum; it belongs to one data file and goes with it.

Source: ``ManagedBlobReferenceFile.java``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from headwater.storage.errors import CorruptData, Unsupported

__all__ = ["PACK_SUFFIX", "REFERENCES_SUFFIX", "packed_references", "parsed_references"]

PACK_SUFFIX = ".managed.blob"
"""The end of the name of a file of values that data files refer to."""
REFERENCES_SUFFIX = ".blobref"

_MAGIC = 0x50424C52
_VERSION = 1
_INT = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_COUNT = struct.Struct(">Bi")


def packed_references(packs: Iterable[str]) -> bytes:
    """The content of such a file.

    Args:
        packs: The packs' URIs, as descriptors tell them.
    """
    pairs = sorted({_parted(uri) for uri in packs})
    payload = _COUNT.pack(_VERSION, len(pairs))
    payload += b"".join(_text(part) for pair in pairs for part in pair)
    return _INT.pack(_MAGIC) + payload + _INT.pack(zlib.crc32(payload))


def parsed_references(data: bytes, path: str) -> list[str]:
    """The packs that a file names, by their URIs.

    Args:
        data: The file's content.
        path: Its URI, for errors.

    Raises:
        CorruptData: It is damaged.
        Unsupported: It is of a later version.
    """
    least = _INT.size + _COUNT.size + _INT.size
    if len(data) < least or data[: _INT.size] != _INT.pack(_MAGIC):
        raise CorruptData(f"file {path} is no list of the packs of BLOBs")
    payload = data[_INT.size : -_INT.size]
    version, count = _COUNT.unpack_from(payload)
    if version != _VERSION:
        raise Unsupported(
            f"file {path} is of version {version} of the lists of packs of BLOBs; version "
            f"{_VERSION} is read"
        )
    if _INT.pack(zlib.crc32(payload)) != data[-_INT.size :]:
        raise CorruptData(f"file {path} is damaged: its checksum is another")
    parts: list[str] = []
    at = _COUNT.size
    while at < len(payload):
        end = at + _SHORT.size + _SHORT.unpack_from(payload, at)[0]
        parts.append(_from_modified(payload[at + _SHORT.size : end]))
        at = end
    if at != len(payload) or len(parts) != 2 * count:
        raise CorruptData(f"file {path} does not name {count} packs of BLOBs")
    return [f"{folder}/{name}" for folder, name in zip(parts[::2], parts[1::2], strict=True)]


def _parted(uri: str) -> tuple[str, str]:
    folder, _, name = uri.rpartition("/")
    return folder, name


def _text(text: str) -> bytes:
    """A text as ``DataOutput.writeUTF`` writes it: surrogates apart, and no zero byte."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    data = b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units
    )
    return _SHORT.pack(len(data)) + data


def _from_modified(data: bytes) -> str:
    text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
