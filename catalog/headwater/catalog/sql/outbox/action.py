"""The actions by which storage follows the database."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["SCHEMA_ACTIONS", "Action"]


class Action(StrEnum):
    """An action that storage has to take.

    Attributes:
        SCHEMA: Write the schema file `number`.
        SNAPSHOT: Write the snapshot file `number` and its hints.
        ROLLBACK: Delete what came after snapshot `number`; `document` has the marks of that, see
            `headwater.catalog.sql.outbox.stale`.
        SCHEMA_ROLLBACK: Delete the schema files after `number`, with their marks.
        FORK: Write a new branch's files, from snapshot `number` and the tag's file `path`.
        MOVE: Bring a renamed branch's files from the directory `path`.
        FORWARD: Replace what came after snapshot `number` by what the branch at `path` has, with
            the marks of what goes. Tags of snapshots before the branch's first one stay.
        DROP: Delete the directory `path`.
        DROP_DATA: Delete what a dropped table has at the location `path`, if it is its own.
        TAG: Write the file of tag `path`, which is `document`; over another one if `number` is 1.
        RENAME_TAG: Give the file of tag `path` the name `document`.
        CONSUMER: Write the file of consumer `path`, which is `document`.
        DELETE_ROOTS: Delete the snapshots, changelogs, tags and consumers of a deletion, which
            `document` describes; see `headwater.storage.maintenance.deletion`.
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
    TAG = "tag"
    RENAME_TAG = "rename-tag"
    CONSUMER = "consumer"
    DELETE_ROOTS = "delete-roots"


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
