"""What changed between two points of a table's history, as a batch."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.schema.change import SetOption

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

pytestmark = pytest.mark.parametrize("lake", ["embedded"], indirect=True)

COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), False), ("v", pa.float64()), ("w", pa.list_(pa.int32()))]
)


@pytest.fixture
def table(lake: Lake, clock: Clock) -> Table:
    """Four commits a minute apart: 1 and 2; 2 changed and 3; a compaction; 1 deleted."""
    made = lake.create_table("sales.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    made.write(rows({1: 1.0, 2: 2.0}))
    clock.turn(minutes=1)
    made.write(rows({2: 2.5, 3: 3.0}))
    clock.turn(minutes=1)
    made.compact()
    clock.turn(minutes=1)
    made.write(rows({1: 1.0}), pa.array(["-D"]))
    return made


MARKED = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "100"}


def rows(values: dict[int, float | None]) -> pa.Table:
    return pa.table(
        {"k": list(values), "v": list(values.values()), "w": [[k] for k in values]}, COLUMNS
    )


def changed(table: Table, *between: object, **how: object) -> list[tuple[object, ...]]:
    found = table.changes(*between, **how).to_arrow()  # type: ignore[arg-type]
    return sorted(zip(*found.drop_columns("w").to_pydict().values(), strict=True), key=str)


def test_a_difference_gives_each_changed_key_once(table: Table) -> None:
    assert changed(table, 1, 4, mode="diff") == [
        (1, 1.0, "-D"), (2, 2.5, "+I"), (3, 3.0, "+I"),
    ]  # fmt: skip
    assert changed(table, 2, 3, mode="diff") == []
    assert changed(table, 3, mode="diff") == [(1, 1.0, "-D")]
    assert table.changes(1, 4, mode="diff", row_kinds=False).to_arrow()["k"].to_pylist() == [2, 3]
    assert table.changes(1, 4, mode="diff").count() == 3


def test_a_difference_takes_columns_and_conditions(table: Table) -> None:
    found = table.changes(1, 4, mode="diff", columns=["v"], where="k >= 2 AND v < 3")
    assert found.to_arrow().to_pydict() == {"v": [2.5], "_ROW_KIND": ["+I"]}


def test_rows_written_again_as_they_were_do_not_differ(table: Table) -> None:
    table.write(rows({2: 2.5, 3: 3.0}))
    assert changed(table, 4, 5, mode="diff") == []
    assert len(changed(table, 4, 5)) == 2
    table.write(rows({2: None}))
    table.write(rows({2: None}))
    assert changed(table, 5, 6, mode="diff") == [(2, None, "+I")]
    assert changed(table, 6, 7, mode="diff") == []


def test_nothing_but_files_that_may_differ_is_read(lake: Lake) -> None:
    table = lake.create_table("sales.far", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    table.write(rows(dict.fromkeys(range(10), 1.0)))
    table.write(rows(dict.fromkeys(range(100, 110), 1.0)))
    table.write(rows({5: 5.0}))
    (split,) = table.changes(2, 3, mode="diff").splits
    assert split.before is not None
    assert (len(split.before), len(split.files)) == (1, 2)
    assert changed(table, 2, 3, mode="diff") == [(5, 5.0, "+I")]


def marked_table(lake: Lake, *, of: int) -> Table:
    """One large file, in which deletion vectors mark what later commits changed."""
    table = lake.create_table(
        "sales.marked", COLUMNS, primary_keys=["k"], options={"bucket": "1", **MARKED}
    )
    table.write(rows(dict.fromkeys(range(of), 1.0)))
    table.compact()
    return table


def newest(table: Table) -> int:
    return max(snapshot.id for snapshot in table.snapshots())


def test_only_rows_that_one_snapshot_marks_are_read_of_a_file_of_both(lake: Lake) -> None:
    table = marked_table(lake, of=50_000)
    points = [newest(table)]
    commits: list[tuple[dict[int, float | None], str]] = [
        ({5: 5.0, 6: 1.0}, "+I"), ({7: None}, "-D"), ({90_000: 1.0, 90_001: 1.0}, "+I"),
        ({90_000: 2.0}, "+I"),
    ]  # fmt: skip
    for values, kind in commits:
        table.write(rows(values), pa.array([kind] * len(values)))
        points.append(newest(table))
    assert changed(table, points[0], points[1], mode="diff") == [(5, 5.0, "+I")]
    assert changed(table, points[1], points[2], mode="diff") == [(7, 1.0, "-D")]
    assert changed(table, points[0], points[3], mode="diff") == [
        (5, 5.0, "+I"), (7, 1.0, "-D"), (90_000, 1.0, "+I"), (90_001, 1.0, "+I"),
    ]  # fmt: skip
    large = max(table.scan().splits[0].files, key=lambda file: file.row_count).file_name
    for since, until, expected in (
        (points[2], points[3], [(90_000, 1.0, "+I"), (90_001, 1.0, "+I")]),
        # The vector of the large file stays, but lies in another index file.
        (points[3], points[4], [(90_000, 2.0, "+I")]),
    ):
        assert changed(table, since, until, mode="diff") == expected
        (split,) = table.changes(since, until, mode="diff").splits
        assert large not in {file.file_name for file in (*split.files, *(split.before or ()))}


def test_a_difference_with_marked_rows_of_aggregates(lake: Lake) -> None:
    columns = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
    options = {
        "bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
        **MARKED,
    }  # fmt: skip
    table = lake.create_table("sales.marked", columns, primary_keys=["k"], options=options)
    table.write({"k": [1, 2], "v": [1, 1]})
    first = newest(table)
    table.write({"k": [1, 3], "v": [2, 0]})
    second = newest(table)
    assert table.changes(first, second, mode="diff").to_arrow().sort_by("k").to_pydict() == {
        "k": [1, 3], "v": [3, 0], "_ROW_KIND": ["+I", "+I"],
    }  # fmt: skip
    table.write({"k": [2], "v": [0]})
    assert table.changes(second, mode="diff").to_arrow().num_rows == 0


def test_a_difference_of_a_table_that_began_to_mark_rows(lake: Lake) -> None:
    table = lake.create_table(
        "sales.marked", COLUMNS, primary_keys=["k"],
        options={"bucket": "1", "deletion-vectors.modifiable": "true"},
    )  # fmt: skip
    table.write(rows(dict.fromkeys(range(10), 1.0)))
    table.write(rows({1: 2.0}))
    table.compact()
    first = newest(table)
    table = table.alter(SetOption("deletion-vectors.enabled", "true"))
    table.write(rows({2: 2.0}))
    table.write(rows({3: None}), pa.array(["-D"]))
    assert changed(table, first, mode="diff") == [(2, 2.0, "+I"), (3, 1.0, "-D")]


def test_a_difference_of_rows_without_keys(lake: Lake) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = lake.create_table("sales.plain", COLUMNS, options=options)
    points = [0]
    for step in range(6):
        match step:
            case 0 | 2:
                table.write(rows({step * 10 + k: float(step) for k in range(5)}))
            case 1 | 3:
                table.delete(f"k = {step} OR k = {step + 19}")
            case 4:
                table.update({"v": 9.0}, where="k = 4")
            case _:
                table.delete("k = 0")
        points.append(newest(table))
    first, *_, last = points[1:]
    assert changed(table, first, points[2], mode="diff") == [(1, 0.0, "-D")]
    assert changed(table, points[2], points[4], mode="diff") == [
        (20, 2.0, "+I"), (21, 2.0, "+I"), (23, 2.0, "+I"), (24, 2.0, "+I"), (3, 0.0, "-D"),
    ]  # fmt: skip
    assert changed(table, points[4], points[5], mode="diff") == [(4, 0.0, "-D"), (4, 9.0, "+I")]
    whole = changed(table, first, last, mode="diff")
    assert [row for row in whole if row[2] == "-D"] == [(k, 0.0, "-D") for k in (0, 1, 3, 4)]
    # Applied to what was there, they give what is.
    there = {row["k"]: row["v"] for row in table.scan(snapshot_id=first).to_arrow().to_pylist()}
    for kind in ("-D", "+I"):
        for key, value, own in whole:
            if own == kind == "-D":
                assert there.pop(key) == value
            elif own == kind:
                there[key] = value
    assert there == {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    added = table.changes(first, last, mode="diff", row_kinds=False)
    assert sorted(added.to_arrow()["k"].to_pylist()) == [4, 20, 21, 23, 24]
    assert table.changes(first, last, mode="diff", where="k = 3").count() == 1
    table.delete("v >= 0")
    with pytest.raises(Unsupported, match="not in snapshot"):
        table.changes(first, mode="diff").to_arrow()


def test_aggregates_are_compared_as_they_are_shown(lake: Lake) -> None:
    table = lake.create_table(
        "sales.sums",
        pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())]),
        primary_keys=["k"],
        options={
            "bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
        },
    )  # fmt: skip
    for value in (1, 2, 4, 0):
        table.write({"k": [1], "v": [value]})
    assert table.changes(1, 3, mode="diff").to_arrow()["v"].to_pylist() == [7]
    assert table.changes(3, 4, mode="diff").to_arrow().num_rows == 0


def test_deltas_are_those_of_appends(table: Table) -> None:
    assert changed(table, 1, 4) == [(1, 1.0, "-D"), (2, 2.5, "+I"), (3, 3.0, "+I")]
    assert changed(table, 0, 2) == [
        (1, 1.0, "+I"), (2, 2.0, "+I"), (2, 2.5, "+I"), (3, 3.0, "+I"),
    ]  # fmt: skip
    assert changed(table, 2, 3) == []
    assert changed(table, 4, 4) == []


def test_a_changelog_is_read_where_one_is_kept(lake: Lake) -> None:
    table = lake.create_table(
        "sales.log", COLUMNS, primary_keys=["k"],
        options={"bucket": "1", "changelog-producer": "input"},
    )  # fmt: skip
    table.write(rows({1: 1.0}))
    both = pa.concat_tables([rows({1: 1.0}), rows({1: 2.0})])
    table.write(both, pa.array(["-U", "+U"]))
    assert changed(table, 1) == [(1, 1.0, "-U"), (1, 2.0, "+U")]
    assert changed(table, 1, mode="changelog") == [(1, 1.0, "-U"), (1, 2.0, "+U")]
    assert changed(table, 1, mode="delta") == [(1, 2.0, "+U")]


def test_tags_and_moments_bound_changes(table: Table) -> None:
    table.create_tag("a", 1)
    table.create_tag("b", 4)
    times = [snapshot.time_millis for snapshot in reversed(table.snapshots())]
    first, last = (dt.datetime.fromtimestamp(time / 1000, dt.UTC) for time in (times[0], times[3]))
    assert changed(table, "a", "b") == changed(table, 1, 4, mode="diff")
    assert changed(table, "a") == changed(table, 1, 4, mode="diff")
    assert changed(table, "a", "b", mode="delta") == changed(table, 1, 4)
    assert changed(table, first, last) == changed(table, 1, 4)
    assert changed(table, first) == changed(table, 1, 4)
    before = first - dt.timedelta(seconds=1)
    assert changed(table, before, last) == changed(table, 0, 4)
    assert changed(table, before, before) == []
    assert changed(table, last + dt.timedelta(seconds=1)) == []


def test_options_bound_changes(table: Table) -> None:
    table.create_tag("a", 1)
    table.create_tag("b", 4)
    times = [snapshot.time_millis for snapshot in reversed(table.snapshots())]
    difference = changed(table, 1, 4, mode="diff")
    for options, expected in (
        ({"incremental-between": "1,4"}, changed(table, 1, 4)),
        ({"incremental-between": "1, 4", "incremental-between-scan-mode": "diff"}, difference),
        ({"incremental-between": "a,b"}, difference),
        (
            {"incremental-between": "a,b", "incremental-between-tag-to-snapshot": "true"},
            changed(table, 1, 4),
        ),
        ({"incremental-between-timestamp": f"{times[0]},{times[3]}"}, changed(table, 1, 4)),
        ({"incremental-between-timestamp": f"0,{times[1]}"}, changed(table, 0, 2)),
        ({"incremental-between-timestamp": "0,1"}, []),
        (
            {
                "incremental-between-timestamp": f"0,{times[3]}",
                "incremental-between-scan-mode": "diff",
            },
            difference,
        ),
    ):
        assert changed(table.with_options(options)) == expected, options
    logged = table.with_options({"incremental-between": "1,4"}).inspect.audit_log(["k"])
    assert sorted(logged.to_arrow()["rowkind"].to_pylist()) == ["+I", "+I", "-D"]


@pytest.mark.parametrize(
    ("period", "formatter", "names"),
    [
        ("daily", "with_dashes", ("2026-01-30", "2026-01-31", "2026-02-01")),
        ("daily", "without_dashes", ("20260130", "20260131", "20260201")),
        ("hourly", "with_dashes", ("2026-01-31 22", "2026-01-31 23", "2026-02-01 00")),
        ("hourly", "without_dashes_and_spaces", ("2026013122", "2026013123", "2026020100")),
    ],
)
def test_a_tag_of_a_period_is_compared_with_the_one_before(
    table: Table, period: str, formatter: str, names: tuple[str, ...]
) -> None:
    for snapshot_id, name in zip((1, 2, 4), names, strict=True):
        table.create_tag(name, snapshot_id)
    table.create_tag("other", 3)
    options = {"tag.creation-period": period, "tag.period-formatter": formatter}

    def up_to(tag: str) -> list[tuple[object, ...]]:
        return changed(table.with_options({**options, "incremental-to-auto-tag": tag}))

    assert up_to(names[2]) == changed(table, 2, 4, mode="diff")
    assert up_to(names[1]) == changed(table, 1, 2, mode="diff")
    assert up_to(names[0]) == []
    with pytest.raises(Invalid, match="made for each period"):
        up_to("other")


def test_what_cannot_be_known_is_refused(lake: Lake, table: Table) -> None:
    for between, how, message in (
        ((4, 1), {}, "before they start"),
        ((1, "a"), {}, "two snapshot ids, two tags"),
        ((1, 4), {"mode": "other"}, "must be one of"),
        ((None, 4), {}, "since what"),
        ((), {}, "incremental-between"),
    ):
        with pytest.raises(Invalid, match=message):
            changed(table, *between, **how)
    with pytest.raises(NotFound):
        changed(table, 1, 9, mode="diff")
    with pytest.raises(Invalid, match="neither two tags"):
        changed(table.with_options({"incremental-between": "a,9"}))
    with pytest.raises(Invalid, match=r"Table\.changes"):
        table.with_options({"incremental-between": "1,2"}).scan()
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFound, match="expired"):
        changed(table, 0, 2)


def test_a_difference_of_appended_rows(lake: Lake) -> None:
    table = lake.create_table("sales.plain", COLUMNS)
    table.write(rows({1: 1.0}))
    table.write(rows({2: 2.0}))
    assert changed(table, 1, mode="diff") == [(2, 2.0, "+I")]
    table.delete("k = 1")
    with pytest.raises(Unsupported, match="is not in snapshot 3 any more"):
        changed(table, 1, mode="diff")


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    commits=st.lists(
        st.dictionaries(st.integers(0, 8), st.sampled_from([None, 0.0, 1.0, "-D"]), min_size=1),
        min_size=2, max_size=6,
    ),
    compacted=st.integers(0, 5),
    bounds=st.tuples(st.integers(1, 6), st.integers(1, 6)),
)  # fmt: skip
@pytest.mark.parametrize("options", [{}, MARKED], ids=["merged on read", "marked"])
def test_a_difference_is_that_of_two_dictionaries(
    lake: Lake,
    options: dict[str, str],
    commits: list[dict[int, float | str | None]],
    compacted: int,
    bounds: tuple[int, int],
) -> None:
    lake.drop_table("sales.model", ignore_if_not_exists=True)
    table = lake.create_table(
        "sales.model", COLUMNS, primary_keys=["k"], options={"bucket": "1", **options}
    )
    states: dict[int, dict[int, float | None]] = {}
    now: dict[int, float | None] = {}
    for at, commit in enumerate(commits):
        kinds = ["-D" if value == "-D" else "+I" for value in commit.values()]
        values = {k: None if isinstance(v, str) else v for k, v in commit.items()}
        snapshot = table.write(rows(values), pa.array(kinds))
        assert snapshot is not None
        for k, kind in zip(commit, kinds, strict=True):
            now.pop(k, None)
            if kind == "+I":
                now[k] = values[k]
        states[snapshot.id] = dict(now)
        if at == compacted:
            table.compact()
    newest = max(snapshot.id for snapshot in table.snapshots())
    for number in range(1, newest + 1):
        states.setdefault(number, states.get(number - 1, {}))
    since, until = sorted(min(bound, newest) for bound in bounds)
    before, after = states[since], states[until]
    if options:
        # A snapshot shows what is compacted, and no rows that wait for it.
        before, after = (
            {row["k"]: row["v"] for row in table.scan(snapshot_id=at).to_arrow().to_pylist()}
            for at in (since, until)
        )
    expected = {(k, before[k], "-D") for k in before.keys() - after.keys()}
    expected |= {(k, v, "+I") for k, v in after.items() if k not in before or before[k] != v}
    assert set(changed(table, since, until, mode="diff")) == expected
