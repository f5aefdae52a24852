"""A report about partitions whose answer is lost is not counted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.client.rest import RestCatalog
from headwater.storage.errors import Unavailable
from headwater.storage.schema.table_schema import Schema
from headwater.storage.table_storage import PartitionStatistics
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

if TYPE_CHECKING:
    from tests.client.conftest import Clock, Proxy

DAILY = Identifier("sales", "daily")
SPECS = [{"dt": "a"}]
REPORT = [PartitionStatistics({"dt": "a"}, 3, 300, 1, 1000, -1)]
PATH = "POST /partitions"
BUSY = '{"message": "busy", "code": 503}'


@pytest.fixture
def catalog(proxy: Proxy, clock: Clock, behind: SqlCatalog) -> RestCatalog:
    """The client of a catalog with a table that keeps its partitions there."""
    fields = (
        DataField(0, "id", AtomicType(Root.BIGINT)),
        DataField(1, "dt", AtomicType(Root.VARCHAR, length=10)),
    )
    options = {"metastore.partitioned-table": "true"}
    behind.databases.create("sales")
    behind.tables.create(DAILY, Schema(fields, partition_keys=("dt",), options=options))
    client = RestCatalog(proxy.url, runtime=clock.runtime)
    client.connect()
    return client


def _records(behind: SqlCatalog) -> list[int]:
    return [item.record_count for item in behind.partitions.list(DAILY).items]


def test_what_is_added_is_sent_once(catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog) -> None:
    proxy.reply(PATH, 503, BUSY, is_done=True)
    with pytest.raises(Unavailable):
        catalog.partitions.create(DAILY, SPECS, statistics=REPORT, replace_statistics=False)
    proxy.lose_answer(PATH)
    with pytest.raises(Unavailable):
        catalog.partitions.create(DAILY, SPECS, statistics=REPORT, replace_statistics=False)
    assert proxy.requests("POST", "/partitions") == 2
    assert _records(behind) == [6]


def test_what_is_put_in_place_is_sent_again(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog
) -> None:
    proxy.reply(PATH, 503, BUSY, is_done=True)
    catalog.partitions.create(DAILY, SPECS, statistics=REPORT, replace_statistics=True)
    assert proxy.requests("POST", "/partitions") == 2
    assert _records(behind) == [3]


def test_a_registration_is_sent_again(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog
) -> None:
    proxy.reply(PATH, 503, BUSY)
    result = catalog.partitions.create(DAILY, SPECS)
    assert (list(result.created), list(result.existed)) == (SPECS, [])
    assert _records(behind) == [-1]
