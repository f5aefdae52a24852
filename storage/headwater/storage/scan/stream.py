"""Following a table: the present rows once, then each commit's changes, in order.

A position says what a reader wants next; planning it gives the splits and the position after it.
Positions are values: nothing here remembers anything, so a reader can go back to any of them.
Of an expired snapshot, changes are read as long as it has left a changelog.

Source: ``DataTableStreamScan.java``, ``DeltaFollowUpScanner.java``,
``ChangelogFollowUpScanner.java``, ``NextSnapshotFetcher.java``, ``AbstractDataTableScan.java``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from headwater.storage.errors import CorruptData, Invalid, NotFound, ResourceType
from headwater.storage.options import ChangelogProducer
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.expired_snapshots import changes_expired, expired, rows_expired
from headwater.storage.scan.overwritten import plan_overwritten
from headwater.storage.scan.past import first_snapshot_since, latest_compacted
from headwater.storage.scan.plan import plan_changelog, plan_delta, plan_snapshot
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.split import ScanPlan
from headwater.storage.schema.read_start import BY_CREATION, ReadStart, StartMode
from headwater.storage.snapshot.changelog import changelog_file_ids, read_changelog_file
from headwater.storage.snapshot.files import snapshot_file_ids
from headwater.storage.snapshot.history import is_in_history
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import Json

__all__ = [
    "StreamPosition",
    "after",
    "bounded_end",
    "changes_of",
    "check_history",
    "earliest_changes",
    "find_changes",
    "from_consumer",
    "from_snapshot",
    "from_timestamp",
    "latest",
    "latest_full",
    "next_plan",
    "reading_from",
    "starting_position",
]


@dataclass(frozen=True, order=True)
class StreamPosition:
    """The next snapshot that a reader wants. Positions of one table are ordered.

    Attributes:
        snapshot_id: A snapshot, which may not exist yet.
        changes: Whether its changes are wanted; else (once, at the start) all its rows.
        created_since: Of all its rows only those in files made at or after this time,
            milliseconds since the epoch.
        known: The last snapshot that was read, or is; None if none was. When it has left
            the table's history, the position is not part of that either.
        parts: The parts of the wanted snapshot that have been read already, as
            `headwater.storage.scan.stream_batches` divides it.
        digest: With `parts`, says which they are.
    """

    snapshot_id: int
    changes: bool = True
    created_since: int | None = field(default=None, compare=False)
    known: SnapshotIdentity | None = field(default=None, compare=False)
    parts: int = 0
    digest: str | None = field(default=None, compare=False)

    @property
    def whole(self) -> StreamPosition:
        """The position of a consumer, which waits for the last part of a snapshot."""
        return StreamPosition(self.snapshot_id, self.changes)

    @property
    def following(self) -> StreamPosition:
        """The changes after the wanted snapshot."""
        return StreamPosition(self.snapshot_id + 1, known=self.known)

    def to_json(self) -> dict[str, Json]:
        """The position as a JSON object."""
        document: dict[str, Json] = {
            "snapshotId": self.snapshot_id,
            "changes": self.changes,
        }
        if self.created_since is not None:
            document["createdSince"] = self.created_since
        if self.known is not None:
            document["known"] = self.known.to_json()
        if self.parts:
            document |= {"parts": self.parts, "digest": self.digest}
        return document

    @staticmethod
    def from_json(document: object) -> StreamPosition:
        """Read `to_json`'s object; raises Invalid when it is something else."""
        match document:
            case {"snapshotId": int(number), "changes": bool(changes), **more} if number > 0:
                since = more.get("createdSince")
                known_json = more.get("known")
                known = None if known_json is None else SnapshotIdentity.from_json(known_json)
                if since is None or isinstance(since, int):
                    position = StreamPosition(number, changes, since, known)
                    match more.get("parts"), more.get("digest"):
                        case None, None:
                            return position
                        case int(parts), str(digest) if parts > 0:
                            return replace(position, parts=parts, digest=digest)
        raise Invalid(f"{document!r} is not a stream position")


# Where to start ---------------------------------------------------------------------------------


def latest_full(newest: Snapshot | None) -> StreamPosition | None:
    """All rows, then changes; None as long as the table has no snapshot."""
    return None if newest is None else _full(newest)


def latest(newest: Snapshot | None) -> StreamPosition:
    """Only what is committed from now on."""
    return after(newest)


