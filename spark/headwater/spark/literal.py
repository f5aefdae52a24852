"""Constants in Spark's expressions."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyspark.sql.functions as sf
import pyspark.sql.types as st
from pyspark.sql import Column

__all__ = ["literal"]


def literal(value: pa.Scalar, data_type: st.DataType) -> Column:
    """A constant of a column's type.

    Dates and times go as text. PySpark makes a local time a moment in the process's time zone,
    which Spark then shows in the session's, and takes no date of a year before 1000.

    Args:
        value: A value of the type, or null.
        data_type: The column's type.
    """
    found = value.as_py()
    if isinstance(found, dt.date):
        found = found.isoformat()
    return sf.lit(found).cast(data_type)
