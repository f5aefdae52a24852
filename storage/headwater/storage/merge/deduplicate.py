"""The merge engine ``deduplicate``: the newest row of a key stays.

When that row retracts (``-U``, ``-D``), the key is gone. Source: ``DeduplicateMergeFunction.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.merge.engine import Indices, MergeEngine, RowGroups

__all__ = ["Deduplicate"]


class Deduplicate(MergeEngine):
    """Keeps the newest row of each key."""

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> Indices:
        """The newest row of each group."""
        return groups.lasts
