"""The public name of `headwater.catalog.model.views`."""

from __future__ import annotations

from headwater.catalog.model.views import (
    AddDialect,
    DropDialect,
    UpdateDialect,
    ViewChange,
    ViewInfo,
    Views,
    ViewSchema,
    changed_view,
)

__all__ = [
    "AddDialect",
    "DropDialect",
    "UpdateDialect",
    "ViewChange",
    "ViewInfo",
    "ViewSchema",
    "Views",
    "changed_view",
]
