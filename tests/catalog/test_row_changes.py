"""Deleting, updating and merging rows of tables of every kind, as one commit each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.delete import delete_from_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, SnapshotPointer

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        ("v", pa.int64()),
    ]
)
VECTORS = {"deletion-vectors.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
KINDS: Mapping[str, Mapping[str, object]] = {
    "rewritten": {},
    "rewritten buckets": {"options": BUCKETS},
    "marked": {"options": VECTORS, "partition_keys": ["p"]},
    "marked 64 bits": {"options": {**VECTORS, "deletion-vectors.bitmap64": "true"}},
    "marked buckets": {"options": {**VECTORS, **BUCKETS}},
    "keyed": {"options": {"bucket": "2"}, "primary_keys": ["p", "id"], "partition_keys": ["p"]},
}
Row = tuple[int, str, int | None]


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = connect(str(tmp_path_factory.mktemp("lake")))
    made.create_database("db")
    return made


def make(lake: Lake, kind: str, rows: Sequence[Row] = (), **options: str) -> Table:
    settings = dict(KINDS[kind])
    own = settings.pop("options", {})
    assert isinstance(own, dict)
    table = lake.create_table("db.t", SCHEMA, options={**own, **options}, **settings)  # type: ignore[arg-type]
    if rows:
        table.write(as_table(rows))
    return table


def as_table(rows: Sequence[Row]) -> pa.Table:
    ids, places, values = zip(*rows, strict=True)
    return pa.table({"id": ids, "p": places, "v": values}, schema=SCHEMA)


def rows_of(table: Table, **scan: object) -> list[Row]:
    found = table.scan(**scan).to_arrow().select(SCHEMA.names)  # type: ignore[arg-type]
    return sorted(zip(*found.to_pydict().values(), strict=True), key=lambda row: row[0])


def numbered(*ids: int) -> list[Row]:
    return [(one, "ab"[one % 2], one * 10) for one in ids]


every_kind = pytest.mark.parametrize("kind", KINDS)
append_kinds = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "keyed"])
marked_kinds = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.startswith("marked")]
)


def vectors_of(table: Table) -> dict[str, int | None]:
    """The deleted rows of each data file."""
    entries = index_entries(table.storage, table.latest_snapshot())
    found = [each for entry in entries for each in entry.index_file.vectors or ()]
    assert len({each.data_file for each in found}) == len(found)
    return {each.data_file: each.cardinality for each in found}


# Deleting ---------------------------------------------------------------------------------------


@every_kind
def test_deletions_add_up(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(20)))
    table.write(as_table(numbered(*range(20, 30))))
    snapshot = table.delete("id < 5 OR v = 250")
    assert snapshot is not None
    assert table.delete("id BETWEEN 3 AND 6") is not None
    assert table.delete("id = 4") is None
    table.write(as_table(numbered(4, 40)))
    left = numbered(4, *(one for one in range(7, 30) if one != 25), 40)
    assert rows_of(table) == left
    assert rows_of(table, where="v > 260") == numbered(27, 28, 29, 40)
    assert table.scan().count() == len(left)
    assert rows_of(table, snapshot_id=2) == numbered(*range(30))
    table.compact()
    assert rows_of(table) == left
    assert vectors_of(table) == {}


@marked_kinds
def test_marking_rows_writes_no_data_files(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(20)))
    before = {file.name for file in table.files()}
    snapshot = table.delete("id IN (3, 4, 8)")
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert snapshot.total_record_count == 20
    assert {file.name for file in table.files()} == before
    assert sum(count or 0 for count in vectors_of(table).values()) == 3
    # A file without any row left goes, and its vector with it.
    table.delete("id >= 0")
    assert rows_of(table) == []
    assert table.files() == []
    assert vectors_of(table) == {}


@append_kinds
def test_null_is_not_true(lake: Lake, kind: str) -> None:
    table = make(lake, kind, [(1, "a", None), (2, "b", 5)])
    table.delete("v != 7")
    assert rows_of(table) == [(1, "a", None)]


def test_vectors_of_a_table_without_the_option_stay_and_go_with_their_files(lake: Lake) -> None:
    table = make(lake, "marked", numbered(*range(20)), **{"deletion-vectors.modifiable": "true"})
    table.delete("id < 4")
    table = lake.table("db.t")
    table.alter(SetOption("deletion-vectors.enabled", "false"))
    table = lake.table("db.t")
    assert rows_of(table) == numbered(*range(4, 20))
    table.delete("id = 6")
    assert rows_of(table) == numbered(4, 5, *range(7, 20))
    assert sum(count or 0 for count in vectors_of(table).values()) == 2


# Several at once --------------------------------------------------------------------------------


@dataclass
class Racing:
    """A pointer before whose next commit something else happens."""

    inner: SnapshotPointer
    before: Callable[[], object] | None
    offered: int = 0

    def latest(self) -> Snapshot | None:
        return self.inner.latest()

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.inner.was_taken(snapshot)

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        self.offered += 1
        before, self.before = self.before, None
        if before is not None:
            before()
        return self.inner.commit(snapshot, base, statistics)


def race(table: Table, where: str, before: Callable[[], object]) -> Racing:
    predicate = table._predicate(where, table.storage)
    assert predicate is not None
    racing = Racing(table.pointer, before)
    delete_from_table(table.storage, racing, LocalExecutor(), predicate)
    return racing


@every_kind
def test_deletions_at_once_are_both_done(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    race(table, "id IN (1, 2, 3)", lambda: lake.table("db.t").delete("id IN (3, 4, 5)"))
    assert rows_of(table) == numbered(0, 6, 7, 8, 9)


@append_kinds
def test_rows_appended_meanwhile_are_neither_lost_nor_deleted(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    late = lambda: lake.table("db.t").write(as_table([(1, "a", 1), (50, "b", 50)]))  # noqa: E731
    race(table, "id < 5", late)
    assert rows_of(table) == [(1, "a", 1), *numbered(5, 6, 7, 8, 9), (50, "b", 50)]


@every_kind
def test_a_compaction_meanwhile_brings_no_row_back(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    table.write(as_table(numbered(*range(10, 20))))
    table.delete("id = 17")
    race(table, "id IN (1, 12)", lambda: lake.table("db.t").compact())
    left = numbered(*(one for one in range(20) if one not in (1, 12, 17)))
    assert rows_of(table) == left


@every_kind
def test_a_truncation_meanwhile_leaves_nothing(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    race(table, "id IN (1, 2)", lambda: lake.table("db.t").truncate())
    assert rows_of(table) == []


@append_kinds
def test_what_always_conflicts_leaves_nothing_behind(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)), **{"commit.max-retries": "0"})
    with pytest.raises(Conflict):
        race(table, "id = 1", lambda: lake.table("db.t").delete("id < 5"))
    location = table.storage.layout.location
    named = {
        entry.index_file.file_name
        for entry in index_entries(table.storage, table.latest_snapshot())
    }
    there = {file.name for file in table.storage.files.walk(f"{location}/index")}
    assert there == named


# Whatever else looks at the table ---------------------------------------------------------------


@marked_kinds
def test_expiry_tags_and_rollback_keep_what_they_need(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    table.delete("id = 1")
    table.create_tag("one", snapshot_id=2)
    table.delete("id = 2")
    table.delete("id = 3")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert rows_of(table) == numbered(0, *range(4, 10))
    assert rows_of(table, tag="one") == numbered(0, *range(2, 10))
    named = len(vectors_of(table))
    assert named
    table.delete("id = 4")
    table.rollback(snapshot_id=4)
    assert rows_of(table) == numbered(0, *range(4, 10))
    table.delete("id = 5")
    assert rows_of(table) == numbered(0, 4, *range(6, 10))
