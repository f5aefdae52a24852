"""Entries of manifests that a plan has found so far."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.manifest.entries import Entries

__all__ = ["FoundEntries"]

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass
class FoundEntries:
    """Entries on their way from the manifests, and what was left out."""

    entries: Entries
    read: int = 0
    skipped: int = 0
    files_skipped: int = 0
    indexed: list[DataFile] = field(default_factory=list)

    def only(self, wanted: Mask) -> None:
        """Leave out all other entries."""
        kept = self.entries.where(wanted)
        self.files_skipped += len(self.entries) - len(kept)
        self.entries = kept

    def matching(
        self, matches: Callable[[ManifestEntry], bool], excluded_by_index: Collection[str]
    ) -> None:
        """Leave out the files that do not match; some of them by their indexes."""
        entries = self.entries
        self.only(np.fromiter((matches(entry) for entry in entries), np.bool_, len(entries)))
        if excluded_by_index:
            self.indexed += [e.file for e in entries if e.file.file_name in excluded_by_index]
