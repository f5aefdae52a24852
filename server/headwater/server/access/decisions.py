"""Decisions about rights: asked of the database, and a yes remembered for some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from anyio import CapacityLimiter, to_thread

from headwater.catalog.model.permissions import TargetType
from headwater.catalog.model.principal import Principal
from headwater.catalog.model.rights import Rights
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.access import thing_not_found
from headwater.server.access.needs import Need
from headwater.server.recent_answers import RecentAnswers
from headwater.storage.errors import Forbidden, HeadwaterError, ResourceType
from headwater.storage.runtime import Runtime

__all__ = ["Decisions"]

# One takes about a kilobyte.
_MOST_KEPT = 16_384
# Questions that may wait for the database at the same time; others wait for them.
_MOST_QUESTIONS = 8


class Decisions:
    """Decides what principals may do.

    Rights that were enough for something are remembered, and forgotten when they end, after ten
    seconds, or when a request of this process may have taken any away. Those that were not enough
    are asked for anew each time: whoever is granted something has it at once.

    Args:
        runtime: The clock.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: RecentAnswers[Rights] = RecentAnswers(_MOST_KEPT)
        self._limiter: CapacityLimiter | None = None
        self._lock = Lock()
        self._ending = 0
        self._ended = 0

    def remembers(self, caller: Principal, catalog: SqlCatalog, need: Need) -> bool:
        """True if a caller is known to have what is needed."""
        if self._ending:
            return False
        rights = self._known.get(
            (catalog.warehouse, caller.name, caller.grantees, need.thing), self._runtime.monotonic()
        )
        return rights is not None and self._are_enough(rights, need)

    async def demand(self, caller: Principal, catalog: SqlCatalog, need: Need) -> None:
        """Refuse a caller who has not what is needed.

        Raises:
            NotFound: The caller does not even see the thing, or there is none.
            Forbidden: The caller sees it and has not the right.
            Unavailable: The database did not answer.
        """
        if self.remembers(caller, catalog, need):
            return
        asked, ended = self._runtime.monotonic(), self._ended
        if self._limiter is None:
            self._limiter = CapacityLimiter(_MOST_QUESTIONS)
        rights = await to_thread.run_sync(
            catalog.access.rights, caller, need.thing, limiter=self._limiter
        )
        if not need.is_met(rights):
            raise _refusal(caller, need, rights)
        with self._lock:
            # What was asked before a right was taken away may no longer be so.
            if not self._ending and ended == self._ended:
                key = (catalog.warehouse, caller.name, caller.grantees, need.thing)
                self._known.put(key, rights, asked)

    @contextmanager
    def ending_rights(self) -> Iterator[None]:
        """Remember nothing while rights may be taken away, nor what was known before."""
        with self._lock:
            self._ending += 1
        try:
            yield
        finally:
            with self._lock:
                self._ended += 1
                self._known.clear()
                self._ending -= 1

    def _are_enough(self, rights: Rights, need: Need) -> bool:
        is_over = rights.ends_at is not None and rights.ends_at <= self._runtime.latest_millis()
        return not is_over and need.is_met(rights)


def _refusal(caller: Principal, need: Need, rights: Rights) -> HeadwaterError:
    thing = need.thing
    if not rights.is_visible and thing.type is not TargetType.CATALOG:
        return thing_not_found(thing)
    hidden = rights.hidden_columns(need.columns) if need.columns and rights.columns else ()
    what = f"columns {', '.join(hidden)}" if hidden else ""
    kind = None if thing.type is TargetType.CATALOG else ResourceType(thing.type.value)
    return Forbidden(
        f"'{caller.name}' may not do that: it needs {need}{f', {what}' if what else ''}; "
        "'headwater permission grant' gives it",
        resource_type=kind,
        resource_name=(thing.name or thing.database or thing.id) if kind else None,
    )
