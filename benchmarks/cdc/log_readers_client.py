"""The side of other readers of a source, run by the interpreter that has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mysql_event_stream import CdcEngine
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent, WriteRowsEvent

from benchmarks.engine.answers import answer_requests

_MAGIC_BYTES = 4
_SERVER_ID = 4711


def mysql_replication(request: dict[str, Any]) -> Callable[[], int]:
    """Read the first rows of a log file from its server."""
    login = {"host": "127.0.0.1", "port": int(request["port"]), "user": "root", "passwd": ""}

    def work() -> int:
        reader = BinLogStreamReader(
            connection_settings=login,
            server_id=_SERVER_ID,
            log_file=Path(request["data"]).name,
            log_pos=_MAGIC_BYTES,
            resume_stream=True,
            only_events=[WriteRowsEvent, UpdateRowsEvent],
            is_mariadb=True,
        )
        rows = 0
        try:
            for event in reader:
                rows += len(event.rows)
                if rows >= int(request["rows"]):
                    break
        finally:
            reader.close()
        return rows

    return work


def mysql_event_stream(request: dict[str, Any]) -> Callable[[], int]:
    """Read the first rows of a log file."""
    data = Path(request["data"]).read_bytes()

    def work() -> int:
        offset, rows = _MAGIC_BYTES, 0
        with CdcEngine() as engine:
            while offset < len(data) and rows < int(request["rows"]):
                offset += engine.feed(data[offset : offset + (1 << 20)])
                while engine.next_event() is not None:
                    rows += 1
        return rows

    return work


def connectorx_read(request: dict[str, Any]) -> Callable[[], int]:
    """Read a table into Arrow by ConnectorX."""
    import connectorx

    source = f"mysql://root@127.0.0.1:{request['port']}/{request['database']}"
    query = f"SELECT * FROM {request['table']}"
    return lambda: connectorx.read_sql(source, query, return_type="arrow").num_rows


if __name__ == "__main__":
    steps = (mysql_replication, mysql_event_stream, connectorx_read)
    answer_requests({step.__name__: step for step in steps})
