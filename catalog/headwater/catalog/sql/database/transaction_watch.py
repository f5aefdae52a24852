"""Those who watch transactions on the catalog's database, to count them."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

__all__ = ["Kind", "Outcome", "TransactionWatch"]

Kind: TypeAlias = Literal["read", "write"]
"""The kind of a transaction."""

Outcome: TypeAlias = Literal["done", "refused", "failed", "unknown"]
"""The end of a transaction.

It was done; refused by what ran in it or by a constraint; the database failed, and nothing was
changed; or the answer to its commit was lost.
"""


class TransactionWatch(Protocol):
    """Told of transactions; nothing that it is told about may fail through it."""

    def connected(self, seconds: float) -> None:
        """A thread got a connection, or gave up, after so many seconds."""
        ...

    def repeated(self) -> None:
        """A transaction is begun again, after a deadlock or a lost connection."""
        ...

    def ended(self, kind: Kind, outcome: Outcome, seconds: float) -> None:
        """A transaction is over, with its waiting and repetitions."""
        ...
