"""The look of handles in a terminal and in a notebook.

Nothing here asks the catalog or reads a file: what is shown is what the handle knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import zip_longest

from headwater.storage.printable import printable

__all__ = ["Display", "time_text"]

_SECRET = ("secret", "password", "token", "credential", "access-key")
_MAX_ROWS = 50


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


@dataclass(frozen=True)
class Display:
    """A title, some properties and a table of rows, as text or as HTML.

    Attributes:
        title: The thing's name.
        properties: More about it, by name; empty values are left out.
        columns: The names of the table's columns.
        rows: The table's rows; those after the fiftieth are counted.
    """

    title: str
    properties: Mapping[str, str]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()

    @staticmethod
    def options(options: Mapping[str, str]) -> str:
        """Options in one line, without the values of secrets."""
        return ", ".join(
            f"{key}={'…' if any(word in key.lower() for word in _SECRET) else value}"
            for key, value in sorted(options.items())
        )

    @property
    def _cells(self) -> list[list[str]]:
        return [
            ["" if cell is None else printable(str(cell)) for cell in row]
            for row in self.rows[:_MAX_ROWS]
        ]

    @property
    def _more(self) -> list[str]:
        left = len(self.rows) - _MAX_ROWS
        return [f"… and {left} more"] if left > 0 else []

    @property
    def _properties(self) -> list[str]:
        return [printable(f"{name}: {text}") for name, text in self.properties.items() if text]

    def __str__(self) -> str:
        """Lines of text: the title, the rows in columns, the properties."""
        header = [list(self.columns)] if self.columns else []
        lines = [*_aligned([*header, *self._cells]), *self._more, *self._properties]
        return "\n".join([printable(self.title), *(f"  {line}" for line in lines)])

    def html(self) -> str:
        """The same as a fragment of HTML."""
        parts = [f"<strong>{escape(printable(self.title))}</strong>"]
        if self.columns:
            head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
            body = "".join(
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                for row in self._cells
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<div>{escape(line)}</div>" for line in [*self._more, *self._properties]]
        return f"<div>{''.join(parts)}</div>"


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in lines
    ]
