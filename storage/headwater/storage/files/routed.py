"""File access to a table whose files lie in several kinds of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from headwater.storage.files.access import FileAccess, FileStatus

__all__ = ["RoutedFileAccess", "scheme_of"]

_ALIASES = {"s3a": "s3"}


def scheme_of(path: str) -> str:
    """The kind of store that a URI or a local path names, such as ``s3`` for ``s3a``, too."""
    scheme = "file" if path.startswith("/") else path.partition(":")[0].lower()
    return _ALIASES.get(scheme, scheme)


class RoutedFileAccess:
    """Reaches each path by the access to its kind of store.

    Args:
        location: A location that `own` reaches.
        own: The access to it.
        other: Makes the access to another location; it is asked once for each kind of store.
    """

    def __init__(self, location: str, own: FileAccess, other: Callable[[str], FileAccess]) -> None:
        self._location = location
        self._own = own
        self._other = other
        self._by_scheme = {scheme_of(location): own}

    def __repr__(self) -> str:
        return f"RoutedFileAccess({self._own!r})"

    def __reduce__(
        self,
    ) -> tuple[type[RoutedFileAccess], tuple[str, FileAccess, Callable[[str], FileAccess]]]:
        return RoutedFileAccess, (self._location, self._own, self._other)

    def _to(self, path: str) -> FileAccess:
        scheme = scheme_of(path)
        found = self._by_scheme.get(scheme)
        if found is None:
            found = self._by_scheme.setdefault(scheme, self._other(path))
        return found

    def read(self, path: str) -> bytes:
        """The file's content; raises NotFound."""
        return self._to(path).read(path)

    def exists(self, path: str) -> bool:
        """True if the file exists."""
        return self._to(path).exists(path)

    def size(self, path: str) -> int:
        """The file's size in bytes; raises NotFound."""
        return self._to(path).size(path)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace a file, atomically and, unless told otherwise, durably."""
        self._to(path).write(path, data, durable=durable)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file, atomically and durably; False, changing nothing, when it exists."""
        return self._to(path).write_if_absent(path, data)

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens when it does not exist."""
        self._to(path).delete(path)

    def make_directory(self, directory: str) -> None:
        """Make a directory, and those above it, where a store has directories at all."""
        self._to(directory).make_directory(directory)

    def check_directory(self, directory: str) -> None:
        """Raise unless files can be written in the directory."""
        self._to(directory).check_directory(directory)

    def delete_tree(self, directory: str) -> None:
        """Delete everything below a directory, and the directory."""
        self._to(directory).delete_tree(directory)

    def list(self, directory: str) -> list[FileStatus]:
        """The files directly in a directory, by name."""
        return self._to(directory).list(directory)

    def folders(self, directory: str) -> Sequence[str]:
        """The names of the directories directly in a directory, in their order."""
        return self._to(directory).folders(directory)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All files below a directory."""
        return self._to(directory).walk(directory, unfinished=unfinished)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads; raises NotFound."""
        return self._to(path).open_input(path)

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Open a new file for writing, which appears when the context ends."""
        return self._to(path).open_output(path)
