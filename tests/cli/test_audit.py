"""`headwater audit`: the change feed, listed and followed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import ServerProcess, command

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_feed_is_listed_with_conditions(headwater: Headwater, tmp_path: Path) -> None:
    with connect(str(tmp_path / "lake")) as lake:
        lake.create_database("sales")
        lake.create_database("hr")
        lake.drop_database("hr")
    listed = headwater("audit", "--catalog", "lake")
    assert (listed.returncode, listed.stderr) == (0, "")
    heading, *rows = (line.split("\t") for line in listed.stdout.splitlines())
    assert heading[:3] == ["offset", "time", "principal"]
    assert [(row[0], *row[5:8]) for row in rows] == [
        ("1", "claimWarehouse", "warehouse main", "done"),
        ("2", "createDatabase", "database sales", "done"),
        ("3", "createDatabase", "database hr", "done"),
        ("4", "dropDatabase", "database hr", "done"),
    ]
    found = headwater("audit", "--catalog", "lake", "--database", "hr", "--after", "3", "--json")
    (event,) = map(json.loads, found.stdout.splitlines())
    assert (event["offset"], event["type"], event["principal"]) == (4, "dropDatabase", None)
    assert event["subject"]["name"] == "hr"
    none = headwater("audit", "--catalog", "lake", "--table", "hr.people", "--json")
    assert (none.returncode, none.stdout) == (0, "")


def test_mistakes_are_told(headwater: Headwater, tmp_path: Path) -> None:
    connect(str(tmp_path / "lake")).close()
    late = headwater("audit", "--catalog", "lake", "--after", "99")
    assert (late.returncode, late.stderr.count("\n")) == (1, 1)
    assert "no event has offset 99" in late.stderr
    both = headwater("audit", "--catalog", "lake", "--table", "a.b", "--database", "a")
    assert both.returncode == 2


@pytest.mark.xdist_group("processes")
def test_following_goes_on_with_what_is_done_later(tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    with connect(place) as lake:
        lake.create_database("sales")
        arguments = ("--follow", "--json", "--catalog", place, "--after", "1")
        with ServerProcess({}, command, "audit", *arguments) as following:
            printed = following.stderr
            assert json.loads(printed.readline())["subject"]["name"] == "sales"
            lake.create_database("hr")
            event = json.loads(printed.readline())
            assert (event["offset"], event["subject"]["name"]) == (3, "hr")
            following.send_signal(signal.SIGINT)
            assert "Traceback" not in printed.read()
            following.wait(60)
