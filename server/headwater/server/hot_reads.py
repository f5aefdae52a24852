"""The reads that clients ask for most, many of them answered by one look into the database.

A request that comes while others are being looked up waits for the next look, with whoever comes
meanwhile. A look begins after the requests that it answers, so each is told what is so then.

They are answered before the framework looks for their routes, which would cost more than the rest.
Whatever is not plain goes on to the route, which knows what to do and what to say.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from anyio import to_thread
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import Catalog
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.bulk import MOST_AT_ONCE, StoredSnapshot, StoredTable
from headwater.catalog.wire import GetTableResponse
from headwater.server.dependencies import Services
from headwater.server.json_text import Raw, json_response
from headwater.storage.errors import HeadwaterError

__all__ = ["HotPaths", "snapshot_response"]

K = TypeVar("K")
V = TypeVar("V")

_LOOKS_AT_ONCE = 1
_REMEMBERED = 4096


class _Batch(Generic[K, V]):
    """Collects what is asked for until it can be fetched together.

    Args:
        fetch: Fetches some; None stands for what it leaves to others. It runs in a thread.
    """

    def __init__(self, fetch: Callable[[Sequence[K]], Sequence[V | None]]) -> None:
        self._fetch = fetch
        self._waiting: list[tuple[K, asyncio.Future[V | None]]] = []
        self._looks: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> V | None:
        """One of them; None when it, or all, could not be fetched like this."""
        future: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if len(self._looks) < _LOOKS_AT_ONCE:
            self._begin()
        return await future

    def _begin(self) -> None:
        asked, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        look = asyncio.create_task(self._look(asked))
        self._looks.add(look)
        look.add_done_callback(self._ended)

    def _ended(self, look: asyncio.Task[None]) -> None:
        self._looks.discard(look)
        if self._waiting:
            self._begin()

    async def _look(self, asked: Sequence[tuple[K, asyncio.Future[V | None]]]) -> None:
        keys = list(dict.fromkeys(key for key, _ in asked))
        found: dict[K, V | None] = {}
        try:
            found = dict(zip(keys, await to_thread.run_sync(self._fetch, keys), strict=True))
        except HeadwaterError:
            pass  # one name may spoil it for all: each is asked for alone, and told
        finally:
            for key, future in asked:
                if not future.done():  # its client may have gone
                    future.set_result(found.get(key))


class _HotReads:
    """Batches of reads for each catalog."""

    def __init__(self) -> None:
        self._tables: WeakKeyDictionary[Catalog, _Batch[Identifier, StoredTable]] = (
            WeakKeyDictionary()
        )
        self._snapshots: WeakKeyDictionary[Catalog, _Batch[Identifier, StoredSnapshot]] = (
            WeakKeyDictionary()
        )

    async def table(self, catalog: Catalog, identifier: Identifier) -> StoredTable | None:
        """A table with its latest schema; None for what needs a closer look."""
        if not isinstance(catalog, SqlCatalog):
            return None
        batch = self._tables.get(catalog)
        if batch is None:
            batch = self._tables[catalog] = _Batch(catalog.bulk.tables)
        return await batch.get(identifier)

    async def latest_snapshot(
        self, catalog: Catalog, identifier: Identifier
    ) -> StoredSnapshot | None:
        """A table's latest snapshot; None for what needs a closer look."""
        if not isinstance(catalog, SqlCatalog):
            return None
        batch = self._snapshots.get(catalog)
        if batch is None:
            batch = self._snapshots[catalog] = _Batch(catalog.bulk.latest_snapshots)
        return await batch.get(identifier)


@dataclass(frozen=True)
class _Route:
    """What a request is counted as; the same as of the framework's route."""

    path: str


_PLAIN = re.compile(r"/v1/([\w.-]+)/databases/([\w.-]+)/tables/([\w.-]+)(/snapshot)?", re.ASCII)
_TABLE = _Route("/v1/{prefix}/databases/{database}/tables/{table}")
_SNAPSHOT = _Route("/v1/{prefix}/databases/{database}/tables/{table}/snapshot")


class HotPaths:
    """ASGI middleware that answers the plain case of two routes; innermost, behind authentication.

    Args:
        app: What answers all else.
        services: Knows the catalogs.
    """

    def __init__(self, app: ASGIApp, *, services: Services) -> None:
        self._app = app
        self._services = services
        self._reads = _HotReads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http" and scope["method"] == "GET":
            plain = _PLAIN.fullmatch(scope["path"])
            answer = None if plain is None else await self._answer(*plain.groups())
            if plain is not None and answer is not None:
                scope["route"] = _SNAPSHOT if plain[4] else _TABLE
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(
        self, warehouse: str, database: str, table: str, snapshot: str | None
    ) -> Response | None:
        try:
            catalog = await self._services.find(warehouse)
        except HeadwaterError:
            return None
        if catalog is None:
            return None
        name = Identifier(database, table)
        if snapshot:
            latest = await self._reads.latest_snapshot(catalog, name)
            return None if latest is None else snapshot_response(latest)
        stored = await self._reads.table(catalog, name)
        return None if stored is None else _table_response(stored)


def _table_response(table: StoredTable) -> Response:
    """The answer that tells of a table."""
    return Response(_table_json(table), media_type="application/json")


@lru_cache(_REMEMBERED)
def _table_json(table: StoredTable) -> bytes:
    return GetTableResponse.of(table.info()).model_dump_json(by_alias=True).encode()


def snapshot_response(snapshot: StoredSnapshot) -> Response:
    """The answer that tells of a table's latest snapshot."""
    sizes = {
        "recordCount": snapshot.record_count,
        "fileSizeInBytes": snapshot.file_size_in_bytes,
        "fileCount": snapshot.file_count,
        "lastFileCreationTime": snapshot.last_file_creation_time,
    }
    return json_response({"snapshot": {"snapshot": Raw(snapshot.document), **sizes}})
