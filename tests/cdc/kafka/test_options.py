"""Options and positions of Kafka: what is wrong is said by name."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.kafka.address import Address
from headwater.cdc.kafka.options import KafkaOptions, StartupMode, ValueFormat
from headwater.cdc.kafka.positions import TopicOffsets, TopicPosition
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.service.options import PipelineOptions
from headwater.storage.errors import Invalid

JSON = {"topic": "a", "value.format": "debezium-json"}
SERVERS = "h:9092"


def test_all_options() -> None:
    conf = {
        "topic": "a;b ; c",
        "value.format": "debezium-avro",
        "schema.registry.url": "http://r",
        "scan.startup.mode": "timestamp",
        "scan.startup.timestamp-millis": "5",
        "properties.bootstrap.servers": SERVERS,
        "properties.group.id": "g",
        "properties.security.protocol": "SASL_SSL",
        "properties.ssl.ca.location": "/ca",
    }
    options = KafkaOptions.parse(conf, SERVERS)
    assert options == KafkaOptions(
        ("a", "b", "c"),
        format=ValueFormat.DEBEZIUM_AVRO,
        registry="http://r",
        mode=StartupMode.TIMESTAMP,
        millis=5,
        group="g",
        properties={"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca"},
    )
    pattern = KafkaOptions.parse(
        {"topic-pattern": "s[.].*", "value.format": "debezium-json"}, SERVERS
    )
    assert [name for name in ("s.a", "s", "ss.a", "__s") if pattern.has_topic(name)] == ["s.a"]


@pytest.mark.parametrize(
    ("conf", "error"),
    [
        ({}, "either 'topic' or 'topic-pattern'"),
        ({**JSON, "topic-pattern": "b"}, "either 'topic' or 'topic-pattern'"),
        ({"topic": "a"}, "'value.format' is missing; it is one of debezium-json, debezium-avro"),
        ({**JSON, "value.format": "canal-json"}, "'value.format' is 'canal-json'; it is one of"),
        ({"topic": "a", "value.format": "debezium-avro"}, "needs a registry"),
        ({**JSON, "schema.registry.url": "http://r"}, "no other format has one"),
        ({**JSON, "format": "x"}, "'format' is not known"),
        ({**JSON, "properties.enable.auto.commit": "true"}, "is not known"),
        ({**JSON, "properties.auto.offset.reset": "latest"}, "is not known"),
        ({**JSON, "properties.isolation.level": "read_uncommitted"}, "is not known"),
        ({**JSON, "properties.sasl.password": "x"}, "would be stored in the lake|is not known"),
        ({**JSON, "properties.ssl.key.password": "x"}, "would be stored in the lake"),
        ({**JSON, "properties.bootstrap.servers": "other:1"}, "leave it out"),
        ({**JSON, "scan.startup.mode": "group-offsets"}, "'group-offsets'; it is one of"),
        ({**JSON, "scan.startup.mode": "timestamp"}, "give both or none"),
        ({**JSON, "scan.startup.timestamp-millis": "1"}, "give both or none"),
        (
            {
                **JSON,
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "0:1",
            },
            "write 'partition:0,offset:42",
        ),
        (
            {
                **JSON,
                "topic": "a;b",
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:1",
            },
            "is of one topic",
        ),
        ({**JSON, "debezium-json.schema-include": "maybe"}, "it is true or false"),
        ({"topic-pattern": "(", "value.format": "debezium-json"}, "not a regular expression"),
    ],
)
def test_wrong_options(conf: Mapping[str, str], error: str) -> None:
    with pytest.raises(Invalid, match=error):
        KafkaOptions.parse(conf, SERVERS)


def _options(**more: object) -> PipelineOptions:
    return PipelineOptions.parse(
        {
            "source": "kafka://user:secret@b1:9093,b2",
            "include": "shop.*",
            "target": "lake",
            "kafka_conf": JSON,
            **more,
        }
    )


def test_settings_are_stored_without_the_password() -> None:
    options = _options()
    settings = options.settings()
    assert settings.source == "kafka://user@b1:9093,b2:9092"
    assert settings.name == "b1-9093-lake"
    stored = settings.stored()
    assert "secret" not in json.dumps(dict(stored))
    assert PipelineSettings.from_stored(settings.name, "lake", stored) == settings
    address = options.address()
    assert isinstance(address, Address)
    assert address.password == "secret"
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"slot": "s"}, "one of PostgreSQL"),
        ({"partition_keys": "day"}, "'partition-keys' is not one of Kafka"),
        ({"computed_column": ["y=year(day)"]}, "'computed-column' is not one of Kafka"),
        ({"type_mapping": "to-nullable"}, "messages of Kafka have their types"),
        ({"source": "mysql://u@h"}, "'kafka-conf' is one of Kafka"),
        ({"kafka_conf": {}}, "either 'topic' or 'topic-pattern'"),
        ({"source": "kafka://"}, "not a URL of Kafka"),
        ({"source": "kafka://h:x"}, "not a URL of Kafka"),
        ({"source": "amqp://h"}, "not MySQL, MariaDB, PostgreSQL or Kafka"),
    ],
)
def test_wrong_pipelines(more: Mapping[str, object], error: str) -> None:
    with pytest.raises(Invalid, match=error):
        _options(**more).settings()


def test_a_command_takes_its_own_kind_of_source() -> None:
    values = {"source": "kafka://h", "include": "s.*", "target": "lake", "kafka_conf": JSON}
    with pytest.raises(Invalid, match="use headwater cdc kafka"):
        PipelineOptions.parse(values, kind="mysql")
    assert PipelineOptions.parse(values, kind="kafka").kafka_conf == JSON


# Positions --------------------------------------------------------------------------------------

OFFSETS = st.builds(
    TopicOffsets, st.sampled_from(["", "id", "other"]), st.lists(st.integers(0, 9)).map(tuple)
)
POSITIONS = st.builds(
    TopicPosition,
    st.sampled_from(["c", "d"]),
    st.dictionaries(st.sampled_from(["a", "b", "c.d-e_f"]), OFFSETS),
)


@given(POSITIONS)
def test_a_position_reads_itself(position: TopicPosition) -> None:
    assert TopicPosition.from_text(str(position)) == position
    assert position.contains(position)


@given(POSITIONS, POSITIONS)
def test_a_union_has_both(one: TopicPosition, other: TopicPosition) -> None:
    same_topics = all(
        one.topics[name].id == other.topics[name].id for name in one.topics.keys() & other.topics
    )
    if one.cluster != other.cluster or not same_topics:
        assert not (one.contains(other) and other.contains(one))
        with pytest.raises(Invalid):
            one.union(other)
        return
    both = one.union(other)
    assert both.contains(one)
    assert both.contains(other)
    assert one.contains(other) == (one.union(other).contains(one) and one.contains(both))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "12",
        '{"cluster":"c"}',
        '{"cluster":"c","topics":{"a":["i",["x"]]}}',
        "0/0/16B3748",
    ],
)
def test_other_texts_are_not_positions(text: str) -> None:
    with pytest.raises(Invalid, match="not a position in topics of Kafka"):
        TopicPosition.from_text(text)
