"""The position of a sink in the change feed, and the lease of the one who delivers to it.

The lease of who delivers is in the sink's row. Each time that it passes to another, its fence
grows, and the position moves only by the fence of the lease. Whoever was paused, and lost it
meanwhile, finds that out before it can move anything back or on.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import EventPositionRow, EventRow
from headwater.catalog.sql.events.numbering import SINK_PREFIX, ensure_position
from headwater.storage.errors import Conflict

__all__ = ["Lease", "SinkPosition", "Undelivered", "first_undelivered", "undelivered"]


@dataclass(frozen=True)
class Lease:
    """The right to deliver.

    Attributes:
        position: The offset of the last event that the sink has got.
        fence: Grows each time that the lease passes to another.
    """

    position: int
    fence: int


class SinkPosition:
    """The position and the lease of a sink, as seen by one who may deliver to it.

    Args:
        database: The database.
        sink: The sink's name.
        owner: The name of who may deliver, which nobody else has.
        lease_millis: The time after which another may deliver if this one is not heard of.
    """

    def __init__(self, database: SqlDatabase, sink: str, owner: str, lease_millis: int) -> None:
        self._database = database
        self._name = SINK_PREFIX + sink
        self._sink = sink
        self._owner = owner
        self._lease_millis = lease_millis

    def take(self) -> Lease | None:
        """Take the lease, or have it last longer; None while another has it.

        Raises:
            Unavailable: The database did not answer.
        """
        ensure_position(self._database, self._name)
        row = EventPositionRow
        query = select(row.position, row.fence, row.owner, row.expires_at).where(
            row.name == self._name
        )
        now = self._database.certain_now_millis()

        def is_taken(owner: str | None, expires_at: int | None) -> bool:
            is_over = expires_at is None or expires_at <= now
            return owner is not None and owner != self._owner and not is_over

        with self._database.read() as connection:
            found = connection.execute(query).one()
        if is_taken(found.owner, found.expires_at):
            return None

        def work(connection: Connection) -> Lease | None:
            held = connection.execute(query.with_for_update()).one()
            if is_taken(held.owner, held.expires_at):
                return None
            fence = held.fence if held.owner == self._owner else held.fence + 1
            values = {
                "owner": self._owner,
                "fence": fence,
                "expires_at": now + self._lease_millis,
            }
            connection.execute(update(row).where(row.name == self._name).values(values))
            return Lease(held.position, fence)

        return self._database.write(work)

    def advance(self, lease: Lease, position: int) -> Lease:
        """Note that the sink has got all up to an offset, and have the lease last longer.

        Raises:
            Conflict: Another has the lease.
            Unavailable: The database did not answer.
        """
        row = EventPositionRow
        moved = (
            update(row)
            .where(row.name == self._name, row.owner == self._owner, row.fence == lease.fence)
            .values(
                position=position,
                expires_at=self._database.certain_now_millis() + self._lease_millis,
            )
        )
        if not self._database.write(lambda connection: connection.execute(moved).rowcount):
            raise Conflict(f"another server delivers events to the {self._sink} now")
        return Lease(position, lease.fence)

    def give_back(self, lease: Lease) -> None:
        """Let another deliver at once; raises Unavailable."""
        row = EventPositionRow
        given = (
            update(row)
            .where(row.name == self._name, row.owner == self._owner, row.fence == lease.fence)
            .values(owner=None, expires_at=None)
        )
        self._database.write(lambda connection: connection.execute(given))


@dataclass(frozen=True)
class Undelivered:
    """The events that a sink has yet to get.

    Attributes:
        events: The number of events.
        oldest_millis: The age of the oldest, milliseconds; 0 when there is none.
    """

    events: int
    oldest_millis: int


def undelivered(connection: Connection, sink: str, numbered: int, now: int) -> Undelivered:
    """The events that a sink has yet to get, those without an offset included.

    Args:
        connection: A connection to the database.
        sink: The sink's name.
        numbered: The last offset that was given out.
        now: The time, milliseconds since the epoch.
    """
    row, position = EventRow, EventPositionRow
    got = func.coalesce(
        select(position.position).where(position.name == SINK_PREFIX + sink).scalar_subquery(), 0
    )
    # What is deleted has no row, wherever the position is.
    following = select(row.position, row.created_at).where(row.position > got)
    oldest = connection.execute(following.order_by(row.position).limit(1)).one_or_none()
    late = connection.execute(
        select(func.count(), func.min(row.created_at)).where(row.position.is_(None))
    ).one()
    events = late[0] + (0 if oldest is None else numbered - oldest.position + 1)
    since = late[1] if oldest is None else oldest.created_at
    return Undelivered(events, 0 if since is None else max(0, now - since))


def first_undelivered(connection: Connection) -> int | None:
    """The least offset that a sink has got all up to; None if there is no sink."""
    row = EventPositionRow
    is_sink = row.name.startswith(SINK_PREFIX, autoescape=True)
    return connection.execute(select(func.min(row.position)).where(is_sink)).scalar_one_or_none()
