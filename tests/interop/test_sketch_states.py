"""Bitmaps and sketches beside the states that Paimon's Java library makes of the same ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.merge.field_sketches import hll_union, roaring_union, theta_union
from headwater.storage.merge.roaring64 import roaring64_union

from .conftest import TOKEN, Service
from .java_client import JavaClient

_SETS = [range(3), range(2, 5000), range(100_000, 100_900, 3), [7], range(0, 120_000, 2)]


def _ints(gateway: JavaGateway, values: Sequence[int]) -> Any:
    array = gateway.new_array(gateway.jvm.int, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array


def _without_probability(state: bytes) -> bytes:
    """A theta sketch without its sampling probability, which only Java writes."""
    is_theta = state[2] == 3
    return state[:12] + state[16:] if is_theta else state


@pytest.mark.interop_java
def test_unions_are_those_of_java(java_gateway: JavaGateway, java_version: str) -> None:
    utils = java_gateway.jvm.org.apache.paimon.utils
    small = [[*values][:300] for values in _SETS]
    sketches: Sequence[tuple[Any, Callable[[Sequence[bytes]], bytes]]] = [
        (utils.ThetaSketch, theta_union),
        (utils.HllSketchUtil, hll_union),
    ]
    for theirs, ours in sketches:
        states = [bytes(theirs.sketchOf(_ints(java_gateway, values))) for values in small]
        expected = states[0]
        for state in states[1:]:
            expected = bytes(theirs.union(expected, state))
        merged = ours(states)
        assert _without_probability(merged) == _without_probability(expected)
        # Ours with theirs, in their library.
        again = bytes(theirs.union(merged, states[0]))
        assert _without_probability(again) == _without_probability(expected)
    bitmaps = [utils.RoaringBitmap32.bitmapOf(_ints(java_gateway, values)) for values in small]
    states = [bytes(bitmap.serialize()) for bitmap in bitmaps]
    for bitmap in bitmaps[1:]:
        getattr(bitmaps[0], "or")(bitmap)
    assert roaring_union(states) == bytes(bitmaps[0].serialize())


# Sets of 64-bit numbers by their upper 48 and lower 16 bits: few keys and more than a node of each
# size has room for, at every depth of the tree; numbers as arrays, bits and runs.
_LOWS: Sequence[Sequence[int]] = [
    [0], [65535], [1, 2], [5, 6, 7, 8], range(0, 9000, 3), range(0, 8192, 2), range(0, 65536, 2),
    range(3, 40_000), range(65536), [*range(9, 3000), *range(5000, 60_000, 2)],
    [*range(0, 30, 3), *range(40, 60)], range(0, 60_000, 16), [*range(0, 9000, 2), 9001],
]  # fmt: skip


def _random_sets(random: Random) -> Iterator[list[int]]:
    """Sets that meet one another, as signed numbers of 64 bits."""
    stems = [random.getrandbits(48) for _ in range(4)]
    for _ in range(random.randint(2, 5)):
        highs: set[int] = set()
        for _ in range(random.randint(0, 4)):
            kept = random.choice([0, 8, 16, 24, 32, 40, 48])
            stem = random.choice(stems) >> kept << kept
            count = random.choice([1, 2, 4, 5, 16, 17, 48, 49, 130, 256])
            step = random.choice([1, 3, 256, 65_537])
            highs.update((stem + at * step) % 2**48 for at in range(count))
        numbers: list[int] = []
        for high in highs:
            dense = _LOWS if random.random() < 8 / len(highs) else _LOWS[:4]
            numbers.extend(high << 16 | low for low in random.choice(dense))
        yield [number - 2**64 if number >= 2**63 else number for number in numbers]


def _array(gateway: JavaGateway, numbers: Sequence[int]) -> Any:
    """An array of longs, all of which are sent at once."""
    sent = struct.pack(f">{len(numbers)}q", *numbers)
    array = gateway.new_array(gateway.jvm.long, len(numbers))
    gateway.jvm.java.nio.ByteBuffer.wrap(sent).asLongBuffer().get(array)
    return array


@pytest.mark.interop_java
def test_unions_of_64_bit_bitmaps_are_those_of_java(
    java_gateway: JavaGateway, java_version: str
) -> None:
    utils = java_gateway.jvm.org.apache.paimon.utils
    for seed in range(12):
        random = Random(seed)
        states = []
        for numbers in _random_sets(random):
            random.shuffle(numbers)
            bitmap = utils.RoaringBitmap64.bitmapOf(_array(java_gateway, numbers))
            states.append(bytes(bitmap.serialize()))
        expected = states[0]
        for state in states[1:]:
            merged, other = utils.RoaringBitmap64(), utils.RoaringBitmap64()
            merged.deserialize(expected)
            other.deserialize(state)
            getattr(merged, "or")(other)
            expected = bytes(merged.serialize())
        assert roaring64_union(states) == expected, seed


@pytest.mark.interop_java
def test_64_bit_bitmaps_keep_what_java_removed(
    java_gateways: Callable[[str], JavaGateway],
) -> None:
    """Nodes that shrank, lists with gaps and containers that were not compressed."""
    gateway = java_gateways("2.0.0")
    jvm = gateway.jvm
    kind = jvm.org.apache.paimon.shade.org.roaringbitmap.longlong.Roaring64Bitmap
    paimon = jvm.org.apache.paimon.utils.RoaringBitmap64

    def bitmap(random: Random) -> bytes:
        found = kind()
        sets = [*_random_sets(random)]
        for numbers in sets:
            found.add(_array(gateway, numbers))
        removed = kind()
        stay = 0.95 if random.random() < 0.5 else 0.3
        for numbers in sets:
            removed.add(
                _array(gateway, [each for each in numbers if hash(each >> 16) % 100 >= stay * 100])
            )
        found.andNot(removed)
        size = int(found.serializedSizeInBytes())
        buffer = jvm.java.nio.ByteBuffer.allocate(size)
        found.serialize(buffer)
        return bytes(buffer.array())

    for seed in range(12):
        random = Random(seed)
        states = [bitmap(random) for _ in range(3)]
        expected = states[0]
        for state in states[1:]:
            merged, other = paimon(), paimon()
            merged.deserialize(expected)
            other.deserialize(state)
            getattr(merged, "or")(other)
            expected = bytes(merged.serialize())
        assert roaring64_union(states) == expected, seed


@pytest.mark.interop_java
def test_tables_of_64_bit_bitmaps_are_merged_alike(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    """Each side reads what both wrote; Java's rows are copied from a table of ours."""
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("seen", pa.binary())])
    made = java_gateway.jvm.org.apache.paimon.utils.RoaringBitmap64

    def table(name: str, keys: Sequence[str] = (), **options: str) -> Table:
        name = f"interop.{name}_{client.label}"
        lake.drop_table(name, ignore_if_not_exists=True)
        return lake.create_table(name, schema, primary_keys=keys, options=options)

    merging = {
        "bucket": "1", "write-only": "true", "merge-engine": "aggregation",
        "fields.seen.aggregate-function": "rbm64",
    }  # fmt: skip
    ours, theirs = (table(f"bitmaps_{whose}", ["k"], **merging) for whose in ("ours", "theirs"))
    compacted = table("bitmaps_compacted", ["k"], **merging | {"write-only": "false"})
    random = Random(3)
    for number in range(4):
        states = [
            bytes(made.bitmapOf(_array(java_gateway, next(_random_sets(random)))).serialize())
            for _ in range(5)
        ]
        source = table(f"bitmaps_{number}")
        source.write(pa.table({"k": range(5), "seen": [*states[:4], None]}, schema))
        ours.write(source.scan().to_arrow())
        client.copy(source.name, theirs.name)
        client.copy(source.name, compacted.name)

    def rows(of: Table) -> list[tuple[int, bytes | None]]:
        return sorted(map(tuple, map(dict.values, of.scan().to_arrow().to_pylist())))

    merged = rows(ours)
    assert rows(theirs) == merged
    read = table("bitmaps_read")
    client.copy(ours.name, read.name)
    assert rows(read) == merged
    for each in (ours, theirs):
        each.compact(full=True)
        assert rows(each) == merged
    # Compacted by Java, and once more on top of what ours adds to that.
    client.compact(compacted.name)
    assert rows(compacted) == merged
    assert [file.level for file in compacted.files()] == [5]
    added = bytes(made.bitmapOf(_array(java_gateway, [-1, 2**40])).serialize())
    for each in (ours, compacted):
        each.write(pa.table({"k": [1, 4], "seen": [added, added]}, schema))
    merged = rows(ours)
    assert rows(compacted) == merged
    client.compact(compacted.name)
    assert rows(compacted) == merged
    assert [file.level for file in compacted.files()] == [5]
