"""Starting states of interleavings: tables with everything that an operation can be told of.

A state is made once, and each interleaving begins with a copy of it in the same directory, as the
catalog's database holds absolute locations. Names, times and files are the same each time.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
from tests.catalog.interleavings import Actor, SteppedFiles

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE, WAREHOUSE_FOLDER
from headwater.storage.files.access import FileAccess
from headwater.storage.files.local import local_path
from headwater.storage.runtime import Runtime

__all__ = [
    "TABLE",
    "KnownSnapshot",
    "Rows",
    "StartingState",
    "build_appended",
    "build_changelog",
    "build_compacted",
    "build_history",
    "build_indexed",
    "expire_all",
    "rows_of",
]

TABLE = "s.t"
"""The table that operations are about."""

Rows = tuple[tuple[object, ...], ...]

_START_MILLIS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
_READS = ("read", "open", "size of")
# A file of Avro ends with random bytes, which are after each of its blocks, too.
_AVRO, _MARK_BYTES = b"Obj\x01", 16
_UNDROP_MILLIS = 30 * 24 * 3_600_000


def rows_of(data: pa.Table) -> Rows:
    """The rows of a table in an order of their own."""
    return tuple(sorted(tuple(row.values()) for row in data.to_pylist()))


def expire_all(table: Table) -> None:
    """Expire all snapshots but the latest."""
    table.expire_snapshots(retain_max=1, retain_min=1, retain=timedelta(0))


@dataclass(frozen=True)
class KnownSnapshot:
    """A snapshot of the starting state.

    Attributes:
        rows: Its rows.
        files: The files that reading them needs, which never change.
    """

    rows: Rows
    files: frozenset[str]

    @property
    def missing(self) -> Sequence[str]:
        """The files that do not exist."""
        return [path for path in sorted(self.files) if not os.path.exists(path)]


class _File:
    """A file as it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = path.read_bytes()
        self._times = path.stat().st_mtime_ns

    def write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._path.write_bytes(self._content)
        os.utime(self._path, ns=(self._times, self._times))


