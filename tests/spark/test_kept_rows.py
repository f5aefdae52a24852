"""Changes whose executors are lost with the rows that they keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import Numbered, Rows, rows
from tests.spark_sessions import kind_of_session

from headwater.catalog.table.table import Table
from headwater.spark import SparkLake
from headwater.spark.write.merge import MergeBuilder
from headwater.spark.write.update import replace_where
from headwater.storage.errors import Unavailable
from headwater.storage.table_storage import SnapshotPointer

pytestmark = [pytest.mark.spark, pytest.mark.modes]


class _LosingTable(Table):
    """As a change asks for its latest snapshot, what Spark keeps is lost, a number of times."""

    spark: SparkSession
    losses: int

    @property
    def pointer(self) -> SnapshotPointer:
        kept = self.spark.sparkContext._jsc.getPersistentRDDs()
        if kept and self.losses:
            self.losses -= 1
            for each in kept.values():
                each.unpersist(True)
        return super().pointer


def _merge(lake: SparkLake, table: Table, new: DataFrame) -> None:
    merge = MergeBuilder(lake._session, table, new, ["id"])
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _replace(lake: SparkLake, table: Table, new: DataFrame) -> None:
    replace_where(lake._session, table, new, "id >= 5")


@pytest.mark.parametrize("change", [_merge, _replace])
def test_a_change_whose_kept_rows_are_lost_begins_anew_or_commits_nothing(
    lake: SparkLake,
    spark: SparkSession,
    numbered: Numbered,
    change: Callable[[SparkLake, Table, DataFrame], None],
) -> None:
    if kind_of_session() == "connect":
        pytest.skip("Spark's memory is out of reach")
    lake.create_table("db.t", numbered(0, 1).schema, primary_keys=["id"], options={"bucket": "1"})
    lake.write(numbered(0, 10), "db.t")
    new = numbered(5, 12, "new")

    def changed(losses: int) -> Rows:
        found = lake.catalog.table("db.t")
        table = _LosingTable(found.catalog, found.info)
        table.spark, table.losses = spark, losses
        change(lake, table, new)
        assert table.losses == 0
        return rows(lake.table("db.t"))

    assert changed(losses=1) == sorted(rows(numbered(0, 5)) + rows(new), key=repr)
    assert len(lake.catalog.table("db.t").snapshots()) == 2
    with pytest.raises(Unavailable, match=r"db\.t: nothing was committed: .*run it again"):
        changed(losses=4)
    assert len(lake.catalog.table("db.t").snapshots()) == 2
