"""Snapshot commits.

One transaction decides (see ``docs/decisions/0001-commit-protocol.md``); then storage follows.
Snapshots of several tables that are offered at the same time share their transactions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache, partial
from typing import TypeAlias

from sqlalchemy import bindparam, case, insert, literal_column, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.origin import Origin, current_origin
from headwater.catalog.model.principal import current_name
from headwater.catalog.model.tables import dropped_table
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, SnapshotRow
from headwater.catalog.sql.database.prepared import (
    Change,
    Prepared,
    keyed,
    numbered,
    padded,
    run_together,
)
from headwater.catalog.sql.events.record import CommitEvent, recording_commits
from headwater.catalog.sql.history.preceding import Preceding, preceding
from headwater.catalog.sql.history.statistics import Growth, growing, snapshot_row
from headwater.catalog.sql.history.stream_counts import StreamCounts
from headwater.catalog.sql.outbox.mirror_files import PlaceTaken, is_cut_off, is_taken
from headwater.catalog.sql.outbox.outbox import Committed, Outbox
from headwater.catalog.sql.queries.lookup import (
    Head,
    TableRecord,
    find_tables,
    lock_branches,
    require_table,
)
from headwater.storage.commit.fate import DEFAULT_TIMEOUT_MILLIS
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
    OutcomeUnknown,
    Unavailable,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.steps import current_step, step, together
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics

__all__ = ["MOST_AT_ONCE", "Commits", "Offer"]

# A lost answer is asked for so often, and for no longer than a writer waits by default: the
# writer that offered the snapshot (`headwater.storage.commit.fate`) goes on for its own time then.
_UNKNOWN_OUTCOMES = 3
_UNKNOWN_SECONDS = DEFAULT_TIMEOUT_MILLIS / 1000
MOST_AT_ONCE = 32
"""The number of snapshots that one transaction takes."""


@dataclass(frozen=True)
class Offer:
    """A snapshot that is to be the latest; see `Snapshots.commit`.

    Attributes:
        identifier: The table and branch.
        table_id: Its id, if the caller knows it.
        snapshot: The snapshot.
        base_uuid: The uuid of the one before it.
        statistics: The changes to the statistics of partitions.
        principal: The principal who offers it.
        origin: The request that it came with.
        step: The step that it is a part of, see `headwater.storage.steps`.
    """

    identifier: Identifier
    table_id: str | None
    snapshot: Snapshot
    base_uuid: str | None
    statistics: Sequence[PartitionStatistics]
    principal: str | None = field(default_factory=current_name)
    origin: Origin | None = field(default_factory=current_origin)
    step: object = field(default_factory=current_step, compare=False, repr=False)

    def follows(self, head: Head) -> bool:
        """Whether it builds on what is the latest."""
        if head.snapshot_id != self.snapshot.id - 1:
            return False
        # A rollback of the schema at the same time must not take away what this names.
        if head.schema_id < self.snapshot.schema_id:
            return False
        if self.base_uuid is not None:
            return head.snapshot_uuid == self.base_uuid
        # A client from before uuids sends none: the number alone decides, or one commit of a newer
        # client would lock it out for ever.
        return self.snapshot.uuid is None or head.snapshot_uuid is None


class _Outcome(Enum):
    DONE = auto()
    REPEATED = auto()
    CONFLICT = auto()
    SETTLE_FIRST = auto()
    WAITS_FOR_ANOTHER = auto()


_TAKEN = (_Outcome.DONE, _Outcome.REPEATED)

# What is decided about an offer, or the error that refuses it.
_Decision: TypeAlias = tuple[_Outcome, TableRecord] | HeadwaterError
_Also: TypeAlias = Callable[[Connection, TableRecord], None]
_Row: TypeAlias = Mapping[str, str | int | None]


@cache
def _moving(count: int) -> Prepared:
    """Branches of different tables go on by one snapshot each."""
    heads = keyed(count, table_id=BranchRow.table_id, branch=BranchRow.branch)
    uuids = case(*((head, bindparam(f"uuid_{at}")) for at, head in enumerate(heads)))
    return Prepared(
        update(BranchRow)
        .where(or_(*heads))
        .values(snapshot_id=BranchRow.snapshot_id + literal_column("1"), snapshot_uuid=uuids)
    )


_COLUMNS = tuple(column.name for column in SnapshotRow.__table__.columns)


@cache
def _inserting(count: int) -> Prepared:
    return Prepared(
        insert(SnapshotRow)
        .inline()
        .values([{name: bindparam(f"{name}_{at}") for name in _COLUMNS} for at in range(count)])
    )


class Commits:
    """Commits snapshots of one warehouse's tables.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Writes the snapshot files.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox

    def commit(self, offer: Offer, also: _Also | None = None) -> CommitAnswer:
        """Try to make a snapshot the latest; see `Snapshots.commit`.

        Args:
            offer: The snapshot.
            also: Changes more in the same transaction, or raises and so takes it back. It is
                called again when an answer was lost.
        """
        with step("commit", table=str(offer.identifier)):
            answer = self._commit([offer], also)[0]
        if isinstance(answer, HeadwaterError):
            raise answer
        return answer

    def commit_each(self, offers: Sequence[Offer]) -> Sequence[CommitAnswer | HeadwaterError]:
        """Likewise for snapshots of several tables, in one transaction where that can be.

        One that is refused takes nothing from the others, but they wait for each other's files.

        Args:
            offers: The snapshots, at most `MOST_AT_ONCE`.

        Returns:
            For each what `commit` returns, or raises.
        """
        with together("commit", [offer.step for offer in offers], offers=len(offers)):
            return self._commit(offers, None)

    def _commit(
        self, offers: Sequence[Offer], also: _Also | None
    ) -> Sequence[CommitAnswer | HeadwaterError]:
        answers: dict[int, CommitAnswer | HeadwaterError] = {}
        unknown = 0
        end = 0.0
        while places := [at for at in range(len(offers)) if at not in answers]:
            turn = [offers[at] for at in places]
            try:
                self._outbox.marker.require()
                decide = partial(self._decide, turn, also)
                with step("commit: decide"):
                    decisions = self._context.database.write(decide, by_keys=True)
            except OutcomeUnknown as error:
                # Offered again, a snapshot that was taken is found in the history.
                unknown += 1
                now = self._context.runtime.monotonic()
                end = end or now + _UNKNOWN_SECONDS
                if unknown > _UNKNOWN_OUTCOMES or now >= end:
                    answers |= dict.fromkeys(places, CommitAnswer.unknown(error))
            except (IntegrityError, HeadwaterError) as error:
                if unknown:
                    # What this transaction is told says nothing of the one before it.
                    answers |= dict.fromkeys(places, CommitAnswer.unknown(_as_known(error)))
                elif isinstance(error, Unavailable):
                    answers |= dict.fromkeys(places, CommitAnswer.not_sent(error))
                elif len(places) > 1:
                    # One spoils it for all: each is decided alone.
                    answers |= {at: self._commit([offers[at]], None)[0] for at in places}
                else:
                    # Two commits met at the unique key of the snapshot's number.
                    refused = CommitAnswer.of(False)
                    answers[places[0]] = error if isinstance(error, HeadwaterError) else refused
            else:
                with step("commit: follow"):
                    followed = self._follow(turn, decisions, is_unknown=unknown > 0)
                answers |= {places[at]: answer for at, answer in followed.items()}
        return [answers[at] for at in range(len(offers))]

    def _follow(
        self, offers: Sequence[Offer], decisions: Sequence[_Decision], *, is_unknown: bool
    ) -> Mapping[int, CommitAnswer | HeadwaterError]:
        """Let storage follow; the answers that are known then, by their place."""
        answers: dict[int, CommitAnswer | HeadwaterError] = {}
        done: dict[int, Committed] = {}
        for at, (offer, decision) in enumerate(zip(offers, decisions, strict=True)):
            if isinstance(decision, HeadwaterError):
                answers[at] = decision
                continue
            outcome, record = decision
            if outcome is _Outcome.CONFLICT:
                answers[at] = CommitAnswer.of(False)
            elif outcome is _Outcome.DONE:
                done[at] = Committed(record.id, record.layout, offer.snapshot)
            elif outcome is not _Outcome.WAITS_FOR_ANOTHER:
                try:
                    self._outbox.settle(record.id, record.branch)
                except HeadwaterError as error:
                    if outcome is _Outcome.REPEATED:
                        answers[at] = _not_followed(offer, error)
                    elif is_unknown:
                        answers[at] = CommitAnswer.unknown(error)
                    else:
                        answers[at] = _not_begun(offer, error)
                else:
                    if outcome is _Outcome.REPEATED:
                        answers[at] = CommitAnswer.of(True)
        if done:
            failures = self._outbox.follow(list(done.values()))
            for at, failure in zip(done, failures, strict=True):
                taken = CommitAnswer.of(True)
                answers[at] = taken if failure is None else _not_followed(offers[at], failure)
        return answers

    def _decide(
        self, offers: Sequence[Offer], also: _Also | None, connection: Connection
    ) -> Sequence[_Decision]:
        records = find_tables(connection, self._context, [offer.identifier for offer in offers])
        decisions: dict[int, _Decision] = {}
        # Of each table one snapshot at a time, of whichever branch.
        turns: dict[str, tuple[int, TableRecord]] = {}
        for at, (offer, found) in enumerate(zip(offers, records, strict=True)):
            try:
                record = _table_of(offer, found)
            except HeadwaterError as error:
                decisions[at] = error
                continue
            if record.is_pending:
                decisions[at] = (_Outcome.SETTLE_FIRST, record)
            elif record.id in turns:
                decisions[at] = (_Outcome.WAITS_FOR_ANOTHER, record)
            else:
                turns[record.id] = (at, record)
        # Before the branches are locked: a store that is far away takes its time.
        occupied, cut_off = self._outbox.obstructed(
            {
                at: (record.layout, offers[at].snapshot.id, offers[at].base_uuid)
                for at, record in turns.values()
            }
        )
        places = [(record.id, record.branch) for _, record in turns.values()]
        heads = lock_branches(connection, places) if places else {}
        moving: list[tuple[Offer, TableRecord]] = []
        for at, record in turns.values():
            head = heads.get(record.id)
            if head is not None and offers[at].follows(head):
                obstacle = None
                if at in occupied or at in cut_off:
                    obstacle = self._obstacle(connection, offers[at], record, at in cut_off)
                if obstacle is not None:
                    decisions[at] = obstacle
                    continue
                moving.append((offers[at], record))
                decisions[at] = (_Outcome.DONE, record)
            else:
                decisions[at] = self._unmoved(connection, offers[at], record)
        added = [(record.id, record.branch, offer.snapshot) for offer, record in moving]
        before = preceding(connection, added)
        fresh: list[tuple[Offer, TableRecord]] = []
        for offer, record in moving:
            twin = before[record.id].with_uuid
            if twin is None:
                fresh.append((offer, record))
            else:
                decisions[turns[record.id][0]] = _not_unique(offer, twin)
        if fresh:
            self._move(connection, fresh, before)
        if also is not None:
            for decision in decisions.values():
                if not isinstance(decision, HeadwaterError) and decision[0] in _TAKEN:
                    also(connection, decision[1])
        return [decisions[at] for at in range(len(offers))]

    def _obstacle(
        self, connection: Connection, offer: Offer, record: TableRecord, seems_cut_off: bool
    ) -> _Decision | None:
        """The error about files that do not agree with the history; None to go on."""
        now = find_tables(connection, self._context, [offer.identifier])[0]
        if now is None or now.is_pending:
            # A rollback, perhaps, that has yet to delete the file.
            return _Outcome.SETTLE_FIRST, record
        path = record.layout.snapshot(offer.snapshot.id)
        files, number = self._context.files, offer.snapshot.id
        if is_taken(files, path, offer.snapshot.to_json()):
            return _refusal(offer, PlaceTaken(path))
        # Once more: the one that it follows may have come meanwhile.
        if seems_cut_off and is_cut_off(files, record.layout, number, offer.base_uuid):
            return _cut_off(offer, record)
        return None

    def _move(
        self,
        connection: Connection,
        moving: Sequence[tuple[Offer, TableRecord]],
        before: Mapping[str, Preceding],
    ) -> None:
        """Make the snapshots the latest; the branches' locks are held."""
        rows: list[_Row] = []
        for offer, record in moving:
            snapshot = offer.snapshot
            known = before[record.id]
            sizes = known.sizes.plus(offer.statistics)
            row = snapshot_row(record, snapshot, sizes, offer.statistics)
            rows.append({**row, **StreamCounts.following(known.counts, snapshot).columns()})
        heads = [
            {name: row[name] for name in ("table_id", "branch", "uuid")} for row in padded(rows)
        ]
        growths = [Growth(record, offer.statistics, offer.principal) for offer, record in moving]
        done = [Committed(record.id, record.layout, offer.snapshot) for offer, record in moving]
        events = [
            CommitEvent(record.identifier, record.id, offer.snapshot, offer.principal, offer.origin)
            for offer, record in moving
        ]
        run_together(
            connection,
            [
                Change(_moving(len(heads)), numbered(heads)),
                Change(_inserting(len(rows)), numbered(rows)),
                *growing(connection, self._context, growths),
                recording_commits(self._context, events),
                self._outbox.adding(done),
            ],
        )

    def _unmoved(self, connection: Connection, offer: Offer, record: TableRecord) -> _Decision:
        """The answer to a snapshot that does not build on the latest."""
        known = self._known(connection, record, offer.snapshot)
        if known is not None:
            if json.loads(known) == json.loads(offer.snapshot.to_json()):
                return _Outcome.REPEATED, record
            return _not_unique(offer, offer.snapshot.id)
        if offer.snapshot.schema_id > record.schema_id:
            return Invalid(
                f"table {record.identifier}: snapshot {offer.snapshot.id} names schema "
                f"{offer.snapshot.schema_id}, but the latest is {record.schema_id}"
            )
        return _Outcome.CONFLICT, record

    def _known(self, connection: Connection, record: TableRecord, snapshot: Snapshot) -> str | None:
        """The text of this very snapshot if it was committed before, the latest or not.

        Answering None for one that is in the history would make its client write it again.
        """
        row = connection.execute(
            select(SnapshotRow.uuid, SnapshotRow.document).where(
                SnapshotRow.table_id == record.id,
                SnapshotRow.branch == record.branch,
                SnapshotRow.snapshot_id == snapshot.id,
            )
        ).one_or_none()
        if row is None:
            return None
        if snapshot.uuid is None:
            is_same = bool(json.loads(row.document) == json.loads(snapshot.to_json()))
        else:
            is_same = bool(row.uuid == snapshot.uuid)
        return str(row.document) if is_same else None


