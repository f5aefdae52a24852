"""A Kafka cluster: its topics, their ids and offsets, and its consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from time import monotonic, sleep
from typing import TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType

from headwater.cdc.kafka.address import Address
from headwater.cdc.kafka.positions import Partition
from headwater.storage.errors import Forbidden, HeadwaterError, Invalid, Unavailable

__all__ = ["Cluster", "kafka_error"]

T = TypeVar("T")

_SECONDS = 15.0
_DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
)
_WRONG = (KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._SSL)
_NO_FEATURE = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION)
_NO_COORDINATOR = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
_RETRY_SECONDS = 0.2
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def kafka_error(address: Address, what: str, error: KafkaError) -> HeadwaterError:
    """An error of the client as one of ours."""
    message = f"cannot {what} at the source at {address}: {error.str()} ({error.name()})"
    if error.code() in _DENIED:
        return Forbidden(f"{message}; check the user, its password and its ACLs")
    if error.code() in _WRONG:
        return Invalid(f"{message}; correct kafka-conf")
    return Unavailable(f"{message}; check that the brokers run")


class Cluster:
    """Questions to a cluster.

    Args:
        address: Where it is.
        properties: Properties of the client.

    Raises:
        Invalid: A property is wrong.
    """

    def __init__(self, address: Address, properties: Mapping[str, str]) -> None:
        self.address = address
        self.config = address.config(properties)
        self._reason: KafkaError | None = None
        config = {**self.config, "error_cb": self._note}
        self._admin = self._asked("connect", lambda: AdminClient(config))

    def _note(self, error: KafkaError) -> None:
        self._reason = error

    def _asked(self, what: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except KafkaException as error:
            failure: KafkaError = error.args[0]
            # A login that fails is told beside the request, which is tried until its time is over.
            if self._reason is not None and self._reason.code() in (*_DENIED, *_WRONG):
                failure = self._reason
            raise kafka_error(self.address, what, failure) from error

    def _result(self, what: str, future: Future[T]) -> T:
        return self._asked(what, lambda: future.result(_SECONDS + 1))

    def topics(self) -> tuple[str, Mapping[str, int]]:
        """The cluster's id, and how many partitions each of its topics has.

        Raises:
            Forbidden, Unavailable: The cluster does not answer.
        """
        self._admin.poll(0)
        metadata = self._asked("list topics", lambda: self._admin.list_topics(timeout=_SECONDS))
        self._admin.poll(0)
        topics = {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None
        }
        return metadata.cluster_id or "", topics

    def topic_ids(self, names: Collection[str]) -> Mapping[str, str]:
        """The id of each topic that is there; empty where the cluster has no ids.

        Raises:
            Forbidden, Unavailable: The cluster does not answer.
        """
        if not names:
            return {}
        ids: dict[str, str] = {}
        futures = self._admin.describe_topics(
            TopicCollection(list(names)), request_timeout=_SECONDS
        )
        for name, future in futures.items():
            try:
                topic_id = str(future.result(_SECONDS + 1).topic_id)
                ids[name] = "" if topic_id == _NO_ID else topic_id
            except KafkaException as error:
                failure: KafkaError = error.args[0]
                if failure.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                if failure.code() not in _NO_FEATURE:
                    raise kafka_error(self.address, "look up topics", failure) from error
                ids[name] = ""
        return ids

    def offsets(
        self, partitions: Collection[Partition], spec: OffsetSpec
    ) -> Mapping[Partition, int]:
        """An offset of each partition, of committed messages.

        Args:
            partitions: The partitions.
            spec: The first, the one after the last, or that of a timestamp (-1 if none is later).

        Raises:
            Forbidden, Unavailable: The cluster does not answer.
        """
        if not partitions:
            return {}
        futures = self._admin.list_offsets(
            {TopicPartition(name, at): spec for name, at in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_SECONDS,
        )
        return {
            (partition.topic, partition.partition): self._result("look up offsets", future).offset
            for partition, future in futures.items()
        }

    def are_compacted(self, names: Collection[str]) -> Mapping[str, bool | None]:
        """Whether each topic may lose messages whose key comes again; None where it is not known.

        Topics have settings, which a user with the operation DescribeConfigs may read.

        Raises:
            Unavailable: The cluster does not answer.
        """
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        compacted: dict[str, bool | None] = dict.fromkeys(names)
        futures = self._admin.describe_configs(resources, request_timeout=_SECONDS)
        for resource, future in futures.items():
            try:
                policy = future.result(_SECONDS + 1)["cleanup.policy"].value
                compacted[resource.name] = "compact" in str(policy)
            except KafkaException as error:
                failure: KafkaError = error.args[0]
                denied = (*_DENIED, *_NO_FEATURE, KafkaError.UNKNOWN_TOPIC_OR_PART)
                if failure.code() not in denied:
                    raise kafka_error(self.address, "look up topics", failure) from error
        return compacted

    def members(self, group: str) -> Collection[str]:
        """The ids of a consumer group's members.

        Raises:
            Forbidden, Unavailable: The cluster does not answer.
        """
        deadline = monotonic() + _SECONDS
        while True:
            futures = self._admin.describe_consumer_groups([group], request_timeout=_SECONDS)
            try:
                described = futures[group].result(_SECONDS + 1)
                return [member.member_id for member in described.members]
            except KafkaException as error:
                failure: KafkaError = error.args[0]
                if failure.code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return ()
                # A new cluster has no coordinator yet.
                if failure.code() not in _NO_COORDINATOR or monotonic() > deadline:
                    what = f"look up consumer group '{group}'"
                    raise kafka_error(self.address, what, failure) from error
            sleep(_RETRY_SECONDS)
