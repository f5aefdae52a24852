"""Files that Paimon's own writers put outside a table's directory go when the table is purged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from headwater.client import connect

from .conftest import TOKEN, serving
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
