"""What the storage suites share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.storage.files.layout import TableLayout
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.jobs.deletion import FileReferences
from headwater.storage.maintenance.deletion import (
    Deletion,
    OpenDeletion,
    References,
    Removal,
    delete_consumers,
    delete_roots,
)
from headwater.storage.runtime import Runtime
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.files import FileSnapshotPointer
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, parse_type


class Clock:
    """A clock that a test turns, and names that a test can tell."""

    def __init__(self) -> None:
        self.millis = 1_700_000_000_000
        self.slept: list[float] = []
        self._names = itertools.count()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.millis += int(seconds * 1000)

    def new_uuid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._names):012d}"

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            lambda: self.millis, self.new_uuid, self.sleep, monotonic=lambda: sum(self.slept)
        )


@dataclass
class Decided:
    """What a catalog's database remembers of a table's references."""

    version: int = 0
    open_deletion: OpenDeletion | None = None
    removal: Removal | None = None


@dataclass(frozen=True)
class SerialReferences(FileReferences):
    """References that are serialised in memory, as a catalog does in its database."""

    decided: Decided = field(default_factory=Decided)

    def state(self) -> References:
        self._apply()
        return References(self.decided.version, self.decided.open_deletion)

    def commit_deletion(self, deletion: Deletion) -> bool:
        if deletion.version != self.decided.version or self.decided.open_deletion is not None:
            return False
        self.decided.version += 1
        self.decided.removal = deletion.removal
        if deletion.has_files:
            self.decided.open_deletion = OpenDeletion(deletion.id, 0)
        self._apply()
        return True

    def finish_deletion(self, deletion_id: str) -> None:
        self.decided.open_deletion = None

    def _apply(self) -> None:
        if self.decided.removal is not None:
            files, layout = self.storage.files, self.storage.layout
            delete_roots(files, layout, self.decided.removal)
            delete_consumers(files, layout, self.decided.removal)
        self.decided.removal = None


@dataclass
class StoredTable:
    """A table on the local disk whose snapshots are decided by its files."""

    storage: TableStorage
    pointer: FileSnapshotPointer
    clock: Clock
    decided: Decided = field(default_factory=Decided)

    @property
    def references(self) -> SerialReferences:
        """What serialises changes of tags and deletions."""
        return SerialReferences(self.storage, self.decided)

    def files_below(self, inner: str = "") -> list[str]:
        """Paths of all files, relative to the table's location."""
        location = self.storage.layout.location
        statuses = self.storage.files.walk(f"{location}/{inner}".rstrip("/"))
        return sorted(status.path.removeprefix(location + "/") for status in statuses)

    def with_options(self, **options: str) -> StoredTable:
        """The same table with other options; ``_`` stands for ``-`` and ``__`` for ``.``."""
        plain = option_names(options)
        schema = self.storage.schema.with_options(plain)
        return replace(self, storage=self.storage.with_schema(schema))


NewTable = Callable[..., StoredTable]


@pytest.fixture
def new_table(tmp_path: Path) -> NewTable:
    """Makes a table: columns as (name, type), then keys and options."""
    numbers = itertools.count()

    def make(
        columns: Sequence[tuple[str, str]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> StoredTable:
        fields = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(columns))
        schema = TableSchema(
            0,
            fields,
            len(fields) - 1,
            tuple(partition_keys),
            tuple(primary_keys),
            dict(options or {}),
            None,
            0,
        )
        layout = TableLayout(local_uri(tmp_path / f"table-{next(numbers)}"))
        files, clock = LocalFileAccess(), Clock()
        files.write(layout.schema(0), schema.to_json().encode())
        storage = TableStorage("db.t", layout, files, schema, clock.runtime)
        return StoredTable(storage, FileSnapshotPointer(files, layout), clock)

    return make


@pytest.fixture
def rows_of() -> Callable[[pa.Table], list[tuple[object, ...]]]:
    """A table's rows as sorted tuples."""

    def rows(table: pa.Table) -> list[tuple[object, ...]]:
        columns = [column.to_pylist() for column in table.columns]
        return sorted(zip(*columns, strict=True), key=repr)

    return rows
