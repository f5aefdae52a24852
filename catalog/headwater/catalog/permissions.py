"""The public name of `headwater.catalog.model.permissions`."""

from __future__ import annotations

from headwater.catalog.model.permissions import (
    GRANTABLE,
    Access,
    ColumnSet,
    Grant,
    Permissions,
    PermissionTarget,
    TargetType,
    check_access,
    check_principal,
)

__all__ = [
    "GRANTABLE",
    "Access",
    "ColumnSet",
    "Grant",
    "PermissionTarget",
    "Permissions",
    "TargetType",
    "check_access",
    "check_principal",
]
