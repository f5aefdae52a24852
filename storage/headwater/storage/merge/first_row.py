"""The merge engine ``first-row``: the oldest row of a key stays, and nothing replaces it.

Source: ``FirstRowMergeFunction.java``, ``FirstRowMergeFunctionWrapper.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.merge.engine import Indices, MergeEngine, RowGroups

__all__ = ["FirstRow"]


class FirstRow(MergeEngine):
    """Keeps the oldest row of each key; retractions are refused."""

    takes_retractions = False
    # A compacted row has been read and streamed: a writer that took its sequence numbers earlier
    # and committed later must not replace it.
    compacted_rows_first = True

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> Indices:
        """The oldest row of each group."""
        return groups.firsts
