"""Tables whose rows have their columns in several files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.catalog.evolved_tables import (
    OPTIONS,
    SCHEMA,
    column_file,
    commit,
    files_of,
    found,
    make,
    path_of,
    racing_update,
    rows,
    streamed_ids,
    update,
)
from tests.examples import examples

from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, CorruptData, Invalid, Unsupported
from headwater.storage.index.deletion_files import write_deletion_vectors
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.row_ranges import row_ranges
from headwater.storage.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from headwater.storage.types.data_type import parse_type


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


# Reading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file_format", ["parquet", pytest.param("avro", marks=pytest.mark.modes), "orc"]
)
def test_each_column_is_that_of_the_newest_file(lake: Lake, file_format: str) -> None:
    table = make(lake, **{"file.format": file_format})
    table.write(rows(0, 1))
    table.write(rows(2, 3, 4))
    update(table, 0, a=[7, 8])
    update(table, 2, b=["x", None, "y"], a=[1, 2, 3])
    update(table, 2, a=[4, 5, 6])
    assert found(table) == [
        {"id": 0, "a": 7, "b": "b0"},
        {"id": 1, "a": 8, "b": "b1"},
        {"id": 2, "a": 4, "b": "x"},
        {"id": 3, "a": 5, "b": None},
        {"id": 4, "a": 6, "b": "y"},
    ]
    assert found(table, ["b", "_ROW_ID", "_SEQUENCE_NUMBER"], "id >= 3") == [
        {"b": None, "_ROW_ID": 3, "_SEQUENCE_NUMBER": 5},
        {"b": "y", "_ROW_ID": 4, "_SEQUENCE_NUMBER": 5},
    ]
    assert table.scan().count() == 5
    assert table.scan(snapshot_id=3).to_arrow()["a"].to_pylist() == [7, 8, 20, 30, 40]
    assert table.scan([]).to_arrow().num_rows == 5
    # Rows that are appended later have ids of their own.
    table.write(rows(9))
    assert found(table, ["id", "_ROW_ID"], "_ROW_ID >= 4")[1] == {"id": 9, "_ROW_ID": 5}


def test_only_files_whose_columns_are_wanted_are_opened(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    update(table, 0, a=[7, 8])
    update(table, 0, b=["x", "y"])
    (middle,) = (file for file in files_of(table) if file.write_cols == ("a",))
    path_of(table, middle).unlink()
    assert found(table, ["id", "b"]) == [{"id": 0, "b": "x"}, {"id": 1, "b": "y"}]
    assert table.scan().count() == 2
    with pytest.raises(CorruptData, match=middle.file_name):
        found(table, ["a"])


def test_statistics_of_overridden_columns_leave_out_nothing(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    table.write(rows(2, 3))
    update(table, 0, a=[1000, 1001])
    snapshot = table.latest_snapshot()
    assert snapshot is not None

    def planned(where: str) -> list[int]:
        predicate = table._predicate(where, table.storage)
        plan = plan_snapshot(table.storage, snapshot, predicate=predicate)
        return sorted({file.first_row_id or 0 for split in plan.splits for file in split.files})

    assert found(table, ["id"], "a >= 1000") == [{"id": 0}, {"id": 1}]
    assert found(table, ["id"], "a = 10") == []
    assert found(table, ["id"], "a >= 1000 and id = 1") == [{"id": 1}]
    # And those of the newest do.
    assert planned("a >= 1000") == [0]
    assert planned("a < 100") == [2]
    assert planned("id = 3") == [2]
    assert planned("_ROW_ID = 1") == [0]


@pytest.mark.parametrize("mode", ["none", "counts", "full"])
def test_whatever_the_statistics(lake: Lake, mode: str) -> None:
    table = make(lake, **{"metadata.stats-mode": mode})
    table.write(rows(0, 1))
    update(table, 0, a=[None, 5])
    assert found(table, ["id"], "a is null") == [{"id": 0}]
    assert found(table, ["id"], "a = 5") == [{"id": 1}]
    assert found(table, ["id"], "a = 10") == []


def test_columns_that_were_added_renamed_changed_and_dropped(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    table = table.alter(
        AddColumn(("c",), parse_type("INT")), RenameColumn(("a",), "z"), DropColumn(("b",))
    )
    assert found(table) == [{"id": 0, "z": 0, "c": None}, {"id": 1, "z": 10, "c": None}]
    update(table, 0, c=[5, 6])
    assert found(table, where="c > 5") == [{"id": 1, "z": 10, "c": 6}]
    table = table.alter(UpdateColumnType(("c",), parse_type("BIGINT")))
    update(table, 0, z=[1, 2])
    assert found(table) == [{"id": 0, "z": 1, "c": 5}, {"id": 1, "z": 2, "c": 6}]
    table = table.alter(AddColumn(("b",), parse_type("STRING")))
    # The new column of that name is another: the old files do not hold it.
    assert found(table, ["b"], "b is null") == [{"b": None}] * 2


def test_a_deletion_vector_of_the_oldest_file_deletes_the_whole_row(lake: Lake) -> None:
    table = make(lake, **{"deletion-vectors.enabled": "true"})
    table.write(rows(0, 1, 2))
    update(table, 0, a=[7, 8, 9])
    oldest = min(files_of(table), key=lambda file: file.max_sequence_number)
    vectors = {oldest.file_name: DeletionVector.from_positions([1])}
    index = write_deletion_vectors(table.storage, EMPTY_ROW, 0, vectors)
    commit(table, new_index_files=tuple(index))
    assert found(table, ["id", "a"]) == [{"id": 0, "a": 7}, {"id": 2, "a": 9}]
    assert table.scan().count() == 2
    assert found(table, ["b", "_ROW_ID"], "a = 9") == [{"b": "b2", "_ROW_ID": 2}]
    assert table.scan([]).to_arrow().num_rows == 2


def test_files_of_blobs_are_left_alone(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    update(table, 0, a=[7, 8])
    files = files_of(table)
    blob = replace(files[0], file_name="data-1.blob", row_count=1, write_cols=("picture",))
    (joined,) = row_ranges("here", [*files, blob])
    assert {file.file_name for file in joined.files} == {file.file_name for file in files}


def test_many_batches_are_joined_where_they_end_differently(lake: Lake) -> None:
    table = make(lake, **{"file.block-size": "1 kb"})
    count = 3000
    table.write(rows(*range(count)))
    wide = [f"{'x' * (i % 50)}{i}" for i in range(count)]
    update(table, 0, b=wide)
    got = pa.Table.from_batches(table.scan(["b", "id"]).to_batches(batch_rows=70))
    assert got["b"].to_pylist() == wide
    assert got["id"].to_pylist() == list(range(count))


def test_sequence_numbers_of_columns_do_not_decide_which_file_counts(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    file = column_file(table, 0, pa.table({"a": [1, 2], "b": ["x", "y"]}))
    commit(table, replace(file, write_cols_sequences=(1, 9)))
    update(table, 0, a=[3, 4])
    assert [(row["a"], row["b"]) for row in found(table)] == [(3, "x"), (4, "y")]
    assert (1, 9) in {file.write_cols_sequences for file in files_of(table)}
    table.compact()
    assert [(row["a"], row["b"]) for row in found(table)] == [(3, "x"), (4, "y")]
    assert [file.write_cols_sequences for file in files_of(table)] == [None]


# Writing ----------------------------------------------------------------------------------------


def test_rows_are_replaced_and_counted_as_files(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    update(table, 0, a=[7, 8])
    table.overwrite(rows(5))
    assert found(table, ["id", "_ROW_ID"]) == [{"id": 5, "_ROW_ID": 2}]
    assert table.check_files(deep=True).is_whole
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert found(table, ["id"]) == [{"id": 5}]


def test_what_would_need_files_of_some_columns_is_refused_by_name(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    table.write(rows(2))
    with pytest.raises(Unsupported, match=r"'deletion-vectors\.enabled' is not true"):
        table.delete("id = 0")
    with pytest.raises(Unsupported, match=r"mode `?delta|\(mode delta\)"):
        table.changes(1, 2, mode="diff")
    with pytest.raises(Unsupported, match="compact it without an order"):
        table.compact(order_strategy="order", order_by=["id"])
    assert len(files_of(table)) == 2


def test_an_update_writes_the_columns_that_change(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1, 2))
    table.write(rows(3, 4))
    made = table.update({"a": pc.field("a") + 1}, where="id = 1 or b = 'b4'")
    assert made is not None
    assert found(table, ["id", "a", "_SEQUENCE_NUMBER"]) == [
        {"id": 0, "a": 0, "_SEQUENCE_NUMBER": 3},
        {"id": 1, "a": 11, "_SEQUENCE_NUMBER": 3},
        {"id": 2, "a": 20, "_SEQUENCE_NUMBER": 3},
        {"id": 3, "a": 30, "_SEQUENCE_NUMBER": 3},
        {"id": 4, "a": 41, "_SEQUENCE_NUMBER": 3},
    ]
    new = [file for file in files_of(table) if file.write_cols is not None]
    assert sorted((file.first_row_id, file.row_count, file.write_cols) for file in new) == [
        (0, 3, ("a",)),
        (3, 2, ("a",)),
    ]
    assert made.next_row_id == 5
    assert table.update({"b": None}, where="_ROW_ID = 2") is not None
    assert found(table, ["b"], "b is null and a = 20") == [{"b": None}]
    assert table.update({"b": "x"}, where="id > 100") is None
    table.update({"a": 5, "b": "y"}, where="id = 4")
    assert found(table)[-1] == {"id": 4, "a": 5, "b": "y"}
    assert table.check_files(deep=True).is_whole


def test_a_merge_updates_columns_and_adds_rows(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    table.merge(pa.table({"id": [1, 7], "a": [99, 70]}), on=["id"])
    assert found(table, [*SCHEMA.names, "_ROW_ID"]) == [
        {"id": 0, "a": 0, "b": "b0", "_ROW_ID": 0},
        {"id": 1, "a": 99, "b": "b1", "_ROW_ID": 1},
        {"id": 7, "a": 70, "b": None, "_ROW_ID": 2},
    ]
    table.merge(pa.table({"id": [0], "a": [5]}), on=["id"], when_matched=None)
    assert found(table, ["a"], "id = 0") == [{"a": 0}]
    table.merge(pa.table({"id": [0, 8]}), on=["id"])
    assert table.scan(["id"]).to_arrow()["id"].to_pylist() == [0, 1, 7, 8]


def test_rows_that_are_deleted_are_marked_once_for_all_their_columns(lake: Lake) -> None:
    table = make(lake, **{"deletion-vectors.enabled": "true"})
    table.write(rows(0, 1, 2))
    table.write(rows(3))
    table.update({"a": 5}, where="id = 1")
    table.delete("a = 5 or id = 3")
    assert found(table, ["id", "a"]) == [{"id": 0, "a": 0}, {"id": 2, "a": 20}]
    table.update({"a": 6}, where="id = 2")
    table.merge(pa.table({"id": [0]}), on=["id"], when_matched="delete", when_not_matched=None)
    assert found(table) == [{"id": 2, "a": 6, "b": "b2"}]
    assert table.scan().count() == 1
    assert len(files_of(table)) == 4


def test_a_row_stays_in_its_partition(lake: Lake) -> None:
    table = lake.create_table("db.p", SCHEMA, partition_keys=["b"], options=OPTIONS)
    table.write(rows(0, 1))
    with pytest.raises(Invalid, match="'b' is a partition column"):
        table.update({"b": "z"}, where="id = 1")
    # New rows lie where their source says.
    source = pa.table({"id": [1, 2], "a": [9, 20], "b": ["z", "z"]})
    table.merge(source, on=["id"], when_matched=None)
    assert found(table, ["id", "a"], "b = 'z'") == [{"id": 2, "a": 20}]
    table.update({"a": 7}, where="b = 'b1'")
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [0, 7, 20]


def test_updates_at_once_of_the_same_column_are_repeated(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    other = lake.table("db.t")
    racing_update(table, lambda: other.update({"a": 5}, where="id = 0"), a=pc.field("a") + 1)
    assert [row["a"] for row in found(table)] == [6, 11]


def test_updates_at_once_of_different_columns_and_appends_meet_nobody(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    other = lake.table("db.t")

    def before() -> None:
        other.update({"b": "x"}, where="id = 0")
        other.write(rows(9))

    # Offered twice: the first attempt was overtaken, but nothing is read again.
    assert racing_update(table, before, a=pc.field("a") + 1).offered == 2
    assert [(row["a"], row["b"]) for row in found(table)] == [(1, "x"), (11, "b1"), (90, "b9")]


def test_an_update_of_rows_that_were_replaced_starts_over(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    other = lake.table("db.t")
    racing_update(table, lambda: other.overwrite(rows(4)), a=pc.field("a") + 1)
    assert found(table) == [{"id": 4, "a": 41, "b": "b4"}]
    # A compaction of another engine, which joined two files.
    lost = column_file(table, 0, pa.table({"a": [1, 2]}))
    latest = table.latest_snapshot()
    assert latest is not None
    with pytest.raises(Conflict, match="no longer in files of the same"):
        commit(table, lost, columns_of=latest.identity)


# Damage -----------------------------------------------------------------------------------------


def test_files_of_some_of_the_same_rows_are_corrupt(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1, 2))
    update(table, 1, a=[7, 8])
    with pytest.raises(CorruptData, match="overlap, and do not hold the same rows"):
        found(table)


def test_files_whose_rows_are_fewer_than_their_metadata_say_are_corrupt(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1, 2))
    short = column_file(table, 0, pa.table({"a": [7, 8]}))
    commit(table, replace(short, row_count=3))
    with pytest.raises(CorruptData, match=short.file_name):
        found(table)


def test_rows_without_ids_cannot_be_joined(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0))
    (file,) = files_of(table)
    with pytest.raises(CorruptData, match="have no ids"):
        list(row_ranges("here", [replace(file, first_row_id=None)]))


def test_a_required_column_that_no_file_holds_is_corrupt(lake: Lake) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("a", pa.int64())])
    table = lake.create_table("db.strict", schema, options=OPTIONS)
    commit(table, replace(column_file(table, 0, pa.table({"a": [1]})), first_row_id=None))
    assert found(table, ["a"]) == [{"a": 1}]
    with pytest.raises(CorruptData, match="'id', which is NOT NULL"):
        found(table, ["id"])


# Against a model --------------------------------------------------------------------------------

VALUES = {"id": st.integers(0, 99) | st.none(), "a": st.integers(0, 9) | st.none(),
          "b": st.sampled_from(["x", "y", None])}  # fmt: skip
STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(1, 5))
    | st.tuples(
        st.just("update"),
        st.tuples(st.integers(0, 9), st.sets(st.sampled_from(SCHEMA.names), min_size=1)),
    )
    | st.tuples(st.sampled_from(["set", "delete"]), st.integers(0, 9))
    | st.tuples(st.just("compact"), st.just(0)),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, data=st.data())
def test_random_column_files_join_as_in_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, object]],
    data: st.DataObject,
) -> None:
    lake = connect(str(tmp_path_factory.mktemp("model")))
    lake.create_database("db")
    table = make(lake, **{"deletion-vectors.enabled": "true"})
    gone: set[int] = set()
    model: list[dict[str, object]] = []
    ranges: list[tuple[int, int]] = []

    def drawn(names: Sequence[str], count: int) -> Mapping[str, list[object]]:
        return {
            name: data.draw(st.lists(VALUES[name], min_size=count, max_size=count))
            for name in names
        }

    for step, detail in steps:
        if step == "append":
            assert isinstance(detail, int)
            new = drawn(SCHEMA.names, detail)
            table.write(pa.table(dict(new), schema=SCHEMA))
            ranges.append((len(model), detail))
            model += [dict(zip(new, row, strict=True)) for row in zip(*new.values(), strict=True)]
            continue
        if step in ("set", "delete"):
            matching = [at for at, row in enumerate(model) if row["a"] == detail]
            if step == "delete":
                table.delete(f"a = {detail}")
                gone |= set(matching)
                continue
            table.update({"b": "set", "id": 7}, where=f"a = {detail}")
            for row_id in matching:
                if row_id not in gone:
                    model[row_id] |= {"b": "set", "id": 7}
            continue
        if step == "compact":
            if table.compact() is not None:
                ranges = [(0, len(model))]
            continue
        if not ranges:
            continue
        assert isinstance(detail, tuple)
        start, count = ranges[detail[0] % len(ranges)]
        changed = drawn(sorted(detail[1]), count)
        arrow = {
            name: pa.array(values, SCHEMA.field(name).type) for name, values in changed.items()
        }
        commit(table, column_file(table, start, pa.table(arrow)))
        for name, values in changed.items():
            for at, value in enumerate(values):
                model[start + at][name] = value
    assert found(table, [*SCHEMA.names, "_ROW_ID"]) == [
        {**row, "_ROW_ID": row_id} for row_id, row in enumerate(model) if row_id not in gone
    ]
    appended = [row["_ROW_ID"] for part in streamed_ids(table) for row in part]
    assert appended == list(range(len(model)))
    model = [row for row_id, row in enumerate(model) if row_id not in gone]
    wanted = data.draw(st.integers(0, 9))
    for name in ("a", "id"):
        expected = [row["b"] for row in model if row[name] == wanted]
        assert [row["b"] for row in found(table, ["b"], f"{name} = {wanted}")] == expected
    nulls = sum(row["a"] is None for row in model)
    assert len(found(table, ["id"], "a is null")) == nulls
