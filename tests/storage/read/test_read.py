"""Scans and reads against a plain dictionary of the table, wherever its rows lie."""

from __future__ import annotations

import datetime as dt
import operator
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, NotFound, Unsupported
from headwater.storage.manifest.data_file import FileSource, ManifestEntry
from headwater.storage.predicate.filter import Predicate, parse_predicate
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.row_group_count import count_row_groups
from headwater.storage.read.split import read_schema, read_split
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries, plan_delta, plan_snapshot
from headwater.storage.scan.sections import key_sections
from headwater.storage.scan.split import ScanPlan
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.types.data_type import DataField, parse_type
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage, TableWriter

_Row: TypeAlias = dict[str, Any]
_HIGHEST = 5
_SYSTEM = ["_SEQUENCE_NUMBER", "_VALUE_KIND"]


class _Table(Protocol):
    storage: TableStorage
    pointer: SnapshotPointer


_NewTable: TypeAlias = Callable[..., _Table]


# Writing what is to be read ---------------------------------------------------------------------


def write(table: _Table, rows: Sequence[_Row], kinds: Sequence[str] | None = None) -> Snapshot:
    latest = table.pointer.latest()
    writer = TableWriter(table.storage, max_sequence_numbers=BucketStates(table.storage, latest))
    data = pa.Table.from_pylist(list(rows), table.storage.schema.arrow)
    writer.write(data, None if kinds is None else pa.array(kinds, pa.string()))
    commit = TableCommit(table.storage, table.pointer, "writer")
    snapshot = commit.commit(writer.finish(), allow_empty=True)
    assert snapshot is not None
    return snapshot


def compact(table: _Table, *, full: bool, rows_per_file: int = 3) -> None:
    """Merge each bucket's files (all, or those of level 0) into files of a higher level."""
    latest = table.pointer.latest()
    assert latest is not None
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live_entries(table.storage, latest):
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    messages = []
    for (partition, bucket), entries in buckets.items():
        levels = {entry.file.level for entry in entries}
        below = min(levels - {0}, default=_HIGHEST)
        before = [entry.file for entry in entries if full or entry.file.level == 0]
        level = _HIGHEST if full else below - 1
        if not before or level < 1:
            continue
        values = partition_values(table.storage, partition)
        directory = bucket_directory(table.storage, partition, bucket)
        files = BucketFiles(table.storage, directory, values)
        writer = DataFileWriter(
            # Every call of `write` makes a file.
            table.storage.with_schema(table.storage.schema.with_options({"target-file-size": "1"})),
            partition,
            bucket,
            level=level,
            source=FileSource.COMPACT,
        )
        names = [*table.storage.schema.field_by_name, *_SYSTEM]
        for section in key_sections(table.storage, before):
            keep = level < _HIGHEST
            for batch in files.merge(section, names, keep_deletes=keep, ordered=True):
                for start in range(0, batch.num_rows, rows_per_file):
                    writer.write(pa.Table.from_batches([batch.slice(start, rows_per_file)]))
        messages.append(
            CommitMessage(
                partition,
                bucket,
                entries[0].total_buckets,
                compact_before=tuple(before),
                compact_after=tuple(writer.finish()),
            )
        )
    TableCommit(table.storage, table.pointer, "compactor").commit(messages)


def read(
    table: _Table,
    snapshot: Snapshot | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    batch_rows: int = 65536,
) -> list[_Row]:
    snapshot = snapshot or table.pointer.latest()
    assert snapshot is not None
    predicate = None if where is None else parse_predicate(where, table.storage.schema)
    plan = plan_snapshot(table.storage, snapshot, predicate=predicate)
    return rows_of(table, plan, columns, predicate, batch_rows)


