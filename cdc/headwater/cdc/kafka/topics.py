"""The topics that a pipeline reads: those that are there, from which offsets on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin._listoffsets import OffsetSpec

from headwater.cdc.ddl import Change
from headwater.cdc.kafka.cluster import Cluster
from headwater.cdc.kafka.options import KafkaOptions, StartupMode
from headwater.cdc.kafka.positions import Partition, TopicOffsets, TopicPosition
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Conflict, Invalid, NotFound, Unavailable, Unsupported

__all__ = ["Topics", "TopicsFound"]

_START_AGAIN = "begin again where the topics begin now: headwater cdc resnapshot --all --replace"


@dataclass(frozen=True, slots=True)
class TopicsFound(Change):
    """Topics that are read from a position on.

    Attributes:
        topics: Their names.
    """

    topics: tuple[str, ...]

    @property
    def tables(self) -> tuple[TableName, ...]:
        """None: their messages tell which."""
        return ()


class Topics:
    """The topics that are read.

    Args:
        cluster: The cluster.
        options: Which topics, and where a new pipeline begins.
    """

    def __init__(self, cluster: Cluster, options: KafkaOptions) -> None:
        self._cluster, self._options = cluster, options
        self._cluster_id, self._counts = self._looked_up()

    def _looked_up(self) -> tuple[str, Mapping[str, int]]:
        cluster_id, topics = self._cluster.topics()
        return cluster_id, {
            name: count for name, count in topics.items() if self._options.has_topic(name)
        }

    @property
    def names(self) -> list[str]:
        """The topics that are there."""
        return sorted(self._counts)

    @property
    def missing(self) -> list[str]:
        """Topics that were named and are not there."""
        return sorted(set(self._options.topics) - self._counts.keys())

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has."""
        return self._counts.get(topic, 1)

    def partitions(self, position: TopicPosition) -> dict[Partition, int]:
        """The partitions that are read, each with the offset to go on at."""
        return {
            (name, number): topic.offset(number)
            for name, topic in position.topics.items()
            for number in range(self._counts.get(name, 0))
        }

    # Positions --------------------------------------------------------------------------------

    def start(self) -> TopicPosition:
        """The position where a new pipeline begins."""
        mode = self._options.mode
        if mode is StartupMode.SPECIFIC:
            return self._specific()
        spec = {
            StartupMode.EARLIEST: OffsetSpec.earliest(),
            StartupMode.LATEST: OffsetSpec.latest(),
        }.get(mode)
        if spec is not None:
            return self._at(self.names, spec)
        # Where nothing is as late as the timestamp, the end.
        end = self._at(self.names, OffsetSpec.latest())
        later = self._at(self.names, OffsetSpec.for_timestamp(self._options.millis))
        return end.moved({at: offset for at, offset in later.partitions().items() if offset >= 0})

    def end(self) -> TopicPosition:
        """The position that the topics have reached."""
        self._cluster_id, self._counts = self._looked_up()
        return self._at(self.names, OffsetSpec.latest())

    def _at(self, names: list[str], spec: OffsetSpec) -> TopicPosition:
        ids = self._cluster.topic_ids(names)
        partitions = [(name, at) for name in names for at in range(self._counts[name])]
        offsets = self._cluster.offsets(partitions, spec)
        topics = {
            name: TopicOffsets(
                ids.get(name, ""),
                tuple(offsets[name, at] for at in range(self._counts[name])),
            )
            for name in names
        }
        return TopicPosition(self._cluster_id, topics)

    def _specific(self) -> TopicPosition:
        start = self._at(self.names, OffsetSpec.earliest())
        end = self._at(self.names, OffsetSpec.latest())
        offsets = {(self.names[0], at): offset for at, offset in self._options.offsets.items()}
        partitions = start.partitions()
        for (name, at), offset in offsets.items():
            if (name, at) not in partitions:
                raise Invalid(f"topic '{name}' has no partition {at}; name one that it has")
            first, last = partitions[name, at], end.topics[name].offset(at)
            if not first <= offset <= last:
                raise Invalid(
                    f"partition {at} of topic '{name}' has the offsets {first} to {last}, and not "
                    f"{offset}; name one of these"
                )
        return start.moved(offsets)

    def look(self, position: TopicPosition) -> TopicPosition:
        """The position with the topics that are there now; new ones are read from their beginning.

        Raises:
            Conflict, NotFound: See `check_ids`.
        """
        _, self._counts = self._looked_up()
        new = [name for name in self.names if name not in position.topics]
        if not new:
            return position
        beginnings = self._at(new, OffsetSpec.earliest())
        return TopicPosition(position.cluster, {**position.topics, **beginnings.topics})

    # What was lost ----------------------------------------------------------------------------

    def check_ids(self, position: TopicPosition) -> None:
        """Check that topics are those that were read.

        Raises:
            Conflict: One was created again.
            NotFound: One is not there any more.
        """
        names = [name for name in position.topics if self._options.has_topic(name)]
        ids = self._cluster.topic_ids(names)
        for name in names:
            if name not in ids:
                # Those of a pattern may go.
                if name in self._options.topics:
                    raise NotFound(
                        f"topic '{name}' is not at the source at {self._cluster.address} any more; "
                        "leave it out"
                    )
                continue
            if ids[name] != position.topics[name].id:
                raise Conflict(
                    f"topic '{name}' at the source at {self._cluster.address} was deleted and "
                    f"created again (its id was {position.topics[name].id} and is {ids[name]}); "
                    f"{_START_AGAIN}"
                )

    def check_holds(self, position: TopicPosition) -> None:
        """Check that all messages after a position are there, and those before it were.

        Raises:
            Conflict: It is of another cluster, a topic was created again, or lacks what was read.
            NotFound: Messages after it were purged, or a topic is not there.
        """
        where = f"the source at {self._cluster.address}"
        if position.cluster != self._cluster_id:
            raise Conflict(
                f"{where} is cluster '{self._cluster_id}', and '{position.cluster}' was read "
                f"before; connect to that one, or {_START_AGAIN}"
            )
        self.check_ids(position)
        if self.missing:
            raise NotFound(f"topic '{self.missing[0]}' is not at {where}; leave it out")
        wanted = self.partitions(position)
        firsts = self._cluster.offsets(wanted, OffsetSpec.earliest())
        ends = self._cluster.offsets(wanted, OffsetSpec.latest())
        for (name, at), offset in wanted.items():
            first, end = firsts[name, at], ends[name, at]
            if offset < first:
                raise NotFound(
                    f"messages of topic '{name}', partition {at}, from offset {offset} on were "
                    f"purged at {where}: it begins at {first}; {_START_AGAIN}, and let the topic "
                    "keep its messages for longer (retention.ms)"
                )
            if offset > end:
                raise Conflict(
                    f"topic '{name}', partition {at}, ends at offset {end} at {where}, and was "
                    f"read until {offset}: its broker has lost messages; {_START_AGAIN}"
                )

    def beginning(self, end: TopicPosition, what: str, remedy: str) -> TopicPosition:
        """The position from which on all messages are there that the pipeline has read.

        Args:
            end: The position that it has read up to.
            what: What cannot be done without them, for messages.
            remedy: What to do instead.

        Raises:
            Conflict, NotFound: See `check_holds`.
            Unsupported: It has read more, or not from the beginning.
        """
        where = f"the source at {self._cluster.address}"
        if self._options.mode is not StartupMode.EARLIEST:
            raise Unsupported(
                f"{what}: the pipeline does not begin where the topics at {where} begin "
                f"(scan.startup.mode is '{self._options.mode}'); {remedy}"
            )
        self.check_holds(end)
        partitions = {
            (name, at) for name, topic in end.topics.items() for at in range(len(topic.offsets))
        }
        for name in sorted(end.topics.keys() - self._counts.keys()):
            raise NotFound(f"{what}: topic '{name}' is not at {where} any more; {remedy}")
        firsts = self._cluster.offsets(partitions, OffsetSpec.earliest())
        for (name, at), first in sorted(firsts.items()):
            if first:
                raise Unsupported(
                    f"{what}: partition {at} of topic '{name}' at {where} begins at offset "
                    f"{first}, as messages before it were removed; {remedy}"
                )
        topics = {
            name: TopicOffsets(topic.id, (0,) * len(topic.offsets))
            for name, topic in end.topics.items()
        }
        return TopicPosition(end.cluster, topics)

    def require(self) -> None:
        """Check that there is a topic.

        Raises:
            Unavailable: There is none yet.
        """
        if not self._counts:
            raise Unavailable(
                f"no topic that kafka-conf names is at the source at {self._cluster.address}"
            )
