"""The merge engine ``first-row``: the oldest row of a key stays, and nothing replaces it.

Source: ``FirstRowMergeFunction.java``, ``FirstRowMergeFunctionWrapper.java``.
"""

from __future__ import annotations

from headwater.storage.merge.engine import PickingEngine

__all__ = ["FirstRow"]


class FirstRow(PickingEngine):
    """Keeps the oldest row of each key; retractions are refused."""

    newest = False
    takes_retractions = False
    # A compacted row has been read and streamed: a writer that took its sequence numbers earlier
    # and committed later must not replace it.
    compacted_rows_first = True
