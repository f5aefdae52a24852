"""`headwater warehouse`: what the servers of a database serve."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest

from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.open_database import opened_database
from headwater.storage.runtime import SYSTEM_RUNTIME

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def database(headwater: Headwater) -> None:
    assert headwater("db", "upgrade").returncode == 0


def test_from_the_first_to_the_last(headwater: Headwater, database: None, tmp_path: Path) -> None:
    option = ["--option", "s3.secret-key=hunter2", "--option", "s3.region=eu=1"]
    added = headwater("warehouse", "add", "lake", "./lake", *option)
    assert added.stdout == f"warehouse 'lake' is at file://{tmp_path}/lake\n"
    listed = headwater("warehouse", "list", "--json")
    [line] = map(json.loads, listed.stdout.splitlines())
    assert (line["name"], line["location"]) == ("lake", f"file://{tmp_path}/lake")
    assert line["options"] == "s3.region=eu=1, s3.secret-key=***"
    changed = headwater(
        "warehouse", "set", "lake", "--option", "s3.region=us", "--unset", "s3.secret-key"
    )
    assert changed.stdout == "warehouse 'lake' is changed\n"
    assert "\ts3.region=us\t" in headwater("warehouse", "list").stdout
    assert headwater("warehouse", "remove", "lake").stdout == "warehouse 'lake' is removed\n"
    assert headwater("warehouse", "list", "--json").stdout == ""


def test_a_secret_comes_from_standard_input(
    headwater: Headwater, database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("hunter2\nAKIA\n"))
    option = ["--option", "s3.secret-key=-", "--option", "s3.access-key=-"]
    added = headwater("warehouse", "add", "lake", "./lake", *option)
    assert (added.returncode, "hunter2" in added.stdout + added.stderr) == (0, False)
    with opened_database("sqlite:///headwater.db") as opened:
        options = Warehouses(opened, SYSTEM_RUNTIME).get("lake").options
    assert options == {"s3.secret-key": "hunter2", "s3.access-key": "AKIA"}


def test_options_are_encrypted_once_there_is_a_key(headwater: Headwater, database: None) -> None:
    assert (
        headwater("warehouse", "add", "lake", "./lake", "--option", "s3.region=b").returncode == 0
    )
    without = headwater("warehouse", "rotate-key")
    assert (without.returncode, "HEADWATER_SECRET_KEYS" in without.stderr) == (1, True)
    key = {"HEADWATER_SECRET_KEYS": f"k1:{'A' * 43}="}
    assert headwater("warehouse", "rotate-key", **key).stdout.startswith("the options of 1 ")
    assert '"k1"' in _stored_options()
    assert headwater("warehouse", "list", "--json", **key).returncode == 0
    unread = headwater("warehouse", "list", "--json")
    assert (unread.returncode, "'k1'" in unread.stderr) == (1, True)


def _stored_options() -> str:
    with closing(sqlite3.connect("headwater.db")) as opened:
        return str(opened.execute("SELECT options FROM hw_warehouses").fetchone()[0])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["add", "lake", "s3://ada:hunter2@bucket/x"], 1, "must not hold credentials"),
        (["add", "lake", "./x", "--option", "s3.secret-key=-"], 2, "standard input"),
        (["add", "a b", "./lake"], 1, "is not a warehouse name"),
        (["add", "lake", "ftp://x/y"], 1, "scheme 'ftp'"),
        (["add", "lake", "./x", "--option", "hunter2"], 2, "KEY=VALUE"),
        (["add", "lake", "./x", "--option", "a=hunter2", "--option", "a=b"], 2, "there twice"),
        (["add", "lake", "./x", "--option", "s3.reigon=hunter2"], 1, "'s3.reigon' is not known"),
        (["add", "lake", "./x", "--option", "s3.region =hunter2"], 1, "must not contain blanks"),
        (["set", "lake"], 2, "give --option or --unset"),
        (["set", "lake", "--unset", "a"], 1, "warehouse 'lake' does not exist"),
        (["remove", "lake"], 1, "warehouse 'lake' does not exist"),
    ],
)
def test_what_cannot_be_is_said_without_secrets(
    headwater: Headwater,
    database: None,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())
    result = headwater("warehouse", *arguments)
    assert result.returncode == code
    assert says in result.stderr
    assert "hunter2" not in result.stdout + result.stderr
