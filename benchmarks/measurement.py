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

    @property
    def bound(self) -> str:
        """What the ratio must be, in words."""
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def __str__(self) -> str:
        return f"{self.name}: {self.ratio:.3g}, must be {self.bound}"


def measurement_table(title: str, results: Sequence[Measurement]) -> Table:
    """A row for each measurement, its ratio red when it is not what it must be."""
    table = Table(title=title)
    for heading in ("", "Headwater", "reference", "ratio", "must be"):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    for result in results:
        colour = "green" if result.holds else "red"
        table.add_row(
            result.name,
            result.ours,
            result.reference,
            f"[{colour}]{result.ratio:.3g}[/{colour}]",
            result.bound,
        )
    return table
