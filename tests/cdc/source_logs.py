"""Private MySQL and MariaDB servers with a binary log, and what their logs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from headwater.cdc.columns import BadDates
from headwater.cdc.mysql import (
    DecodeOptions,
    Event,
    EventType,
    PackedRows,
    RowBatch,
    TableShape,
    decode_rows,
    expand,
    is_rows_event,
    parse_table_map,
    read_log_file,
    table_number,
)
from headwater.cdc.mysql.server import Address

# The kinds of servers that tests run on, each with its marker.
MARIADB = pytest.param("mariadb", marks=pytest.mark.mariadb)
MYSQL = pytest.param("mysql", marks=pytest.mark.mysql)
# MySQL without GTIDs: positions are offsets in files.
MYSQL_FILES = pytest.param("mysql_files", marks=pytest.mark.mysql)
# For tests of what is different without GTIDs.
with_files = pytest.mark.parametrize("source", [MARIADB, MYSQL, MYSQL_FILES], indirect=True)
# For tests of what one of them lacks.
only_mariadb = pytest.mark.parametrize("source", [MARIADB], indirect=True)
only_mysql = pytest.mark.parametrize("source", [MYSQL], indirect=True)

# All rows are decoded together.
_ALL = 1 << 30


@dataclass
class LogContents:
    """The events of some log files, and the undecoded rows of each shape of each table."""

    events: list[Event] = field(default_factory=list)
    rows: dict[TableShape, PackedRows] = field(default_factory=dict)

    def add(self, events: Iterator[Event]) -> None:
        shapes: dict[int, TableShape] = {}
        for compressed in events:
            for event in expand(compressed):
                self.events.append(event)
                if event.type is EventType.TABLE_MAP:
                    table_map = parse_table_map(event)
                    shapes[table_map.table_id] = table_map.shape
                elif is_rows_event(event):
                    shape = shapes[table_number(event)]
                    self.rows.setdefault(shape, PackedRows(_ALL)).add(event)

    def decode(
        self, table: str, options: DecodeOptions | None = None, keys: Sequence[str] = ()
    ) -> RowBatch:
        """Decode the rows of a table that had one shape; dates that do not exist are null."""
        (shape,) = [shape for shape in self.rows if shape.table == table]
        (slab,) = self.rows[shape].slabs()
        return decode_rows(shape, slab, options or DecodeOptions(BadDates.NULL), keys)


class SourceServer:
    """A server with a binary log, and a database for one test."""

    def __init__(self, url: str, data: Path, database: str) -> None:
        self.address = Address.from_url(url)
        parsed = make_url(url)
        assert parsed.host is not None
        assert parsed.port is not None
        self.login: dict[str, Any] = {
            "host": parsed.host,
            "port": parsed.port,
            "user": parsed.username,
            "password": parsed.password or "",
        }
        self._data, self.folder = data, data.parent
        self.database = database
        self._connect = self._connector()
        self.run("FLUSH BINARY LOGS")
        self._first_file = self._current_file()

    def _connector(self) -> Callable[..., Any]:
        import pymysql

        connect: Callable[..., Any] = pymysql.connect
        return connect

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A cursor of a session in UTC that accepts any value."""
        connection = self._connect(**self.login, charset="utf8mb4", autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
                cursor.execute(
                    f"CREATE DATABASE IF NOT EXISTS {self.database} CHARACTER SET utf8mb4"
                )
                cursor.execute(f"USE {self.database}")
                yield cursor
        finally:
            connection.close()

    def run(self, *statements: str) -> None:
        """Run statements in one session."""
        with self.session() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def run_as_root(self, statement: str) -> None:
        """Run a statement that the tests' user may not run."""
        socket = str(self.folder / "socket")
        with self._connect(unix_socket=socket, user="root") as root, root.cursor() as cursor:
            cursor.execute(statement)

    def select(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.session() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def _current_file(self) -> str:
        return str(self.select("SHOW BINARY LOGS")[-1][0])

    def log_files(self) -> Sequence[Path]:
        """Log files that are complete and were written since this test began."""
        self.run("FLUSH BINARY LOGS")
        names = [str(row[0]) for row in self.select("SHOW BINARY LOGS")]
        names = names[names.index(self._first_file) : -1]
        return [self._data / name for name in names]

    def read_log(self) -> LogContents:
        """Everything in the log since this test began."""
        contents = LogContents()
        for path in self.log_files():
            contents.add(read_log_file(path))
        return contents
