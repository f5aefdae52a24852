"""The aggregate functions whose values are states of a library: bitmaps and sketches, as bytes.

Two states become one by a call of the library; a state that is alone stays as it is. Source:
``FieldRoaringBitmap32Agg.java``, ``FieldThetaSketchAgg.java``, ``FieldHllSketchAgg.java``,
``ThetaSketch.java``, ``HllSketchUtil.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.merge.field_aggregates import AggregateFunction, GroupedColumn

__all__ = ["States", "check_sketches", "hll_union", "roaring_union", "theta_union"]

# Nominal entries of Paimon's theta union, as a power of two.
_THETA_SIZE = 12


@dataclass(frozen=True)
class States(AggregateFunction):
    """The union of states.

    Attributes:
        column_name: The column, in error messages.
        union: Makes one state of several, the oldest first; raises ValueError for bytes that are
            none.
    """

    column_name: str
    union: Callable[[Sequence[bytes]], bytes]

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The union of each group's states; raises Invalid if one is damaged."""
        counts = np.add.reduceat(column.valid, column.firsts, dtype=np.int64)
        first = column.first(column.valid)
        shared = np.flatnonzero(counts > 1)
        if not len(shared):
            return column.take(first)
        states = column.values.filter(column.values.is_valid()).to_pylist()
        ends = np.cumsum(counts)
        try:
            merged = [self.union(states[ends[at] - counts[at] : ends[at]]) for at in shared]
        except (IndexError, RuntimeError, ValueError) as error:
            raise Invalid(
                f"column '{self.column_name}' holds bytes that are no state of its aggregate "
                f"function: {error}"
            ) from error
        order = first.copy()
        order[shared] = len(column.values) + np.arange(len(shared))
        both = pa.concat_arrays([column.values, pa.array(merged, column.values.type)])
        return both.take(pa.array(order, mask=first < 0))


def roaring_union(states: Sequence[bytes]) -> bytes:
    """The union of bitmaps of 32-bit numbers, in RoaringBitmap's portable form."""
    from pyroaring import BitMap

    merged = BitMap.union(*(BitMap.deserialize(state) for state in states))
    merged.run_optimize()
    return bytes(merged.serialize())


def check_sketches(column: str, function: str) -> None:
    """Raise Unsupported unless the library of sketches is there."""
    if find_spec("datasketches") is None:
        raise Unsupported(
            f"column '{column}': the aggregate function {function} needs the library datasketches; "
            "install headwater[sketches]"
        )


def theta_union(states: Sequence[bytes]) -> bytes:
    """The union of theta sketches, two at a time as in Paimon."""
    import datasketches as sketches

    def both(left: bytes, right: bytes) -> bytes:
        union = sketches.theta_union(_THETA_SIZE)
        for state in (left, right):
            union.update(sketches.compact_theta_sketch.deserialize(state))
        return bytes(union.get_result().serialize())

    return reduce(both, states)


def hll_union(states: Sequence[bytes]) -> bytes:
    """The union of HyperLogLog sketches, two at a time as in Paimon."""
    import datasketches as sketches

    def both(left: bytes, right: bytes) -> bytes:
        newer = sketches.hll_sketch.deserialize(right)
        union = sketches.hll_union(newer.lg_config_k)
        union.update(newer)
        union.update(sketches.hll_sketch.deserialize(left))
        return bytes(union.get_result(sketches.tgt_hll_type.HLL_4).serialize_compact())

    return reduce(both, states)
