"""The common part of every access to the objects of a store."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from headwater.storage.errors import NotFound, Unavailable
from headwater.storage.files.access import FileStatus
from headwater.storage.files.random_reads import RandomReads

__all__ = ["ObjectStoreFiles"]

# Nothing ever makes it: listing it shows that the bucket is there.
_PROBE = ".headwater-probe"


class ObjectStoreFiles(ABC):
    """The part of `headwater.storage.files.access.FileAccess` that rests on the other part."""

    @abstractmethod
    def size(self, path: str) -> int:
        """The object's size in bytes; raises NotFound."""

    @abstractmethod
    def list(self, directory: str) -> list[FileStatus]:
        """The objects directly in a directory, by name."""

    @abstractmethod
    def check_path(self, path: str) -> None:
        """Raise unless the path is one that this access takes."""

    @abstractmethod
    def range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` to `end`; raises NotFound."""

    @abstractmethod
    def upload(self, path: str, content: Path) -> None:
        """Create or replace an object with the content of a local file."""

    def exists(self, path: str) -> bool:
        """True if the object exists."""
        try:
            self.size(path)
        except NotFound:
            return False
        return True

    def make_directory(self, directory: str) -> None:
        """Nothing: a directory is there as soon as an object is in it."""
        self.check_path(directory)

    def check_directory(self, directory: str) -> None:
        """Raise unless the bucket is there and answers."""
        try:
            self.list(f"{directory.rstrip('/')}/{_PROBE}")
        except NotFound as error:
            raise Unavailable(f"the bucket of {directory} does not exist") from error

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads; raises NotFound."""
        return pa.PythonFile(_ObjectInput(self, path, self.size(path)), mode="r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new object for writing; it appears when the context ends without an exception."""
        self.check_path(path)
        # Spooled to the local disk: an aborted upload must leave nothing behind.
        with tempfile.TemporaryDirectory(prefix="headwater-") as folder:
            spool = Path(folder) / "upload"
            with pa.OSFile(str(spool), "wb") as sink:
                yield sink
            self.upload(path, spool)


class _ObjectInput(RandomReads):
    """Random reads of one object."""

    def __init__(self, files: ObjectStoreFiles, path: str, size: int) -> None:
        super().__init__(size)
        self._files = files
        self._path = path

    def range(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`."""
        return self._files.range(self._path, start, end)
