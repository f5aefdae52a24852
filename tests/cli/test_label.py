"""`headwater label` on an embedded catalog."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., str]


@pytest.fixture
def run(headwater: Headwater, tmp_path: Path) -> Run:
    """Runs a command; what it prints, or with `code` what it says is wrong."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("sales")
        lake.create_table("sales.orders", pa.schema([("id", pa.int64())]))

    def command(*arguments: str, code: int = 0) -> str:
        done = headwater("label", *arguments, HEADWATER_CATALOG=str(tmp_path / "lake"))
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return command


def test_labels_are_set_listed_and_unset(run: Run) -> None:
    orders = ("table", "sales.orders")
    assert run("set", *orders, "domain", "sales") == "label domain of table sales.orders is set\n"
    run("set", *orders, "domain", "finance")
    run("set", *orders, "owner", "")
    run("set", "DATABASE", "sales", "tier", "1")
    rows = [json.loads(row) for row in run("list", *orders, "--json").splitlines()]
    assert rows == [{"key": "domain", "value": "finance"}, {"key": "owner", "value": ""}]
    assert "tier" in run("list", "DATABASE", "sales")
    for _ in range(2):
        assert run("unset", *orders, "owner") == "table sales.orders has no label owner\n"
    assert "owner" not in run("list", *orders)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["list", "COLUMN", "sales.orders"], 2, "COLUMN"),
        (["list", "TABLE", "orders"], 1, "database.name"),
        (["list", "TABLE", "sales.none"], 1, "sales.none"),
        (["set", "TABLE", "sales.orders", " ", "v"], 1, "key"),
        (["set", "TABLE", "sales.orders", "k", "v" * 4097], 1, "4096"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], code: int, says: str) -> None:
    assert says in run(*arguments, code=code)
