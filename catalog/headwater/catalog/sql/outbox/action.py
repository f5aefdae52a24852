"""The actions by which storage follows the database."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["SCHEMA_ACTIONS", "Action"]


class Action(StrEnum):
    """An action that storage has to take.

    Attributes:
        SCHEMA: Write the schema file `number`.
        SNAPSHOT: Write the snapshot file `number` and its hints.
        ROLLBACK: Delete what came after snapshot `number`. In `path`, the mark of that follows a
            line's end; see `headwater.catalog.sql.outbox.stale`.
        SCHEMA_ROLLBACK: Delete the schema files after `number`; likewise.
        FORK: Write a new branch's files, from snapshot `number` and the tag's file `path`.
        MOVE: Bring a renamed branch's files from the directory `path`.
        FORWARD: Replace what came after snapshot `number` by what the branch at `path` has; the
            mark follows.
        DROP: Delete the directory `path`.
        DROP_DATA: Delete what a table that is gone has at the place `path`, if it is its own.
    """

    SCHEMA = "schema"
    SNAPSHOT = "snapshot"
    ROLLBACK = "rollback"
    SCHEMA_ROLLBACK = "schema-rollback"
    FORK = "fork"
    MOVE = "move"
    FORWARD = "forward"
    DROP = "drop"
    DROP_DATA = "drop-data"


SCHEMA_ACTIONS = tuple(
    action.value
    for action in (
        Action.SCHEMA,
        Action.SCHEMA_ROLLBACK,
        Action.FORK,
        Action.MOVE,
        Action.FORWARD,
    )
)
"""The actions that a table's schema waits for; snapshots alone do not concern it."""
