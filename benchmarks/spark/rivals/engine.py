"""The work that engines are compared by, and the Spark that they do it in.

This is imported where there is nothing but PySpark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.orders import aggregate, changes, orders, upserts

__all__ = ["BUCKETS", "Engine", "Job"]

BUCKETS = 4
_UPSERTS = 3


@dataclass(frozen=True)
class Job:
    """The conditions of a comparison.

    Attributes:
        folder: For the engine's tables and temporary files.
        source: Of the data that all engines read.
        jars: The JARs that the engine needs, separated by commas.
        cores: The tasks that Spark runs at once.
        memory: The memory of Spark's own process.
    """

    folder: str
    source: str
    jars: str
    cores: int
    memory: str


class Engine(ABC):
    """An engine, in a session of its own.

    Args:
        job: The conditions.
        settings: Further settings of the session.
    """

    def __init__(self, job: Job, settings: Mapping[str, str]) -> None:
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        self._job = job
        all_settings: dict[str, bool | float | int | str | None] = {
            "spark.driver.memory": job.memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.warehouse.dir": f"{job.folder}/warehouse",
            "spark.local.dir": f"{job.folder}/local",
            **({"spark.jars": job.jars} if job.jars else {}),
            **settings,
        }
        builder = SparkSession.builder.appName("rivals").master(f"local[{job.cores}]")
        self.spark = builder.config(map=all_settings).getOrCreate()

    # The data ---------------------------------------------------------------------------------

    def make_source(self, rows: str) -> None:
        """Write the data that all engines read."""
        count = int(rows)
        frames = {"orders": orders(self.spark, count), "changes": changes(self.spark, count)}
        for version in range(1, _UPSERTS + 1):
            frames[f"upsert-{version}"] = upserts(self.spark, count, version)
        for name, frame in frames.items():
            frame.write.parquet(f"{self._job.source}/{name}")

    def source(self, name: str) -> DataFrame:
        """Some of it."""
        return self.spark.read.parquet(f"{self._job.source}/{name}")

    # What is measured -------------------------------------------------------------------------

    def ingest(self, table: str) -> None:
        """Write all orders."""
        self.write(table, self.source("orders"))

    def upsert(self, table: str) -> None:
        """Write new versions of a tenth of them, three times."""
        for version in range(1, _UPSERTS + 1):
            self.write(table, self.source(f"upsert-{version}"))

    def columns(self) -> str:
        """The columns of the orders, as SQL declares them."""
        fields = self.source("orders").schema
        return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)

    def scan(self, table: str) -> list[str]:
        """Read all rows and columns."""
        return [str(value) for value in aggregate(self.read(table))]

    @abstractmethod
    def create(self, table: str, kind: str) -> None:
        """Make an empty table of a kind of the engine's, in the place of one of that name."""

    @abstractmethod
    def write(self, table: str, rows: DataFrame) -> None:
        """Write rows."""

    @abstractmethod
    def read(self, table: str) -> DataFrame:
        """All rows."""

    @abstractmethod
    def compact(self, table: str) -> None:
        """Compact the table as a whole."""

    @abstractmethod
    def merge(self, table: str) -> None:
        """``MERGE`` new values for a hundredth of the orders."""

    @abstractmethod
    def keep(self, table: str) -> None:
        """Note the table as it is."""

    @abstractmethod
    def restore(self, table: str) -> None:
        """Make the table what it was when it was noted."""
