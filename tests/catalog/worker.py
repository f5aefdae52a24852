"""Processes of their own for the crash and race suites: they commit, or die at a chosen step.

Usage: python -m tests.catalog.worker URL LOCATION COMMITS USER ...

Each user commits in a process of its own. Without arguments it serves crashes, see `tests.forks`.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from tempfile import TemporaryDirectory

import pyarrow as pa
from sqlalchemy import Connection, Engine, event
from tests.compiled_statements import share_compiled_statements
from tests.dying_files import SteppedFiles
from tests.forks import serve_forks

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.storage.maintenance.deletion import Deletion, Removal
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

TABLE = Identifier("sales", "orders")
EXTERNAL = Identifier("sales", "outside")
EXPIRY = Removal(snapshots_before=3, changelogs_before=2, tags={"old": 1})


class Steps:
    """Counts the steps that a crash can fall between, and dies at the chosen one."""

    def __init__(self) -> None:
        self.die_at: int | None = None
        self._taken = 0

    def step(self) -> None:
        self._taken += 1
        if self._taken == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def crash(url: str, location: str, operation: str, step: str, snapshot_json: str) -> None:
    steps = Steps()
    files = SteppedFiles(steps.step)
    catalog = SqlCatalog.open(url, warehouse="main", location=location, files=files)

    # Before the database is told to commit; what follows the commit is the next step's "before".
    def on_commit(_: Connection) -> None:
        steps.step()

    event.listen(Engine, "commit", on_commit)
    operate = _operation(catalog, operation, step, snapshot_json)
    steps.die_at = int(step)
    operate()


def _operation(
    catalog: SqlCatalog, operation: str, step: str, snapshot_json: str
) -> Callable[[], object]:
    schema = Schema((DataField(0, "id", AtomicType(Root.BIGINT)),))
    # Another schema, and the partitions that there are.
    kept = catalog.tables.get(TABLE).schema
    extra = DataField(99, "extra", AtomicType(Root.BIGINT))
    replacement = replace(kept.to_schema(), fields=(*kept.fields[:3], extra))
    operations: dict[str, Callable[[], object]] = {
        "commit": lambda: _commit(catalog, Snapshot.from_json(snapshot_json)),
        "write": lambda: write_numbered(catalog, int(step)),
        "create": lambda: catalog.tables.create(Identifier("sales", "new"), schema),
        # Another value each time: an option that is set to what it is makes no version.
        "alter": lambda: catalog.tables.alter(TABLE, [SetOption("alteration", str(uuid.uuid4()))]),
        "alter-external": lambda: catalog.tables.alter(
            EXTERNAL, [AddColumn((f"c{step}",), AtomicType(Root.INT))]
        ),
        "drop": lambda: catalog.tables.drop(TABLE),
        "rollback": lambda: catalog.snapshots.rollback_to_snapshot(TABLE, 1),
        "replace": lambda: catalog.tables.replace(TABLE, replacement),
        "create a tag": lambda: catalog.tags.create(TABLE, "new", 2),
        "rename a tag": lambda: catalog.tags.rename(TABLE, "old", "new"),
        "replace a tag": lambda: catalog.tags.replace(TABLE, "old", 2),
        "delete a tag": lambda: catalog.tags.delete(TABLE, "old"),
        "set a consumer": lambda: catalog.consumers.reset(TABLE, "billing", 1),
        "delete snapshots": lambda: catalog.references.commit_deletion(
            TABLE, Deletion("d", catalog.references.state(TABLE).version, EXPIRY, False)
        ),
    }
    return operations[operation]


def _commit(catalog: SqlCatalog, snapshot: Snapshot) -> None:
    latest = catalog.snapshots.latest(TABLE)
    base = None if latest is None else latest.snapshot.uuid
    assert catalog.snapshots.commit(TABLE, None, snapshot, base, []).decided()


def write_numbered(catalog: SqlCatalog, number: int) -> Snapshot | None:
    """Write a row under a number: no other number has its key."""
    rows = {"order_id": [number], "dt": ["2026-01-01"], "amount": [number]}
    table = Table(catalog, catalog.tables.get(TABLE))
    return table.write(rows, commit_user="job", commit_identifier=number)


_warm: set[str] = set()


def warm_up(url: str, *_: str) -> None:
    """Do it all once in another warehouse of the database.

    What is imported late and which SQL is compiled is then there in every fork.
    """
    kind = url.partition(":")[0]
    if kind in _warm:
        return
    _warm.add(kind)
    columns = tuple(DataField(at, name, AtomicType(Root.INT)) for at, name in enumerate("abc"))
    with (
        TemporaryDirectory() as directory,
        closing(SqlCatalog.open(url, warehouse="warm-up", location=f"{directory}/lake")) as catalog,
    ):
        catalog.databases.create(TABLE.database)
        catalog.tables.create(TABLE, Schema(columns))
        catalog.tables.create(EXTERNAL, Schema(columns, options={"path": f"{directory}/outside"}))
        table = Table(catalog, catalog.tables.get(TABLE))
        for number in range(2):
            table.write(pa.table({name: pa.array([number], pa.int32()) for name in "abc"}))
        for operation in ("create", "alter", "alter-external", "rollback", "replace", "drop"):
            _operation(catalog, operation, "0", "")()


def race(url: str, location: str, commits: int, users: Sequence[str]) -> int:
    """Let all users commit at once, each in a fork; how many of them failed."""
    warm_up(url)
    forks = []
    for user in users:
        pid = os.fork()
        if pid == 0:
            catalog = SqlCatalog.open(url, warehouse="main", location=location)
            commit_many(catalog, user, commits)
            return 0  # and end, as a process of its own does
        forks.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in forks)


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
    share_compiled_statements()
    if sys.argv[1:]:
        sys.exit(race(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
    else:
        serve_forks(crash, prepare=warm_up)
