"""The consumer group of a pipeline: it keeps a second process out, and shows offsets to others."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headwater.cdc.kafka.cluster import Cluster, kafka_error
from headwater.cdc.kafka.positions import TopicPosition
from headwater.storage.errors import Conflict, Unavailable

__all__ = ["GroupMember"]

_JOIN_SECONDS = 60.0
_POLL_SECONDS = 0.1
# The least that a broker allows by default: as long as that a process that was killed is a member.
_SESSION_MILLIS = 6000
# The most that there is: batches may take long.
_MAX_POLL_MILLIS = 86_400_000
_PAUSE_MILLIS = 1000


class GroupMember:
    """The only member of a pipeline's consumer group. It reads nothing.

    Args:
        cluster: The cluster.
        name: The group.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self.name = cluster, name
        self._consumer: Consumer | None = None

    def join(self, topics: Collection[str], seconds: float) -> None:
        """Become the group's only member.

        Args:
            topics: Topics that are there, which the group is said to read.
            seconds: How long to wait while it has another member.

        Raises:
            Conflict: It has another member.
            Forbidden, Unavailable: The cluster does not let it join.
        """
        deadline = monotonic() + seconds
        while True:
            # Two that join at once both see the other one, and both leave.
            if not self._cluster.members(self.name):
                self._subscribe(topics)
                if len(self._cluster.members(self.name)) == 1:
                    return
                self.close()
            if monotonic() >= deadline:
                raise Conflict(
                    f"consumer group '{self.name}' at the source at {self._cluster.address} has "
                    f"a member for {seconds:g} s already: the pipeline runs in another process; "
                    "stop that one first: headwater cdc stop"
                )
            sleep((_PAUSE_MILLIS + secrets.randbelow(_PAUSE_MILLIS)) / 2000)

    def _subscribe(self, topics: Collection[str]) -> None:
        config: dict[str, Any] = {
            "session.timeout.ms": _SESSION_MILLIS,
            **self._cluster.config,
            "group.id": self.name,
            "enable.auto.commit": False,
            "max.poll.interval.ms": _MAX_POLL_MILLIS,
        }
        assigned: list[object] = []

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            assigned.append(partitions)
            consumer.assign([])

        try:
            consumer = self._consumer = Consumer(config)
            consumer.subscribe(list(topics), on_assign=on_assign)
            deadline = monotonic() + _JOIN_SECONDS
            while not assigned:
                message = consumer.poll(_POLL_SECONDS)
                error = None if message is None else message.error()
                if error is not None and not error.retriable():
                    raise KafkaException(error)
                if monotonic() > deadline:
                    raise Unavailable(
                        f"consumer group '{self.name}' at the source at "
                        f"{self._cluster.address} does not accept a member within "
                        f"{_JOIN_SECONDS:g} s; check that the brokers run"
                    )
        except KafkaException as error:
            what = f"join consumer group '{self.name}'"
            raise kafka_error(self._cluster.address, what, error.args[0]) from error

    def stay(self) -> None:
        """Remain a member, if it is one: the group drops those that are not polled."""
        if self._consumer is not None:
            self._consumer.poll(0)

    def commit(self, position: TopicPosition) -> None:
        """Show others how far the topics were read; nobody reads these offsets to go on."""
        if self._consumer is None:
            return
        self.stay()
        offsets = [
            TopicPartition(name, partition, offset)
            for (name, partition), offset in position.partitions().items()
        ]
        with suppress(KafkaException):
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        """Leave the group."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