def _table_of(offer: Offer, record: TableRecord | None) -> TableRecord:
    """The table.

    Raises:
        NotFound, Unsupported: Nothing can be committed to it.
        Invalid: No engine could read the snapshot, or it has the uuid of the one that it builds on,
            and no client could tell which of them it sees.
    """
    record = require_table(offer.identifier, record)
    if offer.table_id not in (None, record.id):
        raise dropped_table(offer.identifier)
    record.require_snapshots()
    offer.snapshot.require_committable()
    if offer.snapshot.uuid is not None and offer.snapshot.uuid == offer.base_uuid:
        raise Invalid(
            f"table {offer.identifier}: snapshot {offer.snapshot.id} has the uuid of its base, "
            f"{offer.base_uuid}; give each snapshot a uuid of its own"
        )
    return record


def _not_unique(offer: Offer, number: int) -> Conflict:
    return Conflict(
        f"table {offer.identifier}: a snapshot with uuid {offer.snapshot.uuid} was committed with "
        f"another content, as snapshot {number}; nothing was committed now. Give each snapshot a "
        "uuid of its own"
    )


def _not_followed(offer: Offer, error: HeadwaterError) -> CommitAnswer:
    # Decided, and not to be seen yet: any other error would pass for a refusal.
    answer = OutcomeUnknown(
        f"snapshot {offer.snapshot.id} of table {offer.identifier} is decided on but cannot be "
        f"served until storage follows: {error.message}"
    )
    answer.__cause__ = error
    return CommitAnswer.unknown(answer)