def after(snapshot: Snapshot | None) -> StreamPosition:
    """The changes after a snapshot; None stands for a table without one."""
    if snapshot is None:
        return StreamPosition(1)
    return StreamPosition(snapshot.id + 1, known=snapshot.identity)


def _full(snapshot: Snapshot, created_since: int | None = None) -> StreamPosition:
    return StreamPosition(
        snapshot.id, changes=False, created_since=created_since, known=snapshot.identity
    )


def from_snapshot(
    storage: TableStorage, newest: Snapshot | None, snapshot_id: int, *, full: bool = False
) -> StreamPosition:
    """The changes of a snapshot and what follows; with `full`, its rows instead of its changes.

    Raises:
        NotFound: The snapshot has expired.
        Invalid: It is not the latest, nor before it, nor the next.
    """
    _check_reach(storage, newest, snapshot_id, changes=not full)
    return StreamPosition(snapshot_id, changes=not full)


def from_consumer(
    storage: TableStorage,
    newest: Snapshot | None,
    saved: StreamPosition,
    start: ReadStart | None = None,
) -> StreamPosition:
    """The position at which a consumer left off.

    Args:
        storage: The table.
        newest: Its latest snapshot.
        saved: The position that the consumer has saved.
        start: The start of the stream. It chooses the files of a full read that is not yet done.

    Raises:
        NotFound: That snapshot has expired: changes would be missed. Paimon goes on with the
            earliest snapshot there is; Headwater leaves that decision to the reader.
        Invalid: The table has been rolled back or created again since.
    """
    _check_reach(storage, newest, saved.snapshot_id, changes=saved.changes)
    if saved.changes:
        return saved
    snapshot = _find(storage, newest, saved.snapshot_id, changes=False)
    known = None if snapshot is None else snapshot.identity
    since = start.integer() if start is not None and start.mode in BY_CREATION else None
    return replace(saved, created_since=since, known=known)


def from_timestamp(
    storage: TableStorage, newest: Snapshot | None, time_millis: int
) -> StreamPosition:
    """The changes of the first snapshot committed at or after a time, and what follows.

    Args:
        storage: The table.
        newest: Its latest snapshot.
        time_millis: Milliseconds since the epoch.
    """
    if newest is None or newest.time_millis < time_millis:
        return latest(newest)
    ids = [number for number in _ids_with_changes(storage) if number < newest.id]

    def committed(number: int) -> int:
        return changes_of(storage, number).time_millis

    at = bisect_left(ids, time_millis, key=committed)
    return StreamPosition(ids[at] if at < len(ids) else newest.id)


def starting_position(
    storage: TableStorage, newest: Snapshot | None, start: ReadStart
) -> StreamPosition:
    """The position at which options start a stream (``createStartingScanner``).

    A start that has expired is an error where Paimon goes on with the earliest snapshot there is.

    Args:
        storage: The table.
        newest: Its latest snapshot.
        start: The start that the options ask for.

    Raises:
        NotFound: The snapshot to start from has expired.
        Invalid: A stream cannot start there.
    """
    match start.mode, start.key:
        case StartMode.LATEST_FULL, _:
            return latest_full(newest) or latest(newest)
        case StartMode.LATEST, _:
            return latest(newest)
        case StartMode.COMPACTED_FULL, _:
            return latest_full(latest_compacted(storage, newest)) or latest(newest)
        case StartMode.FROM_TIMESTAMP, _:
            moment = start.time_millis(storage.runtime.time_zone)
            return from_timestamp(storage, newest, moment)
        case StartMode.FROM_FILE_CREATION_TIME, _:
            return _files_since(newest, start.integer())
        case StartMode.FROM_CREATION_TIMESTAMP, _:
            first = first_snapshot_since(storage, newest, start.integer())
            if first is not None:
                return StreamPosition(first.id)
            return _files_since(newest, start.integer())
        case ((StartMode.FROM_SNAPSHOT | StartMode.FROM_SNAPSHOT_FULL), "scan.snapshot-id"):
            full = start.mode is StartMode.FROM_SNAPSHOT_FULL
            return from_snapshot(storage, newest, start.integer(), full=full)
    raise Invalid(
        f"table {storage.name}: a stream cannot start at {start.key}={start.value}; a batch read "
        "takes it. Start at scan.snapshot-id or scan.timestamp-millis"
    )


