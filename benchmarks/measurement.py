"""A measured ratio, and the table that shows many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

__all__ = ["Measurement", "measurement_table"]


@dataclass(frozen=True)
class Measurement:
    """A ratio, and what it must be.

    Attributes:
        name: What was measured.
        ours: What it came to.
        reference: What it is measured against.
        ratio: The one by the other.
        least: What the ratio must be at least, if it must.
        most: What it must be at most, if it must.
    """

    name: str
    ours: str
    reference: str
    ratio: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the ratio is what it must be."""
        return not (
            (self.least is not None and self.ratio < self.least)
            or (self.most is not None and self.ratio > self.most)
        )


def measurement_table(title: str, results: Sequence[Measurement]) -> Table:
    """A row for each measurement, its ratio red when it is not what it must be."""
    table = Table(title=title)
    for heading in ("", "Headwater", "reference", "ratio", "must be"):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    for result in results:
        bound = f"≥ {result.least:g}" if result.least is not None else f"≤ {result.most:g}"
        colour = "green" if result.holds else "red"
        table.add_row(
            result.name,
            result.ours,
            result.reference,
            f"[{colour}]{result.ratio:.3g}[/{colour}]",
            bound,
        )
    return table
