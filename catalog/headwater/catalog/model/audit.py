"""The owner of a thing in the catalog, and the times and authors of its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

__all__ = ["AuditFields", "Audited"]


@dataclass(frozen=True, kw_only=True)
class Audited:
    """Base of what has an owner and authors; times are milliseconds since the epoch.

    Attributes:
        owner: The owner; None when nobody is known.
        created_at: The time of its creation.
        created_by: Its creator; None when nobody is known.
        updated_at: The time of its last change.
        updated_by: The author of its last change; None when nobody is known.
    """

    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


class AuditFields(TypedDict):
    """The fields of `Audited`, to be passed on as keywords."""

    owner: str | None
    created_at: int
    created_by: str | None
    updated_at: int
    updated_by: str | None
