"""A client whose clock is ahead deletes nothing that by the server's clock is not old."""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from tests.client.conftest import Proxy

from headwater.catalog.sql import SqlCatalog
from headwater.client import connect
from headwater.client.lake import Lake
from headwater.client.maintenance.plan import plan_maintenance
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

MONTH = 30 * 86_400_000
OPTIONS = {
    "bucket": "-1",
    "write-only": "true",
    "snapshot.time-retained": "1 d",
    "snapshot.num-retained.min": "1",
    "consumer.expiration-time": "2 d",
    "partition.expiration-time": "7 d",
    "partition.timestamp-formatter": "yyyy-MM-dd",
}


def _runtime(wrong_by: int) -> Runtime:
    return replace(SYSTEM_RUNTIME, now_millis=partial(_wrong_millis, wrong_by))


def _wrong_millis(wrong_by: int) -> int:
    return SYSTEM_RUNTIME.now_millis() + wrong_by


@pytest.fixture
def full(behind: SqlCatalog) -> str:
    """A table with two snapshots, a tag, a consumer, a partition of today and an orphan file."""
    with Lake(behind, behind.runtime) as lake:
        lake.create_database("sales")
        schema = pa.schema([("id", pa.int64()), ("dt", pa.string())])
        table = lake.create_table("sales.log", schema, partition_keys=["dt"], options={**OPTIONS})
        today = datetime.now(UTC).date().isoformat()
        for number in range(2):
            table.write({"id": [number], "dt": [today]})
        table.create_tag("kept", 1, retained=timedelta(days=3))
        table.consumer("billing").reset(1)
        place = Path(table.info.path.removeprefix("file://"))
        Path(place, f"dt={today}", "bucket-0", "data-x-0.parquet").write_bytes(b"orphan")
        return "sales.log"


def _expire(lake: Lake, name: str) -> tuple[int, int, int, int, int]:
    """Let all that is old go; how much there was of each kind."""
    table = lake.table(name)
    partitions = len(table.expire_partitions().dropped)
    orphans = len(table.remove_orphan_files(older_than=timedelta(days=1)).files)
    tags = len(table.expire_tags())
    table.expire_snapshots()
    return (
        partitions,
        orphans,
        tags,
        2 - len([each for each in table.snapshots() if each.id <= 2]),
        1 - len(table.consumers()),
    )


@pytest.mark.parametrize("wrong_by", [MONTH, -MONTH])
def test_a_wrong_clock_of_a_client_deletes_nothing(
    address: str, full: str, wrong_by: int, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(address, runtime=_runtime(wrong_by)) as lake:
        assert not plan_maintenance(lake).steps
        assert _expire(lake, full) == (0, 0, 0, 0, 0)
        # A worker elsewhere has no server's answer at hand.
        carried = pickle.loads(pickle.dumps(lake.runtime.clock))
        true = SYSTEM_RUNTIME.now_millis()
        assert carried.earliest_millis() <= true
    (warning,) = (each for each in caplog.records if each.name == "headwater.client.clock")
    assert warning.levelno == logging.WARNING
    direction = "ahead of" if wrong_by > 0 else "behind"
    assert f"{MONTH // 60_000} min {direction}" in warning.getMessage()


def test_a_writer_whose_clock_is_ahead_deletes_nothing_after_its_commit(
    address: str, full: str
) -> None:
    upkeep = {
        "write-only": "false",
        "end-input.check-partition-expire": "true",
        "partition.expiration-check-interval": "1 ms",
    }
    with connect(address, runtime=_runtime(MONTH)) as lake:
        table = lake.table(full).with_options(upkeep)
        table.write({"id": [7], "dt": [datetime.now(UTC).date().isoformat()]})
        assert [each.name for each in table.tags()] == ["kept"]
        assert [each.consumer_id for each in table.consumers()] == ["billing"]
        assert {each.id for each in table.snapshots()} == {1, 2, 3}
        assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [0, 1, 7]


def test_what_is_old_by_both_clocks_goes(address: str, full: str) -> None:
    with connect(address, runtime=_runtime(0)) as lake:
        table = lake.table(full).with_options({"snapshot.time-retained": "1 ms"})
        table.consumer("billing").delete()
        assert len(table.expire_snapshots().expired) == 1


def test_files_alone_go_by_the_local_clock(tmp_path: Path, full: str, behind: SqlCatalog) -> None:
    with Lake(behind, _runtime(MONTH)) as lake:
        assert _expire(lake, full) == (1, 1, 1, 1, 1)


def test_a_date_that_is_none_tells_nothing(proxy: Proxy, full: str) -> None:
    proxy.reply("GET config", 200, '{"defaults": {}, "overrides": {"prefix": "main"}}')
    with connect(proxy.url, runtime=_runtime(0)) as lake:
        assert lake.runtime.earliest_millis() <= SYSTEM_RUNTIME.now_millis()
