"""`headwater fsck`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import timedelta
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
    document = json.loads(damaged.stdout)
    assert (damaged.returncode, document["whole"], document["damage_count"]) == (3, False, 1)
    assert document["damages"][0]["neededBy"] == "snapshot 1"
    assert lost.name in document["damages"][0]["problem"]
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


def test_damaged_indexes_and_consumers_are_repaired(headwater: Headwater, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    home = place / "warehouse" / "sales.db" / "orders"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    options = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    with connect(place) as lake:
        lake.create_database("sales")
        table = lake.create_table("sales.orders", schema, primary_keys=["id"], options=options)
        table.write({"id": [1, 2], "v": ["a", "b"]})
        table.consumer("c").reset(1)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return headwater(*arguments, "--catalog", str(place))

    (hashes,), (index,) = home.glob("index/index-*"), home.glob("bucket-0/*.index")
    for path in (hashes, index):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (home / "consumer" / "consumer-c").write_text("")
    checked = run("fsck", "sales.orders")
    assert (checked.returncode, len(checked.stdout.splitlines())) == (3, 4)
    for command in ("rebuild-bucket-indexes", "rewrite-file-indexes"):
        assert f"headwater table {command}" in checked.stdout
        assert run("table", command, "sales.orders").stdout.startswith("snapshot ")
        assert "is right" in run("table", command, "sales.orders").stdout
    assert "snapshot 4" in run("table", "rewrite-file-indexes", "sales.orders", "--rebuild").stdout
    assert run("consumer", "reset", "sales.orders", "c", "5").returncode == 0
    with connect(place) as lake:
        table = lake.table("sales.orders")
        table.write({"id": [1], "v": ["c"]})
        assert table.scan(where="v = 'c'").count() == 1
        # What is damaged belongs to earlier snapshots alone.
        table.expire_snapshots(retain_max=1, retain_min=1, retain=timedelta(0))
        assert [snapshot.id for snapshot in table.snapshots()] == [5]
    assert run("consumer", "delete", "sales.orders", "c").returncode == 0
    assert run("fsck", "sales.orders", "--deep").returncode == 0
