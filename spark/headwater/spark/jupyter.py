"""The cell magic ``%%headwater`` of notebooks: SQL over a lake, shown as a table.

``%load_ext headwater.spark.jupyter`` brings it. The lake is the notebook's variable ``lake``, or
the one that the line names; the answer is a Spark frame, which later cells can use as ``_``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql import DataFrame

from headwater.spark.lake import SparkLake
from headwater.spark.sql.statement import split_statements
from headwater.storage.errors import Invalid

__all__ = ["load_ipython_extension"]

_DEFAULT = "lake"


class Shell(Protocol):
    """The part of IPython's shell that the magic needs."""

    user_ns: dict[str, Any]

    def register_magic_function(
        self, func: Callable[..., object], magic_kind: str, magic_name: str
    ) -> None:
        """Give the shell a magic."""
        ...


def load_ipython_extension(shell: Shell) -> None:
    """Register ``%%headwater`` and ``%headwater``; IPython calls it for ``%load_ext``."""

    def cell(line: str, cell: str) -> DataFrame | None:
        """Run the cell's statements: ``%%headwater [variable]``."""
        return _run(shell, line.strip() or _DEFAULT, cell)

    def one_line(line: str) -> DataFrame | None:
        """Run a statement: ``%headwater SELECT …``."""
        return _run(shell, _DEFAULT, line)

    shell.register_magic_function(cell, "cell", "headwater")
    shell.register_magic_function(one_line, "line", "headwater")


def _run(shell: Shell, variable: str, text: str) -> DataFrame | None:
    lake = shell.user_ns.get(variable)
    if not isinstance(lake, SparkLake):
        raise Invalid(
            f"the notebook has no lake in the variable '{variable}': "
            f"{variable} = headwater.spark.connect(spark, …), or name another: %%headwater name"
        )
    # Spark's own way to show frames as tables in notebooks.
    lake.spark.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    answer: DataFrame | None = None
    for statement in split_statements(text):
        answer = lake.sql(statement.text)
    return answer if answer is not None and answer.columns else None
