"""The options of Kafka as a source, by the names of Paimon's ``--kafka_conf``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from headwater.storage.errors import Invalid

__all__ = ["KafkaOptions", "StartupMode", "ValueFormat"]

_T = TypeVar("_T", bound=StrEnum)

_PROPERTIES = "properties."
_TOPIC, _PATTERN, _FORMAT = "topic", "topic-pattern", "value.format"
_SERVERS, _GROUP = "bootstrap.servers", "group.id"
_REGISTRY, _INCLUDE_SCHEMA = "schema.registry.url", "debezium-json.schema-include"
_MODE = "scan.startup.mode"
_OFFSETS, _MILLIS = "scan.startup.specific-offsets", "scan.startup.timestamp-millis"
_KNOWN = (_TOPIC, _PATTERN, _FORMAT, _REGISTRY, _INCLUDE_SCHEMA, _MODE, _OFFSETS, _MILLIS)
# Of the client's properties: who we are and how we reach the brokers.
_CLIENT = re.compile(
    r"(security\.protocol|sasl\.mechanisms?|sasl\.kerberos\.[a-z.]+|ssl\.[a-z.]+|client\.id|"
    r"client\.rack|broker\.address\.family|socket\.[a-z.]+|fetch\.[a-z.]+|max\.partition\.fetch\.bytes|"
    r"session\.timeout\.ms|metadata\.max\.age\.ms|check\.crcs)"
)
_SECRET = re.compile(r"password|secret|\.pem$")
_SPECIFIC = re.compile(r"partition:(\d+),offset:(\d+)")


class ValueFormat(StrEnum):
    """What messages are."""

    DEBEZIUM_JSON = "debezium-json"
    DEBEZIUM_AVRO = "debezium-avro"


class StartupMode(StrEnum):
    """Where a new pipeline begins."""

    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific-offsets"


@dataclass(frozen=True)
class KafkaOptions:
    """What is read of a cluster.

    Attributes:
        topics: The topics; empty where a pattern chooses them.
        pattern: A regular expression that the names of topics match as a whole.
        format: What messages are.
        registry: The URL of the schema registry; None without one.
        has_schema: Whether each message in JSON has its schema; None accepts both.
        mode: Where a new pipeline begins.
        millis: The timestamp to begin at, in ms since 1970.
        offsets: The offset to begin at of each partition, for one topic.
        group: The consumer group; None names it after the pipeline.
        properties: Properties of the client.
    """

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    format: ValueFormat = ValueFormat.DEBEZIUM_JSON
    registry: str | None = None
    has_schema: bool | None = None
    mode: StartupMode = StartupMode.EARLIEST
    millis: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    group: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(values: Mapping[str, str], servers: str) -> KafkaOptions:
        """Read the option ``kafka-conf``.

        Args:
            values: The values by Paimon's names.
            servers: The brokers of the source's URL.

        Raises:
            Invalid: One is not known, is missing or has a wrong value.
        """
        properties = _properties(values, servers)
        group = properties.pop(_GROUP, None)
        topics = tuple(name.strip() for name in values.get(_TOPIC, "").split(";") if name.strip())
        if bool(topics) == (_PATTERN in values):
            raise Invalid("kafka-conf: give either 'topic' or 'topic-pattern'")
        format_ = _choice(values, _FORMAT, ValueFormat, None)
        registry = values.get(_REGISTRY)
        if (format_ is ValueFormat.DEBEZIUM_AVRO) != (registry is not None):
            raise Invalid(
                f"kafka-conf: {_FORMAT} is {format_} and {_REGISTRY} is {registry or 'missing'}; "
                f"{ValueFormat.DEBEZIUM_AVRO} needs a registry, and no other format has one"
            )
        mode = _choice(values, _MODE, StartupMode, StartupMode.EARLIEST)
        _check_mode(values, mode, topics)
        return KafkaOptions(
            topics,
            _pattern(values.get(_PATTERN)),
            format_,
            registry,
            _flag(values, _INCLUDE_SCHEMA),
            mode,
            _number(values, _MILLIS),
            _specific(values.get(_OFFSETS)),
            group,
            properties,
        )

    def has_topic(self, name: str) -> bool:
        """Whether a topic is read."""
        if self.pattern is None:
            return name in self.topics
        return self.pattern.fullmatch(name) is not None and not name.startswith("__")


def _properties(values: Mapping[str, str], servers: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    for name, value in values.items():
        key = name.removeprefix(_PROPERTIES)
        if name in _KNOWN:
            continue
        if key == name or not (key in (_SERVERS, _GROUP) or _CLIENT.fullmatch(key)):
            raise Invalid(
                f"kafka-conf '{name}' is not known; the names are {', '.join(_KNOWN)} and "
                f"'{_PROPERTIES}' with group.id or a property of the client about its connection"
            )
        if _SECRET.search(key):
            raise Invalid(
                f"kafka-conf '{name}' would be stored in the lake; give the password with the "
                "option password or password-file, and keys in files"
            )
        properties[key] = value
    if properties.pop(_SERVERS, servers) != servers:
        raise Invalid(
            f"kafka-conf '{_PROPERTIES}{_SERVERS}' is '{values[_PROPERTIES + _SERVERS]}', and the "
            f"source has {servers}; leave it out"
        )
    return properties


def _choice(values: Mapping[str, str], name: str, choices: type[_T], default: _T | None) -> _T:
    names = ", ".join(choices)
    if name not in values and default is not None:
        return default
    try:
        return choices(values[name])
    except KeyError:
        raise Invalid(f"kafka-conf '{name}' is missing; it is one of {names}") from None
    except ValueError:
        raise Invalid(f"kafka-conf '{name}' is '{values[name]}'; it is one of {names}") from None


def _check_mode(values: Mapping[str, str], mode: StartupMode, topics: tuple[str, ...]) -> None:
    for name, needed in ((_OFFSETS, StartupMode.SPECIFIC), (_MILLIS, StartupMode.TIMESTAMP)):
        if (name in values) != (mode is needed):
            raise Invalid(
                f"kafka-conf '{name}' goes with {_MODE} '{needed}', which is '{mode}'; give both "
                "or none"
            )
    if mode is StartupMode.SPECIFIC and len(topics) != 1:
        raise Invalid(f"kafka-conf '{_OFFSETS}' is of one topic; name one with '{_TOPIC}'")


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise Invalid(
            f"kafka-conf '{_PATTERN}' is not a regular expression: {error}; write one such as "
            "'shop[.].*'"
        ) from error


def _flag(values: Mapping[str, str], name: str) -> bool | None:
    flags = {None: None, "true": True, "false": False}
    value = values.get(name)
    if value not in flags:
        raise Invalid(f"kafka-conf '{name}' is '{value}'; it is true or false")
    return flags[value]


def _number(values: Mapping[str, str], name: str) -> int:
    value = values.get(name, "0")
    if not value.isdecimal():
        raise Invalid(f"kafka-conf '{name}' is '{value}'; expected ms since 1970")
    return int(value)


def _specific(text: str | None) -> Mapping[int, int]:
    offsets: dict[int, int] = {}
    for part in (text or "").split(";"):
        match = _SPECIFIC.fullmatch(part.strip())
        if match is not None:
            offsets[int(match[1])] = int(match[2])
        elif text is not None:
            raise Invalid(
                f"kafka-conf '{_OFFSETS}' is '{text}'; write 'partition:0,offset:42;partition:1,"
                "offset:300'"
            )
    return offsets
