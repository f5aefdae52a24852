"""Debezium's connectors on a worker of Kafka Connect: the lake has the rows of their database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka import TopicPartition
from sqlalchemy import make_url
from tests.cdc.kafka.broker import Broker
from tests.cdc.kafka.connect_worker import ConnectWorker
from tests.cdc.kafka.debezium_types import MYSQL, POSTGRES, Columns
from tests.cdc.kafka.schema_registry import Registry, running_registry
from tests.cdc.postgres.conftest import PostgresDatabase, logical_server, postgres
from tests.cdc.source_logs import SourceServer
from tests.cdc.waiting import until

from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.verify import TableVerdict, verify
from headwater.client import Lake, connect
from headwater.client.cdc import FollowOptions

__all__ = ["logical_server", "postgres"]  # fixtures

pytestmark = pytest.mark.cdc_oracles

JSON = "org.apache.kafka.connect.json.JsonConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
# What connectors send, by the name of the connector's topics.
MODES: Mapping[str, Mapping[str, str]] = {
    "schemas": {},
    "plain": {f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
    "avro": {"key.converter": AVRO, "value.converter": AVRO},
    "text": {
        "time.precision.mode": "connect",
        "decimal.handling.mode": "string",
        "binary.handling.mode": "hex",
        # Such a topic does not take messages without a key, and a truncation has none.
        "topic.creation.default.cleanup.policy": "compact",
        "skipped.operations": "t",
    },
    "doubles": {
        "time.precision.mode": "isostring",
        "decimal.handling.mode": "double",
        "binary.handling.mode": "base64",
        "tombstones.on.delete": "false",
    },
}
SECONDS = 180.0
# Long values that an update leaves as they are, for which Debezium has null in a mode.
NULLS = {("instants", mode) for mode in MODES} | {
    *(("days", "text"), ("days", "doubles"), ("bytes", "doubles")),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of these tests, whose worker would otherwise disturb others."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def worker(broker: Broker) -> Iterator[ConnectWorker]:
    """A worker of Kafka Connect."""
    with ConnectWorker(broker.address) as worker:
        yield worker


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A schema registry."""
    with running_registry() as registry:
        yield registry


class Database(Protocol):
    """A database that connectors follow.

    Attributes:
        namespace: What its tables are in: the database's name, or the schema's.
        columns: Columns of each type with a value.
    """

    namespace: str
    columns: Columns

    def run(self, *statements: str) -> None:
        """Run statements."""

    def rows(self, query: str) -> Sequence[Sequence[Any]]:
        """The rows of a query."""

    def config(self, number: int) -> Mapping[str, str]:
        """What a connector has to know, each with a number of its own."""


class MySQLDatabase:
    """A database of MariaDB or MySQL."""

    columns: Columns = MYSQL

    def __init__(self, server: SourceServer, flavour: str) -> None:
        self._server, self._flavour = server, flavour
        self.namespace = server.database
        self.run, self.rows = server.run, server.select

    def config(self, number: int) -> Mapping[str, str]:
        login, is_mysql = self._server.login, self._flavour == "mysql"
        history = "schema.history.internal"
        return {
            "connector.class": "io.debezium.connector."
            + ("mysql.MySqlConnector" if is_mysql else "mariadb.MariaDbConnector"),
            "database.hostname": login["host"],
            "database.port": str(login["port"]),
            "database.user": login["user"],
            "database.password": login["password"],
            "database.server.id": str(7000 + number),
            "database.include.list": self.namespace,
            "database.ssl.mode": "preferred" if is_mysql else "disable",
            history: "io.debezium.relational.history.MemorySchemaHistory",
            f"{history}.store.only.captured.databases.ddl": "true",
        }


class PostgreSQLDatabase:
    """A database of PostgreSQL."""

    namespace = "public"
    columns: Columns = POSTGRES

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.run, self.rows = database.run, database.rows
        self.run(
            "CREATE TYPE mood AS ENUM ('sad', 'happy')",
            "CREATE DOMAIN positive AS INT CHECK (VALUE > 0)",
        )

    def config(self, number: int) -> Mapping[str, str]:
        url = make_url(self._database.url)
        name = f"{self._database.name}_{number}"
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "filtered",
            "publication.name": name,
            "slot.name": name,
            "slot.drop.on.stop": "true",
            "database.hostname": str(url.host),
            "database.port": str(url.port),
            "database.user": str(url.username),
            "database.password": "none",
            "database.dbname": str(url.database),
            "schema.include.list": "public",
        }


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    """A database of each kind of server."""
    source = request.getfixturevalue(request.param)
    if isinstance(source, PostgresDatabase):
        return PostgreSQLDatabase(source)
    return MySQLDatabase(source, request.param)


