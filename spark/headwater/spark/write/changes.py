"""The changes that a snapshot's rows lead to, as a frame."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from headwater.spark.row_change import Repeats

__all__ = ["Changes"]


@dataclass(frozen=True)
class Changes:
    """The changes that a snapshot's rows lead to.

    Attributes:
        frame: The table's columns, ``_ROW_KIND`` and, for an append table, the columns of
            `headwater.storage.read.positioned_rows`.
        predicate: The condition that the rows that were read fulfil, as SQL text.
        is_serial: As in `RowChange`.
        repeats: As in `RowChange`.
    """

    frame: DataFrame
    predicate: str | None = None
    is_serial: bool = False
    repeats: Repeats = Repeats.REFUSED
