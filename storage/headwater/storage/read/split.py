"""Rows of a split: projected to the present schema, merged, filtered, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from headwater.storage.formats.system_columns import SEQUENCE_FIELD
from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.read.batches import coalesced, filtered, with_kind_names
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.joined_columns import joined_rows
from headwater.storage.read.managed_blobs import with_values
from headwater.storage.read.prefetch import BatchRead
from headwater.storage.read.raw_rows import RawRows
from headwater.storage.scan.expired_snapshots import naming_wanted
from headwater.storage.scan.split import Split
from headwater.storage.schema.system_fields import ROW_KIND_COLUMN, check_row_kind_column
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import arrow_field

__all__ = ["read_schema", "read_split", "split_reads"]


def read_schema(
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    row_kinds: bool = False,
    sequence_numbers: bool = False,
) -> pa.Schema:
    """The Arrow schema of the batches that `read_split` gives.

    Raises:
        NotFound: A column does not exist.
        Unsupported: One of them has the name of the column of row kinds.
    """
    names = list(schema.field_by_name) if columns is None else columns
    fields = [arrow_field(item) for item in schema.columns(names)]
    if sequence_numbers:
        fields.append(arrow_field(SEQUENCE_FIELD))
    if row_kinds:
        check_row_kind_column(names, ROW_KIND_COLUMN)
        fields.append(pa.field(ROW_KIND_COLUMN, pa.string(), False))
    return pa.schema(fields)


def read_split(
    storage: TableStorage,
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    row_kinds: bool = False,
    blob_places: bool = False,
    batch_rows: int = 65536,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split.

    The rows of a primary-key table are merged and deleted ones left out, unless the split is
    `streaming`: then each row of the files is a change, given in the order of writing.

    Args:
        storage: The table, whose schema the rows have.
        split: From `plan_snapshot`, `plan_delta` or `plan_changelog`.
        columns: The columns to read, in this order; None means all. An empty list gives batches
            without columns that still have a number of rows.
        predicate: Only rows for which it is true.
        row_kinds: Append a column ``_ROW_KIND`` of ``+I``, ``-U``, ``+U``, ``-D``. Retracting rows
            of a streaming split are given with it, and left out without.
        blob_places: Of a primary-key table, give what its data files hold of BLOB columns, which
            is where values lie.
        batch_rows: Rows of a batch, about; what is held in memory is proportional to it.

    Returns:
        Batches of `read_schema`; there may be none.

    Raises:
        NotFound: A column does not exist; or a snapshot of the split expired meanwhile.
        CorruptData: A file is missing, truncated or not what the metadata says; the message names
            it.
        Unsupported: A file has a format that is not supported.
    """
    for read in split_reads(
        storage,
        split,
        columns=columns,
        predicate=predicate,
        row_kinds=row_kinds,
        blob_places=blob_places,
        batch_rows=batch_rows,
    ):
        yield from read()


def split_reads(
    storage: TableStorage,
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    row_kinds: bool = False,
    keep_deletes: bool = False,
    sequence_numbers: bool = False,
    blob_places: bool = False,
    batch_rows: int = 65536,
) -> Iterator[BatchRead]:
    """The rows of a split in parts that may be read at the same time.

    Rows that are merged are one part; of others there is a part for about each 16 MiB of files.

    Args:
        storage, split, columns, predicate, row_kinds, blob_places, batch_rows: As for `read_split`.
        keep_deletes: With `row_kinds`: give the retracting row of a key that was deleted, too.
        sequence_numbers: Append a column ``_SEQUENCE_NUMBER``, of a primary-key table only.

    Raises:
        As `read_split`.
    """
    schema = read_schema(
        storage.schema, columns, row_kinds=row_kinds, sequence_numbers=sequence_numbers
    )
    names = [name for name in schema.names if not (row_kinds and name == ROW_KIND_COLUMN)]
    needed = dict.fromkeys([*names, *sorted(columns_of(predicate) if predicate else ())])
    files = BucketFiles(
        storage,
        split.directory,
        split.partition_values,
        split.deletion_files,
        live_rows=split.live_rows or {},
    )
    wanted = list(needed)
    keyed = bool(storage.schema.primary_keys)

    def finished(rows: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        with naming_wanted(storage, split.snapshots):
            if predicate is not None:
                rows = filtered(rows, storage.schema, predicate)
            if row_kinds:
                rows = (with_kind_names(batch, names) for batch in rows)
            else:
                rows = (batch.select(names) for batch in rows)
            whole = coalesced(rows, batch_rows)
            for batch in with_values(storage, whole, () if blob_places else names):
                if schema.names:
                    batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                yield batch

    with naming_wanted(storage, split.snapshots):
        if split.before is not None:
            if split.streaming:
                rows = files.overwritten(
                    split, split.before, wanted, predicate, row_kinds, batch_rows
                )
            elif keyed:
                rows = files.difference(split, split.before, wanted, row_kinds, batch_rows)
            else:
                rows = files.remarked(split, wanted, row_kinds, batch_rows)
            yield partial(finished, rows)
        elif storage.schema.table_options.evolves_columns:
            whole = replace(files, deletion_files={})
            joined = joined_rows(
                storage,
                split.directory,
                split.files,
                lambda file: files.open(file, partial=True),
                lambda file: whole.open(file, partial=True),
                lambda newest, opened: RawRows(newest, opened, wanted, predicate, batch_rows),
                wanted,
            )
            for part in joined.parts():
                yield partial(_called, finished, part)
        elif not keyed or split.is_raw:
            keep = row_kinds and (split.streaming or keep_deletes)
            raw = RawRows(split.files, files.open, wanted, predicate, batch_rows, keyed, keep)
            for part in raw.parts():
                yield partial(_called, finished, part)
        else:
            kept = row_kinds and keep_deletes
            if split.postponed:
                rows = files.merged_with_postponed(
                    split, wanted, predicate, batch_rows, keep_deletes=kept
                )
            else:
                rows = files.merged(split.files, wanted, predicate, batch_rows, keep_deletes=kept)
            yield partial(finished, rows)


def _called(
    finished: Callable[[Iterable[pa.RecordBatch]], Generator[pa.RecordBatch]],
    part: Callable[[], Iterator[pa.RecordBatch]],
) -> Generator[pa.RecordBatch]:
    return finished(part())
