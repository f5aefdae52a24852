"""Ranges of a table's primary key, whose bounds the source names and compares."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bound", "KeyRange"]

Bound = tuple[str, ...]
"""A key, each value as a literal of SQL."""


@dataclass(frozen=True)
class KeyRange:
    """A part of a table.

    Attributes:
        after: The key that it begins after; None begins with the first.
        until: The key that it ends with; None ends with the last.
    """

    after: Bound | None = None
    until: Bound | None = None
