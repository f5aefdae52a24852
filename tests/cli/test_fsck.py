"""`headwater fsck`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_damaged_table_is_told_by_the_exit_code(headwater: Headwater, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    with connect(place) as lake:
        lake.create_database("sales")
        lake.create_table("sales.orders", pa.schema([("id", pa.int64())])).write({"id": [1, 2]})
    whole = headwater("fsck", "sales.orders", "--catalog", str(place))
    assert (whole.returncode, whole.stdout[:6]) == (0, "whole:")
    (lost,) = (place / "warehouse" / "sales.db" / "orders").glob("bucket-0/data-*")
    lost.unlink()
    damaged = headwater("fsck", "sales.orders", "--catalog", str(place), "--json")
    found = json.loads(damaged.stdout)
    assert (damaged.returncode, found["whole"], found["damage_count"]) == (3, False, 1)
    assert found["damages"][0]["neededBy"] == "snapshot 1"
    assert lost.name in found["damages"][0]["problem"]
    unknown = headwater("fsck", "sales.nope", "--catalog", str(place))
    assert unknown.returncode == 1


def test_what_may_be_lost_has_an_exit_code_of_its_own(headwater: Headwater, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    with connect(place) as lake:
        lake.create_database("sales")
        table = lake.create_table("sales.orders", pa.schema([("id", pa.int64())]))
        table.write({"id": [1, 2]})
        table.create_tag("audit")
    (place / "warehouse" / "sales.db" / "orders" / "tag" / "tag-audit").unlink()
    checked = headwater("fsck", "sales.orders", "--catalog", str(place))
    assert checked.returncode == 4
    first, last = checked.stdout.splitlines()
    assert first.startswith("warning: ")
    assert "tag-audit does not exist" in first
    assert (last[:7], last[-13:]) == ("whole: ", "; warnings: 1")
