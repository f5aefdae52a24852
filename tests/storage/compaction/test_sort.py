"""Sort compaction: the same rows in an order, in files that do not overlap."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.modes import essential

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.sort_key import SortKey, sort_key
from headwater.storage.errors import Conflict, CorruptData, Invalid, Unavailable, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.delete import delete_from_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.split import read_split
from headwater.storage.rows.external_sort import Spool, sorted_batches
from headwater.storage.rows.hilbert import hilbert_order
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.rows.z_order import z_order
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("a", "INT"), ("b", "BIGINT"), ("s", "STRING"), ("d", "DECIMAL(12, 2)"), ("p", "INT")]
STRATEGIES = ["order", "zorder", "hilbert"]
HERE = LocalExecutor()


def write(table: StoredTable, rows: pa.Table) -> None:
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(rows)
    TableCommit(table.storage, table.pointer, "me").commit(writer.finish())


def some_rows(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)

    def column(values: object, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=rng.random(count) < 0.1)

    return pa.table(
        {
            "a": column(rng.integers(-(2**31), 2**31, count), pa.int32()),
            "b": column(rng.integers(-9, 9, count), pa.int64()),
            "s": column([f"{n:05}" for n in rng.integers(0, 99999, count)], pa.string()),
            "d": column(
                [Decimal(int(n)).scaleb(-2) for n in rng.integers(-(10**6), 10**6, count)],
                pa.decimal128(12, 2),
            ),
            "p": rng.integers(0, 2, count, np.int32),
        }
    )


def latest(table: StoredTable) -> Snapshot:
    found = table.pointer.latest()
    assert found is not None
    return found


def rows(table: StoredTable) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for split in plan_snapshot(table.storage, latest(table)).splits:
        for batch in read_split(table.storage, split):
            found += zip(*batch.to_pydict().values(), strict=True)
    return sorted(found, key=repr)


def sort(
    table: StoredTable, strategy: str, columns: Sequence[str], where: str | None = None
) -> Snapshot | None:
    schema = table.storage.schema
    condition = None if where is None else parse_predicate(where, schema)
    order = sort_key(schema, strategy, columns)
    return compact_table(table.storage, table.pointer, HERE, where=condition, order=order)


def file_keys(table: StoredTable, key: SortKey) -> dict[bytes, list[list[bytes]]]:
    """Of each partition the sort keys of its rows, file by file in the order of writing."""
    found: dict[bytes, list[list[bytes]]] = {}
    entries = live_entries(table.storage, latest(table))
    for entry in sorted(entries, key=lambda each: each.file.min_sequence_number):
        bucket = BucketFiles(
            table.storage,
            bucket_directory(table.storage, entry.partition, entry.bucket),
            partition_values(table.storage, entry.partition),
            {},
        )
        (batch,) = (
            pa.Table.from_batches(bucket.plain([entry.file], key.columns, None, 1 << 20))
            .combine_chunks()
            .to_batches()
        )
        # Text of one length compares the same in every batch.
        columns = [batch.column(name) for name in key.columns]
        types = [field.type for field in key.fields]
        match key.strategy:
            case "zorder":
                places = [bytes(place) for place in z_order(columns, types, 8)]
            case "hilbert":
                places = [bytes(place) for place in hilbert_order(columns, types)]
            case _:
                keys = key.order.encode(columns)
                width, plain = keys.dtype.itemsize, keys.tobytes()
                places = [plain[at : at + width] for at in range(0, len(plain), width)]
        found.setdefault(entry.partition, []).append(places)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_are_sorted_in_files_that_do_not_overlap(new_table: NewTable, strategy: str) -> None:
    table = new_table(
        COLUMNS,
        partition_keys=["p"],
        options={
            "bucket": "-1",
            "target-file-size": "4 kb",
            "file-index.bloom-filter.columns": "s",
            "file-index.bloom-filter.s.items": "10",
        },
    )
    for seed in range(3):
        write(table, some_rows(500, seed))
    before, columns = rows(table), ["b", "d", "s"]
    snapshot = sort(table, strategy, columns)
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert snapshot.total_record_count == len(before) == 1500
    assert rows(table) == before
    for files in file_keys(table, sort_key(table.storage.schema, strategy, columns)).values():
        assert len(files) > 1
        together = [key for file in files for key in file]
        assert together == sorted(together)
    entries = live_entries(table.storage, latest(table))
    assert all(e.file.embedded_file_index or e.file.extra_files for e in entries)
    assert all(e.file.value_stats.null_counts for e in entries)


def test_only_partitions_that_are_asked_for_are_sorted(new_table: NewTable) -> None:
    table = new_table(COLUMNS, partition_keys=["p"], options={"bucket": "-1"})
    write(table, some_rows(50))
    names = {e.file.file_name: e.partition for e in live_entries(table.storage, latest(table))}
    assert sort(table, "order", ["a"], where="p > 0") is not None
    after = {e.file.file_name: e.partition for e in live_entries(table.storage, latest(table))}
    ((_, partition),) = names.items() - after.items()
    assert partition_values(table.storage, partition) == (1,)
    assert sort(table, "order", ["a"], where="p = 7") is None
    with pytest.raises(Invalid, match="'a' is not a partition column"):
        sort(table, "order", ["a"], where="a = 7")


VALUES = st.fixed_dictionaries(
    {
        "a": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "b": st.one_of(st.none(), st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])),
        "s": st.one_of(st.none(), st.text("ab\0ü", max_size=12)),
        "d": st.one_of(st.none(), st.decimals(-1000, 1000, places=2)),
        "p": st.just(0),
    }
)


@settings(
    max_examples=examples(15),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.lists(VALUES, min_size=1, max_size=30), min_size=1, max_size=4),
    st.sampled_from(STRATEGIES),
    st.lists(st.sampled_from(["a", "b", "s", "d"]), min_size=2, max_size=4, unique=True),
)
def test_whatever_the_rows_are_they_stay(
    new_table: NewTable,
    commits: list[list[dict[str, object]]],
    strategy: str,
    columns: list[str],
) -> None:
    table = new_table(COLUMNS, options={"bucket": "-1", "target-file-size": "1 kb"})
    schema = some_rows(0).schema
    for each in commits:
        write(table, pa.Table.from_pylist(each, schema))
    before = rows(table)
    sort(table, strategy, columns)
    assert rows(table) == before
    if strategy == "order":
        key = columns[0]
        ends: list[object] = []
        for entry in sorted(
            live_entries(table.storage, latest(table)), key=lambda e: e.file.min_sequence_number
        ):
            found = read_columns(table, entry.file.file_name, key)
            ends += [value for value in found if value is not None]
            assert found == [None] * found.count(None) + found[found.count(None) :]
        assert ends == sorted(ends)  # type: ignore[type-var]


def read_columns(table: StoredTable, file: str, column: str) -> list[object]:
    import pyarrow.parquet as pq

    path = local_path(f"{table.storage.layout.location}/bucket-0/{file}")
    return list(pq.ParquetFile(path).read([column]).column(column).to_pylist())


@dataclass(frozen=True)
class Batches:
    """Rows in memory, as a source."""

    batches: list[pa.RecordBatch]

    @property
    def row_count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def read(
        self, columns: Sequence[str] | None = None, batch_rows: int = 0
    ) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            yield batch if columns is None else batch.select(columns)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("distinct", essential([1, 2, 5, 100_000], {5, 100_000}))
def test_rows_beyond_memory_are_sorted_on_disk(
    new_table: NewTable, strategy: str, distinct: int
) -> None:
    rng = np.random.default_rng(distinct)
    texts = pa.array([f"{n:03}" for n in range(1000)])
    table = pa.table(
        {
            # Most rows have one key, whatever the others are.
            "a": pa.array(np.where(rng.random(9000) < 0.6, 7, rng.integers(0, distinct, 9000)),
                          pa.int32(), mask=rng.random(9000) < 0.05),
            "b": pa.array(np.zeros(9000, np.int64)),
            "s": texts.take(pa.array(rng.integers(0, min(distinct, 1000), 9000))),
        }
    )  # fmt: skip
    schema = new_table([("a", "INT"), ("b", "BIGINT"), ("s", "STRING")]).storage.schema
    key = sort_key(schema, strategy, ["a", "b", "s"])
    source = Batches(table.to_batches(max_chunksize=700))
    found = pa.Table.from_batches(sorted_batches(source, key, 4096))
    assert found.num_rows == table.num_rows
    everything = [("a", "ascending"), ("s", "ascending")]
    assert found.sort_by(everything).equals(table.sort_by(everything))
    (batch,) = found.combine_chunks().to_batches()
    keys = key.order.encode(key.arrays(batch))
    assert bool(np.all(np.greater_equal(keys[1:], keys[:-1])))


def test_deletion_vectors_go_with_the_files_they_are_of(new_table: NewTable) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    table = new_table(COLUMNS, partition_keys=["p"], options=options)
    write(table, some_rows(200))
    delete(table, "b < 0")
    before = rows(table)
    assert latest(table).index_manifest is not None
    snapshot = sort(table, "zorder", ["a", "b"], where="p = 1")
    assert snapshot is not None
    assert rows(table) == before
    (left,) = (s for s in plan_snapshot(table.storage, latest(table)).splits if s.deletion_files)
    assert partition_values(table.storage, left.partition) == (0,)
    sort(table, "zorder", ["a", "b"])
    assert rows(table) == before
    assert latest(table).total_record_count == len(before)
    delete(table, "a IS NULL OR a IS NOT NULL")
    assert rows(table) == []
    assert sort(table, "order", ["a"]) is None


def delete(table: StoredTable, where: str) -> None:
    predicate = parse_predicate(where, table.storage.schema)
    delete_from_table(table.storage, table.pointer, HERE, predicate)


@pytest.mark.parametrize(
    ("strategy", "columns", "problem"),
    [
        ("random", ["a"], "order, zorder or hilbert, not by 'random'"),
        ("order", [], "needs the columns"),
        ("order", ["a", "a"], "name one twice"),
        ("hilbert", ["a"], "at least two columns"),
        ("order", ["p"], "'p' is a partition column"),
    ],
)
def test_orders_that_are_none_are_refused(
    new_table: NewTable, strategy: str, columns: list[str], problem: str
) -> None:
    table = new_table(COLUMNS, partition_keys=["p"], options={"bucket": "-1"})
    write(table, some_rows(9))
    with pytest.raises(Invalid, match=problem):
        sort(table, strategy, columns)


def test_columns_and_tables_without_an_order_are_refused(new_table: NewTable) -> None:
    table = new_table([("n", "INT"), ("v", "VARIANT")], options={"bucket": "-1"})
    for strategy in STRATEGIES:
        with pytest.raises(Unsupported, match=r"VARIANT|struct"):
            sort_key(table.storage.schema, strategy, ["n", "v"])
    for keys, options in ((["a"], {"bucket": "1"}), ([], {"bucket": "2", "bucket-key": "a"})):
        columns = [("a", "INT NOT NULL"), ("b", "INT")]
        other = new_table(columns, primary_keys=keys, options=options)
        write(other, pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([1], pa.int32())}))
        with pytest.raises(Invalid, match="only a table without a primary key"):
            sort(other, "order", ["b"])


class Meddling(LocalExecutor):
    """Lets something happen once tasks have read their files, before the commit."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        super().__init__()
        object.__setattr__(self, "acts", list(acts))
        self.acts: list[Callable[[], None]]

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        yield from super().run(work, tasks)
        if self.acts:
            self.acts.pop(0)()


