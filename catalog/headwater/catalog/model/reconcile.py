"""Making the catalog's database and storage agree, where one of them was restored or changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headwater.catalog.model.identifier import Identifier

__all__ = ["Finding", "Reconciler", "Reconciliation", "Step", "Watch"]

Watch = Callable[[Identifier], None]
"""Is called with each table before it is compared."""


class Step(StrEnum):
    """The way in which a difference goes away.

    Attributes:
        ADOPT: The catalog takes over what storage has.
        WRITE: Storage gets a file back that the catalog knows.
        FORGET: A decision that storage has yet to follow is forgotten: storage followed it long
            ago, and has gone on since.
        GIVE_UP: The catalog lets go of what storage has lost. Nothing else loses anything.
    """

    ADOPT = "adopt"
    WRITE = "write"
    FORGET = "forget"
    GIVE_UP = "give-up"


@dataclass(frozen=True)
class Finding:
    """A difference between the catalog's database and storage.

    Attributes:
        table: The table or branch.
        what: The thing: ``table``, ``branch b``, ``schema 3``, ``snapshot 7``.
        step: The way in which it goes away.
        refused: The reason that it does not, and what to do; None when it does.
    """

    table: Identifier
    what: str
    step: Step = Step.ADOPT
    refused: str | None = None

    def __str__(self) -> str:
        found = f"{self.table}: {self.what}"
        return found if self.refused is None else f"{found}: {self.refused}"


@dataclass(frozen=True)
class Reconciliation:
    """The outcome of a comparison.

    Attributes:
        changes: The differences that went away, in this order; without `apply` those that would.
        refused: The differences that stay.
    """

    changes: tuple[Finding, ...]
    refused: tuple[Finding, ...]


class Reconciler(Protocol):
    """Compares the catalog's database with storage, and makes them agree."""

    def reconcile(
        self,
        database: str | None = None,
        table: str | None = None,
        *,
        apply: bool = False,
        accept_losses: bool = False,
        watch: Watch | None = None,
    ) -> Reconciliation:
        """Compare tables with their files, one after another.

        Args:
            database: Only this database; None is all of them.
            table: Only this table of it.
            apply: Make them agree; else only say how that would be done.
            accept_losses: Give up what storage has lost, too: a table goes back to the latest
                snapshot that is there, and one without files is dropped.
            watch: Is called with each table before it is compared.

        Raises:
            NotFound: There is no such database (DATABASE); or no such table, be it in the catalog
                or on storage (TABLE).
            Unsupported: The catalog is reached through a server.
        """
        ...
