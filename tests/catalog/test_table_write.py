"""Writing through the table handle: upserts, appends, overwrites, deletes, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from headwater.catalog.table.pointer import CatalogPointer
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, Invalid, NotFound, Unavailable
from headwater.storage.files.local import local_path
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, SnapshotPointer
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

COLUMNS = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        pa.field("dt", pa.date32(), nullable=False),
        ("amount", pa.float64()),
        ("note", pa.string()),
    ]
)
FIRST, SECOND = dt.date(2026, 1, 1), dt.date(2026, 1, 2)


@pytest.fixture
def orders(lake: Lake) -> Table:
    return lake.create_table(
        "sales.orders",
        COLUMNS,
        primary_keys=["order_id", "dt"],
        partition_keys=["dt"],
        options={"bucket": "2"},
    )


@pytest.fixture
def log(lake: Lake) -> Table:
    return lake.create_table("sales.log", pa.schema([("n", pa.int64()), ("word", pa.string())]))


def test_a_row_among_mappings_may_delete(lake: Lake) -> None:
    table = lake.create_table(
        "sales.words",
        pa.schema([("n", pa.int64()), ("word", pa.string())]),
        primary_keys=["n"],
        options={"bucket": "1"},
    )
    table.write([{"n": 1}, {"n": 2, "word": "kept"}])
    assert rows(table) == [(1, None), (2, "kept")]
    table.write([{"n": 3, "_ROW_KIND": "+I"}, {"n": 1, "_ROW_KIND": "-D"}])
    assert rows(table) == [(2, "kept"), (3, None)]
    with pytest.raises(Invalid, match="no_such_column"):
        table.write([{"n": 4}, {"n": 5, "no_such_column": 5}])
    with pytest.raises(Invalid, match="row kinds"):
        table.write([{"n": 4}, {"n": 5, "_ROW_KIND": "+I"}])
    with pytest.raises(Invalid, match="Arrow array"):
        table.write({"n": [4]}, ["-D"])
    with pytest.raises(Invalid, match="'word' cannot be set"):
        table.update({"word": 2**70})


def test_a_long_negative_decimal_is_compared_digit_by_digit(lake: Lake) -> None:
    table = lake.create_table(
        "sales.sums", pa.schema([("n", pa.int64()), ("sum", pa.decimal128(38, 10))])
    )
    sums = [
        Decimal("-1234567890123456789012345678.1234567890"),
        Decimal("-1234567890123456789012345678.0000000000"),
    ]
    table.write(pa.table({"n": [1, 2], "sum": pa.array(sums, pa.decimal128(38, 10))}))
    for number, value in enumerate(sums, 1):
        for where in (f"sum = {value}", f"sum IN ({value})", f"NOT sum <> -({value.copy_abs()})"):
            assert table.scan(["n"], where).to_arrow().to_pydict() == {"n": [number]}, where
    table.delete(f"sum <= {sums[0]}")
    assert rows(table) == [(2, sums[1])]


def rows(table: Table) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.scan().to_arrow().columns]
    return sorted(zip(*columns, strict=True), key=repr)


def order(number: int, day: dt.date = FIRST, amount: float | None = None) -> dict[str, object]:
    return {"order_id": number, "dt": day, "amount": amount}


def files_on_disk(table: Table) -> list[str]:
    location = table.storage.layout.location
    result = (status.path.removeprefix(location) for status in table.storage.files.walk(location))
    return sorted(path for path in result if "/bucket-" in path)


def test_writing_a_key_again_replaces_its_row(orders: Table) -> None:
    first = orders.write([order(1, amount=1), order(2, amount=2), order(3, SECOND, 3)])
    assert first is not None
    assert (first.id, first.commit_kind, first.total_record_count) == (1, CommitKind.APPEND, 3)
    orders.write([order(2, amount=20), order(3, FIRST, 30)])
    assert rows(orders) == [
        (1, FIRST, 1.0, None),
        (2, FIRST, 20.0, None),
        (3, FIRST, 30.0, None),
        (3, SECOND, 3.0, None),
    ]


@pytest.mark.parametrize(
    "shape",
    [
        pa.Table.from_pylist,
        pl.DataFrame,
        pd.DataFrame,
        lambda data: pa.Table.from_pylist(data).to_reader(max_chunksize=1),
    ],
    ids=["arrow", "polars", "pandas", "stream"],
)
def test_any_frame_is_written(
    log: Table, shape: Callable[[Sequence[dict[str, object]]], object]
) -> None:
    log.write(shape([{"n": 1, "word": "a"}, {"n": 2, "word": None}]))
    log.write(shape([{"n": 1, "word": "a"}]))
    assert rows(log) == [(1, "a"), (1, "a"), (2, None)]


def test_nothing_to_write_is_no_snapshot(orders: Table) -> None:
    assert orders.write(COLUMNS.empty_table()) is None
    assert orders.latest_snapshot() is None
    assert orders.scan().to_arrow().schema == orders.schema.arrow


def test_row_kinds_delete_and_update(orders: Table) -> None:
    orders.write([order(1, amount=1), order(2, amount=2), order(3, amount=3)])
    orders.write(
        {
            "order_id": [1, 2, 2],
            "dt": [FIRST] * 3,
            "amount": [1.0, 2.0, 22.0],
            "_ROW_KIND": ["-D", "-U", "+U"],
        }
    )
    assert [row[:3] for row in rows(orders)] == [(2, FIRST, 22.0), (3, FIRST, 3.0)]
    orders.write([order(3)], pa.array(["-D"]))
    assert len(rows(orders)) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"order_id": [1], "dt": [FIRST], "colour": ["red"]}, "no column 'colour'"),
        ({"order_id": [1]}, "lacks the NOT NULL column 'dt'"),
        ({"order_id": ["one"], "dt": [FIRST]}, "column 'order_id' is BIGINT"),
        ({"order_id": [None, 1, None], "dt": [FIRST] * 3}, "but 2 of 3 rows are null"),
        (7, "cannot write a int"),
    ],
)
def test_bad_data_is_refused_and_nothing_is_left(orders: Table, data: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        orders.write(data)
    assert orders.latest_snapshot() is None
    assert files_on_disk(orders) == []


def test_an_overwrite_replaces_the_partitions_it_has_rows_for(orders: Table) -> None:
    orders.write([order(1), order(2), order(3, SECOND)])
    snapshot = orders.overwrite([order(9)])
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert [row[:2] for row in rows(orders)] == [(3, SECOND), (9, FIRST)]
    orders.overwrite([order(8)], dynamic=False)
    assert [row[:2] for row in rows(orders)] == [(8, FIRST)]
    assert orders.overwrite(COLUMNS.empty_table()) is None
    orders.overwrite(COLUMNS.empty_table(), dynamic=False)
    assert rows(orders) == []


def test_an_overwrite_of_a_partition_fills_its_column(orders: Table) -> None:
    orders.write([order(1), order(2, SECOND)])
    orders.overwrite({"order_id": [5]}, partition={"dt": "2026-01-02"})
    assert [row[:2] for row in rows(orders)] == [(1, FIRST), (5, SECOND)]
    with pytest.raises(Invalid, match="lie outside"):
        orders.overwrite([order(6, FIRST)], partition={"dt": SECOND})
    with pytest.raises(Invalid, match="not a partition column"):
        orders.overwrite([order(6)], partition={"amount": 1.0})
    orders.overwrite(COLUMNS.empty_table(), partition={"dt": FIRST})
    assert [row[:2] for row in rows(orders)] == [(5, SECOND)]
    assert len(files_on_disk(orders)) == 3


def test_partitions_are_dropped_and_tables_truncated(orders: Table) -> None:
    orders.write([order(1), order(2, SECOND)])
    orders.drop_partitions({"dt": FIRST})
    assert [row[:2] for row in rows(orders)] == [(2, SECOND)]
    with pytest.raises(Invalid, match="name the partitions"):
        orders.drop_partitions({})
    orders.truncate()
    assert rows(orders) == []


NULL_NAME = "__DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("column", "name", "good", "bad"),
    [
        (pa.string(), NULL_NAME, "x", NULL_NAME),
        (pa.int32(), "0", 1, 0),
        (pa.date32(), "20454", SECOND, FIRST),
        (pa.bool_(), "true", False, True),
    ],
)
@pytest.mark.parametrize("keyed", [True, False])
def test_no_partition_gets_the_name_of_the_null_partition(
    lake: Lake, keyed: bool, column: pa.DataType, name: str, good: object, bad: object
) -> None:
    table = lake.create_table(
        "sales.t",
        pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", column)]),
        primary_keys=["id"] if keyed else [],
        partition_keys=["p"],
        options={"partition.default-name": name},
    )

    def data(*values: object, kinds: Sequence[str] = ()) -> pa.Table:
        ids = pa.array(range(len(values)), pa.int64())
        made = pa.table({"id": ids, "p": pa.array(values, column)})
        return made.append_column("_ROW_KIND", pa.array(kinds)) if kinds else made

    table.write(data(good, None))
    writes: list[Callable[[], object]] = [
        lambda: table.write(data(good, bad)),
        lambda: table.overwrite(data(bad)),
        lambda: table.merge(data(None, bad), on=["id"]),
        lambda: table.update({"p": data(bad)["p"][0].as_py()}, where="id = 0"),
    ]
    for write in writes:
        with pytest.raises(Invalid, match=f"'{name}' cannot be a value of partition column 'p'"):
            write()
    assert rows(table) == [(0, good), (1, None)]
    table.drop_partitions({"p": name})
    assert rows(table) == [(0, good)]
    if keyed:
        table.write(data(bad, kinds=["-D"]))


def test_a_partition_with_the_name_of_the_null_partition_is_named_by_nothing(
    lake: Lake, tmp_path: Path
) -> None:
    """Only another engine writes such rows."""
    option = "partition.default-name"
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    made = lake.create_table("sales.t", columns, partition_keys=["p"], options={option: "other"})
    made.write({"id": [2], "p": [NULL_NAME]})
    location = local_path(made.storage.layout.location)
    schema = Path(location, "schema", "schema-0")
    schema.write_text(schema.read_text().replace(option, "k"))
    other = connect(tmp_path / "other")
    other.create_database("sales")
    table = other.register_table("sales.t", location)
    table.write({"id": [1], "p": [None]})
    stored = [(1, None), (2, NULL_NAME)]
    assert rows(table) == stored
    result = table.scan(where=f"p = '{NULL_NAME}'").to_arrow()
    assert result.to_pylist() == [{"id": 2, "p": NULL_NAME}]
    changes: list[Callable[[], object]] = [
        lambda: table.drop_partitions({"p": "x"}, {"p": NULL_NAME}),
        lambda: table.overwrite({"id": [3]}, partition={"p": NULL_NAME}),
    ]
    for change in changes:
        with pytest.raises(Invalid, match="is ambiguous for partition column 'p'"):
            change()
    assert rows(table) == stored
    table.compact(full=True)
    table.overwrite({"id": [3]}, partition={"p": None})
    assert rows(table) == [(2, NULL_NAME), (3, None)]
    table.delete(f"p = '{NULL_NAME}'")
    table.drop_partitions({"p": NULL_NAME})
    assert rows(table) == []


# Deleting -------------------------------------------------------------------------------------


def test_rows_are_deleted_by_a_filter_on_any_column(orders: Table) -> None:
    orders.write([order(n, FIRST if n % 2 else SECOND, float(n)) for n in range(10)])
    orders.write([order(4, SECOND, -4.0)])
    snapshot = orders.delete("amount < 0 OR (dt = '2026-01-01' AND amount >= 5)")
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.APPEND
    assert sorted(row[0] for row in rows(orders)) == [0, 1, 2, 3, 6, 8]  # type: ignore[type-var]
    assert orders.delete("amount > 1000") is None
    assert orders.latest_snapshot() == snapshot


def test_deleting_from_an_append_table_rewrites_the_files_that_match(log: Table) -> None:
    log.write({"n": [1, 2, 3], "word": ["a", None, "c"]})
    log.write({"n": [4, 5, 6], "word": ["a", "b", "c"]})
    log.write({"n": [7, 8, 9], "word": ["x", "y", "z"]})
    before = {file.name for file in log.files()}
    snapshot = log.delete("word = 'a'")
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.OVERWRITE, -2)
    assert [row[0] for row in rows(log)] == [2, 3, 5, 6, 7, 8, 9]
    assert len(before & {file.name for file in log.files()}) == 1
    log.delete("n >= 7")
    assert [row[0] for row in rows(log)] == [2, 3, 5, 6]
    assert len(log.files()) == 2
    assert log.delete("n = 100") is None
    log.delete("TRUE")
    assert (rows(log), log.files()) == ([], [])


def test_a_deletion_keeps_the_order_of_a_bucket(lake: Lake) -> None:
    options = {"bucket": "1", "bucket-key": "n"}
    table = lake.create_table("sales.ordered", pa.schema([("n", pa.int64())]), options=options)
    for start in (1, 4, 7):
        table.write({"n": [start, start + 1, start + 2]})
    table.delete("n = 5")
    kept = [1, 2, 3, 4, 6, 7, 8, 9]
    assert table.scan().to_arrow().column("n").to_pylist() == kept
    table.compact()
    table.write({"n": [0]})
    assert table.scan().to_arrow().column("n").to_pylist() == [*kept, 0]


def test_rows_for_which_a_filter_is_null_stay(log: Table) -> None:
    log.write({"n": [1, 2, None], "word": ["a", None, "a"]})
    log.delete("NOT (word = 'b')")
    assert rows(log) == [(2, None)]


def test_a_filter_that_is_none_is_refused(orders: Table) -> None:
    orders.write([order(1)])
    with pytest.raises(Invalid):
        orders.delete("amount <")
    with pytest.raises(NotFound, match="colour"):
        orders.delete("colour = 'red'")
    assert orders.write([order(2)]) is not None


def test_a_table_that_ignores_deletes_takes_those_that_are_asked_for(lake: Lake) -> None:
    table = lake.create_table(
        "sales.kept",
        COLUMNS,
        primary_keys=["order_id"],
        options={"bucket": "1", "ignore-delete": "true"},
    )
    table.write([order(1), order(2)])
    table.write([{**order(2), "_ROW_KIND": "-D"}])
    table.delete("order_id = 1")
    assert table.scan(["order_id"]).to_arrow().to_pydict() == {"order_id": [2]}


# Races and failures ---------------------------------------------------------------------------


class Interfering(Table):
    """A table between whose reading and committing something happens, in turn."""

    meanwhile: Sequence[Callable[[], object]] = ()
    lose_answers: int = 0

    @property
    def pointer(self) -> SnapshotPointer:
        return _Interfered(self)


class _Interfered:
    def __init__(self, table: Interfering) -> None:
        self._table = table
        self._inner = CatalogPointer(table.catalog, table.identifier, table.info.id)

    def latest(self) -> Snapshot | None:
        return self._inner.latest()

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        todo = list(self._table.meanwhile)
        self._table.meanwhile = todo[1:]
        if todo:
            todo[0]()
        answer = self._inner.commit(snapshot, base, statistics)
        if self._table.lose_answers:
            self._table.lose_answers -= 1
            return CommitAnswer.unknown(Unavailable("the answer was lost"))
        return answer

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self._inner.was_taken(snapshot)


def interfering(table: Table, clock: Clock, *meanwhile: Callable[[], object]) -> Interfering:
    options = table.schema.options
    other = Interfering(table.catalog, table.info, clock.runtime, options=options)
    other.meanwhile = meanwhile
    return other


def test_a_row_changed_while_it_was_being_deleted_is_judged_anew(
    orders: Table, clock: Clock
) -> None:
    orders.write([order(1, amount=-1.0), order(2, amount=-2.0)])
    slow = interfering(orders, clock, lambda: orders.write([order(1, amount=100.0)]))
    slow.delete("amount < 0")
    assert [row[:3] for row in rows(orders)] == [(1, FIRST, 100.0)]
    named = {file.name for file in orders.files()}
    assert {path.rsplit("/")[-1] for path in files_on_disk(orders)} == named


def test_files_compacted_while_rows_were_deleted_are_read_anew(log: Table, clock: Clock) -> None:
    log.write({"n": [1, 2]})
    log.write({"n": [3, 4]})
    slow = interfering(log, clock, log.compact, lambda: log.write({"n": [2, 5]}))
    slow.delete("n = 2")
    # The row written last was not there when the deletion read the table.
    assert [row[0] for row in rows(log)] == [1, 2, 3, 4, 5]


def test_a_deletion_that_is_always_overtaken_gives_up(orders: Table, clock: Clock) -> None:
    orders.write([order(1, amount=-1.0)])

    def disturb() -> object:
        return orders.write([order(1, amount=-1.0)])

    impatient = orders.with_options({"commit.max-retries": "2"})
    slow = interfering(impatient, clock, *[disturb] * 99)
    with pytest.raises(Conflict, match="after the rows were read"):
        slow.delete("amount < 0")
    assert len(rows(orders)) == 1


def test_a_lost_answer_does_not_double_rows(log: Table, clock: Clock) -> None:
    lossy = interfering(log, clock)
    lossy.lose_answers = 2
    snapshot = lossy.write({"n": [1]})
    assert snapshot == log.latest_snapshot()
    assert rows(log) == [(1, None)]
    assert len(log.snapshots()) == 1


def test_writers_at_once_lose_nothing(lake: Lake, log: Table) -> None:
    patient = log.with_options({"commit.max-retries": "200"})
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda n: patient.write({"n": [n]}), range(24)))
    assert sorted(snapshot.id for snapshot in done if snapshot) == list(range(1, 25))
    assert [row[0] for row in rows(log)] == sorted(range(24), key=lambda n: repr((n, None)))


# Schemas --------------------------------------------------------------------------------------


def test_an_added_column_is_null_in_old_rows(orders: Table) -> None:
    orders.write([order(1, amount=1.0)])
    orders.alter(AddColumn(("colour",), parse_type("STRING")))
    orders.write([{**order(2), "colour": "red"}])
    assert [(row[0], row[-1]) for row in rows(orders)] == [(1, None), (2, "red")]
    orders.delete("colour IS NULL")
    assert [(row[0], row[-1]) for row in rows(orders)] == [(2, "red")]


def test_a_handle_with_an_old_schema_still_writes_truly(lake: Lake, orders: Table) -> None:
    stale = lake.table("sales.orders")
    orders.alter(AddColumn(("colour",), parse_type("STRING")))
    snapshot = stale.write([order(1)])
    assert snapshot is not None
    assert snapshot.schema_id == orders.schema.id == 1
    assert [(row[0], row[-1]) for row in rows(orders)] == [(1, None)]
    with pytest.raises(Invalid, match="no column 'colour'"):
        stale.write([{**order(1), "colour": "red"}])
    stale.refresh().write([{**order(1), "colour": "red"}])
    assert [(row[0], row[-1]) for row in rows(orders)] == [(1, "red")]


def test_rows_spread_over_outdated_buckets_are_refused(lake: Lake, orders: Table) -> None:
    stale = lake.table("sales.orders")
    orders.alter(SetOption("bucket", "4"))
    with pytest.raises(Conflict, match="'bucket' changed from 2 to 4"):
        stale.write([order(1)])
    assert files_on_disk(orders) == []
    orders.write([order(1)])
    assert len(rows(orders)) == 1
