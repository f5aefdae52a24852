"""The partition and bucket of each of some keys, wherever in the table they are.

The primary key of a table may lack a partition column. Its keys are then unique in the table as a
whole, and nothing but the rows themselves says which partition a key is in: the key columns of the
live rows are read, of the files alone that may hold keys of the ones looked for, as their key
ranges and bloom filters tell.

Source: ``IndexBootstrap.java``, ``GlobalIndexAssigner.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData
from headwater.storage.manifest.data_file import epoch_millis
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.predicate.tree import And, Comparison, In, IsNull, Or, Predicate
from headwater.storage.read.split import read_split
from headwater.storage.rows.binary_row import encode_columns
from headwater.storage.rows.bucket import hash_rows
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import storage_value

__all__ = ["FoundKeys", "KeyPlaces", "Keys", "encode_keys", "keys_between", "read_keys"]

Codes: TypeAlias = npt.NDArray[np.int64]

# Up to so many keys are looked for one by one; more between the least and the greatest.
_FEW_KEYS = 64
# Types whose order in files' statistics is Arrow's.
_ORDERED = frozenset(
    {
        Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DECIMAL, Root.DATE, Root.TIME,
        Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.CHAR, Root.VARCHAR,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Keys:
    """Whole primary keys, each as the bytes of its row.

    Attributes:
        rows: The keys, as large binary.
        hashes: The hash of each, ``BinaryRow.hashCode``.
    """

    rows: pa.LargeBinaryArray
    hashes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.hashes)


def encode_keys(storage: TableStorage, rows: pa.Table | pa.RecordBatch) -> Keys:
    """The primary keys of rows, partition columns included."""
    fields = storage.schema.columns(storage.schema.primary_keys)
    columns = [rows.column(item.name) for item in fields]
    whole = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    data, offsets = encode_columns(whole, [item.type for item in fields])
    hashes = hash_rows(data, offsets).view(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return Keys(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(hashes), buffers), hashes)


def keys_between(storage: TableStorage, rows: pa.Table) -> Predicate:
    """A condition that all keys of some rows fulfil, and few others where it can be helped."""
    conditions: list[Predicate] = []
    for item in storage.schema.columns(storage.schema.primary_keys):
        if not (isinstance(item.type, AtomicType) and item.type.root in _ORDERED):
            continue
        column = rows.column(item.name)
        values = pc.drop_null(column)
        wanted = [_among(item, values)] if len(values) else []
        if len(values) < len(column):
            wanted.append(IsNull(item.name))
        if wanted:
            conditions.append(Or(tuple(wanted)) if len(wanted) > 1 else wanted[0])
    return And(tuple(conditions))


def _among(item: DataField, values: pa.ChunkedArray) -> Predicate:
    """The condition that a column has one of some values, or lies between them."""
    if len(values) <= _FEW_KEYS:
        return In(item.name, tuple(storage_value(v, item.type) for v in pc.unique(values)))
    ends = pc.min_max(values)
    low, high = (storage_value(ends[end], item.type) for end in ("min", "max"))
    return And((Comparison(item.name, ">=", low), Comparison(item.name, "<=", high)))


@dataclass(frozen=True)
class FoundKeys:
    """Keys that the table has in one bucket.

    Attributes:
        keys: The keys.
        bucket: The partition and bucket that they are in.
    """

    keys: Keys
    bucket: Bucket


def read_keys(
    storage: TableStorage,
    snapshot: Snapshot | None,
    predicate: Predicate,
    leaves_out: Callable[[bytes], bool] = lambda partition: False,
) -> Iterator[FoundKeys]:
    """The keys of a snapshot's rows for which a condition is true, a batch at a time.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
        predicate: A condition on columns of the primary key.
        leaves_out: The partitions whose keys do not matter.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
        Invalid: ``cross-partition-upsert.index-ttl`` is not a duration.
    """
    age = AssignmentOptions(storage.schema.options).key_index_age
    if snapshot is None:
        return
    names = list(storage.schema.primary_keys)
    since = None if age is None else storage.runtime.earliest_millis() - age
    for split in plan_snapshot(storage, snapshot, predicate=predicate, all_levels=True).splits:
        if leaves_out(split.partition) or (since is not None and not _is_younger(split, since)):
            continue
        for batch in read_split(storage, split, columns=names, predicate=predicate):
            yield FoundKeys(encode_keys(storage, batch), (split.partition, split.bucket))


def _is_younger(split: Split, since: int) -> bool:
    """Whether one of a split's files was made at or after a timestamp (``filterSplit``)."""
    times = (file.creation_time for file in split.files)
    return any(time is None or epoch_millis(time) >= since for time in times)


@dataclass
class KeyPlaces:
    """Gathers the places of some keys from all keys of a table.

    Attributes:
        storage: The table.
        wanted: The keys looked for, each once; at least one.
    """

    storage: TableStorage
    wanted: Keys
    _found: list[pa.LargeBinaryArray] = field(default_factory=list)
    _places: list[npt.NDArray[np.int32]] = field(default_factory=list)

    @cached_property
    def _hashes(self) -> npt.NDArray[np.int32]:
        return np.sort(self.wanted.hashes)

    def offer(self, keys: Keys, places: int | npt.NDArray[np.int32]) -> None:
        """Take those of some keys that are looked for; the others cost little.

        Args:
            keys: Keys of the table.
            places: The number of the bucket that they are in, of all or of each.
        """
        at = np.minimum(np.searchsorted(self._hashes, keys.hashes), len(self._hashes) - 1)
        kept = np.flatnonzero(self._hashes[at] == keys.hashes)
        if len(kept):
            self._found.append(keys.rows.take(pa.array(kept)))
            self._places.append(np.broadcast_to(np.asarray(places, np.int32), len(keys))[kept])

    def places(self) -> npt.NDArray[np.int32]:
        """For each key that is looked for the number of its bucket; -1 for one that is not there.

        Raises:
            CorruptData: A key is in several buckets.
        """
        result = np.full(len(self.wanted), -1, np.int32)
        if not self._found:
            return result
        index = pc.index_in(pa.chunked_array(self._found), value_set=self.wanted.rows)
        codes = index.combine_chunks()
        known = codes.is_valid().to_numpy(zero_copy_only=False)
        own = codes.fill_null(0).to_numpy()[known]
        result[own] = np.concatenate(self._places)[known]
        if len(sorted_distinct(own)) < len(own):
            raise CorruptData(
                f"table {self.storage.name}: a key of the written rows is in several partitions or "
                "buckets, as writers of an engine that checks nothing may have left it; overwrite "
                "the whole table with the rows that are right"
            )
        return result
