"""`headwater table` on an embedded catalog and on a server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.processes import command, serving

from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]

TOKEN = "open-sesame"


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[str]:
    """`headwater serve` on the folder's catalog, with a token."""
    arguments = [
        *("serve", "--port", "0", "--database-url", f"sqlite:///{folder / 'headwater.db'}"),
        *("--warehouse", f"main={folder / 'warehouse'}", "--token", "another", "--token", TOKEN),
    ]
    with serving({}, command, *arguments) as address:
        yield address


# One of the processes that share the tests starts what servers are forked off.
_SERVED = pytest.mark.xdist_group("processes")


@pytest.fixture(
    params=[
        "folder",
        pytest.param("server", marks=_SERVED),
        "database",
    ]
)
def look(
    request: pytest.FixtureRequest, headwater: Headwater, folder: Path
) -> Callable[..., list[dict[str, object]]]:
    """Runs a command with --json and gives its rows."""
    match request.param:
        case "folder":
            where = ["--catalog", str(folder)]
        case "server":
            where = ["--catalog", request.getfixturevalue("server"), "--token", TOKEN]
        case _:
            database = f"sqlite:///{folder / 'headwater.db'}"
            where = ["--catalog", database, "--location", str(folder / "warehouse")]

    def run(*arguments: str) -> list[dict[str, object]]:
        result = headwater(*arguments, *where, "--warehouse", "main", "--json")
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


Look = Callable[..., list[dict[str, object]]]


def test_list(look: Look) -> None:
    tables = [
        {"database": "sales", "table": "orders"},
        {"database": "sales", "table": "unwritten"},
    ]
    assert look("table", "list") == tables
    assert look("table", "list", "sales") == tables
    assert look("table", "list", "empty") == []


def test_show(look: Look) -> None:
    shown = {row["property"]: row["value"] for row in look("table", "show", "sales.orders")}
    assert shown["comment"] == "what was sold"
    assert shown["primary key"] == "dt, order_id"
    assert shown["partitioned by"] == "dt"
    assert shown["column order_id"] == "BIGINT NOT NULL"
    assert shown["column amount"] == "DOUBLE"
    assert shown["option bucket"] == "1"
    assert (shown["snapshot"], shown["records"], shown["files"]) == (2, 3, 3)


def test_list_says_what_each_table_is(look: Look) -> None:
    orders, unwritten = look("table", "list", "sales", "--details")
    assert (orders["type"], orders["primary key"], orders["comment"]) == (
        "table",
        "dt, order_id",
        "what was sold",
    )
    assert (unwritten["primary key"], unwritten["partitioned by"]) == (None, None)
    assert look("table", "list", "--pattern", "un%") == [
        {"database": "sales", "table": "unwritten"}
    ]
    assert look("table", "list", "--type", "format-table") == []
    assert look("table", "list", "--type", "TABLE", "--pattern", "ord%") == [
        {"database": "sales", "table": "orders"}
    ]


def test_show_finds_a_table_by_its_id(look: Look) -> None:
    shown = look("table", "show", "sales.orders")
    [table_id] = [str(row["value"]) for row in shown if row["property"] == "id"]
    assert look("table", "show", "--id", table_id) == shown


def test_a_snapshot_is_shown_by_its_number_and_by_its_place(look: Look) -> None:
    def number(*version: str) -> object:
        rows = look("table", "snapshot", "sales.orders", *version)
        return {row["property"]: row["value"] for row in rows}["id"]

    assert [number("1"), number("earliest"), number("LATEST"), number()] == [1, 1, 2, 2]


def test_show_a_table_that_nobody_wrote(look: Look) -> None:
    shown = {row["property"]: row["value"] for row in look("table", "show", "sales.unwritten")}
    assert shown["snapshot"] is None
    assert look("table", "snapshots", "sales.unwritten") == []
    assert look("table", "files", "sales.unwritten") == []