class StartingState:
    """A catalog with a table `TABLE`, to begin interleavings with.

    Args:
        directory: Where it is made.
        build: Makes the tables.

    Attributes:
        home: The directory that the catalog lies in.
        now_millis: The clock, which stands still while nobody waits.
        known: The snapshots of the table and its branches, by uuid.
        table_ids: The ids of the tables, by name.
        paths: The locations of the tables, by name.
        tags: The names of the tags of `TABLE`.
    """

    def __init__(self, directory: Path, build: Callable[[StartingState, Lake], None]) -> None:
        self.home = directory / "lake"
        self.now_millis = _START_MILLIS
        self.known: dict[str, KnownSnapshot] = {}
        self.table_ids: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        self._url = f"sqlite:///{self.home / DATABASE_FILE}"
        self._changed: set[str] = set()
        self._databases: dict[str, SqlDatabase] = {}
        connect(self.home).close()
        with self.opened("0") as lake:
            lake.create_database("s")
            build(self, lake)
            self.tags = {tag.name for tag in lake.table(TABLE).tags()}
        self._end_millis = self.now_millis
        self._changed.clear()
        there = sorted(self.home.rglob("*"))
        self._files = {path: _File(path) for path in there if path.is_file()}
        self._directories = {path for path in there if path.is_dir()} | {self.home}

    def restore(self) -> None:
        """Make everything as it was in the beginning."""
        changed = {self.home / DATABASE_FILE, *map(Path, self._changed)}
        for path in sorted(changed):
            there = [path, *path.rglob("*")] if path.is_dir() else [path]
            for made in there:
                if made not in self._files and not made.is_dir():
                    made.unlink(missing_ok=True)
            for directory in sorted([*there, *path.parents], reverse=True):
                is_made = self.home in directory.parents and directory not in self._directories
                if is_made and directory.is_dir() and not any(directory.iterdir()):
                    directory.rmdir()
        for path, file in self._files.items():
            if path in changed or (not path.exists() and not changed.isdisjoint(path.parents)):
                file.write()
        for directory in self._directories:
            directory.mkdir(parents=True, exist_ok=True)
        self._changed.clear()
        self.now_millis = self._end_millis

    def digest(self) -> bytes:
        """Tells what is there now from other results of the same starting state.

        The change feed is left out, which has the same events in another order.
        """
        digest = hashlib.blake2b()
        there: set[Path] = set()
        for path in map(Path, self._changed):
            there |= {path, *path.rglob("*")}
        for path in sorted(there):
            if path.is_file():
                content = path.read_bytes()
                if content.startswith(_AVRO):
                    content = content.replace(content[-_MARK_BYTES:], b"")
                digest.update(f"{path} {len(content)}\n".encode())
                digest.update(content)
            elif path in self._files:
                digest.update(f"{path} is gone\n".encode())
        connection = sqlite3.connect(self.home / DATABASE_FILE)
        try:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (name,) in names.fetchall():
                if name.startswith(("hw_event", "sqlite_")):
                    continue
                digest.update(repr(connection.execute(f"SELECT * FROM {name}").fetchall()).encode())
        finally:
            connection.close()
        return digest.digest()

    @contextmanager
    def opened(self, user: str, *, repaired: bool = True) -> Iterator[Lake]:
        """The catalog as a process of its own has it.

        Args:
            user: A digit, with which the unique names of that process begin.
            repaired: Whether opening it repairs what a crash left, which costs as much as a step.
        """
        numbers = count(1)
        runtime = Runtime(
            lambda: self.now_millis,
            lambda: f"{user * 8}-0000-4000-8000-{next(numbers):012d}",
            lambda seconds: self.wait(seconds=seconds),
            time_zone=lambda: UTC,
            monotonic=lambda: self.now_millis / 1000,
        )
        warehouse = str(self.home / WAREHOUSE_FOLDER)
        database = self._database(user, runtime)
        catalog = SqlCatalog.on(
            database,
            warehouse="main",
            location=warehouse,
            files=SteppedFiles(self._now, self._changed, f"file://{warehouse}"),
            undrop_millis=_UNDROP_MILLIS,
        )
        if repaired:
            catalog.begin()

        def table_files(info: object) -> FileAccess:
            return SteppedFiles(self._now, self._changed)

        vars(catalog)["table_files"] = table_files
        with Lake(catalog, catalog.runtime) as lake:
            yield lake

    def _database(self, user: str, runtime: Runtime) -> SqlDatabase:
        """The database with a clock and names of its own, and with SQL that was compiled before."""
        if user not in self._databases:
            self._databases[user] = SqlDatabase(open_engine(self._url), runtime)
        database = self._databases[user].shared()
        database.clock = runtime.new_clock()
        database.runtime = runtime.with_clock(database.clock)
        return database

    def _now(self) -> int:
        return self.now_millis

    def wait(self, **parts: float) -> None:
        """Let time pass."""
        self.now_millis += timedelta(**parts) // timedelta(milliseconds=1)

    def remember(self, table: Table) -> None:
        """Take note of the rows of a branch's snapshots, and of the files that they are in."""
        for snapshot in table.snapshots():
            assert snapshot.uuid is not None
            scan = table.scan(snapshot_id=snapshot.id)
            reader = Actor("reader", scan.to_arrow)
            reader.advance()
            files = {local_path(step.path) for step in reader.steps if step.action in _READS}
            assert files
            known = KnownSnapshot(rows_of(scan.to_arrow()), frozenset(files))
            self.known[snapshot.uuid] = known

    def add_orphans(self, table: Table) -> None:
        """Leave files that nothing refers to, as a killed writer does."""
        location = Path(local_path(table.info.path))
        (bucket, *_) = sorted(location.rglob("bucket-0"))
        for path in (location / "manifest/manifest-orphan-0", bucket / "data-orphan-0.parquet"):
            path.write_bytes(b"orphan")
            os.utime(path, (self.now_millis / 1000, self.now_millis / 1000))


def build_history(state: StartingState, lake: Lake) -> None:
    """An append table whose snapshots, tags, branches and consumers are of every type.

    Snapshots 1 to 3 have expired, and are kept by tags. Branch ``b`` was made of a tag of an
    expired snapshot and has expired itself; branch ``c`` was made of a snapshot that is there. Of
    the others, an expiry takes 4 to 6: a consumer has yet to read 7.
    """
    options = {
        "write-only": "true",
        "consumer.expiration-time": "5 d",
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "daily",
        "tag.num-retained-max": "1",
        "partition.timestamp-formatter": "yyyy-MM-dd",
    }
    schema = pa.schema([("n", pa.int64()), ("day", pa.string())])
    gone = lake.create_table("s.gone", schema)
    gone.write({"n": [90], "day": ["2024-01-01"]})
    state.table_ids["s.gone"], state.paths["s.gone"] = gone.info.id, gone.info.path
    table = lake.create_table(TABLE, schema, partition_keys=["day"], options=options)
    state.table_ids[TABLE], state.paths[TABLE] = table.info.id, table.info.path

    def write(number: int, day: str = "2024-01-01") -> None:
        state.wait(hours=1)
        table.write({"n": [number], "day": [day]})
        state.remember(table)

    def overwrite(number: int) -> None:
        state.wait(hours=1)
        table.overwrite({"n": [number], "day": ["2024-01-01"]})
        state.remember(table)

    write(1)
    table.create_due_tags()
    write(2, day="2023-11-01")
    table.create_tag("ended", retained=timedelta(days=1))
    write(3)
    table.create_tag("old")
    write(4)
    table.consumer("idle").reset(4)
    state.add_orphans(table)
    expire_all(table)
    branch = table.create_branch("b", tag="old")
    for number in (50, 51):
        state.wait(hours=1)
        branch.write({"n": [number], "day": ["2024-01-01"]})
    expire_all(branch)
    state.remember(branch)
    state.wait(days=1)
    overwrite(5)
    branch = table.create_branch("c", snapshot_id=5)
    branch.write({"n": [60], "day": ["2024-01-01"]})
    state.remember(branch)
    state.wait(days=1)
    overwrite(6)
    table.create_tag("kept", 6)
    write(7)
    overwrite(8)
    write(9)
    state.wait(days=4)
    table.consumer("reader").reset(7)
    lake.drop_table("s.gone")