def sort_beside(table: StoredTable, *acts: Callable[[], None]) -> Snapshot | None:
    order = sort_key(table.storage.schema, "order", ["a"])
    return compact_table(table.storage, table.pointer, Meddling(*acts), order=order)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_what_others_commit_meanwhile_stays(new_table: NewTable, vectors: str) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": vectors}
    table = new_table(COLUMNS, options=options)
    write(table, some_rows(100, 1))
    write(table, some_rows(100, 2))
    expected = rows(table)
    assert sort_beside(table, lambda: write(table, some_rows(100, 3))) is not None
    assert len(rows(table)) == 300
    assert set(expected) < set(rows(table))
    # The rows deleted meanwhile do not come back: what was sorted is sorted again.
    assert sort_beside(table, lambda: delete(table, "b > 0")) is not None
    assert [row for row in rows(table) if isinstance(row[1], int) and row[1] > 0] == []
    remaining = rows(table)
    before = table.files_below()
    acts = [lambda at=at: delete(table, f"b = {at}") for at in (-1, -2, -3)]
    with pytest.raises(Conflict):
        sort_beside(table, *acts)
    gone = [row for row in remaining if row[1] in (-1, -2, -3)]
    assert rows(table) == [row for row in remaining if row not in gone]
    # No file of the sort is left; all that is new is of the deletions.
    live = {e.file.file_name for e in live_entries(table.storage, latest(table))}
    new = {path for path in set(table.files_below()) - set(before) if "/data-" in path}
    assert len(new) <= 3
    assert vectors == "true" or {path.split("/")[-1] for path in new} >= live


