"""Bitmaps and sketches beside the states that Paimon's Java library makes of the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from pyroaring import BitMap64

from headwater.storage.merge.field_sketches import hll_union, roaring_union, theta_union

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


@pytest.mark.interop_java
def test_java_bitmaps_of_64_bits_have_a_form_of_their_own(
    java_gateways: Callable[[str], JavaGateway],
) -> None:
    """The reason to refuse ``rbm64``: the bytes are a Java tree's, not RoaringBitmap's format."""
    gateway = java_gateways("2.0.0")
    numbers = [1, 2**40]
    array = gateway.new_array(gateway.jvm.long, len(numbers))
    for at, value in enumerate(numbers):
        array[at] = value
    state = bytes(gateway.jvm.org.apache.paimon.utils.RoaringBitmap64.bitmapOf(array).serialize())
    assert state != BitMap64(numbers).serialize()
    assert len(state) != len(BitMap64(numbers).serialize())
    with pytest.raises(ValueError, match=r"deserializ"):
        BitMap64.deserialize(state)