def rows_of(
    table: _Table,
    plan: ScanPlan,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    batch_rows: int = 65536,
) -> list[_Row]:
    found: list[_Row] = []
    for split in plan.splits:
        sent = pickle.loads(pickle.dumps(split))
        rows: list[_Row] = []
        for batch in read_split(
            table.storage, sent, columns=columns, predicate=predicate, batch_rows=batch_rows
        ):
            assert batch.schema.equals(read_schema(table.storage.schema, columns))
            rows += batch.to_pylist()
        if predicate is None:
            assert len(rows) <= split.row_count
            assert split.needs_merge or split.streaming or len(rows) == split.row_count
        found += rows
    return found


def ordered(rows: Iterable[_Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


# The model --------------------------------------------------------------------------------------

_COLUMNS = [("p", "INT"), ("k", "BIGINT NOT NULL"), ("s", "STRING NOT NULL"), ("v", "INT")]
_COLUMNS += [("w", "STRING")]
_KEYS = ("p", "k", "s")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Filter:
    """A predicate as SQL text, and what it says of a row: true, false or None."""

    sql: str
    test: Callable[[_Row], bool | None]


def _compare(column: str, op: str, value: Any) -> Filter:
    literal = f"'{value}'" if isinstance(value, str) else str(value)

    def test(row: _Row) -> bool | None:
        return None if row[column] is None else _COMPARE[op](row[column], value)

    return Filter(f"{column} {op} {literal}", test)


def _among(column: str, values: Sequence[Any], negated: bool) -> Filter:
    literals = ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in values)

    def test(row: _Row) -> bool | None:
        return None if row[column] is None else (row[column] in values) != negated

    return Filter(f"{column} {'NOT IN' if negated else 'IN'} ({literals})", test)


def _is_null(column: str, negated: bool) -> Filter:
    return Filter(
        f"{column} IS {'NOT ' if negated else ''}NULL",
        lambda row: (row[column] is None) != negated,
    )


def _both(one: Filter, other: Filter) -> Filter:
    def test(row: _Row) -> bool | None:
        results = (one.test(row), other.test(row))
        return False if False in results else None if None in results else True

    return Filter(f"({one.sql}) AND ({other.sql})", test)


def _either(one: Filter, other: Filter) -> Filter:
    def test(row: _Row) -> bool | None:
        results = (one.test(row), other.test(row))
        return True if True in results else None if None in results else False

    return Filter(f"({one.sql}) OR ({other.sql})", test)


def _opposite(one: Filter) -> Filter:
    def test(row: _Row) -> bool | None:
        result = one.test(row)
        return None if result is None else not result

    return Filter(f"NOT ({one.sql})", test)


# Short lists: Hypothesis draws from one much faster than it makes a value.
_DOMAINS: Mapping[str, list[Any]] = {
    "p": [0, 1, 2],
    "k": [0, 1, -1, 2, -2, 3, -3, 4, 5, 6],
    "s": ["", "a", "b", "é"],
    "v": [0, 1, -1, 2, -2, 3],
    "w": ["", "x", "y", "longer than sixteen bytes", "longer than sixteen bytez"],
}
_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    name: st.sampled_from(values) for name, values in _DOMAINS.items()
}
_LEAVES = st.one_of(
    [
        st.one_of(
            st.builds(_compare, st.just(name), st.sampled_from(sorted(_COMPARE)), _VALUES[name]),
            st.builds(
                _among,
                st.just(name),
                st.lists(_VALUES[name], min_size=1, max_size=3),
                st.booleans(),
            ),
            st.builds(_is_null, st.just(name), st.booleans()),
        )
        for name in sorted(_VALUES)
    ]
)
_FILTERS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(_both, inner, inner),
        st.builds(_either, inner, inner),
        st.builds(_opposite, inner),
    ),
    max_leaves=4,
)
_ROWS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {
                "p": _VALUES["p"],
                "k": _VALUES["k"],
                "s": _VALUES["s"],
                "v": st.sampled_from([None, *_DOMAINS["v"]]),
                "w": st.sampled_from([None, *_DOMAINS["w"]]),
            }
        ),
        st.sampled_from(["+I", "+I", "+I", "+U", "-U", "-D"]),
    ),
    max_size=12,
)


