"""Rows on standard output: a table for people, tab-separated lines or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["AsJson", "Cell", "print_rows", "time_text"]

Cell = str | int | bool | None

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object a line, with raw values.")
]


def time_text(millis: int | None) -> str | None:
    """Milliseconds since the epoch as ISO 8601 in UTC."""
    if millis is None:
        return None
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool) -> None:
    """Print rows: drawn on a terminal, else tab-separated with a line of names on top."""
    if as_json:
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
    elif sys.stdout.isatty():
        drawn = Table(box=None, header_style="bold", pad_edge=False)
        cells = list(rows)
        for position, name in enumerate(columns):
            numeric = any(isinstance(row[position], int) for row in cells)
            drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            drawn.add_row(*(Text(_text(cell)) for cell in row))
        Console().print(drawn)
    else:
        for line in (columns, *rows):
            print("\t".join(_text(cell) for cell in line))


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return " ".join(str(cell).split("\t"))
