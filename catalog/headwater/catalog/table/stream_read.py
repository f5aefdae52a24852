"""Batches of a stream that a server reads, for readers who are not shown all of a table."""

from __future__ import annotations

from headwater.catalog.model.access import ReadRequest, StreamAsked
from headwater.catalog.table.scan import Changes
from headwater.catalog.table.table import Table
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.options.choices import ChangelogProducer
from headwater.storage.scan.stream import (
    StreamPosition,
    after,
    check_history,
    earliest_changes,
    from_snapshot,
    starting_position,
)
from headwater.storage.scan.stream_batches import end_before_schema_change, plans_before
from headwater.storage.schema.read_start import BY_CREATION, IncrementalMode, ReadStart
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["Positions", "stream_changes"]

Positions = tuple[StreamPosition, StreamPosition]


def stream_changes(
    table: Table, request: ReadRequest, asked: StreamAsked
) -> tuple[Changes, Positions]:
    """The rows of a batch, with its start and end; no rows while its end is asked for.

    Args:
        table: The table, with the request's options laid over its own.
        request: The request.
        asked: Its stream.

    Raises:
        NotFound: The snapshot that the stream wants next has expired.
        Invalid: It is no part of the table's history; there is no such schema; or the columns
            changed and the stream ends before that.
        Unsupported: It starts by the time at which files were made.
    """
    storage = table.storage
    if request.schema_id is not None:
        try:
            storage = storage.at_schema(request.schema_id)
        except CorruptData:
            raise Invalid(f"table {table.name} has no schema {request.schema_id}") from None
    if storage.schema.crosses_partitions and asked.row_kinds:
        raise Unsupported(
            f"table {table.name}: keys move between its partitions, and a server does not put what "
            "a snapshot retracts before what it adds: read its changes in batches, or follow it "
            "with include-row-kind=false"
        )
    newest = table.pointer.latest()
    start = _start(table, storage, newest, asked)
    end = asked.end or _reach(storage, start, newest, request, asked)
    plans = () if asked.end is None else tuple(plans_before(storage, start, end, newest))
    producer = storage.schema.table_options.changelog_producer
    told = bool(storage.schema.primary_keys) and producer is not ChangelogProducer.NONE
    source = IncrementalMode.CHANGELOG if told else IncrementalMode.DELTA
    changes = Changes(storage, plans, None, None, row_kinds=asked.row_kinds, source=source)
    return changes, (start, end)


def _start(
    table: Table, storage: TableStorage, newest: Snapshot | None, asked: StreamAsked
) -> StreamPosition:
    if asked.earliest:
        return earliest_changes(storage, newest)
    start = asked.start
    if start is None:
        by_options = ReadStart.of(table.schema.options)
        if by_options.mode in BY_CREATION:
            raise Unsupported(
                f"table {table.name}: a server does not read rows by the time at which their files "
                "were made; unset scan.file-creation-time-millis and scan.creation-time-millis"
            )
        return starting_position(storage, newest, by_options)
    check_history(storage, start, newest)
    # What has expired is told before rows are read.
    from_snapshot(storage, newest, start.snapshot_id, full=not start.changes)
    return start


def _reach(
    storage: TableStorage,
    start: StreamPosition,
    newest: Snapshot | None,
    request: ReadRequest,
    asked: StreamAsked,
) -> StreamPosition:
    """The end of all that there is; of the first batch alone if that is all rows of a snapshot."""
    if not start.changes:
        end = start.following
    else:
        end = start if newest is None else max(start, after(newest))
    if asked.to_schema_change and start < end:
        return end_before_schema_change(storage, start, end, newest, request.columns)
    return end
