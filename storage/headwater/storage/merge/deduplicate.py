"""The merge engine ``deduplicate``: the newest row of a key stays.

When that row retracts (``-U``, ``-D``), the key is gone. Source: ``DeduplicateMergeFunction.java``.
"""

from __future__ import annotations

from headwater.storage.merge.engine import PickingEngine

__all__ = ["Deduplicate"]


class Deduplicate(PickingEngine):
    """Keeps the newest row of each key."""

    newest = True
