"""`headwater reconcile`."""

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
    planned = headwater("reconcile", "--catalog", place)
    assert planned.returncode == 3
    assert "sales.found\ttable\tadopt\twould be done" in planned.stdout.splitlines()
    done = headwater("reconcile", "sales", "--apply", "--catalog", place, "--json")
    assert done.returncode == 3
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[0] == {
        "table": "sales.found", "what": "table", "step": "adopt", "result": "done"
    }  # fmt: skip
    assert [each["table"] for each in found[1:]] == ["sales.1$2"]
    shutil.rmtree(database / "1$2")
    again = headwater("reconcile", "--catalog", place)
    assert (again.returncode, again.stdout) == (0, "the catalog and storage agree\n")
    with connect(place) as lake:
        assert lake.table("sales.found").scan().count() == 2


def test_a_server_does_not_reconcile_for_its_clients(
    headwater: Headwater, tmp_path: Path, serve: Callable[..., str]
) -> None:
    with connect(str(tmp_path / "lake")) as lake:
        address = serve(lake.catalog)
        refused = headwater("reconcile", "--catalog", address)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "DATABASE-URL" in refused.stderr


def test_a_copied_catalog_is_moved_before_it_is_used(headwater: Headwater, tmp_path: Path) -> None:
    place, copy = tmp_path / "lake", tmp_path / "copy"
    with connect(place) as lake:
        lake.create_database("sales")
        lake.create_table("sales.orders", pa.schema([("id", pa.int64())])).write({"id": [1, 2]})
    shutil.copytree(place, copy)
    refused = headwater("reconcile", "--catalog", str(copy))
    assert (refused.returncode, "--moved-from" in refused.stderr) == (1, True)
    moved = ("reconcile", "--catalog", str(copy), "--moved-from", str(place / "warehouse"))
    assert headwater(*moved).returncode == 3
    done = headwater(*moved, "--apply")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "the catalog and storage agree")
    shutil.rmtree(place)
    with connect(copy) as lake:
        assert lake.table("sales.orders").scan().count() == 2
