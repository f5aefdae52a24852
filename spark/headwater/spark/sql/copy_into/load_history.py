"""The files that a table has been loaded from, so that none is loaded twice.

Each is a file ``copy-into/history/load-<hash of the path>-<milliseconds>`` below the table, as
Paimon's ``COPY INTO`` writes and reads them (``CopyLoadHistoryManager.scala``). There they come
after the commit, by themselves: what ends in between loads the files again. Here a load first says
in ``copy-into/pending`` what it is about to commit, under which number of a commit user that all
loads share. A table has one commit of a number only, so of two loads at once one starts over; and
the next load finds out by the number what became of one that did not end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.catalog.table.table import Table
from headwater.spark.row_change import writer_of
from headwater.spark.sql.copy_into.source_files import SourceFile
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, NotFound, OutcomeUnknown
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["Load", "LoadHistory"]

_USER = "headwater-copy-into"
_HISTORY, _PENDING = "copy-into/history", "copy-into/pending"
_THREADS = 8


@dataclass(frozen=True)
class Load:
    """A load that is about to be committed.

    Attributes:
        writer: Names the load in its snapshot.
        number: The number of its commit.
        rows: The rows of each file.
    """

    writer: str
    number: int
    rows: Mapping[SourceFile, int]

    @property
    def numbered(self) -> tuple[str, int]:
        """The commit's user and its number."""
        return _USER, self.number


class LoadHistory:
    """The files that a table has been loaded from.

    Args:
        table: The table; a branch has a history of its own.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._files = table.storage.files
        self._location = table.storage.layout.branch_location

    def loaded(self, files: Sequence[SourceFile]) -> set[SourceFile]:
        """Those of some files that have been loaded as they are now.

        Raises:
            CorruptData: A record cannot be read.
        """
        hashes = {_hash(file.path) for file in files}
        records = [
            status.path
            for status in self._files.list(f"{self._location}/{_HISTORY}")
            if status.name.startswith("load-") and status.name.split("-")[1] in hashes
        ]
        known = set(LocalExecutor(_THREADS).run(self._record, records))
        return {file for file in files if file in known}

    def settle(self) -> int:
        """Find out what became of loads that did not end.

        Returns:
            The number of the next load.

        Raises:
            OutcomeUnknown: The snapshot that would tell has expired.
            CorruptData: A file of the history cannot be read.
        """
        storage, pointer = self._table.storage, self._table.pointer
        last = TableCommit(storage, pointer, _USER).committed_up_to().identifier or 0
        for status in self._files.list(f"{self._location}/{_PENDING}"):
            load = self._pending(status.path)
            if load.number == last + 1:
                continue  # It may be under way; if it ended, nothing was committed.
            made = self._snapshot(load.number)
            if made is None:
                raise OutcomeUnknown(
                    f"table {self._table.name}: a COPY INTO ended before it said what it had done, "
                    "and the snapshots of that time are gone. Look whether the rows of its files "
                    f"are there ({status.path} names the files), then delete that file; to load "
                    "the files again write FORCE = TRUE"
                )
            if writer_of(made) == load.writer:
                self._write_records(load, made)
            self._files.delete(status.path)
        return last + 1

    def begin(self, rows: Mapping[SourceFile, int], number: int) -> Load:
        """Say which files are about to be loaded."""
        load = Load(self._table.storage.runtime.new_uuid(), number, dict(rows))
        described = {
            "writer": load.writer,
            "number": number,
            "files": [[file.path, file.size, file.modified_millis, rows[file]] for file in rows],
        }
        self._files.write(self._pending_path(load), json.dumps(described).encode())
        return load

    def forget(self, load: Load) -> None:
        """Take back what `begin` said: the load was certainly not committed."""
        self._files.delete(self._pending_path(load))

    def finish(self, load: Load, snapshot: Snapshot | None) -> None:
        """Note the files as loaded.

        Args:
            load: The load.
            snapshot: Its snapshot; None where there were no rows.
        """
        self._write_records(load, snapshot)
        self.forget(load)

    def _pending_path(self, load: Load) -> str:
        return f"{self._location}/{_PENDING}/load-{load.number}-{load.writer}"

    def _write_records(self, load: Load, snapshot: Snapshot | None) -> None:
        now = self._table.storage.runtime.now_millis()
        latest = snapshot or self._table.latest_snapshot()
        number = -1 if latest is None else latest.id

        def write(file: SourceFile) -> None:
            record = {
                "filePath": file.path,
                "fileSize": file.size,
                "lastModified": file.modified_millis,
                "loadedAt": now,
                "snapshotId": number,
                "rowsLoaded": load.rows[file],
            }
            name = f"load-{_hash(file.path)}-{now}"
            self._files.write(f"{self._location}/{_HISTORY}/{name}", json.dumps(record).encode())

        for _ in LocalExecutor(_THREADS).run(write, list(load.rows)):
            pass

    def _record(self, path: str) -> SourceFile:
        values = self._json(path)
        try:
            return SourceFile(
                str(values["filePath"]), int(values["fileSize"]), int(values["lastModified"])
            )
        except (KeyError, TypeError, ValueError):
            raise _damaged(path) from None

    def _pending(self, path: str) -> Load:
        values = self._json(path)
        try:
            rows = {
                SourceFile(str(name), int(size), int(modified)): int(count)
                for name, size, modified, count in values["files"]
            }
            return Load(str(values["writer"]), int(values["number"]), rows)
        except (KeyError, TypeError, ValueError):
            raise _damaged(path) from None

    def _json(self, path: str) -> dict[str, Any]:
        try:
            values = json.loads(self._files.read(path))
        except ValueError:
            raise _damaged(path) from None
        if not isinstance(values, dict):
            raise _damaged(path)
        return values

    def _snapshot(self, number: int) -> Snapshot | None:
        """The snapshot of all loads' commit of a number; None when it has expired."""
        return next(
            (
                snapshot
                for snapshot in self._back()
                if snapshot.commit_user == _USER and snapshot.commit_identifier == number
            ),
            None,
        )

    def _back(self) -> Iterator[Snapshot]:
        snapshot = self._table.latest_snapshot()
        while snapshot is not None:
            yield snapshot
            try:
                snapshot = self._table.storage.snapshot(snapshot.id - 1)
            except NotFound:
                return


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def _damaged(path: str) -> CorruptData:
    return CorruptData(
        f"{path} is not a record of a COPY INTO: delete it, and its file may be loaded again"
    )
