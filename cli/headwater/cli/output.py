"""Rows on standard output: a table for people, tab-separated lines or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Never

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.catalog.model.audit import Audited
from headwater.catalog.model.named_objects import NamedObjects
from headwater.catalog.model.page import all_pages

__all__ = [
    "AsJson",
    "Cell",
    "audit",
    "count_on_terminal",
    "print_objects",
    "print_properties",
    "print_rows",
    "time_text",
]

Cell = str | int | bool | None

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object a line, with raw values.")
]


def time_text(millis: int | None) -> str | None:
    """Milliseconds since the epoch as ISO 8601 in UTC."""
    if millis is None:
        return None
    try:
        time = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError):
        # Another engine's, or a tag that is to be kept for as long as a number allows.
        return "after the year 9999" if millis > 0 else "before the year 1"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def audit(info: Audited) -> list[Sequence[Cell]]:
    """A thing's owner, and the times and authors of its changes, as properties."""
    return [
        ("owner", info.owner),
        ("created", time_text(info.created_at)),
        ("created by", info.created_by),
        ("updated", time_text(info.updated_at)),
        ("updated by", info.updated_by),
    ]


def print_properties(rows: Iterable[Sequence[Cell]], *, as_json: bool) -> None:
    """Print a thing's properties, one a row."""
    print_rows(["property", "value"], rows, as_json=as_json)


def print_objects(
    kind: str,
    objects: NamedObjects[Never, Never, object],
    database: str | None,
    pattern: str | None,
    *,
    as_json: bool,
) -> None:
    """Print the names of objects of any kind, with the databases that they are in."""
    if database is None:
        found = all_pages(lambda token: objects.list_globally(pattern=pattern, page_token=token))
        rows = [(name.database, name.name) for name in found]
    else:
        names = all_pages(lambda token: objects.list(database, pattern=pattern, page_token=token))
        rows = [(database, name) for name in names]
    print_rows(["database", kind], rows, as_json=as_json)


def count_on_terminal(what: str) -> Callable[[int, int], None] | None:
    """Shows progress on standard error; None where that is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{what} {done} of {total}", end=end, file=sys.stderr, flush=True)

    return show


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool) -> None:
    """Print rows: drawn on a terminal, else tab-separated with a line of names on top."""
    if as_json:
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
    elif sys.stdout.isatty():
        drawn = Table(box=None, header_style="bold", pad_edge=False)
        cells = list(rows)
        for position, name in enumerate(columns):
            numeric = _is_numeric([row[position] for row in cells])
            drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            drawn.add_row(*(Text(_text(cell)) for cell in row))
        Console().print(drawn)
    else:
        for line in (columns, *rows):
            print("\t".join(" ".join(_text(cell).split("\n")) for cell in line))


def _is_numeric(cells: Sequence[Cell]) -> bool:
    kinds = {type(cell) for cell in cells if cell is not None}
    return kinds == {int}


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return " ".join(str(cell).split("\t"))
