"""The magic of notebooks, in a shell as IPython has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.spark import SparkLake
from headwater.spark.jupyter import load_ipython_extension
from headwater.storage.errors import Invalid

pytestmark = [pytest.mark.spark, pytest.mark.modes]


class Notebook:
    """IPython's own is not among the development tools; this keeps what it is given."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[tuple[str, str], Callable[..., object]] = {}

    def register_magic_function(
        self, func: Callable[..., object], magic_kind: str, magic_name: str
    ) -> None:
        self.magics[magic_kind, magic_name] = func


def test_a_cell_runs_statements_and_shows_the_last(spark: SparkSession, lake: SparkLake) -> None:
    notebook = Notebook()
    load_ipython_extension(notebook)
    cell, line = notebook.magics["cell", "headwater"], notebook.magics["line", "headwater"]
    with pytest.raises(Invalid, match="variable 'lake'"):
        cell("", "SELECT 1")
    notebook.user_ns = {"lake": lake, "mine": lake}
    lake.create_table("db.t", spark.range(1).schema)
    lake.write(spark.range(5), "db.t")
    before = spark.conf.get("spark.sql.repl.eagerEval.enabled")
    assert before is not None
    try:
        shown = cell("mine", "USE db;\nSELECT count(*) AS how_many FROM t;\n")
        assert isinstance(shown, DataFrame)
        assert "<td>5</td>" in shown._repr_html_()  # type: ignore[operator]
        found = line("SELECT max(id) FROM t")
        assert isinstance(found, DataFrame)
        assert found.collect()[0][0] == 4
        assert line("USE db") is None
    finally:
        spark.conf.set("spark.sql.repl.eagerEval.enabled", before)
