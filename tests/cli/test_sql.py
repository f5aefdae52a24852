"""`headwater sql`: statements from arguments, files, pipes and a shell."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.conftest import Headwater

from headwater.cli.sql.results import Format
from headwater.cli.sql.shell import Shell
from headwater.spark import SparkLake, connect

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture(scope="module")
def sales(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, SparkLake]:
    """An embedded catalog with one table, and its folder."""
    folder = tmp_path_factory.mktemp("sales")
    lake = connect(spark, folder)
    lake.catalog.create_database("db")
    frame = spark.sql(
        "SELECT 1L AS id, 'a\"b' AS name, ARRAY(1, 2) AS xs, double('NaN') AS ratio "
        "UNION ALL SELECT 2, NULL, NULL, 0.5"
    )
    lake.create_table("db.t", frame.schema)
    lake.write(frame, "db.t")
    return str(folder), lake


def test_results_have_three_forms(sales: tuple[str, SparkLake], headwater: Headwater) -> None:
    folder, _ = sales
    options = ("--catalog", folder, "--database", "db")
    query = "SELECT * FROM t ORDER BY id"
    found = headwater("sql", query, *options, "--format", "json")
    assert found.stderr == ""
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"id": 1, "name": 'a"b', "xs": [1, 2], "ratio": "nan"},
        {"id": 2, "name": None, "xs": None, "ratio": 0.5},
    ]
    found = headwater("sql", "-e", query, *options, "--format", "csv")
    assert found.stdout.splitlines() == ["id,name,xs,ratio", '1,"a""b","[1, 2]",nan', "2,,,0.5"]
    drawn = headwater("sql", query, *options).stdout
    for text in ("id", 'a"b', "NULL", "0.5"):
        assert text in drawn


def test_statements_come_from_files_and_pipes(
    sales: tuple[str, SparkLake],
    headwater: Headwater,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, _ = sales
    script = tmp_path / "script.sql"
    script.write_text("USE db; -- a comment; with a semicolon\nSELECT count(*) AS n FROM t;\n")
    options = ("--catalog", folder, "--format", "csv")
    assert headwater("sql", "-f", str(script), *options).stdout == "n\n2\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT max(id) AS m FROM db.t"))
    assert headwater("sql", *options).stdout == "m\n2\n"
    script.write_text(
        "ALTER TABLE db.t SET TBLPROPERTIES ('query-auth.enabled' = 'true'); "
        "GRANT SELECT (id) ON TABLE db.t TO ada; SHOW GRANTS ON TABLE db.t\n"
    )
    shown = headwater("sql", "-f", str(script), *options).stdout.splitlines()
    assert shown[-1] == "ada,SELECT,id,COLUMN,db.t,"
    assert "plan" not in headwater("sql", "EXPLAIN SELECT id FROM db.t", "--catalog", folder).stdout


def test_errors_are_one_line(
    sales: tuple[str, SparkLake], headwater: Headwater, tmp_path: Path
) -> None:
    folder, _ = sales
    for text, says in (
        ("SELECT * FROM db.none", "db.none"),
        ("SELECT nothing FROM db.t", "nothing"),
        ("SELEKT 1", "SELEKT"),
        ("SELECT 1 +", "PARSE_SYNTAX_ERROR"),
        ("SELECT raise_error('broken')", "broken"),
    ):
        found = headwater("sql", text, "--catalog", folder)
        assert found.returncode == 1
        assert says in found.stderr
        assert len(found.stderr.splitlines()) == 1
    assert "no catalog" in headwater("sql", "SELECT 1", "--catalog", str(tmp_path)).stderr
    assert "once" in headwater("sql", "SELECT 1", "-e", "SELECT 2", "--catalog", folder).stderr


def test_the_shell_reads_statements_up_to_their_semicolons(
    sales: tuple[str, SparkLake], capsys: pytest.CaptureFixture[str]
) -> None:
    lines: Iterator[str] = iter(
        ["", "USE db;", "SELECT count(*)", "  AS n", "FROM t;", "SELECT 'a;", "b' AS s;",
         "SELECT * FROM nowhere;", "SELECT 5 AS five;", "exit", "SELECT 'not read';"]
    )  # fmt: skip
    prompts: list[str] = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return next(lines)

    shell = Shell(sales[1], Format.CSV, read)
    shell.run()
    output = capsys.readouterr()
    assert output.out == 'n\n2\ns\n"a;\nb"\nfive\n5\n'
    assert "db.nowhere" in output.err
    assert prompts[2:5] == ["headwater> ", "      ...> ", "      ...> "]
    assert shell.complete("db.", 0) == "db.t"
    assert shell.complete("sel", 0) == "select"
    assert shell.complete("SEL", 1) is None
