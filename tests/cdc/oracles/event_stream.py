"""Prints the changes in log files as mysql-event-stream reads them, a JSON line for each change."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mysql_event_stream import CdcEngine, ChangeEvent

_MAGIC_BYTES = 4
_KINDS = {0: "insert", 1: "update", 2: "delete"}


def changes(log_file: Path) -> Iterator[ChangeEvent]:
    data = log_file.read_bytes()
    offset = _MAGIC_BYTES
    with CdcEngine() as engine:
        while offset < len(data) or engine.has_events():
            while (event := engine.next_event()) is not None:
                yield event
            if offset < len(data):
                consumed = engine.feed(data[offset:])
                if not consumed and not engine.has_events():
                    raise RuntimeError(f"{log_file} is not read beyond offset {offset}")
                offset += consumed


def plain(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        name: value.hex() if isinstance(value, bytes | bytearray) else value
        for name, value in row.items()
    }


for name in sys.argv[1:]:
    for change in changes(Path(name)):
        line = {
            "kind": _KINDS[change.type.value],
            "table": change.table,
            "database": change.database,
            "before": plain(change.before),
            "after": plain(change.after),
        }
        print(json.dumps(line))
