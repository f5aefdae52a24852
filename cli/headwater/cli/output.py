"""Rows on standard output: a table for people, tab-separated lines or JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Never

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.catalog.model.audit import Audited
from headwater.catalog.model.named_objects import NamedObjects
from headwater.catalog.model.page import all_pages
from headwater.catalog.table.display import time_text
from headwater.storage.printable import printable, printable_json

__all__ = [
    "AsJson",
    "Cell",
    "audit",
    "print_objects",
    "print_properties",
    "print_rows",
]

Cell = str | int | bool | None

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object a line, with raw values.")
]


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
        identifiers = all_pages(
            lambda token: objects.list_globally(pattern=pattern, page_token=token)
        )
        rows = [(name.database, name.name) for name in identifiers]
    else:
        names = all_pages(lambda token: objects.list(database, pattern=pattern, page_token=token))
        rows = [(database, name) for name in names]
    print_rows(["database", kind], rows, as_json=as_json)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool) -> None:
    """Print rows: drawn on a terminal, else tab-separated with a line of names on top."""
    if as_json:
        for row in rows:
            document = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
            print(printable_json(document))
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
            print("\t".join(_text(cell) for cell in line))


def _is_numeric(cells: Sequence[Cell]) -> bool:
    kinds = {type(cell) for cell in cells if cell is not None}
    return kinds == {int}


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return printable(" ".join(re.split(r"[\t\n]", str(cell))))
