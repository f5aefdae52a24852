"""The containers of Roaring bitmaps: up to 65,536 numbers as an array, as bits or as runs.

Which of the three holds a union's numbers is Java's choice here (RoaringBitmap 1.2.1,
``ArrayContainer.java``, ``BitmapContainer.java`` and ``RunContainer.java``): it depends on the
kinds that meet. The numbers are united by CRoaring, in RoaringBitmap's portable form of 32 bits,
whose containers have the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

__all__ = ["Container", "ContainerKind", "check_numbers", "compressed", "united"]

_BITS_BYTES = 8192
_MOST_IN_ARRAY = 4096
# The runs that take fewer bytes than bits do.
_MOST_RUNS = (_BITS_BYTES - 2) // 4
# The portable form.
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_FEWEST_RUNS_WITH_OFFSETS = 4
_MOST_TOGETHER = 1 << 16
_SHORT, _INT = struct.Struct("<H"), struct.Struct("<I")


class ContainerKind(IntEnum):
    """The kinds of containers, by their numbers in Java's bytes."""

    RUNS = 0
    BITS = 1
    ARRAY = 2


class Container(NamedTuple):
    """Numbers below 65,536.

    Attributes:
        kind: Their form.
        size: Their number.
        data: Their bytes, in little-endian order: of an array the numbers, of bits 1,024 words, of
            runs their count and each one's first number and length less one.
    """

    kind: ContainerKind
    size: int
    data: bytes

    @staticmethod
    def length(kind: int, count: int, data: bytes, at: int) -> int:
        """The bytes that a container takes from a place in `data` on.

        Raises:
            ValueError: There is no such kind, or it does not hold so many numbers.
        """
        if kind == ContainerKind.ARRAY and 0 < count <= _MOST_IN_ARRAY:
            return 2 * count
        if kind == ContainerKind.BITS and _MOST_IN_ARRAY < count <= _MOST_TOGETHER:
            return _BITS_BYTES
        if kind == ContainerKind.RUNS and 0 < count <= _MOST_TOGETHER:
            return 2 + 4 * int.from_bytes(data[at : at + 2], "little")
        raise ValueError(f"a container of kind {kind} for {count} numbers")


