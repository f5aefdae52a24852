"""Reads of a table of PostgreSQL exactly as it is where a batch of the log ends.

A row of a table without a key is read once, by the snapshot or from the log. A transaction sees all
until the position that the log was read to, and nothing behind the one that the server has reached
when it begins. If the log has no change of the table between both, it is seen as it is at either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.consistent_reads import PostgresRead, PostgresRowReader
from headwater.cdc.source.log_batches import LogBatch, LogReader
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Conflict

__all__ = ["exact_read"]

_REACH_SECONDS = 5.0
# Between two changes of a busy table there may be a millisecond.
_ATTEMPTS = 10


@contextmanager
def exact_read(
    rows: PostgresRowReader,
    position: Callable[[], Position],
    reader: LogReader,
    batch: LogBatch,
    table: SourceTable,
) -> Iterator[PostgresRead]:
    """See a table exactly as it is at the end of a batch, which is read on for that.

    Args:
        rows: A connection.
        position: The position that the server's log has reached.
        reader: Reads the log; its last batch is the one.
        batch: The batch. The table is seen with all changes in it.
        table: The table; statements about it wait until this has ended.

    Raises:
        Conflict: The table has other columns, or changes all the time: try again later.
        Unavailable: The source cannot be reached.
    """
    for _ in range(_ATTEMPTS):
        _read_on(reader, batch, position(), table.name)
        with rows.consistent_read(reader.position) as read:
            read.check(table)
            if table.name not in _read_on(reader, batch, read.settled(), table.name):
                yield read
                return
    raise Conflict(
        f"table {table.name} changes too often to be read at one position; it is read when it "
        "changes less"
    )


def _read_on(
    reader: LogReader, batch: LogBatch, end: Position, name: TableName
) -> frozenset[TableName | None]:
    changed = reader.read_on(batch, end, _REACH_SECONDS)
    if changed is None:
        raise Conflict(
            f"the log of the source that is before the rows of {name} has not come yet, or "
            "describes a table otherwise; the table is read after it"
        )
    return changed
