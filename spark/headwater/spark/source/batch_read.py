"""Read a snapshot with Python workers: what `format("headwater")` does in a batch query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql.datasource import DataSourceReader, InputPartition

from headwater.catalog.table.scan import Rows
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.options import TableOptions
from headwater.storage.scan.split import Split

__all__ = ["BatchReader", "SplitsPartition", "pack_splits"]


class SplitsPartition(InputPartition):
    """The splits that one task reads, in this order.

    Args:
        splits: Splits of a plan.
    """

    def __init__(self, splits: Sequence[Split]) -> None:
        super().__init__(None)
        self.splits = tuple(splits)


class BatchReader(DataSourceReader):
    """Reads splits of one snapshot.

    Args:
        rows: The table's rows, with the columns of `schema`.
        splits: Those of their splits that are read.
        schema: The frame's schema.
        parallelism: The number of tasks that run at once.
    """

    def __init__(
        self, rows: Rows, splits: Sequence[Split], schema: st.StructType, parallelism: int
    ) -> None:
        self._rows = rows
        self._splits = tuple(splits)
        self._schema = schema
        self._parallelism = parallelism

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        options = self._rows.storage.schema.table_options
        packed = pack_splits([[split] for split in self._splits], options, self._parallelism)
        return [SplitsPartition(each) for each in packed]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's splits."""
        # Spark makes a partition of its own when there is none.
        if not isinstance(partition, SplitsPartition):
            return
        arrow = spark_arrow_schema(self._schema)
        for split in partition.splits:
            for batch in self._rows.read_split(split):
                yield conform(batch, arrow)


def pack_splits(
    groups: Sequence[Sequence[Split]], options: TableOptions, parallelism: int
) -> list[list[Split]]:
    """Pack groups of splits together, so that small ones do not each cost a task.

    As Spark does with its own files: up to ``source.split.target-size``, but not so much that a
    core has nothing to do, nor so that one works while the others have done. A group stays together
    and in order; the largest tasks are the first.

    Args:
        groups: The splits to be read.
        options: The table's options.
        parallelism: The number of tasks that run at once.
    """
    cost = options.split_open_file_cost
    sized = [(sum(split.size + cost for split in group), group) for group in groups]
    total = sum(size for size, _ in sized)
    room = min(options.split_target_size, max(cost, -(-total // max(parallelism, 1))))
    waves = -(-total // (room * max(parallelism, 1)))
    # Each group goes where there is least, the largest first.
    count = min(waves * max(parallelism, 1), len(groups))
    bins: list[tuple[int, int, list[Split]]] = [(0, at, []) for at in range(count)]
    for size, group in sorted(sized, key=lambda item: -item[0]):
        held, at, splits = heappop(bins)
        splits.extend(group)
        heappush(bins, (held + size, at, splits))
    return [splits for _, _, splits in sorted(bins, key=lambda each: -each[0]) if splits]
