"""Reads of a table of the source exactly as it is where a batch of the log ends.

A row of a table without a key is read once, by the snapshot or from the log. MariaDB tells the
position of a consistent snapshot, where the batch is cut. MySQL does not: there the batch ends at a
position before which the snapshot began, and it is the table's at that position if the log has no
change of the table after the position that the snapshot has seen for sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.cdc.model.tables import SourceTable
from headwater.cdc.mysql.information_schema import check_definition
from headwater.cdc.mysql.source import ConsistentRead, MySQLSource
from headwater.cdc.mysql.transactions import LogBatch, LogReader
from headwater.storage.errors import Conflict

__all__ = ["exact_read"]

# The position is in the log, or about to be.
_REACH_SECONDS = 5.0
# All tables of the pipeline wait for a statement that changes this one.
_LOCK_SECONDS = 1


@contextmanager
def exact_read(
    source: MySQLSource, reader: LogReader, batch: LogBatch, table: SourceTable
) -> Iterator[ConsistentRead]:
    """See a table exactly as it is at the end of a batch, which is read on for that.

    Args:
        source: The source.
        reader: Reads the log; its last batch is the one.
        batch: The batch. The table is seen with all changes in it.
        table: The table; statements about it wait until this has ended.

    Raises:
        Conflict: The table has other columns, or changed meanwhile: try again.
        Unavailable: The source cannot be reached.
    """
    with source.consistent_read(reader.position) as read:
        read.server.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        # What is defined from here on waits; what was defined before is in the log.
        check_definition(read.server, table)
        changed = reader.read_on(batch, read.logged(), _REACH_SECONDS)
        if changed is None:
            raise Conflict(f"the log after the rows of {table.name} has not come yet")
        if read.exact is None and changed & {table.name, None}:
            raise Conflict(f"table {table.name} changed while its rows began to be read")
        if batch.changes or any(table.name in end.tables for end in batch.xa):
            raise Conflict(f"table {table.name} has a statement or an XA transaction before it")
        yield read