def _not_begun(offer: Offer, error: HeadwaterError) -> CommitAnswer | HeadwaterError:
    """The answer where a decision before this one waits for storage."""
    if isinstance(error, PlaceTaken):
        return _refusal(offer, error)
    return CommitAnswer.not_sent(error) if isinstance(error, Unavailable) else error


def _refusal(offer: Offer, error: PlaceTaken) -> Conflict:
    answer = Conflict(
        f"table {offer.identifier}: snapshot {offer.snapshot.id} was not committed, and no other "
        f"can be: {error.message}"
    )
    answer.__cause__ = error
    return answer


def _cut_off(offer: Offer, record: TableRecord) -> Conflict:
    """The error about a history on storage that is not the database's."""
    number = offer.snapshot.id
    difference = (
        f"{record.layout.snapshot(number - 1)} is not the file of the snapshot that it follows"
        if number > 1
        else f"it would be the first, and {record.layout.latest_hint} is there"
    )
    return Conflict(
        f"table {offer.identifier}: snapshot {number} was not committed, and no other can be: "
        f"{difference}. The catalog's database and storage differ, as after the restore of a "
        "backup: run 'headwater reconcile'"
    )


def _as_known(error: IntegrityError | HeadwaterError) -> HeadwaterError:
    if isinstance(error, HeadwaterError):
        return error
    return OutcomeUnknown("two commits met in the catalog's database")
