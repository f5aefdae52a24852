"""The order of a key's rows by the sequence fields of one group of columns.

A row is accepted if its sequence fields are not less than those of any accepted row before it;
where all of them are null it has no part in the group. Source: ``PartialUpdateMergeFunction.java``,
``UserDefinedSeqComparator.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.rows.ordering import RowOrder, argsort

__all__ = ["SequenceOrder", "last_of_mask", "removing_rows", "sizes_of"]


@dataclass(frozen=True)
class SequenceOrder:
    """The rows' places in the order of a group's sequence fields.

    Attributes:
        active: A mask of the rows with a part in the group.
        ranks: Numbers from 1 that are greater for greater sequence fields, 0 for rows without a
            part; None when no row is older than one before it in any key.
    """

    active: Mask
    ranks: Indices | None

    @staticmethod
    def of(order: RowOrder, fields: Sequence[pa.Array], firsts: Indices) -> SequenceOrder:
        """The order of rows.

        Args:
            order: The order of the sequence fields; a single one is not null in the rows that
                are compared.
            fields: Their values.
            firsts: The position of each key's first row.
        """
        active = np.zeros(len(fields[0]), np.bool_)
        for array in fields:
            active |= array.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(active)
        taking = [array if active.all() else array.take(pa.array(rows)) for array in fields]
        keys = order.encode(taking)
        newer = np.greater_equal(keys[1:], keys[:-1])
        # The last row of one key and the first of the next.
        newer |= np.diff(np.searchsorted(firsts, rows, side="right")) > 0
        if newer.all():
            return SequenceOrder(active, None)
        by_key = argsort(keys)
        ordered = keys[by_key]
        ranks = np.zeros(len(active), np.int64)
        ranks[rows[by_key]] = np.append(0, np.cumsum(ordered[1:] != ordered[:-1])) + 1
        return SequenceOrder(active, ranks)

    def accepted(self, firsts: Indices) -> Mask:
        """A mask of the accepted rows.

        Args:
            firsts: The position of each key's first row.
        """
        if self.ranks is None:
            return self.active
        beyond = int(self.ranks.max(initial=0)) + 1
        sizes = sizes_of(firsts, len(self.ranks))
        heights = self.ranks + np.repeat(np.arange(len(firsts)) * beyond, sizes)
        accepted: Mask = self.active & (heights == np.maximum.accumulate(heights))
        return accepted

    def take(self, positions: Indices) -> SequenceOrder:
        """The order of some of the rows."""
        ranks = None if self.ranks is None else self.ranks[positions]
        return SequenceOrder(self.active[positions], ranks)


def removing_rows(firsts: Indices, deletes: Mask, orders: Sequence[SequenceOrder]) -> Mask:
    """A mask of the rows that remove what was there.

    A ``-D`` row does if one of some groups accepts it. Its values, nulls among them, are what
    later rows of the key meet, in every group.

    Args:
        firsts: The position of each key's first row.
        deletes: A mask of the ``-D`` rows.
        orders: The order of the rows by each of these groups.
    """
    if len(orders) == 1:
        # What a group accepts does not depend on the removals that it causes itself.
        return deletes & orders[0].accepted(firsts)
    removing = np.zeros(len(deletes), np.bool_)
    # The keys in which there may be a further one, and where each is looked for: after a removal,
    # which is the first row of what follows.
    starts, ends = firsts, np.append(firsts[1:], len(deletes))
    while len(starts):
        sizes = ends - starts
        begins = np.cumsum(sizes) - sizes
        rows = np.arange(int(sizes.sum())) - np.repeat(begins - starts, sizes)
        accepted = np.zeros(len(rows), np.bool_)
        for order in orders:
            accepted |= order.take(rows).accepted(begins)
        found = deletes[rows] & accepted
        found[begins] &= ~removing[starts]
        position = np.minimum.reduceat(np.where(found, rows, len(deletes)), begins)
        further = position < len(deletes)
        starts, ends = position[further], ends[further]
        removing[starts] = True
    return removing


def last_of_mask(mask: Mask, firsts: Indices) -> Indices:
    """The position of each key's last row of a mask; -1 where it has none."""
    return np.maximum.reduceat(np.where(mask, np.arange(len(mask)), -1), firsts)


def sizes_of(firsts: Indices, count: int) -> Indices:
    """The number of rows of each key."""
    return np.diff(np.append(firsts, count))
