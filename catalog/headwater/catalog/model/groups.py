"""Groups of principals."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Membership"]


@dataclass(frozen=True)
class Membership:
    """A principal's belonging to a group; a group exists while it has a member."""

    group: str
    principal: str
