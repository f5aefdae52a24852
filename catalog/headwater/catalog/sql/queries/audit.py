"""Owners and authors in rows of the database."""

from __future__ import annotations

from sqlalchemy import Row

from headwater.catalog.model.audit import AuditFields
from headwater.catalog.model.principal import current_name

__all__ = ["audit_of", "created", "updated"]


def audit_of(row: Row[*tuple[object, ...]]) -> AuditFields:
    """The owner and the authors in a row that has these columns."""
    return AuditFields(
        owner=row.owner,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def updated(now: int) -> dict[str, int | str | None]:
    """The columns that record who changes a row and when, in milliseconds since the epoch."""
    return {"updated_at": now, "updated_by": current_name()}


def created(now: int) -> dict[str, int | str | None]:
    """The columns that record who creates a row, and so owns it, and when."""
    name = current_name()
    return {"owner": name, "created_at": now, "created_by": name, **updated(now)}
