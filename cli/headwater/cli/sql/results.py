"""Rows of a statement on standard output."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.printable_stream import unescaped
from headwater.storage.printable import printable, printable_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MOST_ROWS", "Format", "print_frame"]

MOST_ROWS = 1000
"""Rows that are drawn as a table; the other formats give all."""


class Format(StrEnum):
    """The forms of results."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_frame(frame: DataFrame, output: Format) -> None:
    """Print a frame's rows; nothing for a statement that has none.

    Args:
        frame: The frame.
        output: ``table`` draws the first `MOST_ROWS` rows, ``csv`` has a line of names on top,
            ``json`` is an object a line.
    """
    names = frame.columns
    if not names:
        return
    if output is Format.TABLE:
        _draw(frame, names)
        return
    rows = frame.toLocalIterator(prefetchPartitions=True)
    if output is Format.JSON:
        for row in rows:
            cells = {name: _plain(value) for name, value in zip(names, row, strict=True)}
            print(printable_json(json.dumps(cells, ensure_ascii=False)))
        return
    writer = csv.writer(unescaped(sys.stdout), lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow("" if value is None else _text(value) for value in row)


def _draw(frame: DataFrame, names: list[str]) -> None:
    rows = frame.limit(MOST_ROWS + 1).collect()
    if names == ["plan"] and len(rows) == 1:
        # EXPLAIN: its lines are its form.
        print(rows[0][0])
        return
    drawn = Table(header_style="bold")
    for at, name in enumerate(names):
        numeric = all(isinstance(row[at], int | float | None) for row in rows)
        title = Text(printable(name))
        drawn.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in islice(rows, MOST_ROWS):
        # Lines of a value are drawn one below another.
        cells = ("NULL" if value is None else printable(_text(value), "\n\t") for value in row)
        drawn.add_row(*(Text(cell) for cell in cells))
    Console(soft_wrap=not sys.stdout.isatty()).print(drawn)
    if len(rows) > MOST_ROWS:
        print(f"the first {MOST_ROWS} rows; --format csv or json gives all", file=sys.stderr)


def _text(value: object) -> str:
    plain = _plain(value)
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, dict | list):
        return json.dumps(plain, ensure_ascii=False)
    return str(plain)


def _plain(value: object) -> object:
    """A value as JSON can say it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no NaN and no infinities.
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    asked = getattr(value, "asDict", None)
    if callable(asked):
        value = asked()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