class Connectors:
    """Connectors that follow one database, one for each mode."""

    def __init__(
        self, database: Database, worker: ConnectWorker, broker: Broker, registry: Registry
    ) -> None:
        self._database, self._worker = database, worker
        self._broker, self._registry = broker, registry
        self._prefix = f"d{uuid.uuid4().hex[:8]}"

    def prefix(self, mode: str) -> str:
        """What the topics of a mode begin with."""
        return f"{self._prefix}_{mode}"

    def start(self) -> None:
        """Start them."""
        registries = {
            f"{part}.converter.schema.registry.url": self._registry.url for part in ("key", "value")
        }
        for number, (mode, options) in enumerate(MODES.items()):
            self._worker.start(
                self.prefix(mode),
                {
                    **self._database.config(number),
                    **registries,
                    "topic.prefix": self.prefix(mode),
                    "key.converter": JSON,
                    "value.converter": JSON,
                    "topic.creation.default.replication.factor": "1",
                    "topic.creation.default.partitions": "1",
                    "skipped.operations": "none",
                    **options,
                },
            )

    def await_rows(self, table: str) -> None:
        """Wait until each has sent a row of a table."""
        left = {f"{self.prefix(mode)}.{self._database.namespace}.{table}": mode for mode in MODES}
        consumer = self._broker.consumer()

        def have_come() -> bool:
            for mode in left.values():
                self._worker.check(self.prefix(mode))
            for topic in consumer.list_topics(timeout=30).topics.keys() & left.keys():
                if consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]:
                    del left[topic]
            return not left

        try:
            until(have_come, SECONDS)
        finally:
            consumer.close()

    def end(self) -> None:
        """End them, when all that they have read is in their topics."""
        for mode in MODES:
            self._worker.end(self.prefix(mode))


class Followers:
    """Pipelines that follow the topics of each mode into a database of its own."""

    def __init__(
        self, database: Database, connectors: Connectors, broker: Broker, registry: Registry
    ) -> None:
        self._database, self._connectors, self._broker = database, connectors, broker
        self._registry = registry

    def once(self, lake: Lake, mode: str) -> bool:
        """Follow all that is in the topics; whether no table is quarantined."""
        return lake.cdc.kafka(once=True, **self._settings(mode)).wait(120)

    def verdicts(self, lake: Lake, mode: str) -> Iterator[TableVerdict]:
        """The comparison of the lake's tables with the topics."""
        options = PipelineOptions.parse(self._settings(mode))
        return verify(lake, options.address(), options.settings())

    def _settings(self, mode: str) -> FollowOptions:
        conf = {"topic-pattern": f"{self._connectors.prefix(mode)}[.].*"}
        conf["value.format"] = "debezium-json"
        if mode == "avro":
            conf |= {"value.format": "debezium-avro", "schema.registry.url": self._registry.url}
        return {
            "source": f"kafka://{self._broker.address}",
            "include": [f"{self._database.namespace}.*"],
            "exclude": [f"{self._database.namespace}.the_*"],
            "target": mode,
            "name": mode,
            "kafka_conf": conf,
        }


def differences(database: Database, lake: Lake, mode: str) -> list[str]:
    """Columns of the table of all types whose values are not the database's."""
    names = ["id", *database.columns]
    kinds = {name: kind for name, (_, _, kind) in database.columns.items()}
    rows = {int(row["id"]): row for row in lake.table(f"{mode}.t").scan().to_arrow().to_pylist()}
    known = {row[0]: row for row in database.rows(f"SELECT {', '.join(names)} FROM t")}
    problems = [] if rows.keys() == known.keys() else [f"{mode}: {sorted(rows)} {sorted(known)}"]
    for key in rows.keys() & known.keys():
        for name, theirs in zip(names[1:], known[key][1:], strict=True):
            ours, kind = rows[key][name], kinds[name]
            if mode == "plain" and ours is not None and kind.sent is not None:
                ours = kind.sent(ours)
            if not (ours is None if theirs is None else kind.is_same(ours, theirs)):
                problems.append(f"{mode}: row {key}: {name} is {ours!r}, expected {theirs!r}")
    return problems


def pairs(lake: Lake, mode: str) -> list[tuple[str, ...]]:
    """The rows of the small table as text, each with its key before."""
    rows = lake.table(f"{mode}.pairs").scan().to_arrow().to_pylist()
    names = ["a", "b", "n", "added"]
    return sorted(tuple(str(row.get(name)) for name in names) for row in rows)