def test_a_sort_that_fails_leaves_no_file(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={"bucket": "-1", "target-file-size": "1 kb"})
    write(table, some_rows(500))
    write(table, some_rows(500, 1))
    _, last = live_entries(table.storage, latest(table))[:2]
    path = f"{table.storage.layout.location}/bucket-0/{last.file.file_name}"
    Path(local_path(path)).unlink()
    before = table.files_below()
    with pytest.raises(CorruptData, match=last.file.file_name):
        sort(table, "zorder", ["a", "b"])
    assert table.files_below() == before


def test_a_disk_that_cannot_be_written_is_told(
    new_table: NewTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = new_table([("a", "INT")]).storage.schema
    key = sort_key(schema, "order", ["a"])
    source = Batches(pa.table({"a": pa.array([3, 1, 2], pa.int32())}).to_batches())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    (found,) = sorted_batches(source, key, 1 << 20)
    assert found.column("a").to_pylist() == [1, 2, 3]
    with pytest.raises(Unavailable, match="raise 'write-buffer-size'"):
        list(sorted_batches(source, key, 1))


def test_tasks_go_to_other_processes(new_table: NewTable) -> None:
    table = new_table(COLUMNS, partition_keys=["p"], options={"bucket": "-1"})
    write(table, some_rows(100))
    before = rows(table)
    condition = parse_predicate("p >= 0", table.storage.schema)
    order = sort_key(table.storage.schema, "zorder", ["a", "s"])

    class Elsewhere(LocalExecutor):
        def run(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
            return super().run(work, pickle.loads(pickle.dumps(tasks)))

    done = compact_table(table.storage, table.pointer, Elsewhere(), where=condition, order=order)
    assert done is not None
    assert rows(table) == before


_MEMORY = """
import sys
import numpy as np
import pyarrow as pa
from headwater.client import connect

def held(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) >> 10

lake = connect(sys.argv[1])
if sys.argv[2] == "write":
    lake.create_database("d")
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
    options = {"bucket": "-1", "write-buffer-size": "4 mb", "target-file-size": "4 mb"}
    rng = np.random.default_rng(0)
    wide = pa.array([f"{number:300}" for number in range(1000)])
    for name, count in (("d.few", 10), ("d.many", 160_000)):
        numbers = rng.integers(0, 10**9, (2, count))
        texts = wide.take(pa.array(rng.integers(0, 1000, count)))
        rows = pa.table([*map(pa.array, numbers), texts], schema=schema)
        lake.create_table(name, schema, options=options).write(rows)
    print(rows.nbytes >> 20)
else:
    # Modules are loaded, and caches filled.
    lake.table("d.few").compact(order_strategy="zorder", order_by=["a", "b"])
    before = held("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    many = lake.table("d.many")
    many.compact(order_strategy="zorder", order_by=["a", "b"])
    print(held("VmHWM") - before, len(many.files()))
"""


@pytest.mark.modes
def test_memory_follows_the_buffer_and_not_the_rows(tmp_path: Path) -> None:
    def step(name: str) -> list[int]:
        command = [sys.executable, "-c", _MEMORY, str(tmp_path), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [int(number) for number in done.stdout.split()]

    (total,) = step("write")
    grown, files = step("sort")
    assert total > 10 * 4
    # Without the bound it is more than twice the rows.
    assert grown < 1.5 * total, (total, grown)
    assert files > 1


def test_rows_that_come_once_are_read_again_from_memory_or_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parts = some_rows(1000).to_batches(max_chunksize=100)
    for memory in (1 << 30, 1):
        with Spool(memory) as spool:
            for part in parts:
                spool.add(part)
            assert spool.row_count == 1000
            for _ in range(2):
                assert pa.Table.from_batches(spool.read()).equals(pa.Table.from_batches(parts))
                (column,) = pa.Table.from_batches(spool.read(["s"])).columns
                assert column.to_pylist() == some_rows(1000)["s"].to_pylist()
            assert bool(list(tmp_path.iterdir())) == (memory == 1)
        assert not list(tmp_path.iterdir())
    with Spool(1) as spool:
        assert list(spool.read()) == []
