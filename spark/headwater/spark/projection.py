"""Texts handed to Spark's JVM many at once: a call for each column or file is what planning costs.

A query over eight tables took thousands of calls of a fraction of a millisecond each, more than
Spark's own optimiser takes for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.names import quoted
from headwater.spark.session import is_connect
from headwater.spark.types import sql_type_text

__all__ = ["parquet_files", "projected"]

# It occurs neither in the names of columns that Spark can read back nor in paths.
_SEPARATOR = "\0"
_NESTED = (st.ArrayType, st.MapType, st.StructType)


def projected(
    frame: DataFrame, columns: Sequence[tuple[str, str | Column | st.DataType]]
) -> DataFrame:
    """A frame's columns under new names, as `DataFrame.select` gives them.

    Args:
        frame: The frame.
        columns: The names, and what they stand for: an expression in SQL, a column for what no
            text says exactly, or the type of a column of nulls.
    """
    texts: list[str] = []
    others: dict[str, Column] = {}
    for name, column in columns:
        if isinstance(column, st.DataType) and isinstance(column, _NESTED):
            # A text cannot say which of its parts hold no nulls.
            column = sf.lit(None).cast(column)
        if isinstance(column, st.DataType):
            column = f"CAST(NULL AS {sql_type_text(column)})"
        elif isinstance(column, Column):
            # The frame's own columns keep their names.
            added = f"headwater column {len(others)}"
            others[added] = column
            column = quoted(added)
        texts.append(f"{column} AS {quoted(name)}")
    if others:
        frame = frame.withColumns(others)
    jvm = _jvm(frame.sparkSession)
    if jvm is None or any(_SEPARATOR in text for text in texts):
        return frame.selectExpr(*texts)
    selected = frame._jdf.selectExpr(_array(jvm, texts))
    return DataFrame(selected, frame.sparkSession)


def parquet_files(reader: DataFrameReader, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The rows of Parquet files, as `DataFrameReader.parquet` gives them.

    Args:
        reader: With its schema and options.
        spark: The reader's session.
        paths: The files, at least one.
    """
    jvm = _jvm(spark)
    if jvm is None or any(_SEPARATOR in path for path in paths):
        return reader.parquet(*paths)
    return DataFrame(reader._jreader.parquet(_array(jvm, paths)), spark)


def _jvm(spark: SparkSession) -> Any:
    """The session's JVM; None for one that has none, as Spark Connect's."""
    return None if is_connect(spark) else spark._jvm


def _array(jvm: Any, texts: Sequence[str]) -> Any:
    return _splitter(jvm).split(_SEPARATOR.join(texts))


@lru_cache(maxsize=8)
def _splitter(jvm: Any) -> Any:
    return jvm.java.util.regex.Pattern.compile(_SEPARATOR)
