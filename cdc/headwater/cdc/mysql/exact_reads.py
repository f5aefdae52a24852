"""Reads of a table of the source exactly as it is where a batch of the log ends.

A row of a table without a key is read once, by the snapshot or from the log. MariaDB tells the
position of a consistent snapshot, where the batch is cut. MySQL does not: there the batch ends at a
position before which the snapshot began, and it is the table's at that position if the log has no
change of the table after the position that the snapshot has seen for sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.consistent_reads import MySQLRead, MySQLReads
from headwater.cdc.mysql.information_schema import (
    check_definition,
    keep_definition,
    limit_lock_waits,
)
from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.source.log_batches import LogBatch, LogReader
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Conflict

__all__ = ["exact_read"]

# The position is in the log, or about to be.
_REACH_SECONDS = 5.0
# Between two changes of a busy table there may be a millisecond.
_ATTEMPTS = 10


@contextmanager
def exact_read(
    reads: MySQLReads, address: Address, reader: LogReader, batch: LogBatch, table: SourceTable
) -> Iterator[MySQLRead]:
    """See a table exactly as it is at the end of a batch, which is read on for that.

    Args:
        reads: Begins reads of the server.
        address: The server.
        reader: Reads the log; its last batch is the one.
        batch: The batch. The table is seen with all changes in it.
        table: The table; statements about it wait until this has ended.

    Raises:
        Conflict: The table has other columns, or changes all the time: try again later.
        Unavailable: The source cannot be reached.
    """
    with MySQLServer(address) as server:
        limit_lock_waits(server)
        for _ in range(_ATTEMPTS):
            read = _read_between_changes(reads, server, reader, batch, table.name)
            if read is not None:
                break
        else:
            raise Conflict(
                f"table {table.name} changes too often to be read at one position; it is read when "
                "it changes less"
            )
        # No statement about the table came since the transaction began.
        check_definition(server, table)
        yield read


def _read_between_changes(
    reads: MySQLReads, server: MySQLServer, reader: LogReader, batch: LogBatch, name: TableName
) -> MySQLRead | None:
    """See a table exactly as it is at the end of a batch; None if it changed meanwhile."""
    _read_on(reader, batch, reads.position_on(server), name)
    read = reads.begin(server, reader.position)
    # What is defined from here on waits; what was defined before is in the log.
    keep_definition(server, name)
    changed = _read_on(reader, batch, read.logged(), name)
    return None if read.exact is None and changed & {name, None} else read


def _read_on(
    reader: LogReader, batch: LogBatch, end: Position, name: TableName
) -> frozenset[TableName | None]:
    changed = reader.read_on(batch, end, _REACH_SECONDS)
    if changed is None:
        raise Conflict(
            f"the log of the source that is before the rows of {name} has not come yet, or has a "
            "statement; the table is read after it"
        )
    if any(end.tables & {name, None} for end in batch.xa):
        raise Conflict(f"table {name} is changed by an XA transaction that is prepared")
    return changed
