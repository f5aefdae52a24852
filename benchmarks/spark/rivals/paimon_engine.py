"""Spark with Paimon's JAR, and a catalog in a folder."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from benchmarks.orders import KEY
from benchmarks.spark.rivals.engine import BUCKETS, Engine, Job

__all__ = ["PaimonEngine"]

_KINDS: Mapping[str, Mapping[str, str]] = {
    "keyed": {"primary-key": KEY, "bucket": str(BUCKETS), "write-only": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
}
_CATALOG = "spark.sql.catalog.paimon"


class PaimonEngine(Engine):
    """Tables of Paimon: ``keyed`` or, without a primary key, ``vectors``."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            job,
            {
                "spark.sql.extensions": (
                    "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
                ),
                _CATALOG: "org.apache.paimon.spark.SparkCatalog",
                f"{_CATALOG}.warehouse": f"{job.folder}/paimon",
                "spark.sql.defaultCatalog": "paimon",
            },
        )
        self.spark.sql("CREATE DATABASE IF NOT EXISTS bench")
        self._kept: dict[str, int] = {}

    def create(self, table: str, kind: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS bench.{table}")
        options = ", ".join(f"'{key}' = '{value}'" for key, value in _KINDS[kind].items())
        self.spark.sql(f"CREATE TABLE bench.{table} ({self.columns()}) TBLPROPERTIES ({options})")

    def write(self, table: str, rows: DataFrame) -> None:
        rows.writeTo(f"bench.{table}").append()

    def read(self, table: str) -> DataFrame:
        return self.spark.table(f"bench.{table}")

    def compact(self, table: str) -> None:
        self.spark.sql(f"CALL sys.compact(table => 'bench.{table}', compact_strategy => 'full')")

    def merge(self, table: str) -> None:
        self.source("changes").createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO bench.{table} t USING changes s ON t.{KEY} = s.{KEY} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def keep(self, table: str) -> None:
        found = self.spark.sql(f"SELECT max(snapshot_id) AS id FROM `bench`.`{table}$snapshots`")
        self._kept[table] = found.collect()[0]["id"]

    def restore(self, table: str) -> None:
        self.spark.sql(
            f"CALL sys.rollback(table => 'bench.{table}', version => '{self._kept[table]}')"
        )