@dataclass
class Model:
    """Every version of every key, in the order of arrival."""

    by_value: bool
    versions: dict[tuple[Any, ...], list[tuple[_Row, str]]] = field(default_factory=dict)

    def write(self, rows: Iterable[tuple[_Row, str]]) -> None:
        for row, kind in rows:
            self.versions.setdefault(tuple(row[k] for k in _KEYS), []).append((row, kind))

    def newest(self, versions: Sequence[tuple[_Row, str]]) -> tuple[_Row, str]:
        if not self.by_value:
            return versions[-1]

        def rank(item: tuple[int, tuple[_Row, str]]) -> tuple[bool, int, int]:
            number, (row, _) = item
            return (row["v"] is not None, row["v"] or 0, number)

        return max(enumerate(versions), key=rank)[1]

    def rows(self) -> list[_Row]:
        newest = [self.newest(versions) for versions in self.versions.values()]
        return [row for row, kind in newest if kind in ("+I", "+U")]

    def forget_deleted(self) -> None:
        """What a compaction to the highest level does."""
        kept = {key: self.newest(versions) for key, versions in self.versions.items()}
        self.versions = {
            key: [(row, kind)] for key, (row, kind) in kept.items() if kind in ("+I", "+U")
        }


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups and merge steps of a few rows, so that small tables cross their borders."""
    monkeypatch.setattr("headwater.storage.formats.parquet_writer._ROW_GROUP_ROWS", 3)
    monkeypatch.setattr("headwater.storage.merge.key_ranges._LEAST_BATCH", 1)
    # Hundreds of tables: nothing here is about surviving a loss of power.
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(
    ("sequence", "thin"),
    [
        (None, "false"),
        ("v", "true"),
        pytest.param("v", "false", marks=pytest.mark.modes),
        pytest.param(None, "true", marks=pytest.mark.modes),
    ],
)
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_primary_key_table_is_its_newest_rows(
    new_table: _NewTable, sequence: str | None, thin: str, data: st.DataObject
) -> None:
    options = {"bucket": "2", "num-levels": str(_HIGHEST + 1), "data-file.thin-mode": thin}
    if sequence is not None:
        options["sequence.field"] = sequence
    table = new_table(_COLUMNS, primary_keys=_KEYS, partition_keys=["p"], options=options)
    model = Model(sequence is not None)
    history: list[tuple[Snapshot, list[_Row]]] = []
    for _ in range(data.draw(st.integers(1, 5), label="commits")):
        rows = data.draw(_ROWS, label="rows")
        snapshot = write(table, [row for row, _ in rows], [kind for _, kind in rows])
        model.write(rows)
        history.append((snapshot, model.rows()))
        action = data.draw(st.sampled_from(["", "", "partly", "fully"]), label="compaction")
        if action == "fully":
            compact(table, full=True)
            model.forget_deleted()
        elif action == "partly":
            compact(table, full=False)
    history.append((table.pointer.latest() or history[-1][0], model.rows()))
    names = list(_VALUES)
    for snapshot, expected in history[-2:]:
        batch_rows = data.draw(st.sampled_from([1, 4, 65536]), label="batch rows")
        assert ordered(read(table, snapshot, batch_rows=batch_rows)) == ordered(expected)
        columns = data.draw(st.lists(st.sampled_from(names), unique=True), label="columns")
        wanted = data.draw(_FILTERS, label="filter")
        found = read(table, snapshot, columns=columns, where=wanted.sql, batch_rows=batch_rows)
        matching = [row for row in expected if wanted.test(row) is True]
        if columns:
            assert ordered(found) == ordered({c: row[c] for c in columns} for row in matching)
        else:
            assert len(found) == len(matching)


@pytest.mark.usefixtures("small_steps")
@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), bucket=st.sampled_from(["-1", "2"]))
def test_an_append_table_is_all_its_rows(
    new_table: _NewTable, data: st.DataObject, bucket: str
) -> None:
    options = {"bucket": bucket} | ({"bucket-key": "k"} if bucket != "-1" else {})
    table = new_table(_COLUMNS, partition_keys=["p"], options=options)
    expected: list[_Row] = []
    for _ in range(data.draw(st.integers(1, 4), label="commits")):
        rows = [row for row, _ in data.draw(_ROWS, label="rows")]
        write(table, rows)
        expected += rows
    assert ordered(read(table)) == ordered(expected)
    wanted = data.draw(_FILTERS, label="filter")
    found = read(table, where=wanted.sql, columns=["w", "k"])
    matching = [{"w": r["w"], "k": r["k"]} for r in expected if wanted.test(r) is True]
    assert ordered(found) == ordered(matching)


# What need not be read --------------------------------------------------------------------------


def _rows(**columns: Sequence[Any]) -> list[_Row]:
    names = list(columns)
    defaults = {"p": 0, "k": 0, "s": "", "v": None, "w": None}
    return [
        {**defaults, **dict(zip(names, values, strict=True))}
        for values in zip(*columns.values(), strict=True)
    ]


def _plan(table: _Table, where: str) -> ScanPlan:
    snapshot = table.pointer.latest()
    assert snapshot is not None
    predicate = parse_predicate(where, table.storage.schema)
    return plan_snapshot(table.storage, snapshot, predicate=predicate)


def test_partitions_prune_manifests_and_files(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, partition_keys=["p"], options={"bucket": "-1"})
    for p in range(4):
        write(table, _rows(p=[p, p], v=[p, p + 10]))
    plan = _plan(table, "p = 2")
    assert (plan.manifests_read, plan.manifests_skipped) == (1, 3)
    assert [split.partition_values for split in plan.splits] == [(2,)]
    assert len(_plan(table, "p IN (0, 3) AND v < 5").splits) == 2
    assert _plan(table, "p > 3").splits == ()
    # The statistics of other columns are looked at once the manifest is read.
    plan = _plan(table, "v > 12")
    assert (plan.manifests_read, plan.files_skipped, len(plan.splits)) == (4, 3, 1)


def test_equality_on_the_bucket_key_reads_one_bucket(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "8"})
    write(table, _rows(k=list(range(100))))
    assert len(_plan(table, "v IS NULL").splits) == 8
    for k in range(20):
        plan = _plan(table, f"k = {k} AND v IS NULL")
        assert len(plan.splits) == 1
        assert plan.splits[0].row_count >= 1
    assert len(read(table, where="k = 17 OR k = 99")) == 2
    assert len(_plan(table, "k = 50 OR v IS NULL").splits) == 8
    assert len(_plan(table, "k = 7 AND k = 8").splits) == 0


def test_values_prune_only_whole_sections_of_a_primary_key_table(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    write(table, _rows(k=[1, 2, 3], v=[100, 100, 100]))
    write(table, _rows(k=[2], v=[0]))
    write(table, _rows(k=[8, 9], v=[0, 0]))
    # The second file does not match, but hides a row of the first.
    plan = _plan(table, "v = 100")
    assert [len(split.files) for split in plan.splits] == [2]
    assert plan.files_skipped == 1
    assert [row["k"] for row in read(table, where="v = 100")] == [1, 3]
    assert _plan(table, "v = 55").splits == ()
    # Keys prune each file for itself.
    assert [len(split.files) for split in _plan(table, "k = 3").splits] == [1]


def test_files_are_packed_into_splits_by_size(new_table: _NewTable) -> None:
    options = {"bucket": "-1", "source.split.open-file-cost": "1 kb"}
    table = new_table(_COLUMNS, options=options)
    for k in range(6):
        write(table, _rows(k=[k]))
    latest = table.pointer.latest()
    assert latest is not None
    one = plan_snapshot(table.storage, latest)
    assert [len(split.files) for split in one.splits] == [6]
    # Opening a file counts for more than these hold.
    size = max(1024, *(file.file_size for file in one.splits[0].files))
    for target, expected in ((size * 2, [2, 2, 2]), (1, [1] * 6), (size * 4, [4, 2])):
        schema = table.storage.schema.with_options({"source.split.target-size": str(target)})
        plan = plan_snapshot(table.storage.with_schema(schema), latest)
        assert [len(split.files) for split in plan.splits] == expected
        assert ordered(rows_of(table, plan)) == ordered(_rows(k=range(6)))


def test_sections_of_a_bucket_become_splits_of_their_own(new_table: _NewTable) -> None:
    options = {"bucket": "1", "source.split.target-size": "1"}
    table = new_table(_COLUMNS, primary_keys=["k"], options=options)
    for keys in ([1, 2], [2, 3], [3, 4], [10, 11], [11, 20], [30, 40]):
        write(table, _rows(k=keys))
    latest = table.pointer.latest()
    assert latest is not None
    plan = plan_snapshot(table.storage, latest)
    assert [len(split.files) for split in plan.splits] == [3, 2, 1]
    compact(table, full=True, rows_per_file=4)
    latest = table.pointer.latest()
    assert latest is not None
    plan = plan_snapshot(table.storage, latest)
    assert not any(split.needs_merge for split in plan.splits)
    assert ordered(rows_of(table, plan)) == ordered(_rows(k=[1, 2, 3, 4, 10, 11, 20, 30, 40]))


def test_row_groups_are_left_out_by_their_statistics(
    new_table: _NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.storage.formats.parquet_writer._ROW_GROUP_ROWS", 10)
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    write(table, _rows(k=range(100), v=range(100)))
    write(table, _rows(k=range(0, 100, 10), v=[500] * 10))
    asked: list[Sequence[int] | None] = []
    from headwater.storage.formats.parquet import ParquetReader

    original = ParquetReader.batches

    def batches(
        self: ParquetReader, columns: Sequence[DataField], groups: Sequence[int] | None, **most: Any
    ) -> Any:
        asked.append(groups)
        return original(self, columns, groups, **most)

    monkeypatch.setattr(ParquetReader, "batches", batches)
    assert [row["v"] for row in read(table, where="k = 57")] == [57]
    assert sorted(map(str, asked)) == ["[0]", "[5]"]
    asked.clear()
    # Row groups of files that share keys are not judged by other columns.
    assert [row["k"] for row in read(table, where="v = 70")] == []
    assert sorted(map(len, filter(None, asked))) == [1, 10]

    latest = table.pointer.latest()
    assert latest is not None
    splits = plan_snapshot(table.storage, latest).splits

    def counted(where: str, most_files: int = 9) -> tuple[int, int, int]:
        predicate = parse_predicate(where, table.storage.schema)
        found = count_row_groups(table.storage, splits, predicate, most_files=most_files)
        return found.wanted, found.total, found.files

    assert counted("k = 57") == (2, 11, 2)
    assert counted("v = 70") == (11, 11, 2)
    assert counted("k = 200", 1)[0::2] == (0, 1)


def test_a_column_is_not_judged_by_a_nested_field_of_the_same_path(new_table: _NewTable) -> None:
    inner = {"type": "ROW", "fields": [{"id": 2, "name": "b", "type": "INT"}]}
    table = new_table([("a.b", "INT"), ("a", inner)])
    rows: list[_Row] = [{"a.b": 10, "a": {"b": 100}}, {"a.b": 20, "a": {"b": 200}}]
    write(table, rows)
    assert read(table, where="`a.b` = 10") == rows[:1]


def test_a_file_is_refused_only_for_columns_that_it_lacks(new_table: _NewTable) -> None:
    table = new_table([("p", "INT"), ("n", "INT"), ("v", "INT")], partition_keys=["p"])
    rows: list[_Row] = [{"p": 1, "n": 1, "v": 2}]
    snapshot = write(table, rows)
    (split,) = plan_snapshot(table.storage, snapshot).splits

    def having(*columns: str) -> list[_Row]:
        files = tuple(replace(file, write_cols=columns) for file in split.files)
        batches = read_split(table.storage, replace(split, files=files))
        return [row for batch in batches for row in batch.to_pylist()]

    # As an UPDATE of a row-tracking table writes it: every column, and the rows' ids.
    assert having("n", "v", "_ROW_ID", "_SEQUENCE_NUMBER") == rows
    assert having("v", "n") == rows
    with pytest.raises(Unsupported, match="lacks the columns v,"):
        having("p", "n", "_ROW_ID")


# Deletes that the manifest denies ---------------------------------------------------------------


def test_deletes_are_seen_whatever_the_manifest_says(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    write(table, _rows(k=[1, 2]))
    write(table, _rows(k=[2, 9]), ["-D", "-D"])
    latest = table.pointer.latest()
    assert latest is not None
    plan = plan_snapshot(table.storage, latest)
    # As pypaimon writes it: no deletes, it says.
    lying = [
        replace(split, files=tuple(replace(f, delete_row_count=0) for f in split.files))
        for split in plan.splits
    ]
    assert [split.needs_merge for split in lying] == [True]
    assert [row["k"] for row in rows_of(table, replace(plan, splits=tuple(lying)))] == [1]


# Changes ----------------------------------------------------------------------------------------


def _changes(
    table: _Table, snapshot: Snapshot, where: str | None = None
) -> list[tuple[str, int, int | None]]:
    predicate = None if where is None else parse_predicate(where, table.storage.schema)
    plan = plan_delta(table.storage, snapshot, predicate=predicate)
    found = []
    for split in plan.splits:
        for batch in read_split(
            table.storage, split, columns=["k", "v"], predicate=predicate, row_kinds=True
        ):
            assert batch.schema.equals(
                read_schema(table.storage.schema, ["k", "v"], row_kinds=True)
            )
            found += [(r["_ROW_KIND"], r["k"], r["v"]) for r in batch.to_pylist()]
    return found


def test_changes_of_a_commit_keep_their_kinds(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    write(table, _rows(k=[1, 2, 3], v=[1, 1, 1]))
    second = write(table, _rows(k=[1, 2, 4], v=[5, 1, 9]), ["+U", "-D", "+I"])
    compact(table, full=True)
    assert _changes(table, second) == [("+U", 1, 5), ("-D", 2, 1), ("+I", 4, 9)]
    assert _changes(table, second, "v > 4") == [("+U", 1, 5), ("+I", 4, 9)]
    plan = plan_delta(table.storage, second)
    assert [row["k"] for row in rows_of(table, plan)] == [1, 4]


def test_changes_of_one_key_come_in_the_order_of_writing(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    writer = TableWriter(table.storage, max_sequence_numbers={}, buffer_bytes=1)
    for v in range(5):
        writer.write(pa.Table.from_pylist(_rows(k=[7], v=[v]), table.storage.schema.arrow))
    messages = writer.finish()
    assert len(messages[0].new_files) == 5
    shuffled = replace(messages[0], new_files=tuple(reversed(messages[0].new_files)))
    snapshot = TableCommit(table.storage, table.pointer, "w").commit([shuffled])
    assert snapshot is not None
    assert _changes(table, snapshot) == [("+I", 7, v) for v in range(5)]
    assert [row["v"] for row in read(table)] == [4]


def test_the_rows_of_an_overwrite_are_its_changes(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, options={"bucket": "-1"})
    first = write(table, _rows(k=[1]))
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(pa.Table.from_pylist(_rows(k=[2]), table.storage.schema.arrow))
    old = [e.file for e in live_entries(table.storage, first)]
    message = replace(writer.finish()[0], compact_before=tuple(old))
    commit = TableCommit(table.storage, table.pointer, "w")
    snapshot = commit.commit([message], kind=CommitKind.OVERWRITE)
    assert snapshot is not None
    assert [kind + str(k) for kind, k, _ in _changes(table, snapshot)] == ["+I2"]
    assert [row["k"] for row in read(table)] == [2]
    assert [row["k"] for row in read(table, first)] == [1]


# Old schemas ------------------------------------------------------------------------------------


def _evolve(table: _Table, fields: Sequence[DataField]) -> _Table:
    old = table.storage.schema
    highest = max(old.highest_field_id, *(item.id for item in fields))
    schema = TableSchema(
        old.id + 1, tuple(fields), highest, old.partition_keys, old.primary_keys, old.options,
        None, 0,
    )  # fmt: skip
    table.storage.files.write(table.storage.layout.schema(schema.id), schema.to_json().encode())
    return replace(table, storage=table.storage.with_schema(schema))  # type: ignore[type-var]


def test_buckets_of_keys_that_another_engine_shortened_are_all_searched(
    new_table: _NewTable,
) -> None:
    table = new_table([("k", "STRING")], options={"bucket": "8", "bucket-key": "k"})
    write(table, [{"k": f"key-{i:04d}-{i}"} for i in range(50)])
    (key,) = table.storage.schema.fields
    table = _evolve(table, [replace(key, type=parse_type("VARCHAR(8)"))])
    for i in range(0, 50, 7):
        assert read(table, where=f"k = 'key-{i:04d}'") == [{"k": f"key-{i:04d}"}]


@pytest.mark.parametrize("primary_keys", [(), ("k",)])
def test_files_of_old_schemas_read_as_the_present_one(
    new_table: _NewTable, primary_keys: tuple[str, ...]
) -> None:
    options = {"bucket": "1", "bucket-key": "k"}
    table = new_table(_COLUMNS, primary_keys=primary_keys, options=options)
    write(table, _rows(k=[1, 2, 3], v=[10, 20, 30], w=["a", "b", "c"]))
    p, k, s, v, _ = table.storage.schema.fields
    # v is widened and renamed, w dropped, and another column takes w's name; order changes.
    fields = [
        k,
        replace(v, name="value", type=parse_type("BIGINT")),
        DataField(7, "w", parse_type("DOUBLE")),
        s,
        p,
    ]
    table = _evolve(table, fields)
    write(table, [{"k": 4, "value": 2**40, "w": 0.5, "s": "", "p": 0}])
    if primary_keys:
        write(table, [{"k": 2, "value": 21, "w": 1.5, "s": "", "p": 0}])
    expected = {1: (10, None), 2: (20, None), 3: (30, None), 4: (2**40, 0.5)}
    if primary_keys:
        expected[2] = (21, 1.5)
    found = read(table, columns=["w", "value", "k"])
    assert {row["k"]: (row["value"], row["w"]) for row in found} == expected
    for where, keys in (
        ("value > 15 AND w IS NULL", {2, 3} - ({2} if primary_keys else set())),
        ("w = 0.5", {4}),
        ("w IS NOT NULL", {4} | ({2} if primary_keys else set())),
        ("value = 20", set() if primary_keys else {2}),
        ("value < 9999999999", {1, 2, 3}),
        ("k = 3", {3}),
    ):
        assert {row["k"] for row in read(table, where=where)} == keys, where


def test_statistics_in_another_unit_prune_nothing(new_table: _NewTable) -> None:
    table = new_table([("k", "BIGINT"), ("t", "TIMESTAMP(3)")], options={"bucket": "-1"})
    moment = dt.datetime(2024, 5, 6, 7, 8, 9)
    write(table, [{"k": 1, "t": moment}])
    # A foreign writer's file holds microseconds in the place of milliseconds.
    snapshot = table.pointer.latest()
    assert snapshot is not None
    (split,) = plan_snapshot(table.storage, snapshot).splits
    foreign = pa.table({"k": [1], "t": pa.array([moment], pa.timestamp("us"))})
    path = f"{split.directory}/{split.files[0].file_name}"
    with table.storage.files.open_output(path) as sink:
        pq.write_table(foreign, sink)
    where = "t = TIMESTAMP '2024-05-06 07:08:09'"
    assert read(table, where=where) == [{"k": 1, "t": moment}]
    # The column becomes one of microseconds, its old statistics stay.
    k, t = table.storage.schema.fields
    table = _evolve(table, [k, replace(t, type=parse_type("TIMESTAMP(6)"))])
    assert read(table, where=where) == [{"k": 1, "t": moment}]
    assert read(table, where="t > TIMESTAMP '2024-05-06 07:08:09'") == []


def test_files_older_than_a_column_are_pruned_by_it(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, options={"bucket": "-1"})
    write(table, _rows(k=[1, 2], w=["a", "b"]))
    # A new column under the name of a dropped one: the old statistics are not its own.
    fields = [*table.storage.schema.fields[:4], DataField(9, "w", parse_type("STRING"))]
    table = _evolve(table, fields)
    assert _plan(table, "w = 'a'").splits == ()
    assert len(read(table, where="w IS NULL")) == 2


# Bad input --------------------------------------------------------------------------------------


def _small(new_table: _NewTable, **options: str) -> tuple[_Table, Snapshot]:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})
    write(table, _rows(k=[1, 2]))
    return table, write(table, _rows(k=[2, 3]))


def test_a_missing_manifest_or_list_is_named(new_table: _NewTable) -> None:
    table, snapshot = _small(new_table)
    files, layout = table.storage.files, table.storage.layout
    names = [s.name for s in files.list(layout.manifest_directory)]
    for name in names:
        path = layout.manifest(name)
        data = files.read(path)
        files.delete(path)
        if name in (snapshot.base_manifest_list, snapshot.delta_manifest_list) or (
            name.startswith("manifest-") and not name.startswith("manifest-list-")
        ):
            with pytest.raises(CorruptData, match=name):
                plan_snapshot(table.storage, snapshot)
        files.write(path, data)
    assert len(read(table)) == 3


def test_a_missing_or_truncated_data_file_is_named(new_table: _NewTable) -> None:
    table, snapshot = _small(new_table)
    files = table.storage.files
    (split,) = plan_snapshot(table.storage, snapshot).splits
    path = f"{split.directory}/{split.files[0].file_name}"
    data = files.read(path)
    files.write(path, data[:-20])
    with pytest.raises(CorruptData, match=split.files[0].file_name):
        read(table)
    files.delete(path)
    with pytest.raises(CorruptData, match=rf"{split.files[0].file_name} is missing"):
        read(table)
    files.write(path, data)
    wrong = tuple(replace(file, row_count=file.row_count + 1) for file in split.files)
    with pytest.raises(CorruptData, match="the manifest says 3"):
        list(read_split(table.storage, replace(split, files=wrong)))


def test_unknown_columns_and_formats_are_refused(new_table: _NewTable) -> None:
    table, snapshot = _small(new_table)
    (split,) = plan_snapshot(table.storage, snapshot).splits
    with pytest.raises(NotFound, match="nope"):
        list(read_split(table.storage, split, columns=["nope"]))
    lance = tuple(replace(file, file_name="data-1.lance") for file in split.files)
    with pytest.raises(Unsupported, match=r"data-1\.lance"):
        list(read_split(table.storage, replace(split, files=lance)))


def test_tables_that_would_be_read_wrongly_are_refused(new_table: _NewTable) -> None:
    table, snapshot = _small(new_table)
    schema = table.storage.schema.with_options({"branch": "other"})
    for plan in (plan_snapshot, plan_delta):
        with pytest.raises(Unsupported, match="branch=other"):
            plan(table.storage.with_schema(schema), snapshot)