def test_snapshots(look: Look) -> None:
    rows = look("table", "snapshots", "sales.orders")
    assert [(row["snapshot"], row["kind"], row["records"], row["change"]) for row in rows] == [
        (2, "APPEND", 3, 1),
        (1, "APPEND", 2, 2),
    ]
    assert look("table", "snapshots", "sales.orders", "--limit", "1") == rows[:1]


def test_files(look: Look) -> None:
    rows = look("table", "files", "sales.orders")
    found = sorted((row["partition"], row["bucket"], row["level"], row["rows"]) for row in rows)
    assert found == [("dt=a", 0, 0, 1), ("dt=b", 0, 0, 1), ("dt=b", 0, 0, 1)]


def test_consumers(look: Look) -> None:
    rows = look("consumer", "list", "sales.orders")
    (row,) = rows
    assert (row["consumer"], row["next snapshot"]) == ("billing", 2)
    assert (row["lag"], row["lag records"]) == (1, 1)
    assert isinstance(row["lag ms"], int)
    assert (row["rolled back"], row["full read"]) == (False, False)


def test_a_consumer_of_a_snapshot_that_was_rolled_back_is_shown(
    headwater: Headwater, tmp_path: Path
) -> None:
    with connect(tmp_path) as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", pa.schema([("k", pa.int64())]))
        for key in range(3):
            table.write({"k": [key]})
        for consumer, position in (("early", 2), ("late", 4)):
            lake.catalog.consumers.reset(table.info.identifier, consumer, position)
        table.rollback(snapshot_id=2)
    result = headwater("consumer", "list", "d.t", "--json", "--catalog", str(tmp_path))
    lines = map(json.loads, result.stdout.splitlines())
    rows = {row["consumer"]: row["rolled back"] for row in lines}
    assert rows == {"early": False, "late": True}


def test_a_consumer_is_moved_and_forgotten(headwater: Headwater, folder: Path, look: Look) -> None:
    def change(*arguments: str) -> None:
        result = headwater("consumer", *arguments, "--catalog", str(folder))
        assert (result.returncode, result.stderr) == (0, "")

    def positions() -> dict[object, object]:
        rows = look("consumer", "list", "sales.orders")
        return {row["consumer"]: row["next snapshot"] for row in rows}

    change("reset", "sales.orders", "audit", "1")
    assert positions() == {"audit": 1, "billing": 2}
    change("reset", "sales.orders", "audit", "3")
    assert positions() == {"audit": 3, "billing": 2}
    change("delete", "sales.orders", "audit")
    change("delete", "sales.orders", "audit")
    assert positions() == {"billing": 2}


def test_partitions(look: Look) -> None:
    rows = look("partition", "list", "sales.orders")
    assert [(row["partition"], row["records"], row["files"]) for row in rows] == [
        ("dt=a", 1, 1),
        ("dt=b", 2, 2),
    ]
    assert look("partition", "list", "sales.unwritten") == []


def test_in_a_pipe_it_writes_lines_with_tabs(headwater: Headwater, folder: Path) -> None:
    result = headwater("table", "list", HEADWATER_CATALOG=str(folder))
    assert result.stdout.splitlines() == [
        "database\ttable",
        "sales\torders",
        "sales\tunwritten",
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("table", "show"),
        ("table", "snapshots"),
        ("table", "snapshot"),
        ("table", "files"),
        ("consumer", "list"),
        ("partition", "list"),
    ],
    ids=" ".join,
)
def test_an_unknown_table_is_one_line(
    headwater: Headwater, folder: Path, command: tuple[str, str]
) -> None:
    result = headwater(*command, "sales.order", "--catalog", str(folder))
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "sales.order" in result.stderr


@_SERVED
def test_a_wrong_token_is_one_line(headwater: Headwater, server: str) -> None:
    result = headwater("table", "list", "--catalog", server, "--token", "wrong")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "token" in result.stderr


@_SERVED
def test_without_a_token_it_says_how_to_give_one(headwater: Headwater, server: str) -> None:
    result = headwater("table", "list", "--catalog", server)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "HEADWATER_CATALOG_TOKEN" in result.stderr
