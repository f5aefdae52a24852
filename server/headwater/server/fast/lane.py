"""The fast lane: the requests that clients send most, answered before the framework sees them.

They are those for a table, for its latest snapshot, and commits. Many are answered by one look into
the database, or by one transaction; and none goes through routing and validation, which would cost
more than the rest. Whatever is not plain is left to the ordinary way, which knows what to do and
what to say: a name with escapes, a caller who is not let in, a body that is not what it should be,
a table that is not there.
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

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.history.commit import MOST_AT_ONCE as MOST_COMMITS
from headwater.catalog.sql.history.commit import Offer
from headwater.catalog.sql.tables.bulk_reads import MOST_AT_ONCE as MOST_READS
from headwater.catalog.sql.tables.bulk_reads import StoredSnapshot, StoredTable
from headwater.catalog.wire.history import CommitTableRequest, snapshot_from_wire
from headwater.server.answers import snapshot_text, table_text
from headwater.server.authentication import ANYBODY, Gate, Refusal
from headwater.server.dependencies import Services
from headwater.server.envelope import RequestIds
from headwater.server.errors import REQUEST_ID_HEADER, known_error_response, status_of
from headwater.server.fast.batches import MOST_UNDER_WAY, Batch
from headwater.server.json_text import member_text
from headwater.server.request_log import RequestLog
from headwater.storage.errors import HeadwaterError
from headwater.storage.table_storage import CommitAnswer

__all__ = ["FastLane"]

V = TypeVar("V")

_PLAIN = re.compile(
    rb"/v1/([\w.-]+)/databases/([\w.-]+)/tables/([\w.-]+)(?:/(snapshot|commit))?", re.ASCII
)
_TABLE = "/v1/{prefix}/databases/{database}/tables/{table}"
_LARGEST_BODY = 1_048_576
# A transaction takes several times as long; a look does not.
_LINGER_SECONDS = 0.002
_REQUEST_ID = REQUEST_ID_HEADER.encode()
_JSON = (b"content-type", b"application/json")


class _Kind(Enum):
    """What is asked for, as the end of the path says it."""

    TABLE = None
    SNAPSHOT = b"snapshot"
    COMMIT = b"commit"

    @property
    def route(self) -> str:
        """What a request is counted as; the same as of the framework's route."""
        return _TABLE if self.value is None else f"{_TABLE}/{self.value.decode()}"


@dataclass(slots=True)
class _Request:
    """A plain request of somebody who may call.

    Attributes:
        body_length: How many bytes its body has.
    """

    kind: _Kind
    catalog: SqlCatalog
    name: Identifier
    principal: str | None
    request_id: str
    body_length: int


@dataclass(frozen=True)
class _Batches:
    """What is done together in one warehouse, by an event loop."""

    loop: asyncio.AbstractEventLoop
    tables: Batch[Identifier, StoredTable]
    snapshots: Batch[Identifier, StoredSnapshot]
    commits: Batch[Offer, CommitAnswer | HeadwaterError]


