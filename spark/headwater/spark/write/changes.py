"""The changes that a snapshot's rows lead to, as a frame."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headwater.spark.names import quoted
from headwater.spark.row_change import Repeats
from headwater.spark.source.table_read import TableRead
from headwater.storage.errors import Invalid
from headwater.storage.read.positioned_rows import BUCKET_COLUMN
from headwater.storage.table_storage import TableStorage

__all__ = ["Changes", "refuse_added_again"]

_ADDED, _ALL = "_headwater_added", "_headwater_all_added"


@dataclass(frozen=True)
class Changes:
    """The changes that a snapshot's rows lead to.

    Attributes:
        frame: The table's columns, ``_ROW_KIND`` and the columns that tell of the places of the
            rows that change, see `Target`.
        predicate: The condition that the rows that were read fulfil, as SQL text.
        adds: Whether rows are added, too.
        is_serial: As in `RowChange`.
        repeats: As in `RowChange`.
        columns: As in `RowChange`.
        read: The part of the table that is read; None where none is.
    """

    frame: DataFrame
    predicate: str | None = None
    adds: bool = False
    is_serial: bool = False
    repeats: Repeats = Repeats.REFUSED
    columns: tuple[str, ...] = ()
    read: TableRead | None = None


def refuse_added_again(frame: DataFrame, storage: TableStorage) -> None:
    """Refuse changes of rows beside which a row of the same key is added.

    Args:
        frame: Changes with the columns of `headwater.storage.read.positioned_rows.bucketed_rows`.
        storage: The table.

    Raises:
        Invalid: There is such a row; the message names its key.
    """
    names = [quoted(name) for name in storage.schema.primary_keys]
    added = sf.col(BUCKET_COLUMN).isNull()
    per_key = frame.groupBy(*names).agg(
        sf.bool_or(added).alias(_ADDED), sf.bool_and(added).alias(_ALL)
    )
    wrong = per_key.where(f"{_ADDED} AND NOT {_ALL}").select(*names).limit(1).collect()
    if wrong:
        key = ", ".join(f"{name} = {value!r}" for name, value in wrong[0].asDict().items())
        raise Invalid(
            f"table {storage.name}: several rows of the source match or add the row with {key}; "
            "make the source's rows distinct"
        )
