"""Upkeep of many tables: planned once, run table by table, resumed after an interruption.

May import client's lake.
"""

from headwater.client.maintenance.actions import DEFAULT_ACTIONS, Action, Rules
from headwater.client.maintenance.plan import (
    MaintenancePlan,
    PlanFile,
    State,
    Step,
    plan_maintenance,
)
from headwater.client.maintenance.run import Limits, run_maintenance

__all__ = [
    "DEFAULT_ACTIONS",
    "Action",
    "Limits",
    "MaintenancePlan",
    "PlanFile",
    "Rules",
    "State",
    "Step",
    "plan_maintenance",
    "run_maintenance",
]
