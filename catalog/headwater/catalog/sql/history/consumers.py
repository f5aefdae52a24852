"""Consumers: they live on storage, where every engine moves them; their leases in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.consumers import ConsumerInfo, ConsumerLag, ConsumerLease
from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import SnapshotRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.consumer_leases import (
    check_lease,
    check_owner,
    give_back,
    revoke,
    take_lease,
)
from headwater.catalog.sql.history.references import (
    MAX_ATTEMPTS,
    raise_version,
    reference_table,
)
from headwater.catalog.sql.history.snapshot_reads import readable_table, snapshot_not_found
from headwater.catalog.sql.history.statistics import chunks, read_schema
from headwater.catalog.sql.history.stream_counts import COUNT_COLUMNS, StreamCounts
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.lookup import (
    TableRecord,
    find_snapshot_document,
    find_table,
    lock_branch,
    table_busy,
)
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import CorruptData
from headwater.storage.options import ChangelogProducer, TableOptions
from headwater.storage.snapshot.consumer import (
    Consumer,
    check_consumer,
    check_consumer_id,
    consumer_statuses,
    delete_consumer_file,
    read_consumer_file,
    write_consumer_file,
)
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["SqlConsumers"]

# Paimon's local files are overwritten in place: a reader may find one half written, and looks
# again (Consumer.java).
_READ_ATTEMPTS = 5
_SECONDS_BETWEEN_READS = 0.05


@dataclass(frozen=True)
class _Move:
    """A move of a consumer.

    Attributes:
        consumer_id: The consumer.
        moved: The consumer as it is afterwards; None if it is deleted.
        owner: The owner of its lease who moves it; None for a move by hand.
        is_reference: Whether expiry may have to keep more for it than before.
    """

    consumer_id: str
    moved: Consumer | None
    owner: str | None
    is_reference: bool = False


class SqlConsumers:
    """Implements `headwater.catalog.model.consumers.Consumers`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Settles open decisions before anything is shown.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._files = context.files
        self._outbox = outbox

    def list(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ConsumerInfo]:
        """The saved positions, by consumer id, without those that have expired."""
        check_page(max_results)
        record = readable_table(self._context, self._outbox, identifier)
        with self._context.database.read() as connection:
            options = read_schema(connection, record).table_options
        expired_before = self._expired_before(options)
        consumers: list[Consumer] = []
        next_token: str | None = None
        for consumer_id, moved_at in consumer_statuses(self._files, record.layout):
            if page_token and consumer_id <= page_token:
                continue
            if expired_before is not None and moved_at < expired_before:
                continue
            if len(consumers) == max_results:
                next_token = consumers[-1].consumer_id
                break
            consumer = self._read(record, consumer_id)
            if consumer is not None:
                consumers.append(replace(consumer, updated_at=moved_at))
        rows = self._snapshot_rows(record, consumers)
        items = [
            ConsumerInfo(
                item.consumer_id,
                item.next_snapshot,
                item.updated_at,
                self._lag(record, options, item, rows),
                _is_rolled_back(record, item, rows),
                item.full_read,
            )
            for item in consumers
        ]
        return Page(tuple(items), next_token)

    def reset(
        self,
        identifier: Identifier,
        consumer_id: str,
        next_snapshot: int | None,
        *,
        full_read: bool = False,
        owner: str | None = None,
        force: bool = False,
    ) -> None:
        """Move a consumer, creating it if need be; None deletes it."""
        wanted = None
        if next_snapshot is not None:
            wanted = Consumer(consumer_id, next_snapshot, full_read=full_read)
            check_consumer(wanted)
        for _ in range(MAX_ATTEMPTS):
            record = reference_table(self._context, self._outbox, identifier)
            move = self._planned(record, consumer_id, wanted, owner)
            now = self._context.database.certain_now_millis()
            if self._context.database.write(partial(self._reset, record, move, now, force)):
                if move.is_reference:
                    done = f"consumer '{consumer_id}' is set"
                    self._outbox.finish(record.id, record.branch, done)
                return
        raise table_busy(identifier)

    def _planned(
        self, record: TableRecord, consumer_id: str, wanted: Consumer | None, owner: str | None
    ) -> _Move:
        """A move, which changes what expiry has to keep unless it is one forward."""
        if wanted is None:
            return _Move(consumer_id, None, owner)
        moved = replace(wanted, last_uuid=self._uuid(record, wanted.last_snapshot))
        if not self._files.exists(record.layout.consumer(consumer_id)):
            check_consumer_id(consumer_id)
        present = self._present(record, consumer_id)
        if present is not None and present.next_snapshot <= wanted.next_snapshot:
            return _Move(consumer_id, moved, owner)
        self._require_snapshot(record, wanted)
        return _Move(consumer_id, moved, owner, is_reference=True)

    def _present(self, record: TableRecord, consumer_id: str) -> Consumer | None:
        """The saved position, unless it has expired or cannot be read: a reset mends it."""
        with self._context.database.read() as connection:
            expired_before = self._expired_before(read_schema(connection, record).table_options)
        statuses = dict(consumer_statuses(self._files, record.layout))
        moved_at = statuses.get(consumer_id)
        if moved_at is None or (expired_before is not None and moved_at < expired_before):
            return None
        with suppress(CorruptData):
            return read_consumer_file(self._files, record.layout, consumer_id)
        return None

    def _require_snapshot(self, record: TableRecord, wanted: Consumer) -> None:
        """Raise NotFound if a position is one of a snapshot whose changes have expired."""
        number, layout = wanted.next_snapshot, record.layout
        if number > record.snapshot_id:
            return
        paths = [layout.snapshot(number)]
        if not wanted.full_read:
            paths.append(layout.changelog(number))
        if not any(self._files.exists(path) for path in paths):
            raise snapshot_not_found(record.identifier, str(number))

    def _reset(
        self,
        seen: TableRecord,
        move: _Move,
        now: int,
        force: bool,
        connection: Connection,
    ) -> bool:
        """Move or delete a consumer; False if references changed since they were read."""
        # The branch, the table, the lease: in the order of those who take several.
        lock_branch(connection, seen.id, seen.branch)
        record = find_table(connection, self._context, seen.identifier)
        if record.id != seen.id:
            return False
        if move.is_reference:
            if not raise_version(connection, seen):
                return False
        elif move.moved is not None and record.references_version != seen.references_version:
            return False  # the consumer may have been moved back, or deleted for being idle
        # While the lease is locked, no other reader takes it and moves the consumer.
        if move.owner is None:
            revoke(connection, record, move.consumer_id, now, force=force)
        else:
            check_owner(connection, record, move.consumer_id, move.owner)
        self._apply(connection, record, move)
        if move.owner is None:
            # A reader that goes on leaves no event: it only reads.
            next_snapshot = None if move.moved is None else move.moved.next_snapshot
            details = {
                "consumer": move.consumer_id,
                "next": next_snapshot,
                **of_branch(record.branch),
            }
            subject = Subject.table(record.identifier, record.id)
            record_event(connection, self._context, EventType.RESET_CONSUMER, subject, details)
        return True

    def _apply(self, connection: Connection, record: TableRecord, move: _Move) -> None:
        if move.moved is None:
            delete_consumer_file(self._files, record.layout, move.consumer_id)
        elif move.is_reference:
            self._outbox.add(
                connection,
                Action.CONSUMER,
                record.id,
                record.branch,
                path=move.consumer_id,
                document=move.moved.to_json(),
            )
        else:
            write_consumer_file(self._files, record.layout, move.moved)

    def lease(
        self,
        identifier: Identifier,
        consumer_id: str,
        owner: str,
        millis: int,
        *,
        renew: bool = False,
    ) -> ConsumerLease | None:
        """Take the right to move a consumer, or have it last longer."""
        check_lease(consumer_id, owner, millis)
        now = self._context.database.certain_now_millis()
        wanted = ConsumerLease(consumer_id, owner, now + millis)

        def work(connection: Connection) -> ConsumerLease | None:
            record = find_table(connection, self._context, identifier)
            record.require_snapshots()
            lease = take_lease(connection, record, wanted, now, renew=renew)
            if renew and lease == wanted:
                self._keep_from_expiry(connection, record, consumer_id)
            return lease

        try:
            return self._context.database.write(work)
        except IntegrityError:
            # Another reader's row came first, or the table went: both are seen now.
            return self._context.database.write(work)

    def _keep_from_expiry(
        self, connection: Connection, record: TableRecord, consumer_id: str
    ) -> None:
        """Have the position of a reader that is alive not expire, however long nothing comes."""
        if read_schema(connection, record).table_options.consumer_expiration is None:
            return
        with suppress(CorruptData):
            present = read_consumer_file(self._files, record.layout, consumer_id)
            if present is not None:
                write_consumer_file(self._files, record.layout, present)

    def release(self, identifier: Identifier, consumer_id: str, owner: str) -> None:
        """Give a lease back."""

        def work(connection: Connection) -> None:
            record = find_table(connection, self._context, identifier)
            give_back(connection, record, consumer_id, owner)

        self._context.database.write(work)

    def _expired_before(self, options: TableOptions) -> int | None:
        expiration = options.consumer_expiration
        return None if expiration is None else self._context.runtime.earliest_millis() - expiration

    def _uuid(self, record: TableRecord, snapshot_id: int) -> str | None:
        """The uuid of a snapshot of the history; None if it has none, or is not known."""
        if not 0 < snapshot_id <= record.snapshot_id:
            return None
        with self._context.database.read() as connection:
            document = find_snapshot_document(connection, record.id, record.branch, snapshot_id)
        where = f"snapshot {snapshot_id} of {record.identifier}"
        return None if document is None else Snapshot.from_json(document, where).uuid

    def _read(self, record: TableRecord, consumer_id: str) -> Consumer | None:
        for _ in range(_READ_ATTEMPTS - 1):
            try:
                return read_consumer_file(self._files, record.layout, consumer_id)
            except CorruptData:
                self._context.runtime.sleep(_SECONDS_BETWEEN_READS)
        return read_consumer_file(self._files, record.layout, consumer_id)

    # Lag --------------------------------------------------------------------------------------

    def _snapshot_rows(
        self, record: TableRecord, consumers: Sequence[Consumer]
    ) -> Mapping[int, Row[Any]]:
        """The latest snapshot, and those that the consumers read next and, if known, last."""
        wanted = {item.next_snapshot for item in consumers}
        wanted |= {item.last_snapshot for item in consumers if item.last_uuid is not None}
        wanted = {number for number in wanted if 0 < number <= record.snapshot_id}
        if not wanted:
            return {}
        snapshot_rows: dict[int, Row[Any]] = {}
        with self._context.database.read() as connection:
            for chunk in chunks(sorted(wanted | {record.snapshot_id})):
                rows = connection.execute(
                    select(SnapshotRow.snapshot_id, SnapshotRow.document, *COUNT_COLUMNS).where(
                        SnapshotRow.table_id == record.id,
                        SnapshotRow.branch == record.branch,
                        SnapshotRow.snapshot_id.in_(chunk),
                    )
                )
                snapshot_rows |= {row.snapshot_id: row for row in rows}
        return snapshot_rows

    def _lag(
        self,
        record: TableRecord,
        options: TableOptions,
        consumer: Consumer,
        rows: Mapping[int, Row[Any]],
    ) -> ConsumerLag:
        next_snapshot = consumer.next_snapshot
        behind = max(0, record.snapshot_id + 1 - next_snapshot)
        if behind == 0:
            return ConsumerLag(0, 0, 0)
        first, last = rows.get(next_snapshot), rows.get(record.snapshot_id)
        if first is None:
            return ConsumerLag(behind)
        where = f"snapshot {next_snapshot} of {record.identifier}"
        unread = Snapshot.from_json(first.document, where)
        age = max(0, self._context.runtime.now_millis() - unread.time_millis)
        counts = _counts(first)
        total = None if last is None else _counts(last)
        # Only a merge tells how many rows a full read has.
        if consumer.full_read or counts is None or total is None or counts.since != total.since:
            return ConsumerLag(behind, None, age)
        before = counts.before(unread)
        if options.changelog_producer is ChangelogProducer.NONE:
            return ConsumerLag(behind, total.appended - before.appended, age)
        return ConsumerLag(behind, total.changes - before.changes, age)


def _is_rolled_back(record: TableRecord, consumer: Consumer, rows: Mapping[int, Row[Any]]) -> bool:
    """Whether the last snapshot that a consumer read is known to be gone from the history."""
    if consumer.last_uuid is None:
        return False
    last = consumer.last_snapshot
    if last > record.snapshot_id:
        return True
    row = rows.get(last)
    if row is None:
        return False
    where = f"snapshot {last} of {record.identifier}"
    return Snapshot.from_json(row.document, where).uuid != consumer.last_uuid


def _counts(row: Row[Any]) -> StreamCounts | None:
    return StreamCounts.of(row.appended_count, row.changelog_count, row.counted_since)
