"""Read a system table of metadata, whose rows are known when it is planned."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql.datasource import DataSourceReader, InputPartition

from headwater.spark.types import conform, spark_arrow_schema

__all__ = ["ContentReader"]


class ContentReader(DataSourceReader):
    """Gives rows that are there, in one task.

    Args:
        content: The rows.
        schema: The frame's schema.
    """

    def __init__(self, content: pa.Table, schema: st.StructType) -> None:
        self._content = content
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows."""
        arrow = spark_arrow_schema(self._schema)
        for batch in self._content.combine_chunks().to_batches():
            yield conform(batch, arrow)
