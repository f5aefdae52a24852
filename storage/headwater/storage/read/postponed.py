"""Rows that wait for a compaction to spread them over buckets, merged with the table's on reading.

The rows count as newer than all that the buckets hold, in the order in which they were written, as
a compaction would apply them. Those of a split's buckets are sorted up to ``write-buffer-size`` at
a time; all but the last such part wait in temporary files.

Source: ``PostponeMergeRead.java``, ``MergeFileSplitRead.createPostponeMergeReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from headwater.storage.formats.system_columns import SEQUENCE_FIELD
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.buffer import merge_rows
from headwater.storage.merge.rules import MergeRules
from headwater.storage.merge.sorted_run import SortedRun
from headwater.storage.rows.bucket import bucket_numbers
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage

__all__ = ["PostponedRuns"]


@dataclass
class PostponedRuns:
    """The rows in the postpone bucket of a split's buckets, as sorted runs.

    Attributes:
        storage: The table.
        split: Says which files and which buckets.
        folder: An empty folder for temporary files, which the caller deletes.
    """

    storage: TableStorage
    split: Split
    folder: Path
    _runs: list[SortedRun] = field(default_factory=list)
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _size: int = 0
    _next: int = 0

    def runs(
        self, changes: Callable[[Sequence[DataFile], Sequence[str]], Iterator[pa.RecordBatch]]
    ) -> list[SortedRun]:
        """The runs, oldest first.

        Args:
            changes: Reads columns of files, with the rows' kinds, in the order of writing.
        """
        self._next = 1 + max((file.max_sequence_number for file in self.split.files), default=-1)
        limit = self.storage.schema.table_options.write_buffer_size
        columns = [item.name for item in self.storage.schema.fields]
        for batch in changes(self.split.postponed, columns):
            own = self._own(batch)
            if not own.num_rows:
                continue
            self._waiting.append(own)
            self._size += own.nbytes
            if self._size >= limit:
                self._add(self._spilled)
        if self._waiting:
            self._add(lambda rows: rows)
        return self._runs

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the split's buckets."""
        if len(self.split.buckets) == self.split.total_buckets:
            return batch
        schema = self.storage.schema
        key = schema.bucket_key_fields
        numbers = bucket_numbers(
            [batch.column(item.name) for item in key],
            [item.type for item in key],
            self.split.total_buckets,
            schema.table_options.bucket_function,
        )
        return batch.filter(pa.array(np.isin(numbers, self.split.buckets)))

    def _add(self, kept: Callable[[pa.RecordBatch], pa.RecordBatch | Path]) -> None:
        rules = MergeRules.of(self.storage.schema)
        rows = pa.concat_batches(self._waiting)
        self._waiting, self._size = [], 0
        first, self._next = self._next, self._next + rows.num_rows
        numbers = pa.array(np.arange(first, self._next, dtype=np.int64))
        names = [*rows.schema.names, SEQUENCE_FIELD.name]
        rows = merge_rows(pa.RecordBatch.from_arrays([*rows.columns, numbers], names=names), rules)
        if not rows.num_rows:
            return
        source = kept(rows)
        self._runs.append(
            SortedRun(
                f"rows in the postpone bucket of {self.split.directory}",
                partial(_batches, source),
                rows.num_rows,
                first,
                self._next - 1,
                # Newer than what is compacted and what is not, see `SortedRun`.
                rank=2 if rules.engine.compacted_rows_first else 0,
            )
        )

    def _spilled(self, rows: pa.RecordBatch) -> Path:
        path = self.folder / f"{len(self._runs)}.arrow"
        with ipc.new_file(path, rows.schema) as file:
            file.write_batch(rows)
        return path


def _batches(
    source: pa.RecordBatch | Path, most_rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    if isinstance(source, Path):
        with pa.memory_map(str(source)) as mapped:
            yield from _batches(ipc.open_file(mapped).get_batch(0), most_rows, most_bytes)
        return
    fitting = most_bytes * source.num_rows // max(source.nbytes, 1)
    length = max(1, min(most_rows, fitting))
    for start in range(0, source.num_rows, length):
        yield source.slice(start, length)
