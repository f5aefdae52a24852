"""`headwater branch` and `headwater tag` on an embedded catalog."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., list[dict[str, object]]]


@pytest.fixture
def run(headwater: Headwater, tmp_path: Path) -> Run:
    """Runs a command on a catalog with a table of two snapshots; its rows, if it has some."""
    place = tmp_path / "lake"
    with connect(place) as lake:
        lake.create_database("sales")
        table = lake.create_table("sales.log", pa.schema([("n", pa.int64())]))
        for number in (1, 2):
            table.write({"n": [number]})

    def command(*arguments: str, rows: bool = False) -> list[dict[str, object]]:
        as_json = ["--json"] if rows else []
        done = headwater(*arguments, *as_json, HEADWATER_CATALOG=str(place))
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines() if rows]

    return command


def test_branches(run: Run) -> None:
    run("tag", "create", "sales.log", "v1", "--snapshot", "1")
    run("branch", "create", "sales.log", "empty")
    run("branch", "create", "sales.log", "tagged", "--tag", "v1")
    run("branch", "create", "sales.log", "whole", "--snapshot", "2")
    run("branch", "rename", "sales.log", "tagged", "first")
    assert run("branch", "list", "sales.log", rows=True) == [
        {"branch": "empty", "snapshot": None, "schema": 0, "table": "sales.log$branch_empty"},
        {"branch": "first", "snapshot": 1, "schema": 0, "table": "sales.log$branch_first"},
        {"branch": "whole", "snapshot": 2, "schema": 0, "table": "sales.log$branch_whole"},
    ]
    run("branch", "forward", "sales.log", "first")
    run("branch", "drop", "sales.log", "whole")
    snapshots = run("table", "snapshots", "sales.log", rows=True)
    assert [row["snapshot"] for row in snapshots] == [1]
    left = [row["branch"] for row in run("branch", "list", "sales.log", rows=True)]
    assert left == ["empty", "first"]


def test_tags(run: Run) -> None:
    run("tag", "create", "sales.log", "ever")
    run("tag", "create", "sales.log", "short", "--snapshot", "1", "--retain", "1 ms")
    run("tag", "create", "sales.log", "epoch", "--retain", "400000000 d")
    [epoch] = [row for row in run("tag", "list", "sales.log", rows=True) if row["tag"] == "epoch"]
    assert epoch["expires at"] == "after the year 9999"
    run("tag", "delete", "sales.log", "epoch")
    run("branch", "create", "sales.log", "b", "--tag", "ever")
    ever, short = run("tag", "list", "sales.log", rows=True)
    assert (ever["tag"], ever["snapshot"], ever["expires at"]) == ("ever", 2, None)
    assert (short["tag"], short["snapshot"]) == ("short", 1)
    assert isinstance(short["created at"], str)
    assert isinstance(short["expires at"], str)
    assert short["created at"] < short["expires at"]
    assert [row["tag"] for row in run("tag", "list", "sales.log$branch_b", rows=True)] == ["ever"]
    assert run("tag", "expire", "sales.log", "--dry-run", rows=True) == [{"tag": "short"}]
    assert run("tag", "expire", "sales.log", rows=True) == [{"tag": "short"}]
    run("tag", "delete", "sales.log", "ever")
    assert run("tag", "list", "sales.log", rows=True) == []


def test_files_that_only_a_tag_kept_are_removed(run: Run, tmp_path: Path) -> None:
    """The tag is deleted by its name alone, as over the API."""
    with connect(tmp_path / "lake") as lake:
        table = lake.table("sales.log")
        table.create_tag("kept", 1)
        table.overwrite({"n": [7]})
        # What is deleted is mentioned until manifests are rewritten.
        rewriting = {
            "manifest.full-compaction-threshold-size": "1 b",
            "manifest.merge-min-count": "1",
        }
        table.with_options(rewriting).write({"n": [8]})
        table.expire_snapshots(retain_min=1, retain_max=1)
        kept = {file.path for file in table.storage.files.walk(table.info.path)}
        lake.catalog.tags.delete(table.identifier, "kept")
    clean = ["table", "remove-orphan-files", "sales.log"]
    assert run(*clean, rows=True) == []
    would = run(*clean, "--older-than", "0 ms", "--dry-run", rows=True)
    gone = run(*clean, "--older-than", "0 ms", rows=True)
    assert gone == would
    assert {str(row["file"]).rpartition("/")[2].partition("-")[0] for row in gone} == {
        "data",
        "manifest",
    }
    assert {row["file"] for row in gone} < kept
    assert run(*clean, "--older-than", "0 ms", rows=True) == []
    with connect(tmp_path / "lake") as lake:
        assert lake.table("sales.log").scan().to_arrow().to_pydict() == {"n": [7, 8]}


def test_what_cannot_be_done_is_one_sentence(
    run: Run, headwater: Headwater, tmp_path: Path
) -> None:
    run("branch", "create", "sales.log", "b")
    place = str(tmp_path / "lake")
    for arguments in (
        ("branch", "create", "sales.log", "b"),
        ("branch", "drop", "sales.log", "none"),
        ("tag", "delete", "sales.log", "none"),
        ("tag", "create", "sales.log", "v1", "--retain", "soon"),
        ("table", "remove-orphan-files", "sales.log", "--older-than", "soon"),
    ):
        done = headwater(*arguments, HEADWATER_CATALOG=place)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("headwater: ")
        assert done.stderr.count("\n") == 1
