"""The values of BLOB columns of primary-key tables, which lie in packs.

Rows are merged, filtered and compacted with the descriptors that their data files hold. Values are
read last, of the rows that are given out, some megabytes of them at a time, each by its range.

Source: ``PrimaryKeyBlobExternalizer.java``, ``BlobRef.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.location import parse_location
from headwater.storage.formats.blob_descriptor import Descriptors
from headwater.storage.formats.blob_file import ENTRY_START, FRAME_BYTES, read_blobs
from headwater.storage.formats.blob_references import PACK_SUFFIX
from headwater.storage.read.blob_columns import value_array
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.table_storage import TableStorage

__all__ = ["pack_path", "valued_rows", "with_values"]

# Bytes of values that are read at once, unless one row has more.
_BATCH_BYTES = 32 * 1024**2


def with_values(
    storage: TableStorage, rows: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterable[pa.RecordBatch]:
    """Rows with the values of BLOB columns in the place of descriptors, unless these are wanted.

    Args:
        storage: The table.
        rows: The rows.
        columns: The names of columns that they have.

    Raises:
        CorruptData: A pack is missing or damaged, or a value is no descriptor.
        Unsupported: A descriptor leads out of the table.
    """
    if storage.schema.table_options.blobs_as_descriptors:
        return rows
    told = [name for name in managed_blob_columns(storage.schema) if name in columns]
    return valued_rows(storage, rows, told) if told else rows


def valued_rows(
    storage: TableStorage, rows: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """As `with_values`, of columns all of which hold descriptors."""
    for batch in rows:
        told = {name: _described(storage, batch, name) for name in columns}
        sizes = np.zeros(batch.num_rows, np.int64)
        for each in told.values():
            sizes += each.lengths
        ends = np.cumsum(sizes)
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _BATCH_BYTES, "right")))
            yield _part(storage, batch.slice(start, stop - start), told, slice(start, stop))
            start = stop


def _described(storage: TableStorage, batch: pa.RecordBatch, name: str) -> Descriptors:
    where = f"table {storage.name}, column '{name}'"
    found = Descriptors.of(batch.column(name), where)
    present = found.numbers >= 0
    if (found.offsets[present] < ENTRY_START).any() or (found.lengths < 0).any():
        raise CorruptData(f"{where}: a descriptor of a BLOB names no entry of a pack")
    return found


def _part(
    storage: TableStorage,
    rows: pa.RecordBatch,
    told: Mapping[str, Descriptors],
    part: slice,
) -> pa.RecordBatch:
    arrays = [
        _values(storage, told[name], part, name) if name in told else rows.column(name)
        for name in rows.schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _values(storage: TableStorage, told: Descriptors, part: slice, name: str) -> pa.Array:
    numbers = told.numbers[part]
    values: list[bytes | memoryview | None] = [None] * len(numbers)
    for number in np.unique(numbers[numbers >= 0]).tolist():
        path = _own_path(storage, told.uris[number], name)
        found = np.flatnonzero(numbers == number)
        offsets = told.offsets[part][found]
        order = np.argsort(offsets, kind="stable")
        found = found[order]
        entries = offsets[order] - ENTRY_START
        lengths = told.lengths[part][found] + FRAME_BYTES
        for at, value in zip(
            found.tolist(), read_blobs(storage.files, path, entries, lengths), strict=True
        ):
            values[at] = value
    return value_array(values)


def pack_path(storage: TableStorage, uri: str) -> str | None:
    """The path of a pack from its URI, as an engine wrote it; None if it is not the table's."""
    try:
        path = parse_location(uri)
    except Invalid:
        return None
    is_own = path.startswith(storage.layout.location + "/") and path.endswith(PACK_SUFFIX)
    return path if is_own else None


def _own_path(storage: TableStorage, uri: str, column: str) -> str:
    path = pack_path(storage, uri)
    # Anybody who may write rows could name any file or address.
    if path is None:
        raise Unsupported(
            f"table {storage.name}, column '{column}': a row says that its value lies in {uri}, "
            "which is no file of BLOBs of this table; choose other columns, or read the places "
            "with 'blob-as-descriptor' = 'true'"
        )
    return path
