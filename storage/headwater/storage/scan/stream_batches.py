"""Batches of a stream: what lies between two positions, and where a batch of a limited size ends.

A batch may end within a snapshot. A snapshot is divided into parts that do not depend on how many
tasks read them: a file each where rows are read as they stand, else a split. A position says how
many parts have been read, and which, so that another division is noticed. The changes of a snapshot
that moves keys between partitions stay together: a key is added in one file and deleted in another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.split import ScanPlan, Split
from headwater.storage.scan.stream import (
    StreamPosition,
    after,
    check_history,
    find_changes,
    next_plan,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "BatchLimits",
    "StreamBatches",
    "end_before_schema_change",
    "plans_before",
]


@dataclass(frozen=True)
class BatchLimits:
    """The most that a batch of a stream may hold; None is without limit.

    A batch is never empty for a limit: a part that is larger by itself makes a batch.

    Attributes:
        files: Data files.
        size: Bytes of data files.
        rows: Rows of data files.
        snapshots: Snapshots with rows, of which the last may be read in part.
    """

    files: int | None = None
    size: int | None = None
    rows: int | None = None
    snapshots: int | None = None


@dataclass
class _Taken:
    """The contents of a batch so far."""

    limits: BatchLimits
    files: int = 0
    size: int = 0
    rows: int = 0
    snapshots: int = 0

    def add(self, parts: Sequence[Split], *, begins_snapshot: bool) -> bool:
        """Add parts that stay together; False, and nothing is added, when they do not fit."""
        more = _Taken(
            self.limits,
            self.files + sum(len(part.files) for part in parts),
            self.size + sum(part.size for part in parts),
            self.rows + sum(part.row_count for part in parts),
            self.snapshots + begins_snapshot,
        )
        limits = self.limits
        if self.files and (
            _exceeds(more.files, limits.files)
            or _exceeds(more.size, limits.size)
            or _exceeds(more.rows, limits.rows)
            or _exceeds(more.snapshots, limits.snapshots)
        ):
            return False
        self.files, self.size, self.rows = more.files, more.size, more.rows
        self.snapshots = more.snapshots
        return True


def _exceeds(number: int, limit: int | None) -> bool:
    return limit is not None and number > limit


class StreamBatches:
    """Plans the batches of one stream, and remembers the plans of the batch at hand.

    Args:
        storage: The table.
        predicate: The condition for wanted rows.
    """

    def __init__(self, storage: TableStorage, predicate: Predicate | None) -> None:
        self._storage = storage
        self._predicate = predicate
        self._plans: dict[tuple[int, bool], tuple[ScanPlan, StreamPosition]] = {}

    def end_within(
        self,
        position: StreamPosition,
        end: StreamPosition,
        newest: Snapshot | None,
        limits: BatchLimits,
    ) -> tuple[StreamPosition, int]:
        """The end of a batch that begins at a position, and its rows (an upper bound).

        Args:
            position: The beginning, of which `check_history` approves.
            end: The end that the batch may have at most; not within a snapshot.
            newest: The latest snapshot.
            limits: The most that the batch may hold.

        Raises:
            NotFound, Invalid, CorruptData, Unsupported: As `next_plan`.
        """
        self._storage.refuse(Operation.STREAM)
        self._forget_before(position)
        taken = _Taken(limits)
        at = position
        while at < end:
            plan, following = self._plan(at, newest, keep=True)
            if plan is None:
                return min(max(at, following), end), taken.rows
            if _is_beyond(plan, at, end):
                break
            read, parts = self._parts(plan, at)
            moves_keys = at.changes and self._storage.schema.crosses_partitions
            step = max(len(parts), 1) if moves_keys else 1
            for number in range(0, len(parts) - read, step):
                together = parts[read + number : read + number + step]
                if taken.add(together, begins_snapshot=number == 0):
                    continue
                if read + number == 0:
                    return at, taken.rows
                return _within(plan, at, parts[: read + number]), taken.rows
            at = following
        return end, taken.rows

    def plans(
        self, position: StreamPosition, end: StreamPosition, newest: Snapshot | None
    ) -> Iterator[ScanPlan]:
        """The plans from a position up to another, which is not included: one batch.

        Planning the same range again gives the same rows, as long as its snapshots have not
        expired.

        Raises:
            NotFound, Invalid, CorruptData, Unsupported: As `next_plan`; also Invalid when `end` is
                not reached by what has been committed, or the parts of a snapshot that were read
                are not its first ones.
        """
        self._storage.refuse(Operation.STREAM)
        for each in (position, end):
            check_history(self._storage, each, newest)
        at = position
        while at < end:
            plan, following = self._plan(at, newest)
            if plan is None:
                if following < end:
                    raise Invalid(
                        f"table {self._storage.name}: snapshot {following.snapshot_id} is not "
                        f"there yet, but the batch goes up to snapshot {end.snapshot_id}"
                    )
                return
            if _is_beyond(plan, at, end):
                return
            is_last = plan.snapshot.id == end.snapshot_id and at.changes == end.changes
            if at.parts or (is_last and end.parts):
                read, parts = self._parts(plan, at)
                last = self._parts(plan, end)[0] if is_last else len(parts)
                plan = replace(plan, splits=tuple(parts[read:last]))
            yield plan
            if is_last:
                return
            at = following

    def _plan(
        self, at: StreamPosition, newest: Snapshot | None, *, keep: bool = False
    ) -> tuple[ScanPlan | None, StreamPosition]:
        key = (at.snapshot_id, at.changes)
        known = self._plans.get(key)
        if known is not None:
            return known
        plan, following = next_plan(self._storage, at, newest, self._predicate)
        if keep and plan is not None:
            self._plans[key] = (plan, following)
        return plan, following

    def _forget_before(self, position: StreamPosition) -> None:
        first = (position.snapshot_id, position.changes)
        self._plans = {key: plan for key, plan in self._plans.items() if key >= first}

    def _parts(self, plan: ScanPlan, at: StreamPosition) -> tuple[int, list[Split]]:
        """The number of parts of a plan that a position has behind it, and all parts."""
        parts = [part for split in plan.splits for part in _divided(split)]
        if not at.parts:
            return 0, parts
        if at.parts > len(parts) or _digest(parts[: at.parts]) != at.digest:
            raise Invalid(
                f"table {self._storage.name}: the {at.parts} parts of snapshot {at.snapshot_id} "
                "that the stream has read are not its first ones any more: the stream's option "
                "where, or an option of the table about splits, is another now. Set it as it was, "
                "or start with a new checkpoint"
            )
        return at.parts, parts


def plans_before(
    storage: TableStorage,
    position: StreamPosition,
    end: StreamPosition,
    newest: Snapshot | None,
) -> Iterator[ScanPlan]:
    """One batch of a stream, see `StreamBatches.plans`."""
    return StreamBatches(storage, None).plans(position, end, newest)


def end_before_schema_change(
    storage: TableStorage,
    position: StreamPosition,
    end: StreamPosition,
    newest: Snapshot | None,
    columns: Sequence[str] | None,
) -> StreamPosition:
    """The end of a batch that ends before the first snapshot with other columns than the stream's.

    Args:
        storage: The table, with the schema of the stream.
        position: The position of the stream.
        end: The position that it could go on to.
        newest: The latest snapshot.
        columns: The columns that the stream reads; None is all.

    Raises:
        Invalid: The next snapshot has others already.
    """
    own = storage.schema
    if newest is None or newest.schema_id <= own.id:
        return end
    read = list(own.field_by_name) if columns is None else columns
    fields = {(field.id, field.name, str(field.type)) for field in own.columns(read)}
    changed: dict[int, bool] = {}
    before = position
    for number in range(position.snapshot_id, end.snapshot_id):
        snapshot = find_changes(storage, newest, number)
        schema_id = snapshot.schema_id
        if schema_id not in changed:
            later = storage.schema_by_id(schema_id).fields if schema_id > own.id else ()
            present = {(field.id, field.name, str(field.type)) for field in later}
            differs = fields != present if columns is None else not fields <= present
            changed[schema_id] = schema_id > own.id and differs
        if changed[schema_id]:
            # A full read is not cut short: it would lack what the new columns hold.
            if before == position or not position.changes:
                raise Invalid(
                    f"table {storage.name}: its columns changed with snapshot "
                    f"{position.snapshot_id}, and a running query keeps those that it began with: "
                    "start it again, with the same checkpoint, to go on with the new ones; or set "
                    "the option headwater.schema-change to ignore"
                )
            return before
        before = after(snapshot)
    return end


def _is_beyond(plan: ScanPlan, at: StreamPosition, end: StreamPosition) -> bool:
    """True if a plan, which a position led to, is no part of a batch with that end."""
    if plan.snapshot.id != end.snapshot_id:
        return plan.snapshot.id > end.snapshot_id
    return (at.changes, 0) >= (end.changes, end.parts)


def _within(plan: ScanPlan, at: StreamPosition, read: Sequence[Split]) -> StreamPosition:
    return StreamPosition(
        plan.snapshot.id,
        at.changes,
        at.created_since,
        plan.snapshot.identity,
        len(read),
        _digest(read),
    )


def _divided(split: Split) -> list[Split]:
    if not split.is_raw or len(split.files) < 2:
        return [split]
    return [replace(split, files=(file,), row_count=file.row_count) for file in split.files]


def _digest(parts: Sequence[Split]) -> str:
    """A name of the files of parts, in their order."""
    names = hashlib.sha256()
    for part in parts:
        for file in (*part.files, *part.postponed, *(part.before or ())):
            names.update(f"{part.bucket}/{file.file_name}\n".encode())
    return names.hexdigest()[:32]