def build_changelog(state: StartingState, lake: Lake) -> None:
    """A primary-key table whose changelogs outlive its snapshots.

    Snapshot 1 has expired and its changelog is there; a consumer has yet to read the next one.
    Branch ``b`` was made of a tag of snapshot 3 that is gone, and has expired itself. It needs
    manifests that the table does not need any more, since those were compacted.
    """
    options = {
        "write-only": "true",
        "bucket": "1",
        "changelog-producer": "input",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "consumer.changelog-only": "true",
        "changelog.num-retained.min": "3",
        "changelog.num-retained.max": "3",
        "changelog.time-retained": "1 h",
    }
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    table = lake.create_table(TABLE, schema, primary_keys=["k"], options=options)
    state.table_ids[TABLE], state.paths[TABLE] = table.info.id, table.info.path

    def write(number: int) -> None:
        state.wait(hours=1)
        table.write({"k": [number % 2], "v": [number]})
        state.remember(table)

    for number in (1, 2, 3):
        write(number)
    table.create_tag("x", 3)
    branch = table.create_branch("b", tag="x")
    branch.write({"k": [0], "v": [100]})
    branch.delete_tag("x")
    table.delete_tag("x")
    expire_all(branch)
    state.remember(branch)
    table.compact_manifests()
    state.remember(table)
    write(5)
    table.consumer("feed").reset(2)
    table.expire_snapshots(retain_max=4, retain_min=4, retain=timedelta(0))
    table.create_tag("kept", 2)
    state.add_orphans(table)
    state.wait(days=2)


def build_appended(state: StartingState, lake: Lake, *primary_keys: str) -> None:
    """A table whose snapshots share manifests; tags keep those of expired snapshots.

    Nothing else needs them but the snapshots that are there: branches or later tags would.
    """
    options = {"write-only": "true", "bucket": "-1"}
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("day", pa.string())])
    table = lake.create_table(TABLE, schema, primary_keys=primary_keys, options=options)
    state.table_ids[TABLE], state.paths[TABLE] = table.info.id, table.info.path
    for number in range(1, 7):
        state.wait(hours=1)
        table.write({"n": [number], "day": ["2024-01-01"]})
        state.remember(table)
    table.create_tag("ended", 1, retained=timedelta(days=1))
    table.create_tag("old", 2)
    table.expire_snapshots(retain_max=4, retain_min=4, retain=timedelta(0))
    state.wait(days=2)


def build_indexed(state: StartingState, lake: Lake) -> None:
    """The same with a primary key: each snapshot has an index of its keys."""
    build_appended(state, lake, "n")


def build_compacted(state: StartingState, lake: Lake) -> None:
    """An append table with a branch, which alone needs manifests of snapshots that are there.

    Branch ``b`` was made of a tag that is gone and has expired itself; then the table's manifests
    were compacted.
    """
    schema = pa.schema([("n", pa.int64()), ("day", pa.string())])
    table = lake.create_table(TABLE, schema, options={"write-only": "true"})
    state.table_ids[TABLE], state.paths[TABLE] = table.info.id, table.info.path
    for number in (1, 2, 3):
        state.wait(hours=1)
        table.write({"n": [number], "day": ["2024-01-01"]})
        state.remember(table)
    table.create_tag("x")
    branch = table.create_branch("b", tag="x")
    branch.write({"n": [100], "day": ["2024-01-01"]})
    branch.delete_tag("x")
    table.delete_tag("x")
    expire_all(branch)
    state.remember(branch)
    table.compact_manifests()
    state.remember(table)
    state.wait(days=2)
