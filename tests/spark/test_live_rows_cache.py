"""The memory of live rows: what it knows is known of the same files by the same rules alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.client.lake import Lake
from headwater.spark import live_rows
from headwater.spark.live_rows import LiveRowsCache
from headwater.storage.index.deletion_files import DeletionFile
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.scan.split import Split
from headwater.storage.schema.change import AddColumn, RenameColumn, SetOption
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root

Opened = tuple[TableStorage, list[Split]]
ENOUGH = 1 << 20
ROWS = 200
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.int64())])


def opened(table: Table) -> Opened:
    """A table and its splits as one more query has them."""
    scan = table.scan()
    return replace(scan.storage), list(scan.splits)


def query(cache: LiveRowsCache, opened: Opened) -> list[Mapping[str, LiveRows] | None]:
    storage, splits = opened
    return cache.find(replace(storage), splits)


@pytest.fixture
def catalog(tmp_path: Path) -> Lake:
    catalog = connect(tmp_path / "lake")
    catalog.create_database("db")
    return catalog


@pytest.fixture
def new_table(catalog: Lake) -> Callable[[str], Table]:
    """Makes tables of two buckets whose rows were all written twice."""

    def make(name: str, **options: str) -> Table:
        settings = {"bucket": "2", "write-only": "true", **options}
        table = catalog.create_table(
            f"db.{name}", schema=SCHEMA, primary_keys=["id"], options=settings
        )
        for version in range(2):
            table.write(pa.table({"id": range(ROWS), "v": [version] * ROWS}, SCHEMA))
        return table

    return make


@pytest.fixture
def table(new_table: Callable[[str], Table]) -> Table:
    return new_table("t")


def live_count(found: Mapping[str, LiveRows] | None) -> int:
    assert found is not None
    return sum(int(rows.mask.sum()) for rows in found.values())


def test_a_merge_is_known_from_the_second_query_on(table: Table) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    state = opened(table)
    assert query(cache, state) == [None, None]
    second = query(cache, state)
    assert sum(map(live_count, second)) == ROWS
    third = query(cache, state)
    assert all(one is other for one, other in zip(second, third, strict=True))


def test_a_query_that_reads_a_table_twice_is_one(table: Table) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    storage, splits = opened(table)
    for _ in range(3):
        assert cache.find(storage, splits) == [None, None]
    assert None not in cache.find(replace(storage), splits)


def of_file(change: Callable[[DataFile], DataFile]) -> Callable[[Split], Split]:
    """A split one of whose files is another."""

    def changed(split: Split) -> Split:
        return replace(split, files=(change(split.files[0]), *split.files[1:]))

    return changed


def with_vector(split: Split, **other: object) -> Split:
    place = DeletionFile("file:///index", 1, 10, 3)
    place = replace(place, **other)  # type: ignore[arg-type]
    return replace(split, deletion_files={split.files[0].file_name: place})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            of_file(lambda file: replace(file, file_name="data-other.parquet")), id="name"
        ),
        pytest.param(of_file(lambda file: replace(file, level=file.level + 1)), id="level"),
        pytest.param(of_file(lambda file: replace(file, schema_id=7)), id="schema"),
        pytest.param(of_file(lambda file: replace(file, row_count=file.row_count + 1)), id="rows"),
        pytest.param(
            of_file(lambda file: replace(file, min_sequence_number=-1)), id="first sequence number"
        ),
        pytest.param(
            of_file(lambda file: replace(file, max_sequence_number=99_999)),
            id="last sequence number",
        ),
        pytest.param(lambda split: replace(split, files=split.files[1:]), id="fewer files"),
        pytest.param(lambda split: replace(split, files=split.files[::-1]), id="order"),
        pytest.param(
            lambda split: replace(split, directory=f"{split.directory}-2"), id="directory"
        ),
        pytest.param(with_vector, id="vector"),
    ],
)
def test_other_files_are_not_those_that_were_merged(
    table: Table, change: Callable[[Split], Split]
) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    storage, splits = opened(table)
    for _ in range(2):
        known = query(cache, (storage, splits))
    assert None not in known
    changed = [change(splits[0]), splits[1]]
    first, second = query(cache, (storage, changed))
    assert first is None
    assert second is known[1]


@pytest.mark.parametrize(
    "other",
    [{"path": "file:///other"}, {"offset": 2}, {"length": 11}],
    ids=["file", "offset", "length"],
)
def test_other_vectors_are_not_those_that_a_merge_was_made_with(
    table: Table, monkeypatch: pytest.MonkeyPatch, other: Mapping[str, object]
) -> None:
    monkeypatch.setattr(live_rows, "merged_rows", lambda storage, split: {})
    cache = LiveRowsCache(ENOUGH, 1)
    storage, (split, _) = opened(table)
    for _ in range(2):
        known = query(cache, (storage, [with_vector(split)]))
    assert known == [{}]
    assert query(cache, (storage, [with_vector(split, **other)])) == [None]


def test_a_split_that_needs_no_merge_is_not_one_that_does(table: Table) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    storage, splits = opened(table)
    for _ in range(2):
        merged = query(cache, (storage, splits))
    raw = query(cache, (storage, [replace(split, needs_merge=False) for split in splits]))
    assert sum(map(live_count, merged)) == ROWS
    assert raw == [{}, {}]


@pytest.mark.parametrize(
    "change",
    [
        SetOption("ignore-delete", "true"),
        AddColumn(("more",), AtomicType(Root.INT)),
        RenameColumn(("v",), "w"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_a_merge_by_other_rules_is_another(
    catalog: Lake, table: Table, change: SetOption | AddColumn | RenameColumn
) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    for _ in range(2):
        known = query(cache, opened(table))
    assert None not in known
    catalog.alter_table("db.t", change)
    assert query(cache, opened(catalog.table("db.t"))) == [None, None]


def test_a_merge_by_another_key_is_another(table: Table) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    storage, splits = opened(table)
    for _ in range(2):
        known = query(cache, (storage, splits))
    assert None not in known
    schema = replace(storage.schema, primary_keys=("id", "v"))
    assert query(cache, (replace(storage, schema=schema), splits)) == [None, None]


def test_the_same_names_in_another_table_are_other_files(
    new_table: Callable[[str], Table],
) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    storage, splits = opened(new_table("a"))
    other, _ = opened(new_table("b"))
    for _ in range(2):
        known = query(cache, (storage, splits))
    assert None not in known
    assert query(cache, (other, splits)) == [None, None]


def test_the_merges_that_were_used_longest_ago_make_room(
    new_table: Callable[[str], Table],
) -> None:
    tables = [opened(new_table(name)) for name in "abc"]
    room = sum(file.row_count // 8 + 8 for split in tables[0][1] for file in split.files)
    cache = LiveRowsCache(2 * room, 2)
    for table in tables[:2]:
        for _ in range(2):
            query(cache, table)
    query(cache, tables[2])
    kept = [query(cache, tables[0]), query(cache, tables[2])]
    again = [query(cache, tables[0]), query(cache, tables[2])]
    for found, same in zip(kept, again, strict=True):
        assert None not in found
        assert all(one is other for one, other in zip(found, same, strict=True))


def test_a_merge_that_two_have_made_is_kept_once(new_table: Callable[[str], Table]) -> None:
    first, second = opened(new_table("a")), opened(new_table("b"))
    room = sum(file.row_count // 8 + 8 for split in first[1] for file in split.files)
    cache = LiveRowsCache(2 * room, 2)
    for _ in range(2):
        query(cache, (first[0], [*first[1], *first[1]]))
    known = query(cache, first)
    for _ in range(2):
        assert query(cache, second) != known
    again = query(cache, first)
    assert all(one is other for one, other in zip(known, again, strict=True))


def test_a_table_that_would_take_more_memory_is_not_looked_at(table: Table) -> None:
    storage, splits = opened(table)
    room = sum(file.row_count // 8 + 8 for split in splits for file in split.files)
    asked: list[Split] = []

    def usable(split: Split) -> bool:
        asked.append(split)
        return True

    for size in (0, room - 1):
        cache = LiveRowsCache(size, 2)
        for _ in range(3):
            assert cache.find(replace(storage), splits, usable) == [None, None]
    assert not asked
    cache = LiveRowsCache(room, 2)
    for _ in range(2):
        found = cache.find(replace(storage), splits, usable)
    assert None not in found
    assert asked == splits


def test_files_that_cannot_be_used_are_not_merged(table: Table) -> None:
    cache = LiveRowsCache(ENOUGH, 2)
    storage, splits = opened(table)
    for _ in range(3):
        found = cache.find(replace(storage), splits, lambda split: split.bucket == 1)
        assert found[splits.index(next(split for split in splits if split.bucket == 0))] is None
    assert [one is None for one in found].count(False) == 1
    assert None not in query(cache, (storage, splits))
    assert cache.find(replace(storage), splits, lambda split: False) == [None, None]


def test_only_so_many_splits_are_remembered(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "_MOST_SEEN", 1)
    cache = LiveRowsCache(ENOUGH, 2)
    for _ in range(3):
        assert query(cache, opened(table)) == [None, None]
