"""The reads that clients ask for most, many of them answered by one look into the database.

A request that comes while others are being looked up waits for the next look, with whoever comes
meanwhile. A look begins after the requests that it answers, so each is told what is so then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from anyio import to_thread
from fastapi import Depends, Request
from starlette.responses import Response

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import Catalog
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.bulk import MOST_AT_ONCE, StoredSnapshot, StoredTable
from headwater.catalog.wire import GetTableResponse
from headwater.server.json_text import Raw, json_response
from headwater.storage.errors import HeadwaterError

__all__ = ["HotReads", "HotReadsOf", "snapshot_response", "table_response"]

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


class HotReads:
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


async def _hot_reads(request: Request) -> HotReads:
    reads = request.app.state.hot_reads
    assert isinstance(reads, HotReads)
    return reads


HotReadsOf: TypeAlias = Annotated[HotReads, Depends(_hot_reads)]


def table_response(table: StoredTable) -> Response:
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
