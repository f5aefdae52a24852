"""Metadata columns (``__paimon_…``, row ids) in queries, and the stars beside them.

A table has them only where a query names them, and ``*`` means the table's own columns as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.spark.source.metadata_rows import METADATA_COLUMNS
from headwater.storage.errors import Invalid
from headwater.storage.schema.system_fields import TRACKING_FIELDS

__all__ = ["Star", "exclusion", "hidden_column"]

_HIDDEN = {name.lower(): name for name in (*METADATA_COLUMNS, *TRACKING_FIELDS)}


@dataclass(frozen=True, slots=True)
class Star:
    """A ``*`` of a SELECT in which metadata columns are named.

    Attributes:
        end: The offset after it; None where it is not written, as in ``FROM t``.
        tables: The offsets of the tables whose columns it is.
        is_plain: Whether nothing follows that leaves columns out.
    """

    end: int | None
    tables: tuple[int, ...]
    is_plain: bool


def hidden_column(name: str) -> str | None:
    """The metadata column of a name in any case; None for other names."""
    return _HIDDEN.get(name.lower())


def exclusion(star: Star, added: Mapping[int, tuple[str, ...]]) -> str | None:
    """The text after a star that leaves metadata columns out; None if there is nothing to leave.

    Args:
        star: The star.
        added: The metadata columns that tables have in the query, by their offsets.

    Raises:
        Invalid: The star leaves other columns out, or two of its tables have a column.
    """
    names = [name for offset in star.tables for name in added.get(offset, ())]
    if not names:
        return None
    if star.end is None or not star.is_plain or len(set(names)) < len(names):
        raise Invalid(
            f"'*' beside {names[0]} is not supported where it has an EXCEPT, is of two tables with "
            "such a column, or is implied by FROM, TABLE or '|>': name the columns"
        )
    return f" EXCEPT ({', '.join(names)})"
