"""The cost of permissions: getting tables and committing, with them asked and not.

Run with ``python -m benchmarks.rest.access_cost``. Both sides run in this process, in turns, and
CPU seconds are compared, so that what else the machine does counts little. The application is
called without a network between.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import event, insert

from headwater.catalog.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.models import GrantRow
from headwater.server.app import create_app
from headwater.server.settings import ServerSettings
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

PRINCIPALS, TABLES = 1000, 100
GRANTS_EACH = 10
# A caller sends so many requests in a row; each side has so many callers.
IN_A_ROW, BLOCKS = 20, 120


async def _call(app: Any, secret: str, method: str, path: str, body: bytes = b"") -> int:
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {secret}".encode()),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
        "state": {},
    }
    status = 0

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    await app(scope, receive, send)
    return status


def _commit(number: int) -> bytes:
    snapshot = {
        "version": 3, "uuid": f"u{number}", "id": number, "schemaId": 0, "baseManifestList": "b",
        "deltaManifestList": "d", "commitUser": "u", "commitIdentifier": number,
        "commitKind": "APPEND", "timeMillis": number,
    }  # fmt: skip
    base = None if number == 1 else f"u{number - 1}"
    body: dict[str, object] = {"baseSnapshotUuid": base, "snapshot": snapshot, "statistics": []}
    return json.dumps(body).encode()


async def _measure(folder: Path) -> None:
    catalog = SqlCatalog.open(
        f"sqlite:///{folder}/c.db", warehouse="main", location=str(folder / "lake"), create=True
    )
    database = catalog.operation.database
    schema = Schema.from_arrow(pa.schema([("id", pa.int64())]))
    catalog.databases.create("db")
    names = [Identifier("db", f"t{number}") for number in range(TABLES)]
    for name in names:
        catalog.tables.create(name, schema)
    ids = [catalog.tables.get(name).id for name in names]
    tokens = Tokens(database, SYSTEM_RUNTIME)
    grants = [
        {
            "object_id": ids[(who + offset) % TABLES],
            "resource_type": "TABLE",
            "warehouse": "main",
            "principal": f"user{who}",
            "access": "ALL",
            "created_at": 0,
        }
        for who in range(PRINCIPALS)
        for offset in range(GRANTS_EACH)
    ]
    database.write(lambda connection: connection.execute(insert(GrantRow), grants))
    limited = [tokens.create(f"user{who}").secret for who in range(PRINCIPALS)]
    free = [
        tokens.create(f"admin{who}", scopes=[Scope.ADMINISTER]).secret for who in range(PRINCIPALS)
    ]
    settings = ServerSettings(require_token=True, max_requests_per_second=0)
    app = create_app(catalog, settings, find_token=tokens.find)
    statements = 0

    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    event.listen(database.engine, "before_cursor_execute", count)
    committed = [0] * TABLES

    async def get(secrets: list[str], number: int) -> int:
        who = number % PRINCIPALS
        table = (who + number % GRANTS_EACH) % TABLES
        path = f"/v1/main/databases/db/tables/t{table}"
        return await _call(app, secrets[who], "GET", path)

    async def commit(secrets: list[str], number: int) -> int:
        who = number % PRINCIPALS
        table = (who + number % GRANTS_EACH) % TABLES
        committed[table] += 1
        path = f"/v1/main/databases/db/tables/t{table}/commit"
        return await _call(app, secrets[who], "POST", path, _commit(committed[table]))

    kinds: dict[str, Callable[[list[str], int], Awaitable[int]]] = {"get": get, "commit": commit}
    for kind, call in kinds.items():
        spent = {"free": 0.0, "limited": 0.0}
        asked = {"free": 0, "limited": 0}
        sides = [("free", free), ("limited", limited)]
        # A commit takes far longer, and its files, too.
        blocks = BLOCKS if kind == "get" else BLOCKS // 10
        for block in range(-2, blocks):
            for side, secrets in sides[:: 1 if block % 2 else -1]:
                before, at = statements, time.process_time()
                for _ in range(IN_A_ROW):
                    status = await call(secrets, block)
                    assert status == 200, status
                if block >= 0:  # the first ones make what is made once
                    spent[side] += time.process_time() - at
                    asked[side] += statements - before
        requests = blocks * IN_A_ROW
        print(
            f"{kind}: CPU per request {spent['free'] / requests * 1e6:.0f} us free, "
            f"{spent['limited'] / requests * 1e6:.0f} us limited, throughput ratio "
            f"{spent['free'] / spent['limited']:.2f}; statements per request "
            f"{asked['free'] / requests:.2f} and {asked['limited'] / requests:.2f}",
            flush=True,
        )
    catalog.close()


def main() -> None:
    """Measure both kinds of request."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder)))


if __name__ == "__main__":
    main()
