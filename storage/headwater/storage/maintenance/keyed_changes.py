"""Changes of rows that are known by their primary keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.storage.maintenance.matched_rows import Matched
from headwater.storage.maintenance.row_matchers import merge_predicate, numbered_keys
from headwater.storage.predicate.filter import Predicate
from headwater.storage.table_storage import TableStorage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["KeyedChanges"]

_ROW, _CHANGE = "row", "change"


@dataclass
class KeyedChanges:
    """New versions of rows, rows that go, and rows that come, each key once.

    Attributes:
        storage: The table, with a primary key.
        updated: New versions of rows, with the table's columns and types.
        deleted: Rows that go, with the table's columns.
        inserted: Rows with new keys.
    """

    storage: TableStorage
    updated: pa.Table
    deleted: pa.Table
    inserted: pa.Table
    _keys: pl.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        self._keys = numbered_keys(self._changed, self._key, _CHANGE)

    @property
    def _key(self) -> list[str]:
        return list(self.storage.schema.primary_keys)

    @property
    def _changed(self) -> pa.Table:
        key = self._key
        return pa.concat_tables([self.updated.select(key), self.deleted.select(key)])

    @property
    def predicate(self) -> Predicate | None:
        """The values, or their range, in each column of the key."""
        return merge_predicate(self.storage, self._changed, self._key)

    def match(self, rows: pa.RecordBatch) -> Matched:
        """The rows of a batch with the keys of rows that change or go."""
        own = numbered_keys(pa.Table.from_batches([rows]), self._key, _ROW)
        on = [str(at) for at in range(len(self._key))]
        pairs = own.join(self._keys, on=on, how="inner", nulls_equal=True)
        taken = pairs.get_column(_ROW).to_numpy()
        change = pairs.get_column(_CHANGE).to_numpy()
        stays = change < self.updated.num_rows
        return Matched(
            taken[stays], self.updated.take(pa.array(change[stays])), np.sort(taken[~stays])
        )

    def rest(self) -> pa.Table | None:
        """The rows that come."""
        return self.inserted
