"""Leases of consumers: one reader at a time may move a consumer.

A lease is a row. It is taken, made to last longer and checked under the row's lock, and a consumer
is moved while the lock is held: a reader that was paused, and whose lease another reader took,
finds that out before it can move anything.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.consumers import MAX_LEASE_MILLIS, ConsumerLease
from headwater.catalog.sql.database.models import ConsumerLeaseRow
from headwater.catalog.sql.queries.lookup import TableRecord
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.snapshot.consumer import check_consumer_id

__all__ = ["check_lease", "check_owner", "find_lease", "give_back", "revoke", "take_lease"]

_LONGEST_NAME = 255


def check_lease(consumer_id: str, owner: str, millis: int) -> None:
    """Refuse what cannot be a lease; raises Invalid."""
    check_consumer_id(consumer_id)
    if not owner.strip() or len(owner) > _LONGEST_NAME:
        raise Invalid(
            f"the owner of a lease is a name of 1 to {_LONGEST_NAME} characters, not '{owner}'"
        )
    if not 0 < millis <= MAX_LEASE_MILLIS:
        raise Invalid(
            f"a lease lasts 1 to {MAX_LEASE_MILLIS} milliseconds, not {millis}: readers that live "
            "longer renew it"
        )


def find_lease(
    connection: Connection, record: TableRecord, consumer_id: str, *, lock: bool = False
) -> ConsumerLease | None:
    """A consumer's lease, be it over or not."""
    query = select(ConsumerLeaseRow.owner, ConsumerLeaseRow.expires_at).where(
        *_here(record, consumer_id)
    )
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else ConsumerLease(consumer_id, row.owner, row.expires_at)


def take_lease(
    connection: Connection,
    record: TableRecord,
    wanted: ConsumerLease,
    now_millis: int,
    *,
    renew: bool,
) -> ConsumerLease | None:
    """Take a lease or have it last longer; the one in force after that.

    Raises:
        IntegrityError: Another reader took it at the same time.
    """
    present = find_lease(connection, record, wanted.consumer_id, lock=True)
    if present is None:
        if renew:
            return None
        row = {
            "table_id": record.id,
            "branch": record.branch,
            "consumer_id": wanted.consumer_id,
            "owner": wanted.owner,
            "expires_at": wanted.expires_at,
        }
        connection.execute(insert(ConsumerLeaseRow), row)
        return wanted
    is_free = present.expires_at <= now_millis and not renew
    if present.owner != wanted.owner and not is_free:
        return present
    connection.execute(
        update(ConsumerLeaseRow)
        .where(*_here(record, wanted.consumer_id))
        .values(owner=wanted.owner, expires_at=wanted.expires_at)
    )
    return wanted


def give_back(connection: Connection, record: TableRecord, consumer_id: str, owner: str) -> None:
    """Delete a lease that an owner has."""
    connection.execute(
        delete(ConsumerLeaseRow).where(*_here(record, consumer_id), ConsumerLeaseRow.owner == owner)
    )


def check_owner(connection: Connection, record: TableRecord, consumer_id: str, owner: str) -> None:
    """Lock an owner's lease until the transaction ends.

    Raises:
        Conflict: The owner does not have it.
    """
    present = find_lease(connection, record, consumer_id, lock=True)
    if present is None or present.owner != owner:
        now = "nobody" if present is None else f"'{present.owner}'"
        raise Conflict(
            f"table {record.identifier}: '{owner}' may not move consumer '{consumer_id}' any more: "
            f"its lease ended, and {now} has it now. Start it again to go on from where the "
            "consumer is"
        )


def revoke(
    connection: Connection, record: TableRecord, consumer_id: str, now_millis: int, *, force: bool
) -> None:
    """Delete the lease of a reader that is dead; or with `force`, of any reader.

    Raises:
        Conflict: The reader is alive.
    """
    present = find_lease(connection, record, consumer_id, lock=True)
    if present is None:
        return
    if present.expires_at > now_millis and not force:
        raise Conflict(
            f"table {record.identifier}: consumer '{consumer_id}' is in use by '{present.owner}', "
            f"whose lease lasts {present.expires_at - now_millis} ms unless it is renewed: stop "
            "that reader first, or force the move, which makes the reader fail"
        )
    give_back(connection, record, consumer_id, present.owner)


def _here(record: TableRecord, consumer_id: str) -> tuple[ColumnElement[bool], ...]:
    return (
        ConsumerLeaseRow.table_id == record.id,
        ConsumerLeaseRow.branch == record.branch,
        ConsumerLeaseRow.consumer_id == consumer_id,
    )
