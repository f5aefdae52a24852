"""The condition by which Spark's own scan keeps the rows of files that bitmaps tell to be live.

The bitmaps of many files are one array: a literal that the code which Spark compiles refers to. A
row finds its bit by the size of its file, which Spark knows, and its position.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, SparkSession

from headwater.spark.names import quoted
from headwater.storage.index.live_rows import LiveRows

__all__ = ["MOST_FILES", "array_literal", "live_rows_of"]

MOST_FILES = 128
"""The most files whose rows are told apart by one condition."""

_COLUMN = "headwater live rows"
# A file has the place that some bits of its size have, multiplied by a factor.
_SHIFT = 23
_FACTORS = range((1 << _SHIFT) + 1, 1 << (_SHIFT + 1), 2 * 4099)
_LEAST_PLACES = 16
# The places come after the factor and the mask of a place's number.
_HEAD = 2
_BITS = 64


def live_rows_of(frame: DataFrame, files: Sequence[tuple[int, LiveRows]]) -> DataFrame:
    """The live rows of files, and a column that is of no use further on.

    Args:
        frame: The rows of Parquet files as Spark's own scan gives them.
        files: The size in bytes of each file, no two alike, and its live rows; at most `MOST_FILES`
            files.
    """
    column = _COLUMN
    while column in frame.columns:
        column += "'"
    name = quoted(column)
    place = f"shiftright(_metadata.file_size * get({name}, 0), {_SHIFT}) & get({name}, 1)"
    bit = f"(get({name}, CAST({_HEAD} + ({place}) AS INT)) + _metadata.row_index)"
    word = f"get({name}, CAST(shiftright({bit}, 6) AS INT))"
    literal = array_literal(frame.sparkSession, _words(files))
    return frame.withColumn(column, literal).where(
        f"getbit({word}, CAST({bit} & {_BITS - 1} AS INT)) = 1"
    )


def _words(files: Sequence[tuple[int, LiveRows]]) -> npt.NDArray[np.int64]:
    """The factor, the mask, for each place the first bit of its file, and the bits of all files."""
    sizes = np.array([size for size, _ in files], np.int64)
    count = _LEAST_PLACES
    while (found := _places(sizes, count)) is None:
        count *= 2
    factor, places = found
    head = np.zeros(_HEAD + count, np.int64)
    head[:_HEAD] = factor, count - 1
    lengths = [len(rows.words) for _, rows in files]
    firsts = list(accumulate(lengths, initial=len(head)))[:-1]
    head[_HEAD + places] = np.array(firsts) * _BITS
    return np.concatenate([head, *(rows.words.view(np.int64) for _, rows in files)])


def _places(sizes: npt.NDArray[np.int64], count: int) -> tuple[int, npt.NDArray[np.int64]] | None:
    """A factor that gives each file a place of its own, and the places; None if none is found."""
    for factor in _FACTORS:
        places = (sizes * factor >> _SHIFT) & (count - 1)
        if len(np.unique(places)) == len(sizes):
            return factor, places
    return None


def array_literal(spark: SparkSession, words: npt.NDArray[np.int64]) -> Column:
    """An array of Spark's that shares the memory of the bytes that the JVM is handed."""
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    # The number of elements, a bit for each that is null, the elements.
    head = struct.pack("=q", len(words)) + bytes(-(-len(words) // _BITS) * 8)
    data = bytearray(head + words.tobytes())
    array = catalyst.UnsafeArrayData()
    array.pointTo(data, jvm.org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET, len(data))
    types = jvm.org.apache.spark.sql.types
    literal = catalyst.Literal(array, types.ArrayType(types.DataTypes.LongType, False))
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))
