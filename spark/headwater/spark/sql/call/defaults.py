"""Defaults of columns, which rows that are written anew would get in the places of nulls."""

from __future__ import annotations

from headwater.catalog.table.table import Table
from headwater.storage.errors import Unsupported

__all__ = ["refuse_defaults"]


def refuse_defaults(table: Table, work: str) -> None:
    """Refuse to write a table's rows anew where nulls would not stay; Unsupported.

    Args:
        table: The table.
        work: A verb for the work that writes them.
    """
    filled = [field.name for field in table.schema.fields if field.default_value is not None]
    if filled:
        raise Unsupported(
            f"table {table.name}: its rows are written anew, and nulls of column '{filled[0]}' "
            f"would become its default: drop the default, {work}, and set it again"
        )
