"""`headwater repair`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def test_what_others_left_is_taken_over(headwater: Headwater, tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    with connect(place) as lake:
        lake.create_database("sales")
        lake.create_table("sales.orders", pa.schema([("id", pa.int64())])).write({"id": [1, 2]})
    database = tmp_path / "lake" / "warehouse" / "sales.db"
    shutil.copytree(database / "orders", database / "found")
    shutil.copytree(database / "orders", database / "1$2")
    planned = headwater("repair", "--dry-run", "--catalog", place)
    assert planned.stdout.splitlines()[-1] == "would be taken over: sales.found: table"
    done = headwater("repair", "sales", "--catalog", place, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["adopted"] == [{"table": "sales.found", "what": "table", "refused": None}]
    assert [each["table"] for each in found["refused"]] == ["sales.1$2"]
    shutil.rmtree(database / "1$2")
    again = headwater("repair", "--catalog", place)
    assert (again.returncode, again.stdout) == (0, "the catalog knows all that storage has\n")
    with connect(place) as lake:
        assert lake.table("sales.found").scan().count() == 2


def test_a_server_does_not_repair_for_its_clients(
    headwater: Headwater, tmp_path: Path, serve: Callable[..., str]
) -> None:
    with connect(str(tmp_path / "lake")) as lake:
        address = serve(lake.catalog)
        refused = headwater("repair", "--catalog", address)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "DATABASE-URL" in refused.stderr
