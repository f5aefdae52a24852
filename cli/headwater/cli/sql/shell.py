"""The SQL shell: statements from a terminal, with a history and completion of names."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headwater.cli.sql.results import Format, print_frame
from headwater.spark import SparkLake
from headwater.spark.errors import first_line, own_errors, unlogged_errors
from headwater.spark.sql.completion import WORD_ENDS, completions, names_in
from headwater.spark.sql.statement import read_words, split_statements
from headwater.storage.errors import HeadwaterError, Invalid

__all__ = ["Shell", "run_statements"]

_MOST_LINES = 5000


def run_statements(lake: SparkLake, text: str, output: Format) -> None:
    """Run statements one after another, up to the first that fails.

    Raises:
        HeadwaterError: A statement failed; errors of Spark's are Invalid, in one line.
    """
    for statement in split_statements(text):
        _run(lake, statement.text, output)


def _run(lake: SparkLake, text: str, output: Format) -> None:
    try:
        with unlogged_errors(), own_errors():
            print_frame(lake.sql(text), output)
    except (PySparkException, Py4JJavaError) as error:
        raise Invalid(first_line(error)) from error


class Shell:
    """Reads statements and runs them until ``exit`` or the end of its input.

    Args:
        lake: The lake.
        output: The form of results.
        read_line: Reads a line after showing a prompt; raises EOFError at the end.
    """

    def __init__(
        self, lake: SparkLake, output: Format, read_line: Callable[[str], str] = input
    ) -> None:
        self._lake = lake
        self._output = output
        self._read_line = read_line
        self._names: list[str] | None = None

    def run(self) -> None:
        """Run it; errors are printed, and the next statement is read."""
        if self._read_line is input:
            self._use_readline()
        # The command's session is one of this machine, which has a context.
        context = self._lake.spark.sparkContext
        for number, text in enumerate(self._texts()):
            group = f"headwater-sql-{number}"
            context.setJobGroup(group, text)
            try:
                run_statements(self._lake, text, self._output)
            except HeadwaterError as error:
                print(f"headwater: {' '.join(error.message.split())}", file=sys.stderr)
            except KeyboardInterrupt:
                # Spark goes on with the statement, and may only begin its next job now.
                context._jsc.sc().cancelJobGroupAndFutureJobs(group)
                print("headwater: interrupted", file=sys.stderr)
            self._names = None

    def _texts(self) -> Iterator[str]:
        """Statements with their semicolons."""
        lines: list[str] = []
        while True:
            try:
                line = self._read_line("      ...> " if lines else "headwater> ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                lines = []
                continue
            if not lines and line.strip().rstrip(";").lower() in ("exit", "quit"):
                return
            if lines or line.strip():
                lines.append(line)
            text = "\n".join(lines)
            if _is_whole(text):
                lines = []
                yield text

    # Completion -------------------------------------------------------------------------------

    def _use_readline(self) -> None:
        try:
            import readline
        except ImportError:  # There is none on Windows.
            return
        history = _history_file()
        try:
            history.parent.mkdir(parents=True, exist_ok=True)
            if history.exists():
                readline.read_history_file(history)
        except OSError:
            pass  # A shell without a history is one all the same.
        else:
            readline.set_history_length(_MOST_LINES)
            atexit.register(_save_history, history)
        readline.set_completer_delims(WORD_ENDS)
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete")

    def complete(self, begun: str, number: int) -> str | None:
        """The word of that number which begins so: names of the lake, then SQL's own words."""
        if self._names is None:
            self._names = names_in(self._lake.catalog, self._lake.database)
        found = completions(begun, self._names)
        return found[number] if number < len(found) else None


def _is_whole(text: str) -> bool:
    try:
        words = read_words(text)
    except Invalid:
        return False  # A quotation that goes on in the next line.
    return bool(words) and words[-1].text == ";"


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "headwater", "sql_history")


def _save_history(file: Path) -> None:
    import readline

    with contextlib.suppress(OSError):
        readline.write_history_file(file)
