"""What is there in the end: the database's rows and the warehouse's files, read by plain means.

Nothing of Headwater's own reads here: SQL, JSON, Avro and Parquet, so that a mistake of the engine
does not hide itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
from sqlalchemy import create_engine, text
from tests.chaos.ledger import Row

from headwater.catalog.sql.database.drivers import database_url

__all__ = ["DataFile", "Evidence", "MissingFile", "StoredSnapshot", "TableEvidence", "evidence_of"]

_ADDED = 0


class MissingFile(Exception):
    """A file that a snapshot needs is not there, or cannot be read."""


@dataclass(frozen=True)
class StoredSnapshot:
    """A row of the database."""

    number: int
    uuid: str | None
    document: Mapping[str, Any]

    def property(self, name: str) -> str | None:
        """One of its free properties."""
        value = (self.document.get("properties") or {}).get(name)
        return None if value is None else str(value)


@dataclass(frozen=True)
class DataFile:
    """A data file that a snapshot adds or needs."""

    bucket: int
    name: str


@dataclass(frozen=True)
class TableEvidence:
    """A table.

    Attributes:
        name: With its database.
        folder: Where its files are.
        head: The number and the uuid of its latest snapshot, as the database says.
        snapshots: The database's, in order.
        told: The numbers of the snapshots that the change feed tells of, in its order.
    """

    name: str
    folder: Path
    head: tuple[int, str | None]
    snapshots: Sequence[StoredSnapshot]
    told: Sequence[int]

    def snapshot_files(self) -> Mapping[int, Mapping[str, Any]]:
        """The snapshots on storage by number."""
        return {
            int(path.name.removeprefix("snapshot-")): json.loads(path.read_text())
            for path in (self.folder / "snapshot").glob("snapshot-*")
        }

    def latest_hint(self) -> str | None:
        """What the hint says about the latest snapshot."""
        path = self.folder / "snapshot" / "LATEST"
        return path.read_text() if path.exists() else None

    def live_files(self, snapshot: StoredSnapshot) -> Sequence[DataFile]:
        """The data files that a snapshot needs; raises MissingFile."""
        live: dict[DataFile, None] = {}
        for key in ("baseManifestList", "deltaManifestList"):
            for kind, file in self._entries(str(snapshot.document[key])):
                if kind == _ADDED:
                    live[file] = None
                else:
                    live.pop(file, None)
        return list(live)

    def added_files(self, snapshot: StoredSnapshot) -> Sequence[DataFile]:
        """The data files that a snapshot adds; raises MissingFile."""
        entries = self._entries(str(snapshot.document["deltaManifestList"]))
        return [file for kind, file in entries if kind == _ADDED]

    def path(self, file: DataFile) -> Path:
        """Where a data file is."""
        return self.folder / f"bucket-{file.bucket}" / file.name

    def rows(self, file: DataFile, columns: Sequence[str]) -> Sequence[Row]:
        """A data file's rows; raises MissingFile."""
        path = self.path(file)
        try:
            found = pq.ParquetFile(path).read(columns=list(columns))
        except (OSError, ValueError) as error:
            raise MissingFile(f"{path.name}: {error}") from error
        return list(zip(*(found[name].to_pylist() for name in columns), strict=True))

    def _entries(self, list_name: str) -> Sequence[tuple[int, DataFile]]:
        found: list[tuple[int, DataFile]] = []
        for manifest in _manifests(self.folder / "manifest" / list_name):
            found += _manifest_entries(self.folder / "manifest" / manifest)
        return found


@dataclass(frozen=True)
class Evidence:
    """Tables, and the decisions that storage has yet to follow."""

    tables: Mapping[str, TableEvidence]
    open_decisions: int


def evidence_of(url: str) -> Evidence:
    """Read a catalog's database."""
    engine = create_engine(database_url(url))
    with engine.connect() as connection:
        tables = connection.execute(
            text(
                "SELECT t.id, d.name, t.name, t.path, b.snapshot_id, b.snapshot_uuid "
                "FROM hw_tables t JOIN hw_databases d ON d.id = t.database_id "
                "JOIN hw_branches b ON b.table_id = t.id WHERE b.branch = 'main'"
            )
        ).all()
        found = {}
        for id_, database, name, path, head, uuid in tables:
            rows = connection.execute(
                text(
                    "SELECT snapshot_id, uuid, document FROM hw_snapshots "
                    "WHERE table_id = :id AND branch = 'main' ORDER BY snapshot_id"
                ),
                {"id": id_},
            ).all()
            events = connection.execute(
                text(
                    "SELECT document FROM hw_events "
                    "WHERE object_id = :id AND type = 'commitTable' ORDER BY id"
                ),
                {"id": id_},
            ).scalars()
            found[f"{database}.{name}"] = TableEvidence(
                f"{database}.{name}",
                Path(path.removeprefix("file://")),
                (head, uuid),
                [StoredSnapshot(number, its, json.loads(text_)) for number, its, text_ in rows],
                [json.loads(event)["d"]["snapshot"] for event in events],
            )
        open_ = connection.execute(text("SELECT COUNT(*) FROM hw_outbox")).scalar_one()
    engine.dispose()
    return Evidence(found, int(open_))


# Manifests are never written twice under one name.
@cache
def _manifests(path: Path) -> Sequence[str]:
    return [entry["_FILE_NAME"] for entry in _avro(path)]


@cache
def _manifest_entries(path: Path) -> Sequence[tuple[int, DataFile]]:
    return [
        (entry["_KIND"], DataFile(entry["_BUCKET"], entry["_FILE"]["_FILE_NAME"]))
        for entry in _avro(path)
    ]


def _avro(path: Path) -> Sequence[Mapping[str, Any]]:
    try:
        with path.open("rb") as file:
            return list(fastavro.reader(file))  # type: ignore[arg-type]
    except (OSError, ValueError) as error:
        raise MissingFile(f"{path.name}: {error}") from error
