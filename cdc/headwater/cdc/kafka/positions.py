"""Positions in the topics of a Kafka cluster: the next offset of each partition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.cdc.source.positions import Position, of_different_servers
from headwater.storage.errors import Invalid

__all__ = ["Partition", "TopicOffsets", "TopicPosition"]

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""


@dataclass(frozen=True)
class TopicOffsets:
    """What was read of a topic.

    Attributes:
        id: The topic's id, which another topic of its name does not have; empty where the cluster
            has no ids.
        offsets: The next offset of each partition, by its number. Partitions behind these were not
            there, and are read from their beginning.
    """

    id: str
    offsets: tuple[int, ...]

    def offset(self, partition: int) -> int:
        """The next offset of a partition."""
        return self.offsets[partition] if partition < len(self.offsets) else 0

    def moved(self, partition: int, offset: int) -> TopicOffsets:
        """The same with another next offset of a partition."""
        offsets = [*self.offsets, *[0] * (partition + 1 - len(self.offsets))]
        offsets[partition] = offset
        return replace(self, offsets=tuple(offsets))


@dataclass(frozen=True)
class TopicPosition:
    """The messages of a cluster that were read: in each partition those before an offset.

    As text it is JSON: ``{"cluster":"…","topics":{"shop":["topic id",[12,7]]}}``.

    Attributes:
        cluster: The cluster's id.
        topics: The topics by their names.
    """

    cluster: str
    topics: Mapping[str, TopicOffsets] = field(default_factory=dict)

    @staticmethod
    def from_text(text: str) -> TopicPosition:
        """Read a position as it writes itself; Invalid."""
        try:
            match json.loads(text):
                case {"cluster": str(cluster), "topics": dict(topics), **rest} if not rest:
                    return TopicPosition(
                        cluster, {name: _offsets(value) for name, value in topics.items()}
                    )
        except ValueError:
            pass
        raise Invalid(
            f"'{text[:100]}' is not a position in topics of Kafka; expected a cluster and the next "
            'offsets of its topics, such as {"cluster":"a","topics":{"shop":["id",[12,7]]}}'
        )

    def __str__(self) -> str:
        topics = {name: [topic.id, topic.offsets] for name, topic in sorted(self.topics.items())}
        return json.dumps({"cluster": self.cluster, "topics": topics}, separators=(",", ":"))

    def contains(self, other: Position) -> bool:
        """Whether all messages of the other position are in this one.

        False for a position of another cluster, or of a topic that was created again.
        """
        if not isinstance(other, TopicPosition) or self.cluster != other.cluster:
            return False
        for name, topic in other.topics.items():
            own = self.topics.get(name)
            if own is None or own.id != topic.id:
                return False
            if any(own.offset(at) < offset for at, offset in enumerate(topic.offsets)):
                return False
        return True

    def union(self, other: Position) -> TopicPosition:
        """The messages of both positions.

        Raises:
            Invalid: They are of different clusters, or of different topics of one name.
        """
        if not isinstance(other, TopicPosition) or self.cluster != other.cluster:
            raise of_different_servers(self, other)
        topics = dict(self.topics)
        for name, topic in other.topics.items():
            own = topics.setdefault(name, topic)
            if own.id != topic.id:
                raise of_different_servers(self, other)
            count = max(len(own.offsets), len(topic.offsets))
            offsets = (max(own.offset(at), topic.offset(at)) for at in range(count))
            topics[name] = replace(own, offsets=tuple(offsets))
        return TopicPosition(self.cluster, topics)

    def moved(self, offsets: Mapping[Partition, int]) -> TopicPosition:
        """The same with other next offsets of some partitions, whose topics it has."""
        topics = dict(self.topics)
        for (name, partition), offset in offsets.items():
            topics[name] = topics[name].moved(partition, offset)
        return TopicPosition(self.cluster, topics)

    def partitions(self) -> dict[Partition, int]:
        """The next offset of each partition."""
        return {
            (name, at): offset
            for name, topic in self.topics.items()
            for at, offset in enumerate(topic.offsets)
        }


def _offsets(value: object) -> TopicOffsets:
    match value:
        case [str(id_), list(offsets)] if all(isinstance(offset, int) for offset in offsets):
            return TopicOffsets(id_, tuple(offsets))
    raise ValueError(value)
