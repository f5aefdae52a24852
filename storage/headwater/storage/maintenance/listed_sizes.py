"""Sizes of files by listings of their directories: a look at many files for the price of few."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from headwater.storage.files.access import FileAccess

__all__ = ["ListedSizes"]

_DIRECTORIES = 64


class ListedSizes:
    """The sizes of files, a directory at a time; those of the last few directories are kept.

    Args:
        files: Access to the storage.
    """

    def __init__(self, files: FileAccess) -> None:
        self._files = files
        self._listed: OrderedDict[str, Mapping[str, int]] = OrderedDict()

    def size(self, path: str) -> int | None:
        """A file's size in bytes; None when it does not exist."""
        directory, _, name = path.rpartition("/")
        listed = self._listed.get(directory)
        if listed is None:
            listed = {status.name: status.size for status in self._files.list(directory)}
            self._listed[directory] = listed
            if len(self._listed) > _DIRECTORIES:
                self._listed.popitem(last=False)
        else:
            self._listed.move_to_end(directory)
        return listed.get(name)
