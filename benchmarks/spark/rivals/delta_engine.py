"""Delta Lake, with the catalog of Spark's session."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from benchmarks.orders import KEY
from benchmarks.spark.rivals.engine import Engine, Job

__all__ = ["DeltaEngine"]

_KINDS: Mapping[str, str] = {"plain": "false", "vectors": "true"}


class DeltaEngine(Engine):
    """Tables of Delta Lake: with deletion ``vectors``, or ``plain``."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            job,
            {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": (
                    "org.apache.spark.sql.delta.catalog.DeltaCatalog"
                ),
            },
        )
        self._kind_of: dict[str, str] = {}

    def create(self, table: str, kind: str) -> None:
        self._kind_of[table] = kind
        self.spark.sql(f"DROP TABLE IF EXISTS {table}")
        self.spark.sql(
            f"CREATE TABLE {table} ({self.columns()}) USING delta TBLPROPERTIES "
            f"('delta.enableDeletionVectors' = '{_KINDS[kind]}')"
        )

    def write(self, table: str, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").saveAsTable(table)

    def read(self, table: str) -> DataFrame:
        return self.spark.table(table)

    def compact(self, table: str) -> None:
        self.spark.sql(f"OPTIMIZE {table}")

    def merge(self, table: str) -> None:
        self.source("changes").createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO {table} t USING changes s ON t.{KEY} = s.{KEY} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def keep(self, table: str) -> None:
        """Nothing: `restore` makes the table anew."""

    def restore(self, table: str) -> None:
        # RESTORE leaves a checkpoint, which this release cannot read with every Spark 4.1.
        self.create(table, self._kind_of[table])
        self.ingest(table)
