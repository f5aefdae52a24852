"""Decisions about rights and policies: asked of the database, a yes remembered for seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from anyio import CapacityLimiter, to_thread

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, TargetType
from headwater.catalog.model.principal import Principal
from headwater.catalog.model.rights import Rights
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.access import thing_not_found
from headwater.server.access.needs import Need
from headwater.server.recent_answers import RecentAnswers
from headwater.storage.errors import Forbidden, HeadwaterError, NotFound, ResourceType
from headwater.storage.runtime import Runtime

__all__ = ["Decisions"]

# One takes about a kilobyte.
_MOST_KEPT = 16_384
# Questions that may wait for the database at the same time; others wait for them.
_MOST_QUESTIONS = 8


class Decisions:
    """Decides what principals may do.

    Rights that were enough for something are remembered, and that somebody is not restricted. Both
    are forgotten when the rights end, after ten seconds, or when a request of this process may have
    taken any away or restricted anybody. Those that were not enough are asked for anew each time:
    whoever is granted something has it at once.

    Args:
        runtime: The clock.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: RecentAnswers[Rights] = RecentAnswers(_MOST_KEPT)
        self._unrestricted: RecentAnswers[bool] = RecentAnswers(_MOST_KEPT)
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
        rights = await to_thread.run_sync(
            catalog.access.rights, caller, need.thing, limiter=self._questions()
        )
        if not need.is_met(rights):
            raise _refusal(caller, need, rights)
        with self._lock:
            # What was asked before a right was taken away may no longer be so.
            if not self._ending and ended == self._ended:
                key = (catalog.warehouse, caller.name, caller.grantees, need.thing)
                self._known.put(key, rights, asked)

    async def demand_all_rows(self, caller: Principal, catalog: Catalog, name: Identifier) -> None:
        """Refuse a caller to whom policies show a part of a table, and for whom the catalog acts.

        Raises:
            Forbidden: Policies restrict what the caller sees.
            Unavailable: The database did not answer.
        """
        table = Identifier(name.database, name.table)
        key = (catalog.warehouse, caller.name, caller.grantees, table)
        asked, ended = self._runtime.monotonic(), self._ended
        if not self._ending and self._unrestricted.get(key, asked):
            return
        try:
            access = await to_thread.run_sync(
                catalog.policies.access, table, limiter=self._questions()
            )
        except NotFound:
            # The operation says so.
            return
        if access.restriction:
            raise Forbidden(
                f"policies restrict what you see of table {table}, and whoever is shown a part of "
                "it may not change its rows; write as somebody whom no policy names"
            )
        with self._lock:
            if not self._ending and ended == self._ended:
                self._unrestricted.put(key, True, asked)

    def _questions(self) -> CapacityLimiter:
        if self._limiter is None:
            self._limiter = CapacityLimiter(_MOST_QUESTIONS)
        return self._limiter

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
                self._unrestricted.clear()
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
    remedy = "'headwater permission grant' gives it"
    if rights.columns and Access.SELECT in need.accesses:
        remedy = f"permissions on columns keep it to {'others' if hidden else 'some columns'}"
    return Forbidden(
        f"'{caller.name}' may not do that: it needs {need}{f', {what}' if what else ''}; {remedy}",
        resource_type=kind,
        resource_name=(thing.name or thing.database or thing.id) if kind else None,
    )
