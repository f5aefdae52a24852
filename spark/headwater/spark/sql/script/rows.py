"""The rows of a query, one after the other, without a change of their types."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.errors import own_errors
from headwater.spark.sql.script.variables import Variables
from headwater.spark.types import sql_type_text

__all__ = ["Rows", "materialized"]

_CHUNK = 200
"""How many rows are in a variable at a time."""


def materialized(frame: DataFrame) -> DataFrame:
    """A frame that has been computed, with the rows of now."""
    with own_errors():
        return frame.localCheckpoint(eager=True)


class Rows:
    """The rows of a frame that has been computed, in a hidden variable of the session.

    Spark reads values from there as it wrote them, while Python has no type for some.

    Args:
        frame: The frame.
        spark: The session.
        variables: The script's.

    Attributes:
        columns: The names of the columns.
        types: Their types, as SQL names them.
    """

    def __init__(self, frame: DataFrame, spark: SparkSession, variables: Variables) -> None:
        self.columns = frame.columns
        self.types = [sql_type_text(column.dataType) for column in frame.schema.fields]
        self._spark, self._variables = spark, variables
        self._frame = frame.toDF(*(f"c{index}" for index in range(len(self.columns))))
        self._row, self._count, self._offset = 0, 0, 0
        kind = f"array<{sql_type_text(self._frame.schema)}>"
        self._location = variables.hidden(kind)

    def next(self) -> list[str] | None:
        """The values of the next row as expressions, which the call after this one changes."""
        self._row += 1
        if self._row >= self._count and not self._load():
            return None
        return [f"{self._location}[{self._row}].c{index}" for index in range(len(self.columns))]

    def close(self) -> None:
        """Forget the rows."""
        self._variables.forget(self._location)

    def _load(self) -> bool:
        # In one partition, rows are collected in their order.
        chunk = self._frame.offset(self._offset).limit(_CHUNK).coalesce(1)
        rows = chunk.agg(sf.collect_list(sf.struct("*")).alias("rows"))
        with own_errors():
            self._spark.sql(f"SET VARIABLE {self._location} = (SELECT rows FROM {{r}})", r=rows)
            size = self._spark.sql(f"SELECT size({self._location})").collect()[0][0]
        self._count, self._row = int(size), 0
        self._offset += self._count
        return self._count > 0
