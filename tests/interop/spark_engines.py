"""Two Spark engines on one server's tables: Headwater's, and Spark with Paimon's JAR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pytest
from pyspark.sql import SparkSession

from headwater.spark import SparkLake, connect

from .clients.plain_values import plain_rows
from .conftest import TOKEN, Client, Service
from .java_client import ROOT
from .paimon_spark_kinds import PAIMON_SPARK

__all__ = ["Answer", "Engines", "Headwater", "PaimonSpark", "SparkEngine", "both_engines"]

Answer: TypeAlias = list[list[Any]]
"""Rows as values that JSON has, sorted."""


def _jar() -> Path:
    """Where the JAR is, once Maven has fetched it or ``paimon-spark-jar`` has built it."""
    return ROOT / ".interop" / "paimon-java" / f"paimon-spark-4.1_2.13-{PAIMON_SPARK}.jar"


class SparkEngine(Protocol):
    """A Spark that runs statements over the catalog's tables."""

    name: str

    def query(self, statement: str) -> Answer:
        """Run a statement; its rows."""
        ...

    def follow(self, source: str, target: str, checkpoint: Path, options: Mapping[str, str]) -> int:
        """Stream what there is of one table to another; how many rows were read."""
        ...


class Headwater:
    """This project's engine, in the session of the tests."""

    name = "Headwater"

    def __init__(self, spark: SparkSession, lake: SparkLake) -> None:
        self._spark = spark
        self._lake = lake

    def query(self, statement: str) -> Answer:
        return plain_rows(self._lake.sql(statement).collect())

    def follow(self, source: str, target: str, checkpoint: Path, options: Mapping[str, str]) -> int:
        stream = self._spark.readStream.format("headwater").options(**options).load(source)
        writer = stream.writeStream.format("headwater").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start(target)
        query.awaitTermination()
        return sum(progress.numInputRows for progress in query.recentProgress)


class PaimonSpark(Client):
    """Spark with Paimon's JAR, in a process and an environment of its own."""

    patience = 600

    def __init__(self, service: Service, scratch: Path) -> None:
        super().__init__("paimon-spark", service, scratch)
        self._scratch = scratch

    def query(self, statement: str) -> Answer:
        found = self._ask("sql", statement=statement)["rows"]
        assert isinstance(found, list)
        return found

    def follow(self, source: str, target: str, checkpoint: Path, options: Mapping[str, str]) -> int:
        found = self._ask(
            "follow",
            source=source,
            target=target,
            checkpoint=str(checkpoint),
            options=dict(options),
        )["rows"]
        assert isinstance(found, int)
        return found

    def _ask(self, command: str, **request: object) -> Mapping[str, object]:
        return self._run(command, jar=str(_jar()), room=str(self._scratch), **request)


@dataclass(frozen=True)
class Engines:
    """Both engines."""

    paimon: PaimonSpark
    headwater: Headwater


def both_engines(spark: SparkSession, service: Service, scratch: Path) -> Engines:
    """Both engines on a server's tables; skips where there is no JAR."""
    if not _jar().exists():
        pytest.skip(
            f"no {_jar().name}: run tests/interop/environments where Maven has it, "
            "or tests/interop/paimon-spark-jar with Paimon's source"
        )
    ours = connect(spark, service.uri, warehouse="main", token=TOKEN)
    return Engines(PaimonSpark(service, scratch), Headwater(spark, ours))
