"""The states of tables after a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.batch_commit import Outcome
from headwater.cdc.pipeline.cascades import Cascades
from headwater.cdc.pipeline.state import Backlog, Reading, TablePhase, TableState
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.positions import Position, union
from headwater.cdc.source.source import Source

__all__ = [
    "after_batch",
    "gone",
    "quarantined",
    "read_again",
    "read_once_more",
    "without_target",
]

_WAITS = "; it waits: "
_CHANGED_MEANWHILE = "rows changed without events while it was read"

States = Mapping[TableName, TableState]


def after_batch(
    states: States, batch: LogBatch, outcome: Outcome, source: Source, cascades: Cascades
) -> dict[TableName, TableState]:
    """The states of tables when a batch is committed, before its statement is applied.

    Args:
        states: The states when it began.
        batch: The batch.
        outcome: What became of its tables.
        source: The source.
        cascades: Tells which tables' rows go with those of another one.
    """
    result: dict[TableName, TableState] = {}
    unlogged: set[TableName] = set()
    for name, before in states.items():
        state, committed = _xa(name, before, batch)
        if not state.is_followed:
            result[name] = state
            continue
        failure = outcome.failures.get(name) or batch.faults.get(name)
        if failure is not None:
            failed = quarantined(before, failure, batch.start)
            result[name] = replace(failed, prepared=state.prepared)
            continue
        state = _with_ahead(state, batch, outcome.ahead.get(name), source)
        if state.awaits_snapshot:
            result[name] = _after_attempt(name, state, batch, outcome)
            continue
        if state.reading is not None:
            state = _progressed(name, state, batch, outcome, source)
        if committed or name in batch.rereads:
            unlogged.add(name)
        reason = outcome.rereads.get(name) or batch.rereads.get(name) or batch.rereads.get(None)
        if reason or committed:
            state = read_once_more(state, reason or "an XA transaction was committed", batch.end)
        result[name] = state
    for name in unlogged:
        for child in cascades.descendants(name, states) & result.keys() - unlogged:
            if result[child].is_followed:
                reason = f"rows of {name} changed those of it"
                result[child] = read_once_more(result[child], reason, batch.end)
    return result


def quarantined(state: TableState, reason: str, position: Position) -> TableState:
    """The state of a table that is not followed any more, from a position on.

    Args:
        state: The table's state there.
        reason: Why.
        position: The position.
    """
    backlog = None
    if state.phase is TablePhase.STREAMING and state.columns:
        backlog = Backlog(str(position), prepared=state.prepared)
    return replace(
        state,
        phase=TablePhase.QUARANTINED,
        reason=reason,
        position=str(position),
        reading=None,
        backlog=backlog,
    )


def without_target(reason: str, position: Position) -> TableState:
    """The state of a table that cannot have a table of the lake."""
    return quarantined(TableState("", TablePhase.SNAPSHOT), reason, position)


def gone(state: TableState, position: Position) -> TableState:
    """The state of a table that the source does not have any more; the lake's stays."""
    return replace(
        state,
        phase=TablePhase.GONE,
        position=str(position),
        reason=None,
        reading=None,
        prepared=(),
        backlog=None,
    )


def read_again(state: TableState, reason: str, position: Position) -> TableState:
    """The state of a table all of whose rows are read again."""
    phase = TablePhase.REREADING
    if state.phase is TablePhase.SNAPSHOT:
        phase, reason = TablePhase.SNAPSHOT, ""
    return replace(
        state,
        phase=phase,
        reason=reason or None,
        position=str(position),
        reading=Reading(deletes=True),
    )


def read_once_more(state: TableState, reason: str, position: Position) -> TableState:
    """The state of a table of which rows changed without an event.

    A reading that has begun goes on, and is repeated: it would never end where such changes come
    again and again.
    """
    if state.reading is None or state.reading.after is None:
        return read_again(state, reason, position)
    return replace(state, reading=replace(state.reading, repeats=True))


def _with_ahead(
    state: TableState, batch: LogBatch, read_at: Position | None, source: Source
) -> TableState:
    """The state of a table of which single keys may have been read."""
    ahead = None if state.ahead is None else source.parse(state.ahead)
    if read_at is not None:
        ahead = union(ahead, read_at)
    is_reached = ahead is None or batch.end.contains(ahead)
    return replace(state, ahead=None if is_reached else str(ahead))


def _after_attempt(
    name: TableName, state: TableState, batch: LogBatch, outcome: Outcome
) -> TableState:
    """The state of a table without a key, of which a batch may have read all rows."""
    if name in outcome.snapshots:
        return _streaming(state, batch.end)
    why, reason = outcome.waits.get(name), state.reason
    if why is not None:
        before = (reason or "").partition(_WAITS)[0]
        reason = f"{before}{_WAITS}{why}" if state.phase is TablePhase.REREADING else why
    # What an earlier process had planned to read is read again, at another position.
    return replace(state, reading=Reading(), reason=reason)


def _streaming(state: TableState, position: Position) -> TableState:
    return replace(
        state, phase=TablePhase.STREAMING, reading=None, reason=None, position=str(position)
    )


def _progressed(
    name: TableName, state: TableState, batch: LogBatch, outcome: Outcome, source: Source
) -> TableState:
    """The state of a table of which ranges were read, or keys deleted."""
    reading = state.reading or Reading()
    settles = None if reading.settles is None else source.parse(reading.settles)
    read = outcome.reads.get(name)
    if read is not None and read.settled is not None:
        settles = union(settles, read.settled)
    if read is not None and read.until is not None:
        reading = replace(reading, after=read.until)
    reading = replace(reading, until=None)
    if reading.deletes_now:
        settles = union(settles, source.position())
        reading = replace(reading, deletes=False, deletes_now=False)
    reading = replace(reading, settles=None if settles is None else str(settles))
    is_settled = settles is None or batch.end.contains(settles)
    if reading.is_all_read and not reading.deletes and is_settled:
        done = _streaming(state, batch.end)
        return read_again(done, _CHANGED_MEANWHILE, batch.end) if reading.repeats else done
    return replace(state, reading=reading)


def _xa(name: TableName, state: TableState, batch: LogBatch) -> tuple[TableState, bool]:
    """Note prepared XA transactions of a table; whether one of them was committed."""
    prepared = list(state.prepared)
    is_committed = False
    for end in batch.xa:
        if end.committed is None:
            if end.tables & {name, None}:
                prepared.append(end.xid)
        elif end.xid in prepared:
            prepared.remove(end.xid)
            is_committed |= end.committed
    return replace(state, prepared=tuple(prepared)), is_committed
