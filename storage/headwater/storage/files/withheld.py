"""The files of a table for a reader who is not shown all of it: none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from headwater.storage.errors import Forbidden
from headwater.storage.files.access import FileStatus

__all__ = ["WithheldFiles"]


@dataclass(frozen=True)
class WithheldFiles:
    """Implements `headwater.storage.files.access.FileAccess`; everything raises Forbidden.

    Attributes:
        table: The table's name.
    """

    table: str

    def refuse(self, what: str = "this needs its files") -> NoReturn:
        """Refuse what would show more than the policies let the reader see.

        Args:
            what: The thing refused, as a part of the message.
        """
        raise Forbidden(
            f"table {self.table}: policies restrict what you see of it, and {what}: you can read "
            "its rows and changes (Table.scan, Table.changes), and the server applies the policies"
        )

    def read(self, path: str) -> bytes:
        """Raises Forbidden."""
        self.refuse()

    def exists(self, path: str) -> bool:
        """Raises Forbidden."""
        self.refuse()

    def size(self, path: str) -> int:
        """Raises Forbidden."""
        self.refuse()

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Raises Forbidden."""
        self.refuse()

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Raises Forbidden."""
        self.refuse()

    def delete(self, path: str) -> None:
        """Raises Forbidden."""
        self.refuse()

    def make_directory(self, directory: str) -> None:
        """Raises Forbidden."""
        self.refuse()

    def check_directory(self, directory: str) -> None:
        """Raises Forbidden."""
        self.refuse()

    def delete_tree(self, directory: str) -> None:
        """Raises Forbidden."""
        self.refuse()

    def list(self, directory: str) -> list[FileStatus]:
        """Raises Forbidden."""
        self.refuse()

    def folders(self, directory: str) -> Sequence[str]:
        """Raises Forbidden."""
        self.refuse()

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """Raises Forbidden."""
        self.refuse()

    def open_input(self, path: str) -> pa.NativeFile:
        """Raises Forbidden."""
        self.refuse()

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Raises Forbidden."""
        self.refuse()
