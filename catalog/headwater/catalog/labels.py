"""The public name of `headwater.catalog.model.labels`."""

from __future__ import annotations

from headwater.catalog.model.labels import Entity, EntityType, Label, Labels

__all__ = ["Entity", "EntityType", "Label", "Labels"]
