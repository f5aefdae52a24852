"""The side of Debezium's engine, run by the interpreter that has pydbzengine.

It counts the changes that the engine hands over, and reads none of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine
from pydbzengine.engine import jvm

from benchmarks.engine.answers import answer_requests

_SECONDS = 600


class _Counter(BasePythonChangeHandler):  # type: ignore[misc]
    """Counts changes.

    Args:
        rows: How many there will be.
    """

    def __init__(self, rows: int) -> None:
        self.count, self._rows = 0, rows
        self.begun, self.ended = Event(), Event()

    def handleJsonBatch(self, records: list[Any]) -> None:
        self.begun.set()
        self.count += len(records)
        # The first is of the row that shows that the engine reads the log.
        if self.count > self._rows:
            self.ended.set()


def debezium(request: dict[str, Any]) -> Callable[[], int]:
    """Take the changes that are made once the engine reads the log; then a file says so."""
    # pydbzengine has the connector for PostgreSQL itself.
    if "jars" in request:
        jvm.CLASS_PATHS[:] = [str(path) for path in Path(request["jars"]).glob("*.jar")]
    rows, ready = int(request["rows"]), Path(request["ready"])
    counter = _Counter(rows)
    engine = DebeziumJsonEngine(_settings(request), counter)
    Thread(target=engine.run, daemon=True).start()
    if not counter.begun.wait(_SECONDS):
        raise TimeoutError("Debezium has not begun to read the log")
    # It has read the row of the snapshot; the log follows.
    time.sleep(1)

    def work() -> int:
        ready.touch()
        if not counter.ended.wait(_SECONDS):
            raise TimeoutError(f"Debezium has handed over {counter.count} changes of {rows}")
        Thread(target=engine.close, daemon=True).start()
        return rows

    return work


def _settings(request: dict[str, Any]) -> dict[str, str]:
    return {
        "name": "bench",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": "127.0.0.1",
        "database.port": str(request["port"]),
        "table.include.list": str(request["table"]),
        "topic.prefix": "bench",
        "snapshot.mode": "initial",
        "tombstones.on.delete": "false",
        "converter.schemas.enable": "false",
        **(_mariadb(request) if "jars" in request else _postgresql(request)),
    }


def _mariadb(request: dict[str, Any]) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "database.user": "root",
        "database.password": "",
        "database.server.id": "4712",
        "database.include.list": str(request["database"]),
        "database.ssl.mode": "disable",
        "include.schema.changes": "false",
    }


def _postgresql(request: dict[str, Any]) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.name": "debezium",
        "publication.name": "debezium",
        "publication.autocreate.mode": "filtered",
        "database.user": str(request["user"]),
        "database.password": "",
        "database.dbname": str(request["database"]),
        "database.sslmode": "disable",
    }


if __name__ == "__main__":
    answer_requests({"debezium": debezium})
    # Threads of Java would keep the process.
    os._exit(0)
