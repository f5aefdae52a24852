"""Maps put together from the columns of their keys.

Source: ``MapSharedShreddingReadPlan.java``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.shredded_maps.layout import MAPPING, OVERFLOW, ColumnLayout, column_name
from headwater.storage.types.arrow_numbers import Integers
from headwater.storage.types.nested_arrays import list_offsets, map_entries

__all__ = ["MapAssembly"]

_NO_KEY = -1


class MapAssembly:
    """Makes the maps of one column of one file.

    Args:
        layout: The column's form.
    """

    def __init__(self, layout: ColumnLayout) -> None:
        self._columns = layout.columns
        ordered = sorted(layout.keys.items(), key=lambda item: item[1])
        self._names = pa.array([name for name, _ in ordered], pa.string())
        self._numbers = np.array([number for _, number in ordered], np.int64)

    def maps(self, array: pa.Array) -> pa.Array:
        """Maps from text to the values, in the order of the rows.

        Args:
            array: The column as the file holds it; columns without values may be left out.

        Raises:
            ValueError: It does not hold maps of that form.
        """
        fields = _fields(array)
        if MAPPING not in fields:
            raise ValueError(f"it has no field '{MAPPING}'")
        rows = len(array)
        mapping = self._mapping(fields[MAPPING], array)
        owners, places = np.nonzero(mapping >= 0)
        numbers = mapping[owners, places].astype(np.int64)
        pools: list[pa.Array] = []
        # Where the value of each entry is in the pools, laid end to end.
        sources = np.empty(len(owners), np.int64)
        first = 0
        by_column = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[by_column], np.arange(self._columns + 1))
        for column in np.unique(places).tolist():
            entries = by_column[ends[column] : ends[column + 1]]
            name = column_name(column)
            if name not in fields:
                raise ValueError(f"it has no field '{name}', in which values should be")
            pools.append(fields[name].take(pa.array(owners[entries])))
            sources[entries] = np.arange(first, first + len(entries))
            first += len(entries)
        if OVERFLOW in fields:
            overflow = fields[OVERFLOW]
            if not pa.types.is_map(overflow.type):
                raise ValueError(f"its field '{OVERFLOW}' is of type {overflow.type}")
            keys, values = map_entries(overflow)
            lengths = np.diff(list_offsets(overflow).to_numpy())
            if len(keys):
                owners = np.concatenate([owners, np.repeat(np.arange(rows), lengths)])
                numbers = np.concatenate([numbers, keys.to_numpy(zero_copy_only=False)])
                sources = np.concatenate([sources, np.arange(first, first + len(keys))])
                pools.append(values)
                order = np.argsort(owners, kind="stable")
                owners, numbers, sources = owners[order], numbers[order], sources[order]
        return self._made(array, owners, numbers, sources, pools, fields)

    def _made(
        self,
        array: pa.Array,
        owners: Integers,
        numbers: Integers,
        sources: Integers,
        pools: list[pa.Array],
        fields: dict[str, pa.Array],
    ) -> pa.Array:
        at = np.searchsorted(self._numbers, numbers)
        known = at < len(self._numbers)
        known[known] = self._numbers[at[known]] == numbers[known]
        if not known.all():
            raise ValueError(f"it names key {numbers[~known][0]}, which the file does not list")
        pool = _together(pools, fields)
        ends = np.searchsorted(owners, np.arange(len(array) + 1)).astype(np.int32)
        keys = self._names.take(pa.array(at))
        values = pool.take(pa.array(sources))
        target = pa.map_(pa.string(), values.type)
        return pa.MapArray.from_arrays(pa.array(ends), keys, values, target, mask=array.is_null())

    def _mapping(self, field: pa.Array, array: pa.Array) -> npt.NDArray[np.int32]:
        """The number of the key in each column of each row."""
        if not pa.types.is_list(field.type) or not pa.types.is_integer(field.type.value_type):
            raise ValueError(f"its field '{MAPPING}' is of type {field.type}")
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        flat = field.filter(array.is_valid()) if array.null_count else field
        lengths = pc.fill_null(pc.list_value_length(flat), -1)
        if not pc.all(pc.equal(lengths, self._columns), min_count=0).as_py():
            raise ValueError(f"its field '{MAPPING}' has not {self._columns} elements in each row")
        numbers = flat.flatten()
        if numbers.null_count:
            raise ValueError(f"its field '{MAPPING}' has null in it")
        found = np.full((len(array), self._columns), _NO_KEY, np.int32)
        found[valid] = numbers.to_numpy(zero_copy_only=False).reshape(-1, self._columns)
        return found


def _fields(array: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(array.type):
        raise ValueError(f"it is of type {array.type}")
    # Flattening gives a struct's nulls to its fields.
    return dict(zip((item.name for item in array.type), array.flatten(), strict=True))


def _together(pools: list[pa.Array], fields: dict[str, pa.Array]) -> pa.Array:
    """Values end to end, of the type that the file has for them."""
    if pools:
        kind = pools[0].type
        for each in pools:
            if not each.type.equals(kind):
                raise ValueError(f"its values are of types {kind} and {each.type}")
        return pools[0] if len(pools) == 1 else pa.concat_arrays(pools)
    if OVERFLOW in fields:
        return pa.nulls(0, fields[OVERFLOW].type.item_type)
    values = [each.type for name, each in fields.items() if name != MAPPING]
    return pa.nulls(0, values[0] if values else pa.null())
