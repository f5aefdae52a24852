"""The files below one directory, to be read, and no others.

Whoever may write to a table writes its manifests, and these may name files anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

import pyarrow as pa

from headwater.storage.errors import Forbidden
from headwater.storage.files.access import FileAccess, FileStatus

__all__ = ["ConfinedFiles"]


@dataclass(frozen=True)
class ConfinedFiles:
    """Implements `headwater.storage.files.access.FileAccess` for reading below a directory.

    Attributes:
        files: The access to the files.
        directory: The directory's URI.
    """

    files: FileAccess
    directory: str

    def _inside(self, path: str) -> str:
        """The path, if it is below the directory; raises Forbidden."""
        root = self.directory.rstrip("/")
        below = path.removeprefix(root)
        is_below = below != path and (not below or below.startswith("/"))
        if not is_below or ".." in unquote(below).split("/"):
            raise Forbidden(
                f"a file of the table does not lie below its directory {root}, and the server does "
                "not read it for others"
            )
        return path

    def _read_only(self) -> NoReturn:
        raise Forbidden(f"{self.directory} is only read here")

    def read(self, path: str) -> bytes:
        """The file's content; raises NotFound."""
        return self.files.read(self._inside(path))

    def exists(self, path: str) -> bool:
        """True if the file exists."""
        return self.files.exists(self._inside(path))

    def size(self, path: str) -> int:
        """The file's size in bytes; raises NotFound."""
        return self.files.size(self._inside(path))

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Raises Forbidden."""
        self._read_only()

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Raises Forbidden."""
        self._read_only()

    def delete(self, path: str) -> None:
        """Raises Forbidden."""
        self._read_only()

    def make_directory(self, directory: str) -> None:
        """Raises Forbidden."""
        self._read_only()

    def check_directory(self, directory: str) -> None:
        """Raises Forbidden."""
        self._read_only()

    def delete_tree(self, directory: str) -> None:
        """Raises Forbidden."""
        self._read_only()

    def list(self, directory: str) -> list[FileStatus]:
        """The files directly in a directory, by name."""
        return self.files.list(self._inside(directory))

    def folders(self, directory: str) -> Sequence[str]:
        """The names of the directories directly in a directory, in their order."""
        return self.files.folders(self._inside(directory))

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All files below a directory."""
        return self.files.walk(self._inside(directory), unfinished=unfinished)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads; raises NotFound."""
        return self.files.open_input(self._inside(path))

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Raises Forbidden."""
        self._read_only()
