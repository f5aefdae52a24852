"""The local disk of a process that dies between two changes of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.storage.files.local import LocalFileAccess

__all__ = ["Killed", "MortalFiles", "SteppedFiles"]


class Killed(BaseException):
    """The process died."""


class SteppedFiles(LocalFileAccess):
    """The local disk, with a step before and after each change.

    Args:
        step: Called at each step; what it raises goes to whoever makes the change.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.step()
        super().write(path, data, durable=durable)
        self.step()

    def write_if_absent(self, path: str, data: bytes) -> bool:
        self.step()
        written = super().write_if_absent(path, data)
        self.step()
        return written

    def delete(self, path: str) -> None:
        self.step()
        super().delete(path)
        self.step()

    def delete_tree(self, directory: str) -> None:
        self.step()
        super().delete_tree(directory)
        self.step()


@dataclass
class MortalFiles(LocalFileAccess):
    """The local disk, which fails at a change and from then on.

    Attributes:
        left: How many changes it makes before.
        error: What it raises.
        done: The paths of the changes it made, in their order.
    """

    left: int = 10**9
    error: BaseException = field(default_factory=Killed)
    done: list[str] = field(default_factory=list)

    def _change(self, path: str) -> None:
        if self.left <= 0:
            raise self.error
        self.left -= 1
        self.done.append(path)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._change(path)
        super().write(path, data, durable=durable)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        self._change(path)
        return super().write_if_absent(path, data)

    def delete(self, path: str) -> None:
        self._change(path)
        super().delete(path)

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        self._change(path)
        with super().open_output(path) as output:
            yield output
