"""The metadata by which a file says how its maps are stored."""

from __future__ import annotations

import pytest

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.shredded_maps.layout import CODECS, ColumnLayout, column_layout

LAYOUT = ColumnLayout({"a": 0, "☃": 2, "b": 1}, 3, {0: [0, 2], 1: [1]}, frozenset({2}), 4)
PREFIX = b"paimon.map.shared-shredding."


def test_metadata_is_what_paimon_writes() -> None:
    assert LAYOUT.metadata("none") == {
        b"paimon.map.storage-layout": b"shared-shredding",
        PREFIX + b"version": b"1",
        PREFIX + b"field-dict-compression": b"none",
        PREFIX + b"field-dict-original-size": b"21",
        # UTF-8, each byte of which is a character of the text.
        PREFIX + b"field-dict": '{"a":0,"b":1,"\xe2\x98\x83":2}'.encode(),
        PREFIX + b"field-columns": b'{"0":[0,2],"1":[1]}',
        PREFIX + b"overflow-set": b"[2]",
        PREFIX + b"num-columns": b"3",
        PREFIX + b"max-row-width": b"4",
    }


@pytest.mark.parametrize("codec", CODECS)
def test_metadata_is_read_again(codec: str) -> None:
    assert column_layout(LAYOUT.metadata(codec), "it") == LAYOUT
    many = ColumnLayout({f"key {at}": at for at in range(9999)}, 1, {}, frozenset(), 0)
    assert column_layout(many.metadata(codec), "it") == many


@pytest.mark.parametrize("metadata", [None, {}, {b"PARQUET:field_id": b"1"}])
def test_other_columns_have_no_layout(metadata: dict[bytes, bytes] | None) -> None:
    assert column_layout(metadata, "it") is None


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (b"version", None),
        (b"field-dict", None),
        (b"field-dict", b"[]"),
        (b"field-dict", b'{"a":0}'),
        (b"field-dict-compression", b"zstd"),
        (b"field-dict-compression", b"lz4"),
        (b"field-dict-compression", b"snappy"),
        (b"field-dict-original-size", b"20"),
        (b"field-columns", b'{"0":[3]}'),
        (b"field-columns", b'{"x":[1]}'),
        (b"overflow-set", b"{"),
        (b"num-columns", b"many"),
        (b"max-row-width", b""),
    ],
)
def test_malformed_metadata_is_found_out(entry: bytes, value: bytes | None) -> None:
    metadata = LAYOUT.metadata("none")
    metadata.pop(PREFIX + entry)
    if value is not None:
        metadata[PREFIX + entry] = value
    with pytest.raises(CorruptData, match="file f: column 'm' is stored by its keys"):
        column_layout(metadata, "file f: column 'm'")


def test_keys_that_share_a_number_are_found_out() -> None:
    metadata = ColumnLayout({"a": 0, "b": 0}, 1, {0: [0]}, frozenset(), 1).metadata("zstd")
    with pytest.raises(CorruptData, match="share a number"):
        column_layout(metadata, "it")


def test_later_versions_are_refused() -> None:
    metadata = {**LAYOUT.metadata("zstd"), PREFIX + b"version": b"2"}
    with pytest.raises(Unsupported, match="version 2"):
        column_layout(metadata, "it")
