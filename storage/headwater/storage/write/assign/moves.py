"""Rows of keys that may be in another partition already: what becomes of them.

A key is in one partition. The merge engine says what happens to a row of another one: with
deduplicate the key moves, which deletes its row there; partial-update and aggregation merge the
row where the key is; first-row drops it.

Source: ``DeleteExistingProcessor.java``, ``UseOldExistingProcessor.java``,
``SkipNewExistingProcessor.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.storage.options import MergeEngine

__all__ = ["Moves", "moves_of"]

Codes: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Moves:
    """The rows to write, in order.

    Attributes:
        rows: For each the number of the row that it is made of.
        partitions: For each the number of its partition.
        retracts: True for those that delete the row of a key that moves.
    """

    rows: Codes
    partitions: Codes
    retracts: npt.NDArray[np.bool_]


def moves_of(engine: MergeEngine, keys: Codes, partitions: Codes, homes: Codes) -> Moves:
    """The rows to write for rows whose keys may be elsewhere.

    Args:
        engine: The table's merge engine.
        keys: The number of each row's key, from 0.
        partitions: The number of each row's partition.
        homes: For each key the number of the partition that it is in before; -1 for none.
    """
    rows = len(keys)
    order = np.argsort(keys, kind="stable")
    is_first = np.ones(rows, np.bool_)
    is_first[1:] = keys[order][1:] != keys[order][:-1]
    if engine is not MergeEngine.DEDUPLICATE:
        firsts = order[is_first]
        own = homes.copy()
        new = firsts[homes[keys[firsts]] < 0]
        own[keys[new]] = partitions[new]
        kept = np.arange(rows)
        if engine is MergeEngine.FIRST_ROW:
            kept = np.flatnonzero(own[keys] == partitions)
        return Moves(kept, own[keys[kept]], np.zeros(len(kept), np.bool_))
    before = np.empty(rows, np.int64)
    before[order[1:]] = partitions[order[:-1]]
    before[order[is_first]] = homes[keys[order[is_first]]]
    moves = (before >= 0) & (before != partitions)
    numbers = np.repeat(np.arange(rows), 1 + moves)
    retracts = np.zeros(len(numbers), np.bool_)
    # The row that deletes comes before the one that adds.
    retracts[np.flatnonzero(moves) + np.arange(int(moves.sum()))] = True
    return Moves(numbers, np.where(retracts, before[numbers], partitions[numbers]), retracts)
