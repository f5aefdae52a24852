"""A broker of Apache Kafka, one KRaft node, that a test has for itself or shares."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

__all__ = ["Broker", "broker_jars"]

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=100
log.initial.task.delay.ms=100
"""
_READY_SECONDS = 90.0


def broker_jars() -> str:
    """The jars of the broker; the test is skipped without them, and without Java."""
    root = Path(__file__).resolve().parents[3]
    jars = Path(os.environ.get("HEADWATER_KAFKA_JARS", root / ".kafka" / "jars"))
    if not any(jars.glob("kafka_*.jar")):
        pytest.skip("needs the jars of Kafka's broker, which tests/kafka-server fetches")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    return f"{jars}/*"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Broker:
    """A broker; as a context manager it ends, and its data go.

    Args:
        port: The port of one that runs already.
    """

    def __init__(self, port: int | None = None) -> None:
        if port is not None:
            self.port = port
            return
        self._jars = broker_jars()
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-kafka-"))
        self.port = _free_port()
        text = _PROPERTIES.format(port=self.port, controller=_free_port(), folder=self._folder)
        (self._folder / "properties").write_text(text)
        self._process: subprocess.Popen[bytes] | None = None
        cluster = ["-t", uuid.uuid4().hex[:22]]
        command = self._java("kafka.tools.StorageTool", "format", *cluster, "-c", self._properties)
        subprocess.run(command, check=True, capture_output=True)

    @property
    def _properties(self) -> str:
        return str(self._folder / "properties")

    def _java(self, *arguments: str) -> list[str]:
        return ["java", "-Xmx400m", "-XX:+UseSerialGC", "-cp", self._jars, *arguments]

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def admin(self) -> AdminClient:
        """A client that creates and deletes topics."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", self._properties), stdout=log, stderr=log
            )
        admin = self.admin
        admin.list_topics(timeout=_READY_SECONDS)
        return self

    def kill(self) -> None:
        """End its process at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    # Topics -----------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic."""
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        admin = self.admin
        for future in admin.create_topics([topic]).values():
            future.result(30)

    def allow(self, topic: str, *operations: AclOperation) -> None:
        """Let clients do nothing but some operations with a topic."""
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        who, host = "User:ANONYMOUS", "*"
        allowed = [
            AclBinding(ResourceType.TOPIC, topic, literal, who, host, operation, allow)
            for operation in operations
        ]
        admin = self.admin
        for future in admin.create_acls(allowed).values():
            future.result(30)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        admin = self.admin
        for future in admin.delete_topics([name]).values():
            future.result(30)
        while name in admin.list_topics(timeout=30).topics:
            pass

    def consumer(self) -> Consumer:
        """A client that reads messages, and is in a group of its own."""
        group = uuid.uuid4().hex
        return Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 0})

    def producer(self, **config: Any) -> Producer:
        """A client that writes messages, each once and in order, as connectors do."""
        common = {"linger.ms": 5, "log_level": 0, "enable.idempotence": True}
        return Producer({"bootstrap.servers": self.address, **common, **config})
