"""`headwater maintain`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A catalog with two tables that want compaction."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        for name in ("shop.a", "shop.b"):
            table = lake.create_table(
                name,
                pa.schema([pa.field("id", pa.int64(), nullable=False)]),
                primary_keys=["id"],
                options={
                    "bucket": "1",
                    "write-only": "true",
                    "num-sorted-run.compaction-trigger": "2",
                },
            )
            table.write({"id": [1]})
            table.write({"id": [1]})
    return str(tmp_path / "lake")


def test_a_plan_is_made_and_resumed(headwater: Headwater, place: str, tmp_path: Path) -> None:
    planned = headwater("maintain", "--catalog", place, "--plan", "todo", "--dry-run")
    assert planned.stdout.splitlines()[0] == "table\taction\tdue\tstate\toutcome"
    assert [line.split("\t")[:2] for line in planned.stdout.splitlines()[1:]] == [
        ["shop.a", "compact"],
        ["shop.b", "compact"],
    ]
    again = headwater("maintain", "--catalog", place, "--plan", "todo")
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "todo" in again.stderr
    resumed = headwater("maintain", "--catalog", place, "--resume", "todo", "--json")
    assert resumed.returncode == 0
    assert [json.loads(line)["state"] for line in resumed.stdout.splitlines()] == ["done"] * 2
    with connect(place) as lake:
        assert len(lake.table("shop.a").files()) == 1
    nothing = headwater("maintain", "--catalog", place)
    assert (nothing.returncode, nothing.stdout.count("\n")) == (0, 1)


def test_failures_end_with_1_and_wrong_arguments_say_so(headwater: Headwater, place: str) -> None:
    headwater("maintain", "--catalog", place, "--plan", "todo", "--dry-run")
    with connect(place) as lake:
        lake.drop_table("shop.b")
    failed = headwater("maintain", "--catalog", place, "--resume", "todo")
    assert failed.returncode == 1
    assert [line.split("\t")[3] for line in failed.stdout.splitlines()[1:]] == ["done", "failed"]
    for arguments, message in (
        (["--do", "tidy"], "there is no action tidy"),
        (["--include", "sale.*"], "no table has a name like 'sale.*'"),
        (["--resume", "todo", "--full"], "leave out what says what to plan"),
        (["--max-bytes", "lots"], "--max-bytes"),
        (["--max-time", "5"], "--max-time"),
    ):
        wrong = headwater("maintain", "--catalog", place, *arguments)
        assert wrong.returncode == 1
        assert message in wrong.stderr
