"""File access under the locks of a transaction, which the database gives back if it is idle.

A process that stands still, be it for a minute, loses its locks; and what it would go on to delete
may be another server's work by then. So the database is asked for something before storage is
touched, and while that takes long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from headwater.catalog.sql.database.drivers import IDLE_SECONDS
from headwater.storage.files.access import FileAccess, FileStatus

__all__ = ["held_files"]

# Asked so often that one answer may be late.
_QUESTIONS = 4


def held_files(connection: Connection, files: FileAccess) -> FileAccess:
    """The file access for a transaction that has locks, and does nothing else meanwhile.

    Its methods raise SQLAlchemy's DBAPIError, and touch nothing, once the transaction is over.
    """
    idle_seconds = connection.get_execution_options().get(IDLE_SECONDS)
    if idle_seconds is None:
        return files
    return _HeldFiles(connection, files, float(idle_seconds) / _QUESTIONS)


class _HeldFiles:
    def __init__(self, connection: Connection, files: FileAccess, every_seconds: float) -> None:
        self._connection = connection
        self._files = files
        self._every_seconds = every_seconds
        self._asked = time.monotonic()

    def read(self, path: str) -> bytes:
        return self._held().read(path)

    def exists(self, path: str) -> bool:
        return self._held().exists(path)

    def size(self, path: str) -> int:
        return self._held().size(path)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._held().write(path, data, durable=durable)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        return self._held().write_if_absent(path, data)

    def delete(self, path: str) -> None:
        self._held().delete(path)

    def make_directory(self, directory: str) -> None:
        self._held().make_directory(directory)

    def check_directory(self, directory: str) -> None:
        self._held().check_directory(directory)

    def delete_tree(self, directory: str) -> None:
        with self._asking():
            self._held().delete_tree(directory)

    def list(self, directory: str) -> list[FileStatus]:
        return self._held().list(directory)

    def folders(self, directory: str) -> Sequence[str]:
        return self._held().folders(directory)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        for status in self._held().walk(directory, unfinished=unfinished):
            yield status
            self._held()

    def open_input(self, path: str) -> pa.NativeFile:
        return self._held().open_input(path)

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        return self._held().open_output(path)

    def _held(self) -> FileAccess:
        """The files, while the transaction goes on."""
        if time.monotonic() - self._asked > self._every_seconds:
            self._ask()
        return self._files

    def _ask(self) -> None:
        # As of its beginning: the database begins to count again no earlier.
        now = time.monotonic()
        self._connection.exec_driver_sql("SELECT 1")
        self._asked = now

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Ask again and again, in a thread of its own, until the block ends."""
        is_over = threading.Event()
        failures: list[DBAPIError] = []

        def ask() -> None:
            while not is_over.wait(self._every_seconds):
                try:
                    self._ask()
                except DBAPIError as error:
                    failures.append(error)
                    return

        thread = threading.Thread(target=ask, name="headwater-held-files")
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        if failures:
            raise failures[0]
