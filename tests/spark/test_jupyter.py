"""The magic of notebooks, in IPython."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.spark import SparkLake

pytest.importorskip("IPython", reason="the development environment has IPython: make setup")
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

pytestmark = [pytest.mark.spark, pytest.mark.modes]


class Notebook:
    """A notebook's shell, without what shows its cells."""

    def __init__(self) -> None:
        new_shell: Any = InteractiveShell
        self._shell = new_shell()
        self._shell.colors = "nocolor"
        self._shell.run_line_magic("load_ext", "headwater.spark.jupyter")
        self.variables: dict[str, object] = self._shell.user_ns

    def run(self, cell: str) -> ExecutionResult:
        found: ExecutionResult = self._shell.run_cell(cell)
        return found

    def shown(self, cell: str) -> DataFrame:
        """The frame that a cell shows."""
        found = self.run(cell).result
        assert isinstance(found, DataFrame)
        return found

    def html(self, value: object) -> str:
        return str(self._shell.display_formatter.format(value)[0]["text/html"])

    def offered(self, cell: str) -> list[str]:
        """What the tabulator offers at the cell's end."""
        with provisionalcompleter():
            found = self._shell.Completer.completions(cell, len(cell))
            return [each.text for each in found]


@pytest.fixture
def notebook(spark: SparkSession, lake: SparkLake) -> Iterator[Notebook]:
    """A shell with the magic, and a lake with a table ``db.t`` of five rows."""
    lake.create_table("db.t", spark.range(1).schema)
    lake.write(spark.range(5), "db.t")
    before = spark.conf.get("spark.sql.repl.eagerEval.enabled")
    assert before is not None
    notebook = Notebook()
    notebook.variables["mine"] = lake
    yield notebook
    spark.conf.set("spark.sql.repl.eagerEval.enabled", before)


def test_a_cell_runs_statements_and_shows_the_last(notebook: Notebook) -> None:
    found = notebook.shown("%%headwater mine\nUSE db;\nSELECT count(*) AS how_many FROM t;\n")
    assert "<td>5</td>" in notebook.html(found)
    assert notebook.shown("_").columns == ["how_many"]
    notebook.run("lake = mine")
    assert notebook.shown("%headwater SELECT max(id) FROM t").collect()[0][0] == 4
    ran = notebook.run("%headwater USE db")
    assert ran.success
    assert ran.result is None


@pytest.mark.parametrize(
    ("statement", "kind", "says"),
    [
        ("SELECT * FROM db.none", "NotFound", "db.none"),
        ("SELEKT 1", "Unsupported", "SELEKT"),
        ("SELECT nothing FROM db.t", "AnalysisException", "nothing"),
    ],
)
def test_an_error_ends_the_cell_in_one_line(
    notebook: Notebook,
    capsys: pytest.CaptureFixture[str],
    statement: str,
    kind: str,
    says: str,
) -> None:
    ran = notebook.run(f"%%headwater mine\n{statement};\nDROP TABLE db.t;")
    assert type(ran.error_in_exec).__name__ == kind
    printed = capsys.readouterr()
    assert printed.err == ""
    (line,) = printed.out.splitlines()
    assert line.startswith(f"{kind}: ")
    assert says in line
    assert notebook.run("%%headwater mine\nSELECT * FROM db.t").success


def test_the_lake_must_be_there(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert not notebook.run("%%headwater\nSELECT 1").success
    assert "no lake in the variable 'lake'" in capsys.readouterr().out


def test_names_are_completed(notebook: Notebook, lake: SparkLake) -> None:
    assert "%%headwater" in notebook.offered("%%head")
    assert notebook.offered("%%headwater mine\nSELECT *\nFROM db.") == ["db.t"]
    assert notebook.offered("%%headwater mine\nsel") == ["select"]
    assert notebook.offered("%%headwater mine\nSEL") == ["SELECT"]
    assert "db.t" not in notebook.offered("%headwater SELECT * FROM db.")
    lake.sql("USE db")
    notebook.variables["lake"] = lake
    assert notebook.offered("%headwater SELECT id FROM t")[0] == "t"
    # Python's own are Python's own again elsewhere.
    assert "mine" in notebook.offered("min")
    # Loaded twice, each name is still offered once.
    notebook.run("%reload_ext headwater.spark.jupyter")
    assert notebook.offered("%%headwater mine\nSELECT * FROM db.") == ["db.t"]
    lake.catalog.drop_table("db.t")
    assert notebook.offered("%%headwater mine\nSELECT * FROM db.t") == []
