"""The licence of a run of reconciling: to look, to change, to give up what was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.reconcile import Finding, Step
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    Forbidden,
    Invalid,
    NotFound,
    Unsupported,
)

__all__ = ["Mode"]

_REFUSALS = (AlreadyExists, Conflict, CorruptData, Forbidden, Invalid, NotFound, Unsupported)


@dataclass(frozen=True)
class Mode:
    """The licence of a run.

    Attributes:
        apply: Make changes; else only say what they would be.
        accept_losses: Give up what storage has lost.
    """

    apply: bool
    accept_losses: bool

    def tried(
        self, table: Identifier, what: str, step: Step, change: Callable[[], object]
    ) -> Finding:
        """Make a change; what the catalog refuses is not made, and others may be."""
        if self.apply:
            try:
                change()
            except _REFUSALS as error:
                return Finding(table, what, step, error.message)
        return Finding(table, what, step)

    def given_up(
        self, table: Identifier, what: str, loss: str, change: Callable[[], object]
    ) -> Finding:
        """Make a change that gives something up, if the caller has accepted that."""
        if not self.accept_losses:
            hint = f"{loss} with --accept-losses (accept_losses=True)"
            return Finding(table, what, Step.GIVE_UP, hint)
        return self.tried(table, what, Step.GIVE_UP, change)