class FastLane:
    """ASGI middleware around the whole application.

    Args:
        app: What answers all else.
        services: Knows the catalogs.
        gate: Says who may call.
        requests: Logs and counts.
        ids: Where request ids come from.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        services: Services,
        gate: Gate,
        requests: RequestLog,
        ids: RequestIds,
    ) -> None:
        self._app = app
        self._services = services
        self._gate = gate
        self._requests = requests
        self._ids = ids
        self._batches: WeakKeyDictionary[SqlCatalog, _Batches] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        request = await self._plain(scope)
        if request is None:
            await self._app(scope, receive, send)
            return
        body = b""
        if request.kind is _Kind.COMMIT:
            body = await _read(receive)
            receive = _again(body, receive)
        path: bytes = scope["raw_path"]
        begun = self._requests.begin(
            request.request_id, scope["method"], path.decode(), scope.get("client")
        )
        try:
            answer = await self._answer(request, body)
        except BaseException:
            self._requests.withdraw()
            raise
        if answer is None:
            self._requests.withdraw()
            await self._app(scope, receive, send)
            return
        status = status_of(answer) if isinstance(answer, HeadwaterError) else 200
        request_id = request.request_id.encode()
        try:
            if isinstance(answer, HeadwaterError):
                response = known_error_response(answer)
                response.raw_headers.append((_REQUEST_ID, request_id))
                await response(scope, receive, send)
            else:
                length = (b"content-length", str(len(answer)).encode())
                headers = [_JSON, length, (_REQUEST_ID, request_id)]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": answer})
        finally:
            self._requests.end(begun, request.kind.route, status, request.principal or ANYBODY)

    async def _plain(self, scope: Scope) -> _Request | None:
        """The request, if it is a plain one and comes from somebody who may call."""
        plain = _PLAIN.fullmatch(scope.get("raw_path", b"")) if scope["type"] == "http" else None
        if plain is None or scope["query_string"]:
            return None
        kind = _Kind(plain[4])
        if scope["method"] != ("POST" if kind is _Kind.COMMIT else "GET"):
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):  # one of them is there twice
            return None
        length = 0
        if kind is _Kind.COMMIT:
            given = headers.get(b"content-length", b"")
            length = int(given) if given.isdigit() else 0
            if not 0 < length <= _LARGEST_BODY:
                return None
        try:
            principal = await self._gate.admit(
                *[_text(headers.get(name)) for name in (b"host", b"origin", b"authorization")]
            )
            catalog = await self._services.find(plain[1].decode())
        except HeadwaterError:
            return None
        if isinstance(principal, Refusal) or not isinstance(catalog, SqlCatalog):
            return None
        name = Identifier(plain[2].decode(), plain[3].decode())
        request_id = self._ids.of(_text(headers.get(_REQUEST_ID)))
        return _Request(kind, catalog, name, principal, request_id, length)

    async def _answer(self, request: _Request, body: bytes) -> bytes | HeadwaterError | None:
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
                if len(body) != request.body_length:
                    return None
                offer = _offer(request.name, request.principal, body)
                return None if offer is None else await self._commit(request, batches, offer)

    def _batches_of(self, catalog: SqlCatalog) -> _Batches:
        loop = asyncio.get_running_loop()
        found = self._batches.get(catalog)
        if found is None or found.loop is not loop:
            found = self._batches[catalog] = _batches(loop, catalog)
        return found

    async def _commit(
        self, request: _Request, batches: _Batches, offer: Offer
    ) -> bytes | HeadwaterError | None:
        started = time.perf_counter()
        found = await batches.commits.get(offer)
        if found is None:
            # Offered again the ordinary way, a snapshot that was taken is found in the history.
            return None
        answer = found if isinstance(found, HeadwaterError) else found.problem or found.decided()
        seconds = time.perf_counter() - started
        self._services.metrics.committed(request.catalog.warehouse, answer, seconds)
        if isinstance(answer, HeadwaterError):
            return answer
        return b'{"success":true}' if answer else b'{"success":false}'


def _batches(loop: asyncio.AbstractEventLoop, catalog: SqlCatalog) -> _Batches:
    bulk, commits = catalog.bulk, catalog.snapshots.commits
    # They end with what they are for.
    threads = ThreadPoolExecutor(MOST_UNDER_WAY, "commits")

    async def commit(offers: Sequence[Offer]) -> Sequence[CommitAnswer | HeadwaterError]:
        return await loop.run_in_executor(threads, commits.commit_each, offers)

    return _Batches(
        loop,
        Batch(_each_once(bulk.tables_soon), most=MOST_READS),
        Batch(_each_once(bulk.latest_snapshots_soon), most=MOST_READS),
        Batch(commit, most=MOST_COMMITS, linger_seconds=_LINGER_SECONDS),
    )


def _each_once(
    look: Callable[[Sequence[Identifier]], Awaitable[Sequence[V | None]]],
) -> Callable[[Sequence[Identifier]], Awaitable[Sequence[V | None]]]:
    """Look things up that may be asked for several times; all are left to others if it fails."""

    async def work(names: Sequence[Identifier]) -> Sequence[V | None]:
        different = list(dict.fromkeys(names))
        try:
            found = dict(zip(different, await look(different), strict=True))
        except HeadwaterError:
            # One name may spoil it for all: each is asked for alone, and told.
            return [None] * len(names)
        return [found[name] for name in names]

    return work


def _offer(name: Identifier, principal: str | None, body: bytes) -> Offer | None:
    """What a client offers; None when the body is not what it should be."""
    try:
        text = body.decode()
        request = CommitTableRequest.model_validate(json.loads(text))
        snapshot = snapshot_from_wire(member_text(text, "snapshot"))
    except (ValueError, RecursionError, HeadwaterError):
        return None
    statistics = [item.statistics() for item in request.statistics or ()]
    base_uuid = request.base_snapshot_uuid
    return Offer(name, request.table_id, snapshot, base_uuid, statistics, principal)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


async def _read(receive: Receive) -> bytes:
    """The body, as much of it as the client sent."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