def _files_since(newest: Snapshot | None, millis: int) -> StreamPosition:
    if newest is None:
        return latest(newest)
    return _full(newest, millis)


def bounded_end(
    storage: TableStorage,
    position: StreamPosition,
    end: StreamPosition,
    newest: Snapshot | None,
    watermark: int,
) -> StreamPosition:
    """The end of a stream that ends before the first snapshot beyond a watermark.

    Args:
        storage: The table.
        position: The position of the stream.
        end: The position that it could go on to.
        newest: The latest snapshot.
        watermark: ``scan.bounded.watermark``, milliseconds since the epoch.

    Returns:
        `end`, or the position of the first snapshot from `position` on that is beyond it.
    """
    before = position
    for number in range(position.snapshot_id, end.snapshot_id):
        snapshot = find_changes(storage, newest, number)
        if snapshot.watermark is not None and snapshot.watermark > watermark:
            return before
        before = after(snapshot)
    return end


def earliest_changes(storage: TableStorage, newest: Snapshot | None) -> StreamPosition:
    """The position of the earliest snapshot whose changes can be read, for a start that is gone."""
    if newest is None:
        return latest(newest)
    present = _ids_with_changes(storage)
    return StreamPosition(min([*present, newest.id]))


def _ids_with_changes(storage: TableStorage) -> list[int]:
    """The ids of the snapshots whose changes can be read, ascending."""
    files, layout = storage.files, storage.layout
    return sorted({*changelog_file_ids(files, layout), *snapshot_file_ids(files, layout)})


def changes_of(storage: TableStorage, snapshot_id: int) -> Snapshot:
    """A snapshot whose changes can be read: one that is there, or has left its changelog.

    Raises:
        NotFound: Its changelog has expired, too, or it was never made.
    """
    try:
        return storage.snapshot(snapshot_id)
    except NotFound:
        changelog = read_changelog_file(storage.files, storage.layout, snapshot_id)
        if changelog is None:
            raise
        return changelog


def find_changes(storage: TableStorage, newest: Snapshot | None, snapshot_id: int) -> Snapshot:
    """A snapshot for its changes, like `changes_of`.

    Raises:
        NotFound: It has expired, its changelog too.
        Invalid: It is not there yet.
    """
    snapshot = _find(storage, newest, snapshot_id, changes=True)
    if snapshot is None:
        raise Invalid(f"table {storage.name}: snapshot {snapshot_id} is not there yet")
    return snapshot


def check_history(storage: TableStorage, position: StreamPosition, newest: Snapshot | None) -> None:
    """Check that what a stream has read is part of the table's history.

    One that has expired passes: it cannot be told apart.

    Raises:
        Invalid: The table was rolled back, replaced or created again.
    """
    known = position.known
    if known is not None and is_in_history(storage, known, newest) is False:
        raise Invalid(
            f"table {storage.name}: snapshot {known.id}, which the stream has read, is no longer "
            "part of the table's history: the table was rolled back, replaced by a branch or "
            "created again. Start again with a new checkpoint, from a full read or another snapshot"
        )


# What comes next --------------------------------------------------------------------------------


def next_plan(
    storage: TableStorage,
    position: StreamPosition,
    newest: Snapshot | None,
    predicate: Predicate | None = None,
) -> tuple[ScanPlan | None, StreamPosition]:
    """Plan what a reader wants next; `check_history` approves of its position.

    Snapshots without changes are passed over: compactions; overwrites, unless the table's options
    say otherwise; those without a changelog, where a changelog is kept.

    Args:
        storage: The table.
        position: The position to plan.
        newest: The latest snapshot, as the catalog says.
        predicate: The condition for wanted rows; each change is judged by itself.

    Returns:
        A plan with splits and the position after it; or None, when there is nothing yet, and the
        position to ask for again, which is further when snapshots were passed over.

    Raises:
        NotFound: The wanted snapshot has expired.
        Invalid: The wanted snapshot lies beyond the next one.
        CorruptData: A manifest is missing or malformed.
        Unsupported: The table's options ask for what Headwater does not do.
    """
    while True:
        snapshot = _find(storage, newest, position.snapshot_id, changes=position.changes)
        if snapshot is None:
            return None, position
        with reading_from(storage, position):
            plan = _plan(storage, position, snapshot, predicate)
        following = after(snapshot)
        if plan is not None and (plan.splits or not position.changes):
            return plan, following
        position = following


