"""Frames of Parquet files, whose files Spark looks at once.

To read files, Spark looks at each of them and copies the settings of its file systems, which takes
it longer than to analyse a query.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pyspark.sql.types as st
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from headwater.spark.projection import parquet_files
from headwater.spark.session import is_connect

__all__ = ["FileFrames", "parquet_frame"]

_Key = tuple[tuple[str, ...], tuple[tuple[str, st.DataType], ...]]

_OPTION = ("mergeSchema", "false")
_MOST_LISTINGS = 128
_MOST_FILES = 8192


@dataclass
class FileFrames:
    """Frames of a session's Parquet files; threads may share it.

    The last listings of files are kept: files never change.
    """

    _listings: OrderedDict[_Key, _Listing] = field(default_factory=OrderedDict, repr=False)
    _files: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def frame(self, spark: SparkSession, paths: Sequence[str], schema: st.StructType) -> DataFrame:
        """The rows of files, in a frame of its own: no other shares its columns or its figures.

        Args:
            spark: The session.
            paths: The files' URIs, at least one.
            schema: The columns to read.
        """
        if is_connect(spark):
            return parquet_frame(spark.read, spark, paths, schema)
        key = (tuple(paths), tuple((each.name, each.dataType) for each in schema.fields))
        with self._lock:
            found = self._listings.get(key)
            if found is not None:
                self._listings.move_to_end(key)
                return found.frame(spark)
        made = parquet_frame(spark.read, spark, paths, schema)
        listing = _Listing.of(made)
        with self._lock:
            if key not in self._listings:
                self._listings[key] = listing
                self._files += len(paths)
            while len(self._listings) > _MOST_LISTINGS or self._files > _MOST_FILES:
                (gone, _), _ = self._listings.popitem(last=False)
                self._files -= len(gone)
        return made


@dataclass(frozen=True)
class _Listing:
    """Files that Spark has looked at, as its ``HadoopFsRelation``, and what that is made of."""

    relation: Any
    before_options: tuple[Any, ...]
    options: Any
    session: Any

    @staticmethod
    def of(frame: DataFrame) -> _Listing:
        relation: Any = frame._jdf.queryExecution().analyzed().relation()
        before_options = (
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
        )
        return _Listing(relation, before_options, relation.options(), relation.sparkSession())

    def frame(self, spark: SparkSession) -> DataFrame:
        jvm: Any = spark._jvm
        sql = jvm.org.apache.spark.sql
        relations = getattr(getattr(sql.execution.datasources, "LogicalRelation$"), "MODULE$")
        # An object of its own, by which the scan is told from those of other frames.
        options = self.options.updated(*_OPTION)
        relation = self.relation.copy(*self.before_options, options, self.session)
        leaf = relations.apply(relation, False)
        return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, leaf), spark)


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
        .option(*_OPTION)
        .option("datetimeRebaseMode", "CORRECTED")
        .option("ignoreCorruptFiles", "false")
        .option("ignoreMissingFiles", "false")
    )
    return parquet_files(reader, spark, paths)
