"""Request batching: the most frequent requests, answered before the framework sees them.

These are requests for a table, requests for its latest snapshot, and commits. Those that come at
the same time share one statement, or one transaction, and none goes through routing and
validation, which would cost more than the rest. Whatever is not plain is left to the ordinary way:
a name with escapes, a malformed body, a table that does not exist.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar
from weakref import WeakKeyDictionary

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, TargetType
from headwater.catalog.model.principal import Principal, current_principal
from headwater.catalog.model.rights import Thing
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.history.commit import MOST_AT_ONCE as MOST_COMMITS
from headwater.catalog.sql.history.commit import Offer
from headwater.catalog.sql.tables.bulk_reads import MOST_AT_ONCE as MOST_READS
from headwater.catalog.sql.tables.bulk_reads import StoredSnapshot, StoredTable
from headwater.catalog.wire.history import CommitTableRequest, snapshot_from_wire
from headwater.catalog.wire.tables import TABLE_ID, TABLE_ID_HEADER
from headwater.server.access.needs import Need
from headwater.server.access.operations import OPERATIONS
from headwater.server.answers import snapshot_text, table_text
from headwater.server.dependencies import Services
from headwater.server.errors import known_error_response
from headwater.server.fast.batches import MOST_UNDER_WAY, Batch
from headwater.server.json_slices import unique
from headwater.server.json_text import member_text
from headwater.server.large_bodies import MOST_ON_LOOP
from headwater.server.operation_metrics import WAREHOUSE
from headwater.server.request_body import BODY
from headwater.server.request_bound import Start, current_start
from headwater.storage.errors import HeadwaterError, OutcomeUnknown, Unavailable
from headwater.storage.steps import apart, step
from headwater.storage.table_storage import CommitAnswer

__all__ = ["FastLane"]

V = TypeVar("V")

_PLAIN = re.compile(
    rb"/v1/([\w.-]+)/databases/([\w.-]+)/tables/([\w.-]+)(?:/(snapshot|commit))?", re.ASCII
)
_TABLE_ID_HEADER = TABLE_ID_HEADER.encode()
_TABLE_ID = re.compile(TABLE_ID.encode())
_TABLE = "/v1/{prefix}/databases/{database}/tables/{table}"
_UPDATE = frozenset({Access.UPDATE})
# A transaction takes several times as long; a look does not.
_LINGER_SECONDS = 0.002


class _Kind(Enum):
    """The kind of a request, by the end of its path."""

    TABLE = None
    SNAPSHOT = b"snapshot"
    COMMIT = b"commit"

    @property
    def operation(self) -> str:
        """The id of the framework's operation."""
        return {None: "getTable", b"snapshot": "getTableSnapshot", b"commit": "commitTable"}[
            self.value
        ]

    @property
    def accesses(self) -> frozenset[Access]:
        """The accesses any of which it needs, as its operation does; none if seeing is enough."""
        return _UPDATE if self is _Kind.COMMIT else frozenset()

    def is_open_to(self, caller: Principal | None, warehouse: str) -> bool:
        """Whether a caller needs no further check; others go the ordinary way, and are told."""
        if caller is None:
            return True
        scope = OPERATIONS[self.operation].scope
        return scope is not None and caller.has(scope) and caller.reaches(warehouse)

    @property
    def path(self) -> str:
        """The template that the request is counted under: that of the framework's route."""
        return _TABLE if self.value is None else f"{_TABLE}/{self.value.decode()}"

    @property
    def unique_id(self) -> str:
        """The operation that the request is counted as: that of the framework's route."""
        return self.operation


@dataclass(frozen=True, slots=True)
class _Request:
    """A plain request; its body is empty unless it is a commit."""

    kind: _Kind
    catalog: SqlCatalog
    name: Identifier
    body: bytes

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of its path, as the framework's route names them."""
        name = self.name
        return {
            "prefix": self.catalog.warehouse,
            "database": name.database,
            "table": name.name,
        }


@dataclass(frozen=True)
class _Batches:
    """The batches of one warehouse, in one event loop."""

    loop: asyncio.AbstractEventLoop
    tables: Batch[Identifier, StoredTable]
    snapshots: Batch[Identifier, StoredSnapshot]
    commits: Batch[Offer, CommitAnswer | HeadwaterError]


