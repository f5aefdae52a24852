"""Reconciling of a catalog behind a server, which is not offered."""

from __future__ import annotations

from headwater.catalog.model.reconcile import Reconciliation, Watch
from headwater.storage.errors import Unsupported

__all__ = ["RestReconciler"]


class RestReconciler:
    """Implements `headwater.catalog.model.reconcile.Reconciler` by saying where it can be done."""

    def reconcile(
        self,
        database: str | None = None,
        table: str | None = None,
        *,
        apply: bool = False,
        accept_losses: bool = False,
        watch: Watch | None = None,
    ) -> Reconciliation:
        """Refuse; raises Unsupported."""
        raise Unsupported(
            "reconciling looks at the warehouse's files and changes the catalog's database, which "
            "a server does not do for its clients: run 'headwater reconcile' with --catalog "
            "DATABASE-URL and --location where both can be reached"
        )
