"""The public name of `headwater.catalog.model.identifier`."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier

__all__ = ["Identifier"]
