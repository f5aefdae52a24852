"""`headwater view`, `headwater function` and `headwater permission`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.functions import FileDefinition, LambdaDefinition, SqlDefinition
from headwater.catalog.model.identifier import Identifier
from headwater.client import Lake, connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., str]

VIEW = Identifier("sales", "recent")
FUNCTION = Identifier("sales", "area")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as opened:
        opened.create_database("sales")
        yield opened


@pytest.fixture
def run(headwater: Headwater, lake: Lake, tmp_path: Path) -> Run:
    """Runs a command; what it prints, or with `code` what it says is wrong."""

    def command(*arguments: str, code: int = 0) -> str:
        done = headwater(*arguments, HEADWATER_CATALOG=str(tmp_path / "lake"))
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return command


def properties(text: str) -> dict[str, object]:
    rows = [json.loads(line) for line in text.splitlines()]
    return {row["property"]: row["value"] for row in rows}


def test_a_view_from_first_to_last(run: Run, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "flink.sql").write_text("SELECT 2\nAS n\n")
    create = (
        *("view", "create", "sales.recent", "SELECT 1 AS n", "--column", "n INT COMMENT 'all'"),
        *("--dialect", "spark=SELECT 'a=b' AS n", "--dialect", "flink=@flink.sql"),
        *("--comment", "c", "--option", "a=b"),
    )
    assert run(*create) == "view sales.recent is there\n"
    schema = lake.catalog.views.get(VIEW).schema
    assert schema.dialects == {"spark": "SELECT 'a=b' AS n", "flink": "SELECT 2\nAS n"}
    [column] = schema.columns
    assert (column.name, column.type, column.description) == ("n", "INT", "all")
    assert "sales.recent" in run(*create, code=1)
    run(*create, "--if-not-exists")
    assert "exclude" in run(*create, "--if-not-exists", "--or-replace", code=2)
    view_id = lake.catalog.views.get(VIEW).id
    run(*create[:2], "sales.recent", "SELECT 0 AS m", "--column", "m INT", "--or-replace")
    assert lake.catalog.views.get(VIEW).schema.query == "SELECT 0 AS m"
    run(*create, "--or-replace")
    assert lake.catalog.views.get(VIEW).schema == schema
    assert lake.catalog.views.get(VIEW).id == view_id

    run(
        *("view", "alter", "sales.recent", "--dialect", "spark=SELECT 3", "--unset", "a"),
        *("--dialect", "trino=SELECT 4", "--drop-dialect", "flink", "--comment", ""),
    )
    shown = properties(run("view", "show", "sales.recent", "--json"))
    assert shown["query"] == "SELECT 1 AS n"
    assert (shown["dialect spark"], shown["dialect trino"]) == ("SELECT 3", "SELECT 4")
    assert "dialect flink" not in shown
    assert (shown["column n"], shown["comment"]) == ("INT COMMENT 'all'", None)
    assert "option a" not in shown

    run("view", "rename", "sales.recent", "sales.newest")
    for database in ([], ["sales"]):
        assert run("view", "list", *database) == "database\tview\nsales\tnewest\n"
        assert run("view", "list", *database, "--pattern", "x%") == "database\tview\n"
    run("view", "drop", "sales.newest")
    run("view", "drop", "sales.newest", "--if-exists")
    assert "sales.newest" in run("view", "drop", "sales.newest", code=1)


def test_a_query_with_many_lines_is_one_line_in_a_pipe(run: Run) -> None:
    run("view", "create", "sales.recent", "SELECT 1\n  AS n", "--column", "n INT")
    lines = run("view", "show", "sales.recent").splitlines()
    assert "query\tSELECT 1   AS n" in lines


def test_a_function_from_first_to_last(run: Run, lake: Lake) -> None:
    java = '{"type": "lambda", "language": "java", "definition": "(l, w) -> l * w"}'
    jar = (
        '{"type": "file", "language": "java", "className": "x.Area", "functionName": "area",'
        ' "fileResources": [{"resourceType": "jar", "uri": "s3://lib/area.jar"}]}'
    )
    create = (
        *("function", "create", "sales.area", "--param", "l DOUBLE", "--param", "w DOUBLE"),
        *("--returns", "area VARIANT NOT NULL", "--sql", "trino=l * w", "--not-deterministic"),
        *("--definition", f"spark={java}", "--definition", f"flink={jar}", "--comment", "c"),
    )
    assert run(*create) == "function sales.area is there\n"
    spec = lake.catalog.functions.get(FUNCTION).spec
    assert [column.type for column in spec.input_params or ()] == ["DOUBLE", "DOUBLE"]
    assert [column.type for column in spec.return_params or ()] == ["VARIANT NOT NULL"]
    assert not spec.is_deterministic
    assert spec.definitions["trino"] == SqlDefinition("l * w")
    assert spec.definitions["spark"] == LambdaDefinition("(l, w) -> l * w", "java")
    assert isinstance(spec.definitions["flink"], FileDefinition)
    shown = properties(run("function", "show", "sales.area", "--json"))
    assert (shown["takes l"], shown["gives area"]) == ("DOUBLE", "VARIANT NOT NULL")
    assert shown["definition flink"] == "java: x.Area.area in s3://lib/area.jar"

    run(
        *("function", "alter", "sales.area", "--sql", "trino=w * l", "--sql", "duckdb=l"),
        *("--drop-definition", "spark", "--option", "a=b", "--comment", ""),
    )
    spec = lake.catalog.functions.get(FUNCTION).spec
    assert sorted(spec.definitions) == ["duckdb", "flink", "trino"]
    assert spec.definitions["trino"] == SqlDefinition("w * l")
    assert (spec.comment, spec.options) == (None, {"a": "b"})
    assert run("function", "list") == "database\tfunction\nsales\tarea\n"
    run("function", "create", "sales.area", "--sql", "trino=1", "--or-replace")
    assert lake.catalog.functions.get(FUNCTION).spec.definitions == {"trino": SqlDefinition("1")}
    run("function", "drop", "sales.area")
    run("function", "drop", "sales.area", "--if-exists")
    assert run("function", "list", "sales") == "database\tfunction\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["view", "create", "sales.v", "SELECT 1"], 2, "--column"),
        (["view", "create", "sales.v", "@none.sql", "--column", "n INT"], 1, "cannot read none"),
        (["view", "alter", "sales.v", "--comment", "c"], 1, "sales.v"),
        (["view", "show", "recent"], 1, "database.table"),
        (["function", "create", "sales.f", "--definition", "x={}"], 1, "type"),
        (["function", "create", "sales.f", "--definition", 'x={"type": "y"}'], 1, "'lambda'"),
        (["function", "create", "sales.f", "--sql", "x=1", "--definition", "x={}"], 2, "twice"),
        (["permission", "grant", "ada", "SELECT", "TABLE"], 2, "needs a NAME"),
        (["permission", "grant", "ada", "SELECT", "TABLE", "sales.none"], 1, "sales.none"),
        (
            ["permission", "grant", "ada", "UPDATE", "COLUMN", "sales.none", "--column", "n"],
            1,
            "SELECT",
        ),
        (["permission", "grant", "ada", "EAT", "CATALOG"], 2, "EAT"),
        (["permission", "list", "DATABASE"], 1, "database"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], code: int, says: str) -> None:
    assert says in run(*arguments, code=code)


def test_permissions(run: Run, lake: Lake) -> None:
    columns = pa.schema([("n", pa.int64()), ("m", pa.int64())])
    lake.create_table("sales.orders", columns, options={"query-auth.enabled": "true"})
    run("view", "create", "sales.v", "SELECT 1 AS n", "--column", "n INT")
    run("function", "create", "sales.f")

    def granted(*target: str) -> list[tuple[str, str, str | None]]:
        rows = map(json.loads, run("permission", "list", *target, "--json").splitlines())
        return [(row["principal"], row["access"], row["columns"]) for row in rows]

    for target in (
        ["CATALOG"],
        ["CATALOG_ALL"],
        ["DATABASE", "sales"],
        ["DATABASE_ALL", "sales"],
        ["TABLE", "sales.orders"],
        ["VIEW", "sales.v"],
        ["FUNCTION", "sales.f"],
    ):
        run("permission", "grant", "ada", "all", target[0].lower(), *target[1:])
        assert granted(*target) == [("ada", "ALL", None)]
    run("permission", "grant", "bob", "DROP", *target)
    assert granted(*target, "--principal", "bob") == [("bob", "DROP", None)]
    assert granted(*target, "--access", "all") == [("ada", "ALL", None)]
    run("permission", "revoke", "ada", "ALL", *target)
    assert granted(*target) == [("bob", "DROP", None)]
    column = ("COLUMN", "sales.orders")
    run("permission", "grant", "ada", "SELECT", *column, "--column", "n", "--column", "m")
    run("permission", "grant", "bob", "SELECT", *column, "--except-column", "n")
    assert granted(*column) == [("ada", "SELECT", "n, m"), ("bob", "SELECT", "all but n")]
    run("permission", "grant", "eve", "SELECT", "TABLE", "sales.orders", "--expires-in", "1 h")
    [row] = run(
        "permission", "list", "TABLE", "sales.orders", "--principal", "eve", "--json"
    ).splitlines()
    assert json.loads(row)["until"].endswith("Z")


def test_who_sees_what(run: Run, lake: Lake) -> None:
    columns = pa.schema([("n", pa.int64())])
    lake.create_table("sales.orders", columns, options={"query-auth.enabled": "true"})
    run("permission", "grant", "ops", "ALL", "DATABASE_ALL", "sales")
    run("permission", "grant", "ada", "SELECT", "COLUMN", "sales.orders", "--except-column", "n")

    def rows(*words: str) -> list[object]:
        return [json.loads(line) for line in run("permission", *words, "--json").splitlines()]

    assert rows("who", "TABLE", "sales.orders") == [
        {"principal": "ada", "access": "", "columns": "all but n"},
        {"principal": "ops", "access": "ALL", "columns": None},
    ]
    assert rows("of", "ops") == [{"table": "sales.orders", "access": "ALL", "columns": None}]