def check_numbers(containers: Sequence[Container]) -> None:
    """Raise ValueError unless the numbers of containers ascend and are as many as they say."""
    arrays = [each for each in containers if each.kind is ContainerKind.ARRAY]
    if arrays:
        numbers, starts = _joined(arrays)
        steps = np.diff(numbers.astype(np.int32), prepend=-1)
        steps[starts] = 1
        if (steps <= 0).any():
            raise ValueError("the numbers of an array do not ascend")
    runs = [each for each in containers if each.kind is ContainerKind.RUNS]
    if any(len(each.data) == _SHORT.size for each in runs):
        raise ValueError("a container has no runs")
    if runs:
        pairs, starts = _joined(runs, skip=2)
        first, more = pairs[::2].astype(np.int32), pairs[1::2].astype(np.int32)
        last = first + more
        ends_before = np.concatenate([[-1], last[:-1]])
        ends_before[starts // 2] = -1
        if (first <= ends_before).any() or last.max() >= _MOST_TOGETHER:
            raise ValueError("the runs of a container overlap")
        counts = np.add.reduceat(more + 1, starts // 2)
        if (counts != [each.size for each in runs]).any():
            raise ValueError("runs hold more or fewer numbers than their container")
    for each in containers:
        if each.kind is ContainerKind.BITS:
            bits = np.bitwise_count(np.frombuffer(each.data, "<u8"))
            if int(bits.sum(dtype=np.int64)) != each.size:
                raise ValueError("bits hold more or fewer numbers than their container")


def compressed(containers: Sequence[Container]) -> list[Container]:
    """The containers, each as runs where these are smaller (``runOptimize``)."""
    found = list(containers)
    at = [place for place, each in enumerate(found) if each.kind is ContainerKind.ARRAY]
    arrays = [found[place] for place in at]
    for place, each, runs in zip(at, arrays, _run_counts(arrays), strict=True):
        if 2 * each.size > 2 + 4 * runs:
            found[place] = _as_runs(each)
    for place, each in enumerate(found):
        if each.kind is ContainerKind.BITS and _runs_of_bits(each) <= _MOST_RUNS:
            found[place] = _as_runs(each)
    return found


def united(left: Sequence[Container], right: Sequence[Container]) -> list[Container]:
    """The unions of the containers at the same places, compressed."""
    found: list[Container] = []
    for start in range(0, len(left), _MOST_TOGETHER):
        part = slice(start, start + _MOST_TOGETHER)
        both = BitMap.deserialize(_portable(left[part])) | BitMap.deserialize(
            _portable(right[part])
        )
        both.run_optimize()
        found.extend(_containers(both.serialize()))
    # The kind of few numbers is another here and there: Java keeps runs once they are.
    few = [place for place, each in enumerate(found) if each.size <= _MOST_IN_ARRAY]
    for place, runs in zip(few, _run_counts([found[place] for place in few]), strict=True):
        each = found[place]
        were_runs = ContainerKind.RUNS in (left[place].kind, right[place].kind)
        if 4 * runs <= 2 * each.size if were_runs else 2 + 4 * runs < 2 * each.size:
            found[place] = _as_runs(each)
        elif each.kind is ContainerKind.RUNS:
            numbers = _numbers(each).astype("<u2")
            found[place] = Container(ContainerKind.ARRAY, each.size, numbers.tobytes())
    return found


def _joined(
    containers: Sequence[Container], *, skip: int = 0
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """The short numbers in the bytes of containers, and where each one's begin."""
    parts = [each.data[skip:] for each in containers]
    starts = np.cumsum([0, *(len(part) // 2 for part in parts[:-1])])
    return np.frombuffer(b"".join(parts), "<u2"), starts


def _run_counts(containers: Sequence[Container]) -> list[int]:
    """The number of runs in arrays and runs."""
    found = [int.from_bytes(each.data[:2], "little") for each in containers]
    at = [place for place, each in enumerate(containers) if each.kind is ContainerKind.ARRAY]
    if at:
        numbers, starts = _joined([containers[place] for place in at])
        begins = np.diff(numbers.astype(np.int32), prepend=-2) != 1
        begins[starts] = True
        counts = np.add.reduceat(begins, starts, dtype=np.int64)
        for place, count in zip(at, counts.tolist(), strict=True):
            found[place] = count
    return found


def _runs_of_bits(container: Container) -> int:
    words = np.frombuffer(container.data, "<u8")
    before = np.concatenate([np.zeros(1, np.uint64), words[:-1] >> np.uint64(63)])
    begins = words & ~(words << np.uint64(1) | before)
    return int(np.bitwise_count(begins).sum(dtype=np.int64))


def _numbers(container: Container) -> npt.NDArray[np.int64]:
    """The numbers in a container, ascending."""
    if container.kind is ContainerKind.BITS:
        bits = np.unpackbits(np.frombuffer(container.data, np.uint8), bitorder="little")
        return np.arange(_MOST_TOGETHER)[bits.view(np.bool_)]
    if container.kind is ContainerKind.ARRAY:
        return np.frombuffer(container.data, "<u2").astype(np.int64)
    pairs = np.frombuffer(container.data, "<u2", offset=2).astype(np.int64)
    first, lengths = pairs[::2], pairs[1::2] + 1
    begins = np.cumsum(lengths) - lengths
    shifts: npt.NDArray[np.int64] = np.repeat(first - begins, lengths)
    return np.arange(int(lengths.sum()), dtype=np.int64) + shifts


def _as_runs(container: Container) -> Container:
    if container.kind is ContainerKind.RUNS:
        return container
    numbers = _numbers(container)
    at = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
    lengths = np.diff(at, append=len(numbers))
    pairs = np.stack([numbers[at], lengths - 1], axis=1).astype("<u2")
    data = _SHORT.pack(len(at)) + pairs.tobytes()
    return Container(ContainerKind.RUNS, container.size, data)


def _portable(containers: Sequence[Container]) -> bytes:
    """Containers as one bitmap of 32-bit numbers, whose upper halves are their places."""
    size = len(containers)
    runs = np.array([each.kind is ContainerKind.RUNS for each in containers])
    has_offsets = True
    if runs.any():
        flags = np.packbits(runs, bitorder="little").tobytes()
        head = _INT.pack(_WITH_RUNS | (size - 1) << 16) + flags
        has_offsets = size >= _FEWEST_RUNS_WITH_OFFSETS
    else:
        head = _INT.pack(_WITHOUT_RUNS) + _INT.pack(size)
    less_one = [each.size - 1 for each in containers]
    described = np.stack([np.arange(size), less_one], axis=1).astype("<u2").tobytes()
    offsets = b""
    if has_offsets:
        start = len(head) + len(described) + 4 * size
        lengths = [len(each.data) for each in containers[:-1]]
        offsets = np.cumsum([start, *lengths]).astype("<u4").tobytes()
    return b"".join([head, described, offsets, *(each.data for each in containers)])


def _containers(portable: bytes) -> Iterator[Container]:
    """The containers of a bitmap of 32-bit numbers, in order."""
    (cookie,) = _INT.unpack_from(portable)
    if cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        at = 4 + (size + 7) // 8
        packed = np.frombuffer(portable, np.uint8, at - 4, 4)
        runs = np.unpackbits(packed, count=size, bitorder="little").tolist()
        has_offsets = size >= _FEWEST_RUNS_WITH_OFFSETS
    else:
        (size,) = _INT.unpack_from(portable, 4)
        at, runs, has_offsets = 8, [0] * size, True
    described = np.frombuffer(portable, "<u2", 2 * size, at)[1::2]
    at += 4 * size * (2 if has_offsets else 1)
    for is_runs, less_one in zip(runs, described.tolist(), strict=True):
        count = less_one + 1
        kind = ContainerKind.ARRAY if count <= _MOST_IN_ARRAY else ContainerKind.BITS
        if is_runs:
            kind = ContainerKind.RUNS
        end = at + Container.length(kind, count, portable, at)
        yield Container(kind, count, portable[at:end])
        at = end
