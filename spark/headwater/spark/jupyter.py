"""The cell magic ``%%headwater`` of notebooks: SQL over a lake, shown as a table.

``%load_ext headwater.spark.jupyter`` brings it. The lake is the notebook's variable ``lake``, or
the one that the line names; the answer is a Spark frame, which later cells can use as ``_``. The
tabulator completes names of the catalog and SQL's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwater.spark.errors import first_line, own_errors, unlogged_errors
from headwater.spark.lake import SparkLake
from headwater.spark.sql.completion import WORD_ENDS, completions, names_in
from headwater.spark.sql.statement import split_statements
from headwater.storage.errors import HeadwaterError, Invalid

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension"]

_DEFAULT = "lake"
_CELL, _LINE = "%%headwater", "%headwater"
_WORD = re.compile(rf"[^{re.escape(WORD_ENDS)}]*$")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%%headwater`` and ``%headwater``; IPython calls it for ``%load_ext``."""

    def cell(line: str, cell: str) -> DataFrame | None:
        """Run the cell's statements: ``%%headwater [variable]``."""
        return _run(shell, line.strip() or _DEFAULT, cell)

    def one_line(line: str) -> DataFrame | None:
        """Run a statement: ``%headwater SELECT …``."""
        return _run(shell, _DEFAULT, line)

    shell.magics_manager.register_function(cell, "cell", "headwater")
    shell.magics_manager.register_function(one_line, "line", "headwater")
    _complete(shell)


def _run(shell: InteractiveShell, variable: str, text: str) -> DataFrame | None:
    lake = shell.user_ns.get(variable)
    if not isinstance(lake, SparkLake):
        raise Invalid(
            f"the notebook has no lake in the variable '{variable}': "
            f"{variable} = headwater.spark.connect(spark, …), or name another: %%headwater name"
        )
    # Spark's own way to show frames as tables in notebooks.
    lake.spark.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    answer: DataFrame | None = None
    with _brief_errors():
        for statement in split_statements(text):
            answer = lake.sql(statement.text)
    return answer if answer is not None and answer.columns else None


@contextmanager
def _brief_errors() -> Iterator[None]:
    """Have a statement's error shown in one line: Spark's own traces fill screens.

    It is raised all the same: a notebook that runs by itself ends there.
    """
    try:
        with unlogged_errors(), own_errors():
            yield
    except (HeadwaterError, PySparkException, Py4JJavaError) as error:
        kind = "SparkException" if isinstance(error, Py4JJavaError) else type(error).__name__
        line = f"{kind}: {first_line(error)}"
        # The name by which IPython asks an error for its looks.
        setattr(error, "_render_traceback_", lambda: [line])  # noqa: B010
        raise


def _complete(shell: InteractiveShell) -> None:
    """Have the shell complete the magics' SQL, and nothing of Python's there."""
    # Here, as only IPython, which calls this, has them.
    from IPython.core.completer import SimpleCompletion, context_matcher

    def sql_matcher(context: CompletionContext) -> SimpleMatcherResult:
        variable = _completed_lake(context)
        lake = None if variable is None else shell.user_ns.get(variable)
        if not isinstance(lake, SparkLake):
            return {"completions": []}
        begun = _WORD.search(context.text_until_cursor)
        fragment = "" if begun is None else begun[0]
        words = completions(fragment, names_in(lake.catalog, lake.database))
        return {
            "completions": [SimpleCompletion(text=word, type="sql") for word in words],
            "matched_fragment": fragment,
            "ordered": True,
            "suppress": True,
        }

    matchers = shell.Completer.custom_matchers
    # The extension may be loaded again.
    matchers[:] = [each for each in matchers if each.__module__ != __name__]
    matchers.append(context_matcher()(sql_matcher))


def _completed_lake(context: CompletionContext) -> str | None:
    """The variable of the magic whose SQL the cursor is in; None for a cursor elsewhere."""
    first, _, _ = context.full_text.lstrip().partition("\n")
    name, _, variable = first.partition(" ")
    if name.rstrip() == _CELL and context.cursor_line > 0:
        return variable.strip() or _DEFAULT
    line = context.text_until_cursor.lstrip()
    return _DEFAULT if line.startswith(f"{_LINE} ") else None
