"""The inputs of Spark's own SQL tests, which ``tests/spark-sql-inputs`` fetches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_FETCHED = Path(__file__).parents[3] / ".spark-sql" / "sql-tests" / "inputs"
_DIRECTIVE = re.compile(r"--(?!QUERY-DELIMITER)")
_IMPORT = re.compile(r"^--IMPORT\s+(\S+)", re.MULTILINE)
_SET = re.compile(r"^--SET\s+(.*)", re.MULTILINE)
_DELIMITER = re.compile(r"--QUERY-DELIMITER-(?:START|END)")
_SEMICOLON = re.compile(r"(?<!\\);")


def inputs_folder() -> Path:
    """The folder of the inputs; skips the test where it is absent."""
    folder = Path(os.environ.get("HEADWATER_SPARK_SQL_INPUTS", _FETCHED))
    if not folder.is_dir():
        pytest.skip("the inputs of Spark's SQL tests are not here: run tests/spark-sql-inputs")
    return folder


@cache
def input_files(folder: Path) -> tuple[Path, ...]:
    """The files of inputs, in the order of their names."""
    return tuple(sorted(folder.rglob("*.sql")))


def settings(path: Path) -> Iterator[str]:
    """The settings under which a file's statements run, as statements."""
    for line in _SET.findall(path.read_text(encoding="utf-8")):
        yield from (f"SET {pair.strip()}" for pair in line.split(",") if "=" in pair)


def statements_with_imports(path: Path) -> Iterator[str]:
    """The statements of the files that a file imports, and its own."""
    for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
        yield from statements(inputs_folder() / name)
    yield from statements(path)


def statements(path: Path) -> Iterator[str]:
    """The statements of a file, split as Spark's ``SQLQueryTestHelper`` splits them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not _DIRECTIVE.match(line))
    # Between delimiters, semicolons are the statement's own.
    for number, part in enumerate(_DELIMITER.split(text)):
        if number % 2:
            yield part.strip().removesuffix(";")
        else:
            pieces = (piece.replace("\\;", ";").strip() for piece in _SEMICOLON.split(part))
            yield from (piece for piece in pieces if piece)
