"""Column types that this engine keeps for others, and neither reads nor writes."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.errors import Unsupported

__all__ = ["INNER_BLOB", "INNER_VECTOR", "KEPT_TYPES", "unsupported_type"]

INNER_BLOB = "BLOB inside another type"
"""The name of BLOBs in arrays and maps among the types that are kept."""
INNER_VECTOR = "VECTOR inside another type"
"""The name of vectors in arrays, maps and rows among the types that are kept."""

KEPT_TYPES: Mapping[str, str] = {
    INNER_BLOB: "its files have a form of their own",
    INNER_VECTOR: "columns of vectors are read and written, but not vectors within values",
    "GEOMETRY": "its values have a form of their own",
    "GEOGRAPHY": "its values have a form of their own",
}
"""The name of each, and why."""


def unsupported_type(column: str, declared: str, kept: str) -> Unsupported:
    """The refusal of a column of such a type.

    Args:
        column: Its name.
        declared: Its type.
        kept: The name of the type that is kept: the column's own, or one inside it.
    """
    return Unsupported(
        f"column '{column}' is of type {declared}: Headwater keeps type {kept} for other engines "
        "and does not read or write it; choose other columns, or use an engine that knows it"
    )
