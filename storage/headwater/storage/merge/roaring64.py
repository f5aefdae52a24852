"""Bitmaps of 64-bit numbers in the bytes of Java's ``Roaring64Bitmap``, and their union.

These bytes are no portable form but Java's objects as they lie in memory. A radix tree holds the
upper 48 bits of the numbers, in nodes of four sizes; its leaves point into a list of containers,
which hold the lower 16 bits. The bytes of a union depend on more than its numbers: on the order in
which keys came, on the room in the list, on what was removed from a bitmap before. All of it is
kept, so that a union's bytes are those that Java writes.

Source: RoaringBitmap 1.2.1, which Paimon 2.0.0 has: ``HighLowContainer.java``, ``Containers.java``,
``Art.java`` and ``Node*.java``; ``RoaringBitmap64.java`` of Paimon, which compresses runs at last.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from headwater.storage.merge.roaring_containers import (
    Container,
    ContainerKind,
    check_numbers,
    compressed,
    united,
)

__all__ = ["roaring64_union"]

_KEY_BYTES = 6
# The kinds of nodes, by their numbers in the bytes, and the most children of each.
_SMALL, _MEDIUM, _LARGE, _FULL, _LEAF = range(5)
_MOST_CHILDREN = (4, 16, 48, 256)
_BODY_BYTES = (4, 16, 256, 32)
_NO_SLOT = 0xFF
_NODE = struct.Struct("<BHb")
_LONG = struct.Struct("<q")
_LIST = struct.Struct("<ibi")
_CONTAINER = struct.Struct("<BBi")
_END = struct.Struct("<qii")
# A list of containers whose end was not cut off, the only kind that Java writes.
_NOT_TRIMMED = -2


def roaring64_union(states: Sequence[bytes]) -> bytes:
    """The union of bitmaps of 64-bit numbers, two at a time as in Paimon.

    Raises:
        ValueError: Bytes are none of a ``Roaring64Bitmap``.
    """
    bitmap, *others = (_Bitmap.decoded(state) for state in states)
    for other in others:
        bitmap.add(other)
    return bitmap.encoded()


@dataclass(slots=True, eq=False)
class _Leaf:
    """A key's end.

    Attributes:
        key: The key, six bytes.
        place: The place of its container.
        prefix: The path of a node that lost all its other children; it says nothing.
    """

    key: bytes
    place: int
    prefix: bytes = b""


@dataclass(slots=True, eq=False)
class _Inner:
    """A node, by the next byte of the keys.

    Attributes:
        kind: Its size.
        prefix: The bytes that all its keys have in common, before that byte.
        children: The nodes below it.
        rest: Of the small kinds, the bytes in the room for further children.
        slots: Of the large kind, the place of each child among the node's 48.
    """

    kind: int
    prefix: bytes
    children: dict[int, _Leaf | _Inner]
    rest: bytes = b""
    slots: dict[int, int] | None = None

    def put(self, byte: int, leaf: _Leaf) -> None:
        """Add a child, and grow if there is no room."""
        if len(self.children) == _MOST_CHILDREN[self.kind]:
            self.kind += 1
            self.slots = None
            if self.kind == _MEDIUM:
                self.rest = bytes(_MOST_CHILDREN[_MEDIUM] - len(self.children))
            elif self.kind == _LARGE:
                self.slots = {each: slot for slot, each in enumerate(sorted(self.children))}
        if self.slots is not None:
            taken = self.slots.values()
            slot = len(taken)
            if slot in taken:
                slot = min(set(range(slot)).difference(taken))
            self.slots[byte] = slot
        self.rest = self.rest[1:]
        self.children[byte] = leaf

    def body(self) -> bytes:
        """The bytes that say which children there are."""
        if self.kind == _FULL:
            return sum(1 << byte for byte in self.children).to_bytes(32, "little")
        if self.slots is not None:
            slots = bytearray([_NO_SLOT]) * 256
            for byte, slot in self.slots.items():
                slots[byte] = slot
            return _turned(bytes(slots))
        return _turned(bytes(sorted(self.children)) + self.rest)


def _turned(data: bytes) -> bytes:
    """Bytes as the words of a Java object have them in little-endian order: each eight turned."""
    return b"".join(data[at : at + 8][::-1] for at in range(0, len(data), 8))


def _common(left: bytes, right: bytes) -> int:
    """The number of bytes with which both begin."""
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return at
    return min(len(left), len(right))


def _grown(node: _Leaf | _Inner, leaf: _Leaf, depth: int) -> _Leaf | _Inner:
    """A node with one more leaf below it, whose key is not there yet (``Art.insert``).

    Args:
        node: The node.
        leaf: The leaf.
        depth: The number of the key's bytes that led to the node.
    """
    key = leaf.key
    own = node.key[depth:] if isinstance(node, _Leaf) else node.prefix
    same = _common(own, key[depth:]) if own else 0
    if isinstance(node, _Leaf) or same < len(own):
        rest = bytes(_MOST_CHILDREN[_SMALL] - 2)
        branch = {own[same]: node, key[depth + same]: leaf}
        node.prefix = b"" if isinstance(node, _Leaf) else own[same + 1 :]
        return _Inner(_SMALL, own[:same], branch, rest)
    depth += same
    child = node.children.get(key[depth])
    if child is None:
        node.put(key[depth], leaf)
    else:
        node.children[key[depth]] = _grown(child, leaf, depth + 1)
    return node


def _nodes(root: _Leaf | _Inner) -> Iterator[_Leaf | _Inner]:
    """A tree's nodes as they are stored: each before its children, these by their bytes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _Inner):
            waiting.extend(node.children[byte] for byte in sorted(node.children, reverse=True))


