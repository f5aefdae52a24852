"""One small interface to move bytes: local disk and object stores.

Formats encode bytes, file access moves them; neither knows the other. Every path is an absolute
URI (``file:///…``, ``s3://bucket/…``). A write becomes visible whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

__all__ = ["FileAccess", "FileStatus"]


@dataclass(frozen=True)
class FileStatus:
    """A file found by a listing.

    Attributes:
        path: Its URI.
        size: Bytes.
        modified_millis: Last change, milliseconds since the epoch.
    """

    path: str
    size: int
    modified_millis: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


class FileAccess(Protocol):
    """Reads and writes whole files, with a conditional put.

    Every method raises `Unavailable` when the store does not answer and `Forbidden` when it
    refuses; `NotFound` when a file that must exist does not. An instance pickles (Spark sends it
    to executors).
    """

    def read(self, path: str) -> bytes:
        """The file's content; raises NotFound."""
        ...

    def exists(self, path: str) -> bool:
        """True if the file exists."""
        ...

    def size(self, path: str) -> int:
        """The file's size in bytes; raises NotFound."""
        ...

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace a file, atomically and durably.

        Args:
            path: The file.
            data: Its content.
            durable: True if it has to survive a power failure; a hint need not.
        """
        ...

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file, atomically and durably; False, changing nothing, when it exists."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens when it does not exist."""
        ...

    def make_directory(self, directory: str) -> None:
        """Make a directory, and those above it, where a store has directories at all."""
        ...

    def check_directory(self, directory: str) -> None:
        """Raise unless the directory, or its bucket, is there and files can be written in it.

        Where writing costs money, it is only looked for.
        """
        ...

    def delete_tree(self, directory: str) -> None:
        """Delete everything below a directory, and the directory."""
        ...

    def list(self, directory: str) -> list[FileStatus]:
        """The files directly in a directory, by name; empty when there is no such directory."""
        ...

    def folders(self, directory: str) -> Sequence[str]:
        """The names of the directories directly in a directory, in their order.

        A store of objects has a directory where it has an object below it.
        """
        ...

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All files below a directory; empty when there is no such directory.

        Args:
            directory: The directory.
            unfinished: Give also what is being written, or was when its writer was killed.
        """
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads; raises NotFound."""
        ...

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Open a new file for writing.

        It appears, durably, when the context ends without an exception, and never otherwise.
        """
        ...
