"""Files outside a table's directory, which Paimon's Java and Headwater write, read and purge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from headwater.client import connect
from headwater.client.lake import Lake

from .conftest import PYPAIMON, RUST, TOKEN, Client, Service, serving
from .java_client import JavaClient

ROWS = pa.table({"id": list(range(40)), "dt": ["a", "b"] * 20})


@pytest.mark.interop_java
def test_the_places_that_java_writes_to_are_deleted_with_the_table(
    java_gateways: Callable[[str], JavaGateway], java_version: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    with serving(
        tmp_path, HEADWATER_EXTERNAL_LOCATIONS=str(outside), HEADWATER_UNDROP_RETENTION="0 s"
    ) as service:
        java = JavaClient(java_gateways(java_version), java_version, service.uri, TOKEN, tmp_path)
        with connect(service.uri, warehouse="main", token=TOKEN) as lake:
            lake.create_database("db")
            # Releases before 1.4 know but one strategy.
            second = "round-robin" if java_version.startswith("1.3.") else "entropy-inject"
            for name, strategy in (("one", "round-robin"), ("two", second)):
                places = [f"{(outside / name / each).as_uri()}" for each in ("a", "b")]
                options = {
                    "bucket": "2",
                    "file.format": "parquet",
                    "data-file.external-paths": ",".join(places),
                    "data-file.external-paths.strategy": strategy,
                }
                java.create(f"db.{name}", ROWS.schema, ["id", "dt"], ["dt"], options)
                java.write(f"db.{name}", ROWS)
            before = {name: _files(outside / name) for name in ("one", "two")}
            # Below the places as below the table's directory, in no folder of the table's own.
            assert {path.parts[1] for path in before["one"]} == {"dt=a", "dt=b"}
            assert all(before.values())
            assert lake.table("db.one").scan().count() == 40
            taken = {"data-file.external-paths": (outside / "one").as_uri()}
            with pytest.raises(Py4JJavaError, match="overlaps the data files of another table"):
                java.create("db.three", ROWS.schema, options=taken)
            lake.drop_table("db.one")
            assert not list((outside / "one").iterdir())
            assert _files(outside / "two") == before["two"]
            assert java.read("db.two").num_rows == 40


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


STRATEGIES = {
    "round-robin": {},
    "specific-fs": {"data-file.external-paths.specific-fs": "file"},
    "entropy-inject": {"index-file-in-data-file-dir": "true"},
    "weight-robin": {"data-file.external-paths.weights": "1,2"},
}


@pytest.mark.interop_java
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_write_read_and_compact_them(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
    strategy: str,
) -> None:
    gateway = java_gateways("2.0.0")
    java = JavaClient(gateway, "2.0.0", service.uri, TOKEN, tmp_path)
    outside = tmp_path / "outside"
    table = lake.create_table(
        f"interop.places_{strategy}".replace("-", "_"),
        ROWS.schema,
        primary_keys=["id", "dt"],
        options={
            "bucket": "-1",
            "data-file.external-paths": f"{(outside / 'a').as_uri()},{(outside / 'b').as_uri()}",
            "data-file.external-paths.strategy": strategy,
            **STRATEGIES[strategy],
        },
    )
    table.write(ROWS)
    ours = _files(outside)
    assert ours
    assert _sorted(java.read(table.name)) == _sorted(ROWS)
    changed = pa.table({"id": list(range(30, 50)), "dt": ["a", "b"] * 10})
    java.write(table.name, changed)
    assert len(_files(outside)) > len(ours)
    everything = pa.table({"id": list(range(50)), "dt": ["a", "b"] * 25})
    assert _sorted(table.refresh().scan().to_arrow()) == _sorted(everything)
    java.compact(table.name)
    assert _sorted(table.refresh().scan().to_arrow()) == _sorted(everything)
    table.write(ROWS)
    table.refresh().compact()
    assert _sorted(java.read(table.name)) == _sorted(everything)
    if strategy == "entropy-inject":
        provider = gateway.jvm.org.apache.paimon.fs.EntropyInjectExternalPathProvider
        hashed = provider(gateway.jvm.java.util.ArrayList(), None).computeHash
        for path in _files(outside):
            assert "/".join(path.parts[-5:-1]) == hashed(path.name)
        assert any(path.name.startswith("index-") for path in _files(outside))


@pytest.mark.parametrize("client", [PYPAIMON, RUST], indirect=True)
def test_other_clients_read_them(lake: Lake, client: Client, tmp_path: Path) -> None:
    places = f"{(tmp_path / 'a').as_uri()},{(tmp_path / 'b').as_uri()}"
    table = lake.create_table(
        f"interop.places_{client.label}",
        ROWS.schema,
        options={
            "data-file.external-paths": places,
            "data-file.external-paths.strategy": "round-robin",
        },
    )
    table.write(ROWS)
    assert _sorted(client.read(table.name)) == _sorted(ROWS)


def _sorted(table: pa.Table) -> list[object]:
    return list(table.select(["id", "dt"]).sort_by("id").to_pylist())
