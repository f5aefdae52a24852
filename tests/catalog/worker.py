"""A process of its own for the crash and race suites: commits, or dies at a chosen step.

Usage: python -m tests.catalog.worker URL LOCATION USER COMMITS

Without arguments it serves crashes, see `tests.forks`.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection, Engine, event
from tests.forks import serve_forks

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

TABLE = Identifier("sales", "orders")
EXTERNAL = Identifier("sales", "outside")


class Steps:
    """Counts the steps that a crash can fall between, and dies at the chosen one."""

    def __init__(self) -> None:
        self.die_at: int | None = None
        self._taken = 0

    def step(self) -> None:
        self._taken += 1
        if self._taken == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


class CrashingFiles(LocalFileAccess):
    """The local disk, with a step before and after each change."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._steps.step()
        super().write(path, data, durable=durable)
        self._steps.step()

    def write_if_absent(self, path: str, data: bytes) -> bool:
        self._steps.step()
        written = super().write_if_absent(path, data)
        self._steps.step()
        return written

    def delete(self, path: str) -> None:
        self._steps.step()
        super().delete(path)

    def delete_tree(self, directory: str) -> None:
        self._steps.step()
        super().delete_tree(directory)
        self._steps.step()


def crash(url: str, location: str, operation: str, step: str, snapshot_json: str) -> None:
    steps = Steps()
    catalog = SqlCatalog.open(url, warehouse="main", location=location, files=CrashingFiles(steps))

    # Before the database is told to commit; what follows the commit is the next step's "before".
    def on_commit(_: Connection) -> None:
        steps.step()

    event.listen(Engine, "commit", on_commit)
    snapshot = Snapshot.from_json(snapshot_json) if snapshot_json else None
    schema = Schema((DataField(0, "id", AtomicType(Root.BIGINT)),))
    # Another schema, and the partitions that there are.
    kept = catalog.tables.get(TABLE).schema
    extra = DataField(99, "extra", AtomicType(Root.BIGINT))
    replacement = replace(kept.to_schema(), fields=(*kept.fields[:3], extra))
    operations: dict[str, Callable[[], object]] = {
        "create": lambda: catalog.tables.create(Identifier("sales", "new"), schema),
        # Another value each time: an option that is set to what it is makes no version.
        "alter": lambda: catalog.tables.alter(TABLE, [SetOption("alteration", str(uuid.uuid4()))]),
        "alter-external": lambda: catalog.tables.alter(
            EXTERNAL, [AddColumn((f"c{step}",), AtomicType(Root.INT))]
        ),
        "drop": lambda: catalog.tables.drop(TABLE),
        "rollback": lambda: catalog.snapshots.rollback_to_snapshot(TABLE, 1),
        "replace": lambda: catalog.tables.replace(TABLE, replacement),
    }
    steps.die_at = int(step)
    if snapshot is not None:
        latest = catalog.snapshots.latest(TABLE)
        base = None if latest is None else latest.snapshot.uuid
        assert catalog.snapshots.commit(TABLE, None, snapshot, base, []).decided()
    else:
        operations[operation]()


def race(url: str, location: str, user: str, commits: int) -> None:
    catalog = SqlCatalog.open(url, warehouse="main", location=location)
    commit_many(catalog, user, commits)


def commit_many(catalog: SqlCatalog, user: str, commits: int) -> None:
    """Commit so often, trying each again on the latest snapshot until no conflict is left."""
    for identifier in range(commits):
        while True:
            latest = catalog.snapshots.latest(TABLE)
            base = None if latest is None else latest.snapshot
            name = SYSTEM_RUNTIME.new_uuid()
            snapshot = Snapshot.from_document(
                {
                    "version": 3,
                    "uuid": name,
                    "id": 1 if base is None else base.id + 1,
                    "schemaId": 0,
                    "baseManifestList": f"manifest-list-{name}-0",
                    "deltaManifestList": f"manifest-list-{name}-1",
                    "commitUser": user,
                    "commitIdentifier": identifier,
                    "commitKind": "APPEND",
                    "timeMillis": SYSTEM_RUNTIME.now_millis(),
                }
            )
            base_uuid = None if base is None else base.uuid
            if catalog.snapshots.commit(TABLE, None, snapshot, base_uuid, []).decided():
                break


if __name__ == "__main__":
    if sys.argv[1:]:
        race(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        serve_forks(crash)
