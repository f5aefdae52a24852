"""Events: who did what to which object, from where, with which outcome; the change feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Invalid

__all__ = [
    "ANY_EVENT",
    "MOST_EVENTS",
    "Detail",
    "Event",
    "EventFilter",
    "EventPage",
    "EventType",
    "Events",
    "ObjectKind",
    "Outcome",
    "Subject",
    "check_bounds",
]

MOST_EVENTS = 1000
"""The largest page of events."""


Detail: TypeAlias = str | int | bool | Sequence[str] | None
"""A fact that an event tells beside the thing that it is about."""


class ObjectKind(StrEnum):
    """The kind of thing that an event is about.

    Attributes:
        REQUEST: A request; nothing more is known of what it was about.
    """

    WAREHOUSE = "warehouse"
    DATABASE = "database"
    TABLE = "table"
    VIEW = "view"
    FUNCTION = "function"
    TOKEN = "token"
    GROUP = "group"
    REQUEST = "request"


class Outcome(StrEnum):
    """The outcome of what an event tells.

    Attributes:
        DONE: It is done: the event was written by the transaction that did it.
        DENIED: It was refused to the caller; nothing was changed.
    """

    DONE = "done"
    DENIED = "denied"


class EventType(StrEnum):
    """The kinds of change. Those that the API makes are named as its operations are.

    Attributes:
        CLAIM_WAREHOUSE: A server was started with a warehouse in a new place.
        MOVE_WAREHOUSE: The files of a warehouse lie in another place.
        ROTATE_KEY: A warehouse's options, or an access key's secret, were encrypted with a new key.
        RECONCILE_TABLE: The catalog and storage were made to agree about a table.
        REFUSED: A request was refused; `Event.details` has its operation, status and count.
        READ: Something was read; `Event.details` has the operation and the count.
    """

    CREATE_DATABASE = "createDatabase"
    ALTER_DATABASE = "alterDatabase"
    DROP_DATABASE = "dropDatabase"
    CREATE_TABLE = "createTable"
    REGISTER_TABLE = "registerTable"
    RENAME_TABLE = "renameTable"
    ALTER_TABLE = "alterTable"
    REPLACE_TABLE = "replaceTable"
    DROP_TABLE = "dropTable"
    COMMIT_TABLE = "commitTable"
    ROLLBACK_TABLE = "rollbackTable"
    ROLLBACK_SCHEMA = "rollbackSchema"
    CREATE_TAG = "createTag"
    REPLACE_TAG = "replaceTag"
    RENAME_TAG = "renameTag"
    DELETE_TAG = "deleteTag"
    CREATE_BRANCH = "createBranch"
    DROP_BRANCH = "dropBranch"
    RENAME_BRANCH = "renameBranch"
    FORWARD_BRANCH = "forwardBranch"
    CREATE_PARTITIONS = "createPartitions"
    DROP_PARTITIONS = "dropPartitions"
    MARK_DONE_PARTITIONS = "markDonePartitions"
    RESET_CONSUMER = "resetConsumer"
    CREATE_VIEW = "createView"
    ALTER_VIEW = "alterView"
    REPLACE_VIEW = "replaceView"
    RENAME_VIEW = "renameView"
    DROP_VIEW = "dropView"
    CREATE_FUNCTION = "createFunction"
    ALTER_FUNCTION = "alterFunction"
    REPLACE_FUNCTION = "replaceFunction"
    DROP_FUNCTION = "dropFunction"
    GRANT_PERMISSION = "grantPermission"
    REVOKE_PERMISSION = "revokePermission"
    CREATE_POLICY = "createPolicy"
    DROP_POLICY = "dropPolicy"
    UPSERT_LABEL = "upsertLabel"
    DELETE_LABEL = "deleteLabel"
    RESTORE_TABLE = "restoreTable"
    PURGE_TABLE = "purgeTable"
    SET_DATABASE_PROTECTION = "setDatabaseProtection"
    SET_TABLE_PROTECTION = "setTableProtection"
    ADD_WAREHOUSE = "addWarehouse"
    SET_WAREHOUSE = "setWarehouse"
    REMOVE_WAREHOUSE = "removeWarehouse"
    CREATE_TOKEN = "createToken"
    CREATE_TEMPORARY_KEY = "createTemporaryKey"
    REVOKE_TOKEN = "revokeToken"
    ADD_MEMBER = "addMember"
    REMOVE_MEMBER = "removeMember"
    CLAIM_WAREHOUSE = "claimWarehouse"
    MOVE_WAREHOUSE = "moveWarehouse"
    ROTATE_KEY = "rotateKey"
    RECONCILE_TABLE = "reconcileTable"
    REFUSED = "refused"
    READ = "read"


@dataclass(frozen=True)
class Subject:
    """The thing that an event is about, as it was called before what the event tells.

    Attributes:
        kind: Its kind.
        name: Its name; a table's has no branch, which is in `Event.details`.
        id: Its id, which stays when its name changes; empty for what has none.
        database: The database that it is in; empty for what is in none.
    """

    kind: ObjectKind
    name: str
    id: str = ""
    database: str = ""

    @staticmethod
    def table(identifier: Identifier, table_id: str) -> Subject:
        """A table."""
        return Subject(ObjectKind.TABLE, identifier.table, table_id, identifier.database)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}" if self.database else self.name or self.id


@dataclass(frozen=True)
class Event:
    """Something that somebody did, or was refused.

    Attributes:
        offset: Its place in the feed, from 1 on; of two events of a table and branch, the one that
            was committed first has the smaller.
        at: The time, milliseconds since the epoch.
        warehouse: The warehouse; empty for what is about all of them.
        type: The change.
        subject: The thing that it was done to.
        principal: The caller; None if nobody is known.
        address: The network address of the client; None without a server.
        request_id: The id of the request; None without a server.
        outcome: The outcome.
        details: A few facts, such as a commit's ``snapshot`` and ``kind``; never data or secrets.
    """

    offset: int
    at: int
    warehouse: str
    type: EventType
    subject: Subject
    principal: str | None
    address: str | None
    request_id: str | None
    outcome: Outcome
    details: Mapping[str, Detail]


@dataclass(frozen=True)
class EventFilter:
    """The events that are asked for: those that meet every condition that is given.

    Attributes:
        database: The name of the database that they are about, or that what they are about is in.
        table: The name that a table, view or function of `database` had.
        object_id: The id of what they are about.
        principal: The caller.
    """

    database: str | None = None
    table: str | None = None
    object_id: str | None = None
    principal: str | None = None

    def __post_init__(self) -> None:
        if self.table is not None and self.database is None:
            raise Invalid(f"events of table '{self.table}': name its database, too")


ANY_EVENT = EventFilter()
"""No condition."""


@dataclass(frozen=True)
class EventPage:
    """A part of the feed.

    Attributes:
        events: In the order of their offsets; there may be fewer than asked for, or none, although
            more follow.
        next_after: The offset after which to go on.
        is_end: Whether nothing more was there.
    """

    events: Sequence[Event]
    next_after: int
    is_end: bool


class Events(Protocol):
    """The change feed, as seen from one warehouse."""

    def read(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        only: EventFilter = ANY_EVENT,
        all_warehouses: bool = False,
    ) -> EventPage:
        """The events after an offset, in their order.

        Args:
            after: The offset; 0 begins with the oldest that is kept.
            limit: The number of events to answer with, at most `MOST_EVENTS`.
            only: Conditions.
            all_warehouses: Whether to read the events of all warehouses of the database, and those
                about tokens and groups, which belong to none.

        Raises:
            Invalid: A number is out of bounds, or the offset was never given out.
            NotFound: Events after the offset were deleted, as their retention had ended.
        """
        ...


def check_bounds(after: int, limit: int) -> None:
    """Refuse an offset or a number of events out of bounds; raises Invalid."""
    if not 0 <= after < 2**63:
        raise Invalid(f"{after} is not the offset of an event; 0 begins with the oldest")
    if not 1 <= limit <= MOST_EVENTS:
        raise Invalid(f"a page holds 1 to {MOST_EVENTS} events, not {limit}")
