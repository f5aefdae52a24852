"""The public name of `headwater.catalog.model.policies`."""

from __future__ import annotations

from headwater.catalog.model.policies import (
    ColumnMask,
    Policies,
    Policy,
    PolicyType,
    RowFilter,
)

__all__ = ["ColumnMask", "Policies", "Policy", "PolicyType", "RowFilter"]
