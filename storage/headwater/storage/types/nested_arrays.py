"""The parts of Arrow's lists and maps, whatever slice of a larger array they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["list_offsets", "map_pairs"]


def list_offsets(array: pa.Array) -> pa.Array:
    """Offsets into a list array's flattened values, which leave out those of null lists."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def map_pairs(array: pa.Array) -> pa.Array:
    """A map column as lists of structs of key and value."""
    return array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
