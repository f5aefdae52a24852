"""Manifests of many partitions, whose headers have an index that other libraries do not know."""

from __future__ import annotations

import pyarrow as pa

from headwater.client.lake import Lake
from headwater.storage.formats.avro_blocks import BlockReader

from .conftest import Client
from .java_client import JavaClient

VISITS = pa.schema([("id", pa.int64()), ("day", pa.int32())])
DAYS = 600


def test_a_manifest_with_an_index_of_partitions_is_read(
    lake: Lake, client: Client | JavaClient
) -> None:
    name = f"interop.many_partitions_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, VISITS, partition_keys=["day"])
    rows = pa.table({"id": list(range(DAYS)), "day": list(range(DAYS))}, schema=VISITS)
    table.write(rows)
    folder = table.storage.layout.manifest("")
    names = [
        item.name
        for item in table.storage.files.list(folder)
        if "/manifest-" in item.path and "/manifest-list-" not in item.path
    ]
    headers = [
        BlockReader(table.storage.files.read(table.storage.layout.manifest(each)), each).metadata
        for each in names
    ]
    assert [b"headwater.partitions" in header for header in headers] == [True]
    assert sorted(client.read(name)["id"].to_pylist()) == list(range(DAYS))
    client.write(name, pa.table({"id": [DAYS], "day": [7]}, schema=VISITS))
    assert sorted(table.scan(where="day = 7").to_arrow()["id"].to_pylist()) == [7, DAYS]
    assert table.scan().to_arrow().num_rows == DAYS + 1
