"""The public name of `headwater.catalog.model.column`."""

from __future__ import annotations

from headwater.catalog.model.column import Column, columns_from_arrow

__all__ = ["Column", "columns_from_arrow"]
