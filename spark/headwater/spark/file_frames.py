"""Frames of Parquet files, of which the last ones are kept.

To make one, Spark looks at each file and copies the settings of its file systems, which takes it
longer than to analyse a query.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import pyspark.sql.types as st
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from headwater.spark.projection import parquet_files

__all__ = ["FileFrames", "parquet_frame"]

_Key = tuple[tuple[str, ...], tuple[tuple[str, st.DataType], ...]]

_MOST_FRAMES = 128
_MOST_FILES = 8192


@dataclass
class FileFrames:
    """Frames of a session's Parquet files; threads may share it.

    Files never change, so that a frame of the same files and columns has the same rows.
    """

    _frames: OrderedDict[_Key, DataFrame] = field(default_factory=OrderedDict, repr=False)
    _files: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def frame(self, spark: SparkSession, paths: Sequence[str], schema: st.StructType) -> DataFrame:
        """The rows of files. The columns are the same in each frame: give them names before use.

        Args:
            spark: The session.
            paths: The files' URIs, at least one.
            schema: The columns to read.
        """
        key = (tuple(paths), tuple((each.name, each.dataType) for each in schema.fields))
        with self._lock:
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
                return found
        made = parquet_frame(spark.read, spark, paths, schema)
        with self._lock:
            if key not in self._frames:
                self._frames[key] = made
                self._files += len(paths)
            while len(self._frames) > _MOST_FRAMES or self._files > _MOST_FILES:
                (gone, _), _ = self._frames.popitem(last=False)
                self._files -= len(gone)
        return made


def parquet_frame(
    reader: DataFrameReader, spark: SparkSession, paths: Sequence[str], schema: st.StructType
) -> DataFrame:
    """The rows of Parquet files as they were written, none left out.

    Args:
        reader: Reads them.
        spark: The user's session.
        paths: The files' URIs, at least one.
        schema: The columns to read.
    """
    reader = (
        reader.schema(schema)
        .option("mergeSchema", "false")
        .option("datetimeRebaseMode", "CORRECTED")
        .option("ignoreCorruptFiles", "false")
        .option("ignoreMissingFiles", "false")
    )
    return parquet_files(reader, spark, paths)
