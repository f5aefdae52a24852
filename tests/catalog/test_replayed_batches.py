"""Jobs that come back after long, and must know what they have committed."""

from __future__ import annotations

import pyarrow as pa
from tests.catalog.conftest import Clock

from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit


def test_a_batch_is_known_to_be_committed_though_its_snapshot_expired(
    lake: Lake, clock: Clock
) -> None:
    table = lake.create_table("sales.log", pa.schema([("id", pa.int64())]))
    job = TableCommit(table.storage, table.pointer, "spark-a/b c")
    for number in range(3):
        assert job.commit([], identifier=number, allow_empty=True) is not None
    for number in range(4):
        clock.turn(hours=1)
        table.write(pa.table({"id": [number]}))
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert [snapshot.id for snapshot in table.snapshots()] == [7]
    replay = TableCommit(table.storage, table.pointer, "spark-a/b c")
    assert replay.filter_committed([2, 3]) == [3]
    # Whoever is not known may have anything to commit.
    other = TableCommit(table.storage, table.pointer, "other")
    assert other.filter_committed([0, 1]) == [0, 1]
