"""The rows in which two snapshots of a bucket differ, by key.

Each side is merged by the table's rules, in the order of keys; then the two are walked together, a
key range at a time, and rows of one key are compared column by column.

Source: ``IncrementalDiffSplitRead.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.engine import Mask, MergeEngine, RowGroups
from headwater.storage.merge.rules import MergeRules
from headwater.storage.merge.runs import merge_runs
from headwater.storage.merge.sorted_run import SortedRun
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.read.row_selection import RowSelection
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.ordering import RowOrder
from headwater.storage.scan.sections import Section, key_sections
from headwater.storage.table_storage import TableStorage

__all__ = ["SectionReader", "Snapshotted", "differing_rows", "remarked_rows"]

SectionReader: TypeAlias = Callable[[Section, Sequence[str], int], Iterator[pa.RecordBatch]]
"""Gives the merged rows of a section in the order of keys: the section, columns, batch rows."""

_SIDE = "\0side"
_BEFORE, _AFTER, _UNCHANGED = 0, 1, 2


@dataclass(frozen=True)
class Snapshotted:
    """A bucket's files in one snapshot.

    Attributes:
        files: The files.
        read: Reads the rows of a section of them.
    """

    files: Iterable[DataFile]
    read: SectionReader


def differing_rows(
    storage: TableStorage,
    before: Snapshotted,
    after: Snapshotted,
    columns: Sequence[str],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The rows that a bucket of a primary-key table has otherwise than before.

    Args:
        storage: The table.
        before: The files of the earlier snapshot.
        after: Those of the later one.
        columns: Columns of the result.
        batch_rows: Rows read at a time of the greater side.

    Returns:
        Batches with `columns` and ``_VALUE_KIND``: ``-D`` with the row as it was for a key that is
        gone; else the row as it is, of the kind with which it was written.
    """
    fields = storage.schema.fields
    keys = {field.name for field in storage.schema.key_fields}
    values = tuple(field.name for field in fields if field.name not in keys)
    rules = replace(
        MergeRules.of(storage.schema),
        sequence_fields=(),
        sequence_order=RowOrder([]),
        ignore_delete=False,
        engine=_Comparison(values),
    )
    wanted = [*dict.fromkeys([*columns, *values]), KIND_FIELD.name]

    def side(bucket: Snapshotted, number: int) -> SortedRun:
        sections = key_sections(storage, bucket.files)

        def rows(count: int, size: int) -> Iterator[pa.RecordBatch]:
            names = list(dict.fromkeys([*rules.keys, *wanted]))
            for section in sections:
                for batch in bucket.read(section, names, count):
                    mark = pa.repeat(pa.scalar(number, pa.int8()), batch.num_rows)
                    yield batch.append_column(_SIDE, mark)

        name = f"snapshot {'before' if number == _BEFORE else 'after'} of {storage.name}"
        total = sum(run.row_count for section in sections for run in section.runs)
        return SortedRun(name, rows, total, 0, 0, rank=number)

    runs = [side(before, _BEFORE), side(after, _AFTER)]
    result = [*columns, _SIDE, KIND_FIELD.name]
    for batch in merge_runs(runs, rules, result, keep_deletes=True, batch_rows=batch_rows):
        batch = batch.filter(pc.not_equal(batch.column(_SIDE), pa.scalar(_UNCHANGED, pa.int8())))
        gone = pc.equal(batch.column(_SIDE), pa.scalar(_BEFORE, pa.int8()))
        deleted = pa.scalar(int(RowKind.DELETE), pa.int8())
        kinds = pc.if_else(gone, deleted, batch.column(KIND_FIELD.name))
        names = [*columns, KIND_FIELD.name]
        arrays = [*(batch.column(name) for name in columns), kinds]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


@dataclass(frozen=True)
class _Comparison(MergeEngine):
    """Of the two rows of a key the later one, and whether the earlier one was the same."""

    values: tuple[str, ...]

    def inputs(self, columns: Sequence[str]) -> Sequence[str]:
        return self.values

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> pa.RecordBatch:
        names = [name for name in columns if name != _SIDE]
        rows = groups.gather(list(dict.fromkeys([*self.values, *names, KIND_FIELD.name])))
        before, after = rows.take(pa.array(groups.firsts)), rows.take(pa.array(groups.lasts))
        same = np.ones(len(groups.firsts), np.bool_)
        for name in self.values:
            same &= _equal(before.column(name), after.column(name))
        side = np.where(same, _UNCHANGED, _AFTER).astype(np.int8)
        arrays = {name: after.column(name) for name in [*names, KIND_FIELD.name]}
        arrays[_SIDE] = pa.array(side)
        order = list(dict.fromkeys([*columns, KIND_FIELD.name]))
        return pa.RecordBatch.from_arrays([arrays[name] for name in order], names=order)


def _equal(one: pa.Array, other: pa.Array) -> Mask:
    """A mask of equal values; null equals null, and floats are equal bit by bit."""
    # Here, as processes that compare nothing need not wait for it.
    import polars as pl

    for kind, bits in ((pa.float32(), pa.int32()), (pa.float64(), pa.int64())):
        if one.type == kind:
            one, other = one.view(bits), other.view(bits)
    left, right = pl.Series(one), pl.Series(other)
    result: Mask = left.eq_missing(right).to_numpy()
    return result


def remarked_rows(
    before: RowSelection,
    after: RowSelection,
    opened: Callable[[RowSelection], DataFileReader],
    columns: Sequence[str],
    keep_deletes: bool,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file that one snapshot marks as deleted and another does not.

    Args:
        before: The rows that the earlier snapshot marks.
        after: Those that the later one does.
        opened: Opens the file for some of its rows.
        columns: Columns of the result.
        keep_deletes: Give the rows that only the later snapshot marks, too, and each row with its
            ``_VALUE_KIND``, which is ``-D`` for these.
        batch_rows: Rows of a batch at most.
    """
    chosen = {RowKind.INSERT: before.without(after.positions)}
    if keep_deletes:
        chosen[RowKind.DELETE] = after.without(before.positions)
    for kind, rows in chosen.items():
        for batch in opened(rows).rows(columns, None, batch_rows) if len(rows) else ():
            kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), batch.num_rows)
            yield batch.append_column(KIND_FIELD.name, kinds) if keep_deletes else batch