def _plan(
    storage: TableStorage,
    position: StreamPosition,
    snapshot: Snapshot,
    predicate: Predicate | None,
) -> ScanPlan | None:
    options = storage.schema.table_options
    keyed = bool(storage.schema.primary_keys)
    # What a producer of changelogs has not compacted yet will come as a changelog.
    levels = {
        ChangelogProducer.LOOKUP: 1,
        ChangelogProducer.FULL_COMPACTION: options.highest_level,
    }
    least = levels.get(options.changelog_producer, 0) if keyed else 0
    overwritten = snapshot.commit_kind is CommitKind.OVERWRITE
    if not position.changes:
        return plan_snapshot(
            storage,
            snapshot,
            predicate=predicate,
            min_level=least,
            created_since=position.created_since,
            # As the stream gives them when they are written, and not when they are compacted.
            with_postponed=not _keeps_changelog(storage),
            with_level_zero=True,
        )
    told = keyed and snapshot.changelog_manifest_list is not None
    if keyed and overwritten and options.streaming_read_overwrite and not told:
        return plan_overwritten(storage, snapshot, least, Pruner(storage, predicate))
    if _keeps_changelog(storage):
        return plan_changelog(storage, snapshot, predicate=predicate)
    wanted = overwritten and options.streaming_read_append_overwrite
    if snapshot.commit_kind is CommitKind.APPEND or wanted:
        return plan_delta(storage, snapshot, predicate=predicate)
    return None


@contextmanager
def reading_from(storage: TableStorage, position: StreamPosition) -> Generator[None]:
    """Call a batch expired whose files cannot be read because expiry has taken its snapshots.

    Args:
        storage: The table.
        position: The beginning of the batch: expiry takes the oldest snapshots first.

    Raises:
        NotFound: Its first snapshot has expired, or the table was dropped.
    """
    try:
        yield
    except (CorruptData, NotFound) as error:
        if error.resource_type is ResourceType.TABLE or not _has_expired(storage, position):
            raise
        raise expired(storage, position.snapshot_id) from error


def _has_expired(storage: TableStorage, position: StreamPosition) -> bool:
    """Whether what a position wants has expired, or its files are about to go."""
    number = position.snapshot_id
    if not position.changes:
        return rows_expired(storage, number)
    options = storage.schema.table_options
    tells_overwrites = options.streaming_read_overwrite and bool(storage.schema.primary_keys)
    return changes_expired(storage, number) or (
        tells_overwrites and number > 1 and rows_expired(storage, number - 1)
    )


def _keeps_changelog(storage: TableStorage) -> bool:
    producer = storage.schema.table_options.changelog_producer
    return bool(storage.schema.primary_keys) and producer is not ChangelogProducer.NONE


def _find(
    storage: TableStorage, newest: Snapshot | None, snapshot_id: int, *, changes: bool
) -> Snapshot | None:
    """A snapshot, or what is left of it for its changes; None when it is not there yet."""
    if newest is not None and newest.id == snapshot_id:
        return newest
    if newest is None or snapshot_id > newest.id:
        _check_reach(storage, newest, snapshot_id, changes=changes)
        return None
    try:
        return changes_of(storage, snapshot_id) if changes else storage.snapshot(snapshot_id)
    except NotFound:
        # The catalog decides first and writes the file then: a gap is not yet a loss.
        ids = snapshot_file_ids(storage.files, storage.layout)
        earliest = min((number for number in ids if number < newest.id), default=newest.id)
        if earliest > snapshot_id:
            raise expired(storage, snapshot_id, earliest) from None
        return None


def _check_reach(
    storage: TableStorage, newest: Snapshot | None, snapshot_id: int, *, changes: bool = True
) -> None:
    last = 0 if newest is None else newest.id
    if snapshot_id > last + 1:
        raise Invalid(
            f"table {storage.name}: snapshot {snapshot_id} is wanted, but the latest is "
            f"{last or 'none'}; the table was rolled back or created again. Reset the "
            "consumer, or start from another snapshot"
        )
    if snapshot_id < 1:
        raise Invalid(f"table {storage.name}: snapshot ids start at 1, not {snapshot_id}")
    if snapshot_id <= last:
        _find(storage, newest, snapshot_id, changes=changes)
