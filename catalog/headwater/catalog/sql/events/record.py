"""Events written by the transaction that does what they tell.

Whoever changes a table calls `record_event` while holding the lock of the branch that is changed:
then the ids of its events are in the order in which they were committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import bindparam, insert, literal_column
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import Detail, EventType, ObjectKind, Outcome, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.origin import Origin, current_origin
from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import EventRow
from headwater.catalog.sql.database.prepared import Change, Prepared, numbered
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = [
    "ADDRESS",
    "DETAILS",
    "REQUEST",
    "CommitEvent",
    "event_row",
    "of_branch",
    "record_event",
    "record_event_in",
    "recording_commits",
]

ADDRESS, REQUEST, DETAILS = "a", "r", "d"
"""The members of an event's document."""


def record_event(
    connection: Connection,
    context: CatalogContext,
    type_: EventType,
    subject: Subject,
    details: Mapping[str, Detail] | None = None,
) -> None:
    """Write an event about something in a warehouse."""
    now = context.runtime.now_millis()
    record_event_in(connection, now, context.warehouse, type_, subject, details)


def record_event_in(
    connection: Connection,
    now: int,
    warehouse: str,
    type_: EventType,
    subject: Subject,
    details: Mapping[str, Detail] | None = None,
) -> None:
    """Write an event at a time, in milliseconds since the epoch; see `Event`."""
    row = event_row(now, warehouse, type_, subject, details or {}, Outcome.DONE)
    connection.execute(insert(EventRow), row)


def event_row(
    now: int,
    warehouse: str,
    type_: EventType,
    subject: Subject,
    details: Mapping[str, Detail],
    outcome: Outcome,
) -> dict[str, object]:
    """The row of an event; its author and origin are those of the caller's context."""
    return {
        "created_at": now,
        "warehouse": warehouse,
        "type": type_.value,
        "kind": subject.kind.value,
        "object_id": subject.id,
        "database": subject.database,
        "name": subject.name,
        "principal": current_name(),
        "outcome": outcome.value,
        "document": _document(current_origin(), details),
    }


def of_branch(branch: str) -> dict[str, Detail]:
    """The detail that names a branch; none for the main one."""
    return {} if branch == MAIN_BRANCH else {"branch": branch}


@dataclass(frozen=True)
class CommitEvent:
    """A commit that is to be recorded.

    Attributes:
        identifier: The table and branch.
        table_id: The table's id.
        snapshot: The snapshot.
        principal: The caller who offered it.
        origin: The request.
    """

    identifier: Identifier
    table_id: str
    snapshot: Snapshot
    principal: str | None
    origin: Origin | None


def recording_commits(context: CatalogContext, commits: Sequence[CommitEvent]) -> Change:
    """The statement that writes the events of some commits."""
    now = context.runtime.now_millis()
    rows: list[dict[str, str | int | None]] = [
        {
            "event_at": now,
            "event_warehouse": context.warehouse,
            "event_object": commit.table_id,
            "event_database": commit.identifier.database,
            "event_name": commit.identifier.table,
            "event_principal": commit.principal,
            "event_document": _document(
                commit.origin,
                {
                    "snapshot": commit.snapshot.id,
                    "kind": commit.snapshot.commit_kind.value,
                    **of_branch(commit.identifier.branch),
                },
            ),
        }
        for commit in commits
    ]
    return Change(_recording_commits(len(rows)), numbered(rows))


@cache
def _recording_commits(count: int) -> Prepared:
    return Prepared(
        insert(EventRow)
        .inline()
        .values(
            [
                {
                    "created_at": bindparam(f"event_at_{at}"),
                    "warehouse": bindparam(f"event_warehouse_{at}"),
                    "type": _constant(EventType.COMMIT_TABLE),
                    "kind": _constant(ObjectKind.TABLE),
                    "object_id": bindparam(f"event_object_{at}"),
                    "database": bindparam(f"event_database_{at}"),
                    "name": bindparam(f"event_name_{at}"),
                    "principal": bindparam(f"event_principal_{at}"),
                    "outcome": _constant(Outcome.DONE),
                    "document": bindparam(f"event_document_{at}"),
                }
                for at in range(count)
            ]
        )
    )


def _constant(text: str) -> object:
    # Of our own words only: what is the same each time need not travel.
    return literal_column(f"'{text}'")


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _document(origin: Origin | None, details: Mapping[str, Detail]) -> str:
    document: dict[str, object] = {DETAILS: details}
    if origin is not None:
        document[ADDRESS], document[REQUEST] = origin
    return _ENCODE(document)
