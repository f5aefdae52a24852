"""Descriptors of BLOBs, and the lists of packs beside data files: the bytes are Paimon's."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.blob_descriptor import Descriptors, are_descriptors, descriptor
from headwater.storage.formats.blob_references import packed_references, parsed_references

# As `DataOutput.writeUTF` writes it: a zero byte in two, and a supplementary character in six.
NAMES = ["file:/t/bucket-0/a.managed.blob", "s3://b/t/ä\0\U0001f600/c.managed.blob"]


def packed(
    version: int = 1, count: int = 1, texts: tuple[bytes, ...] = (b"file:/t", b"a")
) -> bytes:
    payload = struct.pack(">Bi", version, count)
    payload += b"".join(struct.pack(">H", len(text)) + text for text in texts)
    return struct.pack(">I", 0x50424C52) + payload + struct.pack(">I", zlib.crc32(payload))


def test_references_are_sorted_and_named_once() -> None:
    data = packed_references([NAMES[1], NAMES[0], NAMES[1]])
    assert parsed_references(data, "f") == NAMES
    first = (b"file:/t/bucket-0", b"a.managed.blob")
    second = b"s3://b/t/\xc3\xa4\xc0\x80\xed\xa0\xbd\xed\xb8\x80"
    assert data == packed(count=2, texts=(*first, second, b"c.managed.blob"))
    assert parsed_references(packed_references([]), "f") == []
    assert packed_references([]) == packed(count=0, texts=())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no list of the packs"),
        (b"x" * 40, "no list of the packs"),
        (packed()[:-1] + b"\0", "its checksum is another"),
        (packed(count=2), "does not name 2 packs"),
        (packed(count=-1, texts=()), "does not name -1 packs"),
        (packed(texts=(b"file:/t",)), "does not name 1 packs"),
    ],
)
def test_a_damaged_list_is_told(data: bytes, message: str) -> None:
    with pytest.raises(CorruptData, match=f"f.*{message}"):
        parsed_references(data, "f")


def test_a_list_of_a_later_version_is_refused() -> None:
    with pytest.raises(Unsupported, match="version 2 of the lists"):
        parsed_references(packed(version=2), "f")


def test_descriptors_are_taken_apart() -> None:
    one, two = descriptor("file:/ä", 4, 7), descriptor("file:/b", 1 << 40, 0)
    assert one == b"\x02CSEDBOLB" + struct.pack("<i", 8) + "file:/ä".encode() + struct.pack(
        "<qq", 4, 7
    )
    column = pa.array([one, None, two, one], pa.large_binary())
    told = Descriptors.of(column.slice(1), "c")
    assert [told.uris[number] for number in told.numbers[1:]] == ["file:/b", "file:/ä"]
    assert told.numbers[0] == -1
    assert (told.offsets.tolist(), told.lengths.tolist()) == ([0, 1 << 40, 4], [0, 0, 7])
    mask = are_descriptors(
        pa.array([one, b"\x01" + one[1:], one[1:], None, b""], pa.large_binary())
    )
    assert mask.to_pylist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    "value", [b"value", b"", descriptor("f", 1, 2)[:-1], b"\x01" + descriptor("f", 1, 2)[1:]]
)
def test_what_is_no_descriptor_is_told(value: bytes) -> None:
    with pytest.raises(CorruptData, match="here: a"):
        Descriptors.of(pa.array([descriptor("f", 1, 2), value], pa.large_binary()), "here")
