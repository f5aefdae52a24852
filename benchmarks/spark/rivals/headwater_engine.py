"""Headwater, with a catalog in a file."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from benchmarks.orders import KEY
from benchmarks.spark.rivals.engine import BUCKETS, Engine, Job
from headwater.spark import connect

__all__ = ["HeadwaterEngine"]

_KINDS: Mapping[str, Mapping[str, str]] = {
    "keyed": {"bucket": str(BUCKETS), "write-only": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
}


class HeadwaterEngine(Engine):
    """Tables of Headwater: ``keyed`` or, without a primary key, ``vectors``."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, {})
        self._lake = connect(self.spark, f"{job.folder}/lake")
        self._lake.catalog.create_database("bench")
        self._kept: dict[str, int] = {}
        self._made: set[str] = set()

    def create(self, table: str, kind: str) -> None:
        name = f"bench.{table}"
        if table in self._made:
            self._lake.catalog.drop_table(name)
        self._made.add(table)
        keys = [KEY] if kind == "keyed" else []
        schema = self.source("orders").schema
        self._lake.create_table(name, schema, primary_keys=keys, options=_KINDS[kind])

    def write(self, table: str, rows: DataFrame) -> None:
        self._lake.write(rows, f"bench.{table}")

    def read(self, table: str) -> DataFrame:
        return self._lake.table(f"bench.{table}")

    def compact(self, table: str) -> None:
        self._lake.compact(f"bench.{table}", full=True)

    def merge(self, table: str) -> None:
        merge = self._lake.merge(f"bench.{table}", self.source("changes"), on=[KEY])
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def keep(self, table: str) -> None:
        snapshot = self._lake.catalog.table(f"bench.{table}").latest_snapshot()
        assert snapshot is not None
        self._kept[table] = snapshot.id

    def restore(self, table: str) -> None:
        self._lake.catalog.table(f"bench.{table}").rollback(snapshot_id=self._kept[table])