class _Bitmap:
    """A bitmap, mutable.

    Attributes:
        root: The tree of its keys; None if it is empty.
        places: The places of the containers, by key, ascending in what was decoded.
        containers: The list of containers, with None where there is none.
        last: The place that was given last.
        loose: The places of containers that were not compressed yet.
    """

    def __init__(self) -> None:
        self.root: _Leaf | _Inner | None = None
        self.places: dict[bytes, int] = {}
        self.containers: list[Container | None] = []
        self.last = -1
        self.loose: set[int] = set()

    @staticmethod
    def decoded(state: bytes) -> _Bitmap:
        """The bitmap that bytes hold; raises ValueError if they are damaged."""
        return _Decoder(state).bitmap()

    def add(self, other: _Bitmap) -> None:
        """Add another bitmap's numbers."""
        shared: list[tuple[int, Container, Container]] = []
        for key, place in other.places.items():
            theirs = other.containers[place]
            assert theirs is not None
            there = self.places.get(key)
            if there is None:
                self._put(key, theirs)
            else:
                ours = self.containers[there]
                assert ours is not None
                shared.append((there, ours, theirs))
        merged = united([ours for _, ours, _ in shared], [theirs for *_, theirs in shared])
        for (place, *_), container in zip(shared, merged, strict=True):
            self.containers[place] = container
        loose = self.loose.difference(place for place, *_ in shared)
        held = [(place, each) for place in loose if (each := self.containers[place]) is not None]
        for (place, _), container in zip(held, compressed([it for _, it in held]), strict=True):
            self.containers[place] = container
        self.loose = set()

    def _put(self, key: bytes, container: Container) -> None:
        self.last += 1
        if self.last >= len(self.containers):
            # Java's list grows by half.
            room = max(self.last + 1, len(self.containers) + (len(self.containers) >> 1))
            self.containers.extend([None] * (room - len(self.containers)))
        self.containers[self.last] = container
        self.loose.add(self.last)
        self.places[key] = self.last
        leaf = _Leaf(key, self.last)
        self.root = leaf if self.root is None else _grown(self.root, leaf, 0)

    def encoded(self) -> bytes:
        """The bitmap's bytes."""
        if self.root is None:
            return b"\0"
        parts = [b"\1", _LONG.pack(len(self.places))]
        for node in _nodes(self.root):
            if isinstance(node, _Leaf):
                parts += [_NODE.pack(_LEAF, 0, len(node.prefix)), node.prefix]
                parts += [node.key, _LONG.pack(node.place)]
            else:
                parts.append(_NODE.pack(node.kind, len(node.children), len(node.prefix)))
                parts += [node.prefix, node.body()]
        parts.append(_LIST.pack(1, _NOT_TRIMMED, len(self.containers)))
        for each in self.containers:
            if each is None:
                parts.append(b"\0")
            else:
                parts += [_CONTAINER.pack(1, each.kind, each.size), each.data]
        parts.append(_END.pack(len(self.places), 0, self.last))
        return b"".join(parts)


