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
