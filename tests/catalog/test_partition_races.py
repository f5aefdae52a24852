"""Many change one table's partitions at the same time, through several catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import CreatedPartitions
from headwater.catalog.sql import SqlCatalog
from headwater.storage.errors import AlreadyExists
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

DAILY = Identifier("sales", "daily")
WRITERS = 6
TIMES = 5


@pytest.fixture
def catalogs(migrated_url: str, tmp_path: Path) -> Iterator[list[SqlCatalog]]:
    """Replicas over one database, and a table that keeps its partitions in it."""
    with ExitStack() as stack:
        found: list[SqlCatalog] = []
        for _ in range(WRITERS):
            found.append(
                SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
            )
            stack.callback(found[-1].close)
        columns = pa.schema([("id", pa.int64()), ("dt", pa.string())])
        options = {"metastore.partitioned-table": "true"}
        found[0].databases.create("sales")
        found[0].tables.create(
            DAILY, Schema.from_arrow(columns, partition_keys=["dt"], options=options)
        )
        yield found


def _all(catalogs: list[SqlCatalog], work: Callable[[SqlCatalog, int], object]) -> list[object]:
    with ThreadPoolExecutor(len(catalogs)) as pool:
        running = [pool.submit(work, catalog, at) for at, catalog in enumerate(catalogs)]
        return [each.result() for each in running]


def _added(records: int) -> PartitionStatistics:
    return PartitionStatistics({"dt": "a"}, records, 10 * records, 1, records, -1)


def test_every_report_is_counted_once(
    catalogs: list[SqlCatalog], snapshot: Callable[..., Snapshot]
) -> None:
    def report(catalog: SqlCatalog, at: int) -> None:
        for number in range(TIMES):
            if at == 0:
                # One of them commits meanwhile.
                made = snapshot(number + 1)
                latest = catalog.snapshots.latest(DAILY)
                base = None if latest is None else latest.snapshot.uuid
                assert catalog.snapshots.commit(DAILY, None, made, base, [_added(1)]).decided()
            else:
                catalog.partitions.create(
                    DAILY, [{"dt": "a"}], statistics=[_added(1)], replace_statistics=False
                )

    _all(catalogs, report)
    (found,) = catalogs[0].partitions.list(DAILY).items
    total = WRITERS * TIMES
    assert (found.record_count, found.file_size_in_bytes, found.file_count) == (
        total,
        10 * total,
        total,
    )


def test_a_partition_is_created_once(catalogs: list[SqlCatalog]) -> None:
    specs = [{"dt": f"{number}"} for number in range(20)]

    def create(catalog: SqlCatalog, _: int) -> CreatedPartitions:
        return catalog.partitions.create(DAILY, specs)

    results = _all(catalogs, create)
    created = [len(item.created) for item in results if isinstance(item, CreatedPartitions)]
    assert sorted(created) == [0] * (WRITERS - 1) + [len(specs)]

    def create_alone(catalog: SqlCatalog, _: int) -> bool:
        try:
            catalog.partitions.create(DAILY, [{"dt": "new"}], ignore_if_exists=False)
        except AlreadyExists:
            return False
        return True

    assert sorted(map(bool, _all(catalogs, create_alone))) == [False] * (WRITERS - 1) + [True]
    assert len(catalogs[0].partitions.list(DAILY).items) == len(specs) + 1