class _Decoder:
    """A bitmap's bytes, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def bitmap(self) -> _Bitmap:
        bitmap = _Bitmap()
        (filled,) = self._take(1)
        if not filled:
            self._end()
            return bitmap
        if filled != 1:
            self._fail(f"it begins with {filled}")
        (keys,) = self._unpack(_LONG)
        bitmap.root = self._node(b"", bitmap.places)
        bitmap.containers = self._containers()
        size, first, bitmap.last = self._unpack(_END)
        self._end()
        there = [place for place, each in enumerate(bitmap.containers) if each is not None]
        if not keys == size == len(bitmap.places) or sorted(bitmap.places.values()) != there:
            self._fail("keys and containers are not the same")
        if first != 0 or not there[-1] <= bitmap.last < len(bitmap.containers):
            self._fail("its list of containers ends elsewhere")
        check_numbers([each for each in bitmap.containers if each is not None])
        bitmap.loose = set(there)
        return bitmap

    def _node(self, path: bytes, places: dict[bytes, int]) -> _Leaf | _Inner:
        """The node that comes next, with all that is below it."""
        kind, count, length = self._unpack(_NODE)
        if not 0 <= length <= _KEY_BYTES or kind > _LEAF:
            self._fail(f"its tree has a node of kind {kind} with a prefix of {length} bytes")
        prefix = self._take(length)
        if kind == _LEAF:
            key = self._take(_KEY_BYTES)
            (place,) = self._unpack(_LONG)
            if not key.startswith(path) or count:
                self._fail("a key is at the wrong place of its tree")
            places[key] = place
            return _Leaf(key, place, prefix)
        path += prefix
        body = self._take(_BODY_BYTES[kind])
        node = _Inner(kind, prefix, {})
        if kind == _FULL:
            bits = int.from_bytes(body, "little")
            found = [byte for byte in range(256) if bits >> byte & 1]
        elif kind == _LARGE:
            node.slots = {byte: slot for byte, slot in enumerate(_turned(body)) if slot != _NO_SLOT}
            found = list(node.slots)
            if not set(node.slots.values()) <= set(range(_MOST_CHILDREN[_LARGE])):
                self._fail("a child is outside of its node")
            if len(set(node.slots.values())) != len(found):
                self._fail("two children are at one place of their node")
        else:
            body = _turned(body)
            found, node.rest = list(body[:count]), body[count:]
        ascends = all(one < other for one, other in pairwise(found))
        # The longest path to a node ends before the last byte of a key.
        if len(found) != count or count < 2 or not ascends or len(path) >= _KEY_BYTES:
            self._fail(f"its tree has a node of kind {kind} that does not hold {count} children")
        for byte in found:
            node.children[byte] = self._node(path + bytes([byte]), places)
        return node

    def _containers(self) -> list[Container | None]:
        lists, mark, size = self._unpack(_LIST)
        if lists != 1 or mark != _NOT_TRIMMED or not 0 < size <= len(self._data) - self._at:
            self._fail(f"it has {lists} lists of containers, the first of {size}")
        data, at, found = self._data, self._at, list[Container | None]()
        for _ in range(size):
            if data[at : at + 1] == b"\0":
                found.append(None)
                at += 1
                continue
            self._at = at
            there, number, count = self._unpack(_CONTAINER)
            if there != 1:
                self._fail(f"a container is marked with {there}")
            at = self._at + Container.length(number, count, data, self._at)
            if at > len(data):
                self._fail("it ends too soon")
            found.append(Container(ContainerKind(number), count, data[self._at : at]))
        self._at = at
        return found

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            self._fail("it ends too soon")
        self._at += length
        return taken

    def _unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self._take(form.size))

    def _end(self) -> None:
        if self._at < len(self._data):
            self._fail(f"{len(self._data) - self._at} bytes follow its end")

    def _fail(self, what: str) -> NoReturn:
        raise ValueError(f"no Roaring64Bitmap of Java at byte {self._at}: {what}")