def test_the_lake_has_the_rows_of_the_database(
    database: Database,
    worker: ConnectWorker,
    broker: Broker,
    registry: Registry,
    tmp_path: Path,
) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, *_) in database.columns.items())
    values = ", ".join(value for _, value, _ in database.columns.values())
    utf8 = "" if database.namespace == "public" else " CHARACTER SET utf8mb4"
    database.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns}){utf8}",
        f"INSERT INTO t VALUES (1, {values})",
        "CREATE TABLE pairs (a INT, b VARCHAR(10), n INT, PRIMARY KEY (a, b))",
        "INSERT INTO pairs VALUES (1, 'x', 1), (2, 'y', 2)",
        "CREATE TABLE emptied (id INT PRIMARY KEY)",
        "INSERT INTO emptied VALUES (1), (2)",
        "CREATE TABLE the_beginning (id INT PRIMARY KEY)",
        "INSERT INTO the_beginning VALUES (1)",
        "CREATE TABLE the_end (id INT PRIMARY KEY)",
    )
    if database.namespace == "public":
        # Long values that an update leaves as they are.
        database.run("ALTER TABLE t REPLICA IDENTITY FULL")
    connectors = Connectors(database, worker, broker, registry)
    followers = Followers(database, connectors, broker, registry)
    connectors.start()
    connectors.await_rows("the_beginning")
    lake = connect(tmp_path / "lake")
    for mode in MODES:
        lake.create_database(mode)
        # All of a snapshot, or a part of it.
        assert followers.once(lake, mode)
    database.run(
        f"INSERT INTO t VALUES (2, {values})",
        "INSERT INTO t (id) VALUES (3), (4)",
        "UPDATE t SET note = NULL, amount = -0.01 WHERE id = 1",
        "UPDATE t SET id = 5 WHERE id = 2",
        "DELETE FROM t WHERE id = 4",
        "UPDATE pairs SET a = 9 WHERE a = 1",
        "DELETE FROM pairs WHERE a = 2",
        "INSERT INTO pairs VALUES (2, 'y', 3)",
        "TRUNCATE TABLE emptied",
        "INSERT INTO emptied VALUES (3)",
        "ALTER TABLE pairs ADD COLUMN added INT",
        "INSERT INTO pairs (a, b, n, added) VALUES (7, 'z', 4, 5)",
        "UPDATE pairs SET added = 6 WHERE a = 9",
        "INSERT INTO the_end VALUES (1)",
    )
    connectors.await_rows("the_end")
    connectors.end()
    problems: list[str] = []
    for mode, options in MODES.items():
        assert followers.once(lake, mode), lake.cdc.status()
        problems += differences(database, lake, mode)
        assert pairs(lake, mode) == [
            *(("2", "y", "3", "None"), ("7", "z", "4", "5"), ("9", "x", "1", "6")),
        ]
        emptied = lake.table(f"{mode}.emptied").scan().to_arrow().column("id").to_pylist()
        is_emptied = options.get("skipped.operations") != "t"
        assert list(map(str, emptied)) == (["3"] if is_emptied else ["1", "2", "3"])
        for verdict in followers.verdicts(lake, mode):
            assert verdict.is_equal, (mode, verdict)
    assert problems == []


def test_values_that_are_left_out_are_noticed(
    postgres: PostgresDatabase,
    worker: ConnectWorker,
    broker: Broker,
    registry: Registry,
    tmp_path: Path,
) -> None:
    database = PostgreSQLDatabase(postgres)
    kinds = {
        "words": ("TEXT", "string_agg(md5(n::text), '')"),
        "bytes": ("BYTEA", "string_agg(decode(md5(n::text), 'hex'), '')"),
        "doc": ("JSONB", "jsonb_agg(md5(n::text))"),
        "numbers": ("INT[]", "array_agg(n)"),
        "larger": ("BIGINT[]", "array_agg(n)"),
        "names": ("TEXT[]", "array_agg(md5(n::text))"),
        "instants": ("TIMESTAMPTZ[]", "array_agg('2020-01-01'::timestamptz + n * interval '1s')"),
        "days": ("DATE[]", "array_agg('2020-01-01'::date + n::int)"),
    }
    for name, (type_, value) in kinds.items():
        database.run(
            f"CREATE TABLE long_{name} (id INT PRIMARY KEY, n INT, value {type_})",
            f"ALTER TABLE long_{name} ALTER COLUMN value SET STORAGE EXTERNAL",
            f"INSERT INTO long_{name} SELECT 1, 0, {value} FROM generate_series(1, 4000) AS n",
        )
    database.run(
        "CREATE TABLE the_beginning (id INT PRIMARY KEY)",
        "INSERT INTO the_beginning VALUES (1)",
        "CREATE TABLE the_end (id INT PRIMARY KEY)",
    )
    connectors = Connectors(database, worker, broker, registry)
    connectors.start()
    connectors.await_rows("the_beginning")
    database.run(*(f"UPDATE long_{name} SET n = 1" for name in kinds))
    database.run("INSERT INTO the_end VALUES (1)")
    connectors.await_rows("the_end")
    connectors.end()
    followers = Followers(database, connectors, broker, registry)
    lake = connect(tmp_path / "lake")
    problems = []
    for mode in MODES:
        lake.create_database(mode)
        assert not followers.once(lake, mode)
        (status,) = [status for status in lake.cdc.status() if status.name == mode]
        reasons = {table.source.table: table.reason or "" for table in status.tables}
        problems += [
            f"{mode}: {name}: {reasons[f'long_{name}']!r}"
            for name in kinds
            if (name, mode) not in NULLS and "REPLICA IDENTITY FULL" not in reasons[f"long_{name}"]
        ]
    assert problems == []
