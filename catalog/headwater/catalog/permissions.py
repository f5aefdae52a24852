"""The public name of `headwater.catalog.model.permissions`."""

from __future__ import annotations

from headwater.catalog.model.permissions import (
    GRANTABLE,
    Access,
    ColumnSet,
    Grant,
    Holder,
    Permissions,
    PermissionTarget,
    SeenTable,
    TargetType,
    check_access,
    check_principal,
)

__all__ = [
    "GRANTABLE",
    "Access",
    "ColumnSet",
    "Grant",
    "Holder",
    "PermissionTarget",
    "Permissions",
    "SeenTable",
    "TargetType",
    "check_access",
    "check_principal",
]
