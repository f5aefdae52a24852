"""Two Spark engines on one server's tables: Headwater's, and Spark with Paimon's JAR."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, TypeAlias

from headwater.spark import SparkLake

from .clients.plain_values import plain_rows
from .conftest import Client, Service
from .java_client import ROOT
from .paimon_spark_kinds import PAIMON_SPARK

__all__ = ["Answer", "Headwater", "PaimonSpark", "SparkEngine", "paimon_spark_jar"]

Answer: TypeAlias = list[list[Any]]
"""Rows as values that JSON has, sorted."""


def paimon_spark_jar() -> Path:
    """Where the JAR is, once Maven has fetched it or ``paimon-spark-jar`` has built it."""
    return ROOT / ".interop" / "paimon-java" / f"paimon-spark-4.1_2.13-{PAIMON_SPARK}.jar"


class SparkEngine(Protocol):
    """A Spark that runs statements over the catalog's tables."""

    name: str

    def query(self, statement: str) -> Answer:
        """Run a statement; its rows."""
        ...


class Headwater:
    """This project's engine, in the session of the tests."""

    name = "Headwater"

    def __init__(self, lake: SparkLake) -> None:
        self._lake = lake

    def query(self, statement: str) -> Answer:
        return plain_rows(self._lake.sql(statement).collect())


class PaimonSpark(Client):
    """Spark with Paimon's JAR, in a process and an environment of its own."""

    patience = 600

    def __init__(self, service: Service, scratch: Path) -> None:
        super().__init__("paimon-spark", service, scratch)
        self._scratch = scratch

    def query(self, statement: str) -> Answer:
        jar, room = str(paimon_spark_jar()), str(self._scratch)
        found = self._run("sql", jar=jar, room=room, statement=statement)["rows"]
        assert isinstance(found, list)
        return found