class FastLane:
    """ASGI middleware right before the framework, behind everything that all requests pass.

    Args:
        app: The framework, which answers all other requests.
        services: The catalogs and the counts.
    """

    def __init__(self, app: ASGIApp, *, services: Services) -> None:
        self._app = app
        self._services = services
        self._batches: WeakKeyDictionary[SqlCatalog, _Batches] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        request = await self._plain(scope)
        answer = None
        if request is not None:
            scope["route"] = request.kind
            scope["path_params"] = request.parameters
            scope["state"][WAREHOUSE] = request.catalog.warehouse
            with step("request batching", operation=request.kind.operation):
                answer = await self._answer(request)
        if request is None or answer is None:
            await self._app(scope, receive, send)
            return
        self._services.metrics.fast_lane_taken(request.kind.path)
        if isinstance(answer, HeadwaterError):
            response: Response = known_error_response(answer)
        else:
            response = Response(answer, media_type="application/json")
        await response(scope, receive, send)

    async def _plain(self, scope: Scope) -> _Request | None:
        """The request, if it is a plain one."""
        plain = _PLAIN.fullmatch(scope.get("raw_path", b"")) if scope["type"] == "http" else None
        if plain is None or scope["query_string"]:
            return None
        kind = _Kind(plain[4])
        if scope["method"] != ("POST" if kind is _Kind.COMMIT else "GET"):
            return None
        body: bytes = scope["state"].get(BODY, b"")
        if kind is _Kind.COMMIT and not 0 < len(body) <= MOST_ON_LOOP:
            return None
        warehouse = plain[1].decode()
        caller = current_principal()
        if not kind.is_open_to(caller, warehouse):
            return None
        try:
            catalog = await self._services.find(warehouse)
        except HeadwaterError:
            return None
        if not isinstance(catalog, SqlCatalog):
            return None
        table_ids = [value for key, value in scope["headers"] if key == _TABLE_ID_HEADER]
        if len(table_ids) > 1 or not all(map(_TABLE_ID.fullmatch, table_ids)):
            return None
        name = Identifier(plain[2].decode(), plain[3].decode())
        if table_ids:
            name = name.with_table_id(table_ids[0].decode())
        if caller is not None:
            decisions = self._services.decisions
            need = Need(Thing(TargetType.TABLE, name.database, name.name), kind.accesses)
            try:
                if caller.asks_permission:
                    await decisions.demand(caller, catalog, need)
                if OPERATIONS[kind.operation].changes_rows:
                    await decisions.demand_all_rows(caller, catalog, name)
            except HeadwaterError:
                # Refused the ordinary way.
                return None
        return _Request(kind, catalog, name, body)

    async def _answer(self, request: _Request) -> bytes | HeadwaterError | None:
        """The answer; None for what needs a closer look."""
        batches = self._batches_of(request.catalog)
        match request.kind:
            case _Kind.TABLE:
                table = await batches.tables.get(request.name)
                return None if table is None else table_text(table)
            case _Kind.SNAPSHOT:
                snapshot = await batches.snapshots.get(request.name)
                return None if snapshot is None else snapshot_text(snapshot)
            case _Kind.COMMIT:
                offer = _offer(request.name, request.body)
                return None if offer is None else await self._commit(request, batches, offer)

    def _batches_of(self, catalog: SqlCatalog) -> _Batches:
        loop = asyncio.get_running_loop()
        batches = self._batches.get(catalog)
        if batches is None or batches.loop is not loop:
            longest = self._services.settings.request_timeout.total_seconds()
            batches = self._batches[catalog] = _batches(loop, catalog, longest)
        return batches

    async def _commit(
        self, request: _Request, batches: _Batches, offer: Offer
    ) -> bytes | HeadwaterError | None:
        started = time.perf_counter()
        start = current_start()
        result: CommitAnswer | HeadwaterError | None
        try:
            result = await batches.commits.get(offer, None if start is None else start.begin)
        except Unavailable as error:
            result = error
        except asyncio.CancelledError:
            seconds = time.perf_counter() - started
            self._services.metrics.committed(request.catalog.warehouse, _given_up(start), seconds)
            raise
        if result is None:
            # Offered again the ordinary way, a snapshot that was taken is found in the history.
            return None
        answer = (
            result if isinstance(result, HeadwaterError) else result.problem or result.decided()
        )
        seconds = time.perf_counter() - started
        self._services.metrics.committed(request.catalog.warehouse, answer, seconds)
        if isinstance(answer, HeadwaterError):
            return answer
        return b'{"success":true}' if answer else b'{"success":false}'


def _given_up(start: Start | None) -> HeadwaterError:
    """The outcome of a commit whose request ends before it does."""
    if start is not None and start.give_up():
        return Unavailable("it was given up before it began")
    return OutcomeUnknown("it goes on without its client")


def _batches(
    loop: asyncio.AbstractEventLoop, catalog: SqlCatalog, longest_seconds: float
) -> _Batches:
    bulk, commits = catalog.bulk, catalog.snapshots.commits
    # They end with what they are for.
    threads = ThreadPoolExecutor(MOST_UNDER_WAY, "commits")

    async def commit(offers: Sequence[Offer]) -> Sequence[CommitAnswer | HeadwaterError]:
        return await loop.run_in_executor(threads, commits.commit_each, offers)

    return _Batches(
        loop,
        Batch(_each_once(bulk.tables_soon), most=MOST_READS),
        Batch(_each_once(bulk.latest_snapshots_soon), most=MOST_READS),
        Batch(
            commit,
            most=MOST_COMMITS,
            linger_seconds=_LINGER_SECONDS,
            longest_seconds=longest_seconds,
        ),
    )


def _each_once(
    look: Callable[[Sequence[Identifier]], Awaitable[Sequence[V | None]]],
) -> Callable[[Sequence[Identifier]], Awaitable[Sequence[V | None]]]:
    """Look things up that may be asked for several times; all are left to others if it fails."""

    async def work(names: Sequence[Identifier]) -> Sequence[V | None]:
        # Equal names may mean tables with different ids.
        keys = [(name, name.table_id) for name in names]
        different = list(dict.fromkeys(keys))
        try:
            # It is done for several requests: it is a part of none.
            with apart():
                values = await look([name for name, _ in different])
        except HeadwaterError:
            # One name may spoil it for all: each is asked for alone, and told.
            return [None] * len(names)
        value_by_key = dict(zip(different, values, strict=True))
        return [value_by_key[key] for key in keys]

    return work


def _offer(name: Identifier, body: bytes) -> Offer | None:
    """The snapshot that a client offers; None when the body is not what it should be."""
    try:
        text = body.decode()
        request = CommitTableRequest.model_validate(json.loads(text, object_pairs_hook=unique))
        snapshot = snapshot_from_wire(member_text(text, "snapshot"))
    except (ValueError, RecursionError, HeadwaterError):
        return None
    statistics = [item.statistics() for item in request.statistics or ()]
    return Offer(name, request.table_id, snapshot, request.base_snapshot_uuid, statistics)
