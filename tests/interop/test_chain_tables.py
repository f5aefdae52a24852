"""Chain tables have the rows that Paimon's Java library reads, whoever writes their branches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from tests.chain_tables import OPTIONS, STOCK, rows

from headwater.client.lake import Lake

from .conftest import TOKEN, Service
from .java_client import JavaClient

KINDS = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update", "partial-update.ignore-delete": "true"},
    "deletion-vectors": {"deletion-vectors.enabled": "true"},
}


def values(found: pa.Table) -> list[tuple[object, ...]]:
    columns = [found[name].to_pylist() for name in STOCK.names]
    return sorted(zip(*columns, strict=True), key=str)


@pytest.fixture
def files(
    service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> JavaClient:
    """Java with the warehouse's files as its catalog.

    Behind a REST catalog 2.0 asks for the snapshots of the table alone, and reads them as those of
    both branches (``FileStoreTableFactory.createChainTable``).
    """
    warehouse = str(service.log.parent / "warehouse")
    more = {"metastore": "filesystem", "warehouse": warehouse, "cache-enabled": "false"}
    return JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path, more)


@pytest.mark.interop_java
@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_the_same_rows(
    lake: Lake, uncached_java: JavaClient, files: JavaClient, kind: str
) -> None:
    if not uncached_java.name.endswith("2.0.0"):
        pytest.skip("older releases know no groups of chains")
    # By its files alone Java would find those of a dropped table of the same name.
    name = f"interop.chain_{kind.replace('-', '_')}_{uncached_java.label}"
    table = lake.create_table(
        name,
        STOCK,
        primary_keys=["region", "day", "item"],
        partition_keys=["region", "day"],
        options=OPTIONS | KINDS[kind],
    )
    whole, delta = table.create_branch("snapshot"), table.create_branch("delta")

    def same(expected: int) -> None:
        ours = values(table.refresh().scan().to_arrow())
        assert len(ours) == expected
        assert values(files.read(name)) == ours
        for branch in ("snapshot", "delta"):
            own = table.branch(branch).scan().to_arrow()
            assert values(uncached_java.read(f"{name}$branch_{branch}")) == values(own)

    def compacted() -> None:
        for branch in (whole, delta):
            branch.compact(full=True)

    whole.write(rows(("EU", "20260101", "apple", 1, 10), ("EU", "20260101", "pear", 1, 20)))
    uncached_java.write(f"{name}$branch_delta", rows(("EU", "20260102", "apple", 2, 11)))
    delta.write(rows(("EU", "20260102", "fig", 2, 5), ("US", "20260102", "kiwi", 1, 1)))
    compacted()
    same(6)
    if kind != "partial-update":
        uncached_java.write(f"{name}$branch_delta", rows(("EU", "20260103", "pear", 3, None)), "-D")
    uncached_java.write(f"{name}$branch_snapshot", rows(("EU", "20260104", "apple", 4, 44)))
    delta.write(rows(("EU", "20260103", "apple", 3, None), ("EU", "20260105", "fig", 5, 6)))
    compacted()
    same(12 if kind == "partial-update" else 11)
    # The table's own partitions go before.
    uncached_java.write(name, rows(("EU", "20260103", "own", 1, 1)))
    table.compact(full=True)
    same(10)
