"""Partitions and consumers, shared with Paimon's own clients through one server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.client.lake import Lake

from .conftest import JAVA, PYPAIMON, Client
from .java_client import JavaClient

AnyClient = Client | JavaClient

VISITS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])
OPTIONS = {"metastore.partitioned-table": "true"}

# pypaimon-rust knows neither.
with_partitions_and_consumers = pytest.mark.parametrize("client", [PYPAIMON, *JAVA], indirect=True)


def _visits(*hours: tuple[str, int]) -> pa.Table:
    rows = [{"id": at, "day": day, "hour": hour} for at, (day, hour) in enumerate(hours)]
    return pa.Table.from_pylist(rows, schema=VISITS)


def _ours(lake: Lake, table: str) -> dict[str, int]:
    return {item.name: item.record_count for item in lake.table(table).partitions()}


@with_partitions_and_consumers
@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["files", "catalog"])
def test_each_sees_the_partitions_of_the_other(
    lake: Lake, client: AnyClient, options: dict[str, str]
) -> None:
    table = f"interop.visits_{client.label}_{len(options)}"
    client.create(table, VISITS, partition_keys=["day", "hour"], options=options)
    client.write(table, _visits(("2026-01-01", 1), ("2026-01-01", 10), ("2026-01-02", 1)))
    lake.table(table).write(_visits(("2026-01-01", 1), ("2026-01-03", 5)))
    expected = {
        "day=2026-01-01/hour=1": 2,
        "day=2026-01-01/hour=10": 1,
        "day=2026-01-02/hour=1": 1,
        "day=2026-01-03/hour=5": 1,
    }
    assert _ours(lake, table) == expected
    assert client.partitions(table) == expected
    lake.table(table).delete("day = '2026-01-02'")
    if options:
        del expected["day=2026-01-02/hour=1"]
        assert client.partitions(table) == _ours(lake, table) == expected


@pytest.mark.interop_java
def test_a_partition_that_java_marks_is_done(lake: Lake, java: JavaClient) -> None:
    table = f"interop.marked_{java.label}"
    java.create(table, VISITS, partition_keys=["day"], options=OPTIONS)
    java.write(table, _visits(("2026-01-01", 1), ("2026-01-02", 1)))
    java.mark_done(table, {"day": "2026-01-01"}, {"day": "2026-01-09"})
    found = {item.name: item.is_done for item in lake.table(table).partitions()}
    assert found == {"day=2026-01-01": True, "day=2026-01-02": False, "day=2026-01-09": True}


@with_partitions_and_consumers
def test_each_sees_the_consumers_of_the_other(lake: Lake, client: AnyClient) -> None:
    table = f"interop.consumed_{client.label}"
    client.create(table, VISITS)
    for number in range(3):
        client.write(table, _visits(*[("2026-01-01", hour) for hour in range(number + 1)]))
    ours = lake.table(table)
    ours.consumer("ours").reset(2)
    client.reset_consumer(table, "theirs", 3)
    assert client.consumers(table) == {"ours": 2, "theirs": 3}
    found = {item.consumer_id: item for item in ours.consumers()}
    assert {name: item.next_snapshot for name, item in found.items()} == {"ours": 2, "theirs": 3}
    lags = {name: item.lag for name, item in found.items()}
    assert lags["ours"] is not None
    assert (lags["ours"].snapshots, lags["ours"].records) == (2, 5)
    assert lags["theirs"] is not None
    assert (lags["theirs"].snapshots, lags["theirs"].records) == (1, 3)
    client.reset_consumer(table, "ours", 4)
    assert ours.consumer("ours").next_snapshot == 4
    ours.consumer("theirs").delete()
    assert client.consumers(table) == {"ours": 4}
