"""The offsets of events, given after their transactions were committed.

An event's id is taken before its transaction is committed: whoever read by it would skip those that
are committed late. So the events that can be seen are numbered afterwards, in the order of their
ids, by one transaction at a time. What comes late gets a later offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import insert, literal, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import EventPositionRow, EventRow
from headwater.storage.errors import Unavailable

__all__ = [
    "DELETED",
    "NUMBERED",
    "NUMBERED_AT_ONCE",
    "SINK_PREFIX",
    "ensure_position",
    "number_events",
    "position_of",
]

NUMBERED = "numbered"
"""The name of the last offset that was given out."""

DELETED = "deleted"
"""The name of the last offset whose event is deleted."""

SINK_PREFIX = "sink:"
"""The beginning of the names of the last offsets that sinks have got."""

NUMBERED_AT_ONCE = 1000
"""The most events that one transaction numbers."""

_ATTEMPTS = 3


def number_events(database: SqlDatabase) -> int:
    """Number the events that can be seen and have no offset yet, in one transaction.

    Returns:
        How many there were.

    Raises:
        Unavailable: The database did not answer.
    """
    with database.read() as connection:
        unnumbered = select(EventRow.id).where(EventRow.position.is_(None)).limit(1)
        if connection.execute(unnumbered).first() is None:
            return 0
    ensure_position(database, NUMBERED)
    # Flushed: an offset that somebody saw must never be another event's.
    return database.write(_number)


def _number(connection: Connection) -> int:
    last = connection.execute(
        select(EventPositionRow.position).where(EventPositionRow.name == NUMBERED).with_for_update()
    ).scalar_one()
    # A statement of its own, which sees all that was committed before the lock was had.
    ids = (
        connection.execute(
            select(EventRow.id)
            .where(EventRow.position.is_(None))
            .order_by(EventRow.position, EventRow.id)
            .limit(NUMBERED_AT_ONCE)
        )
        .scalars()
        .all()
    )
    following = last + 1
    for run in _runs(ids):
        connection.execute(
            update(EventRow)
            .where(EventRow.id.in_(run))
            .values(position=EventRow.id + literal(following - run[0]))
        )
        following += len(run)
    connection.execute(
        update(EventPositionRow)
        .where(EventPositionRow.name == NUMBERED)
        .values(position=last + len(ids))
    )
    return len(ids)


def _runs(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ids that follow each other, together."""
    start = 0
    for at in range(1, len(ids) + 1):
        if at == len(ids) or ids[at] != ids[at - 1] + 1:
            yield ids[start:at]
            start = at


def position_of(connection: Connection, name: str) -> int:
    """A position; 0 when there is none of that name."""
    found = connection.execute(
        select(EventPositionRow.position).where(EventPositionRow.name == name)
    ).scalar_one_or_none()
    return found or 0


def ensure_position(database: SqlDatabase, name: str) -> None:
    """See that a position is there; one that is new is 0."""
    there = select(EventPositionRow.name).where(EventPositionRow.name == name)
    row = {"name": name, "position": 0, "fence": 0}
    for _ in range(_ATTEMPTS):
        with database.read() as connection:
            if connection.execute(there).first() is not None:
                return
        try:
            database.write(lambda connection: connection.execute(insert(EventPositionRow), row))
        except IntegrityError:
            continue  # somebody else made it meanwhile
    raise Unavailable("a position in the change feed is being made and removed; retry")
