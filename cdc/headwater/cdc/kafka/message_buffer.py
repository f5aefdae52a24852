"""Messages that have come and are not in a batch yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.cdc.kafka.events import Messages
from headwater.cdc.kafka.positions import Partition

__all__ = ["MessageBuffer"]


class MessageBuffer:
    """Messages that have come, those of a partition in their order.

    Attributes:
        size: How many bytes they have.
        read: The partitions that are read.
        has_dropped: Whether messages that have come were dropped.
    """

    def __init__(self) -> None:
        self.read: set[Partition] = set()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.size = 0
        self.has_dropped = False
        self._parts: list[Messages] = []
        # Where partitions ended when they were read to their ends.
        self._ends: dict[Partition, int] = {}
        self._at_end: set[Partition] = set()

    @property
    def is_at_end(self) -> bool:
        """Whether all partitions were read to their ends, and nothing is left here."""
        return not self._parts and self._at_end >= self.read

    def add(self, messages: list[Any], ends: Mapping[Partition, int]) -> bool:
        """Add messages of the client, and the ends of partitions; whether there was anything.

        The client makes an object for each message: their parts are taken out here, once.
        """
        if messages:
            names = [message.topic() for message in messages]
            topics = sorted(set(names))
            numbers = {name: number for number, name in enumerate(topics)}
            part = Messages(
                topics,
                np.fromiter(map(numbers.__getitem__, names), np.int32, len(names)),
                np.fromiter((each.partition() for each in messages), np.int32, len(names)),
                np.fromiter((each.offset() for each in messages), np.int64, len(names)),
                [message.key() for message in messages],
                [message.value() for message in messages],
            )
            self._parts.append(part)
            self.size += part.size
            self._at_end -= part.ends().keys()
        self._ends.update(ends)
        self._at_end |= ends.keys()
        return bool(messages or ends)

    def taken(self) -> Messages:
        """Take all messages out."""
        parts, self._parts, self.size = self._parts, [], 0
        return Messages.joined(parts)

    def put_back(self, messages: Messages, done: int) -> None:
        """Put the messages that are behind some of them back."""
        rest = messages.slice(done, len(messages))
        self._parts.insert(0, rest)
        self.size += rest.size

    def ends_after(self, messages: Messages, done: int) -> dict[Partition, int]:
        """The next offset of each partition after some messages that were taken out."""
        ends = messages.slice(0, done).ends()
        if done < len(messages):
            return ends
        for at, offset in self._ends.items():
            ends[at] = max(ends.get(at, 0), offset)
        self._ends = {}
        return ends

    # Until a position -------------------------------------------------------------------------

    def has_reached(self, goal: Mapping[Partition, int]) -> bool:
        """Whether all messages before some offsets have come."""
        reached = self._reached()
        return all(reached.get(at, 0) >= offset for at, offset in goal.items())

    def drop_from(self, goal: Mapping[Partition, int]) -> None:
        """Drop what came last from some offsets on, but note that all before them has come."""
        if self._parts:
            part = self._parts.pop()
            limits = np.zeros(len(part), np.int64)
            for at, rows in part.by_partition().items():
                limits[rows] = goal[at]
                if int(part.offset[rows].max()) >= goal[at]:
                    self._ends[at] = goal[at]
            left = part.take(np.flatnonzero(part.offset < limits))
            self._parts.append(left)
            self.size += left.size - part.size
            self.has_dropped |= len(left) < len(part)
        for partition in self._ends.keys() & goal.keys():
            self._ends[partition] = min(self._ends[partition], goal[partition])

    def ended_before(self, goal: Mapping[Partition, int]) -> dict[Partition, int]:
        """Partitions that ended before some offsets."""
        at_end = self._at_end & self._ends.keys() & goal.keys()
        return {
            partition: self._ends[partition]
            for partition in at_end
            if self._ends[partition] < goal[partition]
        }

    def _reached(self) -> dict[Partition, int]:
        reached = dict(self._ends)
        for part in self._parts:
            for at, offset in part.ends().items():
                reached[at] = max(reached.get(at, 0), offset)
        return reached
