"""Partitions as objects of the catalog, over every catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import PartitionInfo
from headwater.storage.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

MakeSnapshot = Callable[..., Snapshot]

IN_CATALOG = {"bucket": "2", "metastore.partitioned-table": "true"}
HOURLY = Identifier("sales", "hourly")
DAYS = [f"2026-01-0{day}" for day in range(1, 8)]


def _schema(partition_keys: Sequence[str], options: Mapping[str, str]) -> Schema:
    columns = pa.schema(
        [("order_id", pa.int64()), ("dt", pa.string()), ("hour", pa.int32())],
    )
    return Schema.from_arrow(columns, partition_keys=partition_keys, options=dict(options))


@pytest.fixture
def daily(catalog: Catalog) -> Identifier:
    """A table partitioned by day, in the catalog."""
    identifier = Identifier("sales", "daily")
    catalog.databases.create(identifier.database)
    catalog.tables.create(identifier, _schema(["dt"], {**IN_CATALOG, "bucket": "-1"}))
    return identifier


@pytest.fixture
def hourly(catalog: Catalog, daily: Identifier) -> Identifier:
    """A table partitioned by day and hour, in the catalog."""
    catalog.tables.create(HOURLY, _schema(["dt", "hour"], {**IN_CATALOG, "bucket": "-1"}))
    return HOURLY


def _specs(*days: str) -> list[dict[str, str]]:
    return [{"dt": day} for day in days]


def _days(partitions: Sequence[PartitionInfo]) -> list[str]:
    return [item.spec["dt"] for item in partitions]


def _only(catalog: Catalog, table: Identifier) -> PartitionInfo:
    (found,) = catalog.partitions.list(table).items
    return found


def _numbers(partition: PartitionInfo) -> tuple[int, int, int, int]:
    return (
        partition.record_count,
        partition.file_size_in_bytes,
        partition.file_count,
        partition.last_file_creation_time,
    )


def _filter(column: str, function: str, *literals: object) -> str:
    reference = {"index": 0, "name": column, "type": "STRING"}
    return json.dumps(
        {
            "kind": "LEAF",
            "transform": {"name": "FIELD_REF", "fieldRef": reference},
            "function": function,
            "literals": list(literals),
        }
    )


# Kept up to date by commits -----------------------------------------------------------------------


def test_commits_keep_partitions(
    catalog: Catalog, daily: Identifier, snapshot: MakeSnapshot
) -> None:
    assert not catalog.partitions.list(daily).items
    first, second, third = snapshot(1), snapshot(2), snapshot(3)
    added = [PartitionStatistics({"dt": day}, 10, 1000, 1, 5, 2) for day in ("b", "a")]
    assert catalog.snapshots.commit(daily, None, first, None, added).decided()
    found = catalog.partitions.list(daily).items
    assert [(item.name, *_numbers(item), item.total_buckets) for item in found] == [
        ("dt=a", 10, 1000, 1, 5, 2),
        ("dt=b", 10, 1000, 1, 5, 2),
    ]
    assert all(item.created_at and item.updated_at and not item.is_done for item in found)
    more = [PartitionStatistics({"dt": "a"}, 5, 500, 1, 9, 2)]
    assert catalog.snapshots.commit(daily, None, second, first.uuid, more).decided()
    assert _numbers(catalog.partitions.list(daily).items[0]) == (15, 1500, 2, 9)
    emptied = [PartitionStatistics({"dt": "b"}, -10, -1000, -1, 5, 2)]
    assert catalog.snapshots.commit(daily, None, third, second.uuid, emptied).decided()
    assert _days(catalog.partitions.list(daily).items) == ["a"]
    catalog.snapshots.rollback_to_snapshot(daily, 1)
    found = catalog.partitions.list(daily).items
    assert [(item.name, *_numbers(item)[:3]) for item in found] == [
        ("dt=a", 10, 1000, 1),
        ("dt=b", 10, 1000, 1),
    ]


def test_a_commit_measures_a_registered_partition(
    catalog: Catalog, daily: Identifier, snapshot: MakeSnapshot
) -> None:
    catalog.partitions.create(daily, _specs("a"))
    assert _numbers(_only(catalog, daily)) == (-1, -1, -1, -1)
    change = PartitionStatistics({"dt": "a"}, 10, 1000, 1, 5, 2)
    assert catalog.snapshots.commit(daily, None, snapshot(1), None, [change]).decided()
    assert _numbers(_only(catalog, daily)) == (10, 1000, 1, 5)


def test_the_order_of_a_clients_columns_does_not_matter(
    catalog: Catalog, hourly: Identifier, snapshot: MakeSnapshot
) -> None:
    change = PartitionStatistics({"hour": "7", "dt": "a"}, 10, 1000, 1, 5, 2)
    assert catalog.snapshots.commit(hourly, None, snapshot(1), None, [change]).decided()
    assert _only(catalog, hourly).name == "dt=a/hour=7"
    result = catalog.partitions.create(hourly, [{"hour": "7", "dt": "a"}, {"hour": "8", "dt": "a"}])
    assert list(result.existed) == [{"dt": "a", "hour": "7"}]
    names = [item.name for item in catalog.partitions.list(hourly).items]
    assert names == ["dt=a/hour=7", "dt=a/hour=8"]


# Only where the table says so ---------------------------------------------------------------------


def test_other_tables_partitions_are_in_their_files(catalog: Catalog, table: Identifier) -> None:
    for ask in (
        lambda: catalog.partitions.list(table),
        lambda: catalog.partitions.list_by_names(table, _specs("a")),
        lambda: catalog.partitions.list_by_filter(table, _filter("dt", "EQUAL", "a")),
        lambda: catalog.partitions.create(table, _specs("a")),
        lambda: catalog.partitions.drop(table, _specs("a")),
        lambda: catalog.partitions.mark_done(table, _specs("a")),
    ):
        with pytest.raises(Unsupported, match=r"metastore\.partitioned-table"):
            ask()


def test_a_table_can_turn_to_it_later(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    change = PartitionStatistics({"dt": "a"}, 10, 1000, 1, 5, 2)
    assert catalog.snapshots.commit(table, None, snapshot(1), None, [change]).decided()
    catalog.tables.alter(table, [SetOption("metastore.partitioned-table", "true")])
    assert _numbers(_only(catalog, table)) == (10, 1000, 1, 5)


def test_an_unknown_table(catalog: Catalog, daily: Identifier) -> None:
    nowhere = Identifier("sales", "nowhere")
    for ask in (
        lambda: catalog.partitions.list(nowhere),
        lambda: catalog.partitions.create(nowhere, []),
        lambda: catalog.partitions.drop(nowhere, []),
        lambda: catalog.partitions.mark_done(nowhere, []),
    ):
        with pytest.raises(NotFound) as caught:
            ask()
        assert caught.value.resource_type is ResourceType.TABLE


# Create, drop, mark -------------------------------------------------------------------------------


def test_create_tells_new_from_old(catalog: Catalog, daily: Identifier) -> None:
    assert catalog.partitions.create(daily, _specs("a")).created == _specs("a")
    result = catalog.partitions.create(daily, _specs("b", "a", "b"))
    assert (list(result.created), list(result.existed)) == (_specs("b"), _specs("a", "b"))
    assert _days(catalog.partitions.list(daily).items) == ["a", "b"]
    assert catalog.partitions.create(daily, []).created == []


@pytest.mark.parametrize("again", [["b", "a"], ["b", "b"]])
def test_create_all_or_none(catalog: Catalog, daily: Identifier, again: list[str]) -> None:
    catalog.partitions.create(daily, _specs("a"))
    with pytest.raises(AlreadyExists) as caught:
        catalog.partitions.create(daily, _specs(*again), ignore_if_exists=False)
    assert caught.value.resource_type is ResourceType.PARTITION
    assert caught.value.resource_name == f"dt={again[1]}"
    assert _days(catalog.partitions.list(daily).items) == ["a"]


@pytest.mark.parametrize(
    "spec", [{}, {"dt": "a"}, {"dt": "a", "hour": "1", "x": "2"}, {"dt": "a", "hour": "noon"}]
)
def test_what_is_no_partition_is_refused(
    catalog: Catalog, hourly: Identifier, spec: dict[str, str]
) -> None:
    for change in (catalog.partitions.create, catalog.partitions.mark_done):
        with pytest.raises(Invalid):
            change(hourly, [{"dt": "a", "hour": "1"}, spec])
    assert not catalog.partitions.list(hourly).items


def test_drop_tells_gone_from_missing(catalog: Catalog, daily: Identifier) -> None:
    catalog.partitions.create(daily, _specs("a", "b"))
    result = catalog.partitions.drop(daily, _specs("b", "z"))
    assert (list(result.dropped), list(result.missing)) == (_specs("b"), _specs("z"))
    with pytest.raises(NotFound) as caught:
        catalog.partitions.drop(daily, _specs("a", "z"), ignore_if_not_exists=False)
    assert caught.value.resource_type is ResourceType.PARTITION
    assert caught.value.resource_name == "dt=z"
    assert _days(catalog.partitions.list(daily).items) == ["a"]


def test_mark_done_registers_what_is_not_there(catalog: Catalog, daily: Identifier) -> None:
    catalog.partitions.create(daily, _specs("a", "b"))
    catalog.partitions.mark_done(daily, _specs("a", "c"))
    catalog.partitions.mark_done(daily, _specs("a"))
    found = catalog.partitions.list(daily).items
    assert [(item.spec["dt"], item.is_done) for item in found] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]


def test_dropping_the_table_takes_its_partitions(catalog: Catalog, daily: Identifier) -> None:
    catalog.partitions.create(daily, _specs("a"))
    catalog.tables.drop(daily)
    catalog.tables.create(daily, _schema(["dt"], {**IN_CATALOG, "bucket": "-1"}))
    assert not catalog.partitions.list(daily).items


# Statistics that clients report -------------------------------------------------------------------


def _report(day: str, *numbers: int) -> PartitionStatistics:
    records, size, files, newest = numbers
    return PartitionStatistics({"dt": day}, records, size, files, newest, -1)


def test_reported_statistics_are_added_or_put_in_place(catalog: Catalog, daily: Identifier) -> None:
    def report(*numbers: int, replace: bool) -> tuple[int, int, int, int]:
        catalog.partitions.create(
            daily,
            _specs("a"),
            statistics=[_report("a", *numbers)],
            replace_statistics=replace,
        )
        return _numbers(_only(catalog, daily))

    # Never measured: what is added is what there is.
    assert report(3, 300, 1, 1000, replace=False) == (3, 300, 1, 1000)
    assert report(4, 400, 2, 500, replace=False) == (7, 700, 3, 1000)
    # A negative number says nothing.
    assert report(-1, 100, -1, -1, replace=False) == (7, 800, 3, 1000)
    assert report(5, 500, 1, 700, replace=True) == (5, 500, 1, 700)
    assert report(-1, 900, -1, -1, replace=True) == (5, 900, 1, 700)


def test_a_report_about_a_partition_that_is_not_there_is_ignored_as_a_whole(
    catalog: Catalog, daily: Identifier
) -> None:
    reports = [_report("a", 3, 300, 1, 1000), _report("b", 9, 900, 3, 1000)]
    catalog.partitions.create(daily, _specs("a"), statistics=reports, replace_statistics=False)
    assert _numbers(_only(catalog, daily)) == (-1, -1, -1, -1)


def test_a_report_must_say_how_it_counts(catalog: Catalog, daily: Identifier) -> None:
    with pytest.raises(Invalid, match="replaceStatistics"):
        catalog.partitions.create(daily, _specs("a"), statistics=[_report("a", 1, 1, 1, 1)])
    twice = [_report("a", 1, 1, 1, 1), _report("a", 2, 2, 2, 2)]
    with pytest.raises(Invalid, match="two"):
        catalog.partitions.create(daily, _specs("a"), statistics=twice, replace_statistics=False)
    assert not catalog.partitions.list(daily).items


# Listing ------------------------------------------------------------------------------------------


def test_pages(catalog: Catalog, daily: Identifier) -> None:
    catalog.partitions.create(daily, _specs(*reversed(DAYS)))
    found: list[str] = []
    token: str | None = None
    sizes: list[int] = []
    while True:
        page = catalog.partitions.list(daily, max_results=3, page_token=token)
        found += _days(page.items)
        sizes.append(len(page.items))
        token = page.next_token
        if token is None:
            break
    assert (found, sizes) == (DAYS, [3, 3, 1])
    assert catalog.partitions.list(daily, max_results=7).next_token is None


def test_pages_stand_still_while_partitions_come_and_go(
    catalog: Catalog, daily: Identifier
) -> None:
    catalog.partitions.create(daily, _specs("b", "d", "f", "h"))
    first = catalog.partitions.list(daily, max_results=2)
    catalog.partitions.create(daily, _specs("a", "e"))
    catalog.partitions.drop(daily, _specs("d"))
    second = catalog.partitions.list(daily, max_results=10, page_token=first.next_token)
    assert _days(first.items) == ["b", "d"]
    assert _days(second.items) == ["e", "f", "h"]


@pytest.mark.parametrize("token", ["dt=a", "x" * 70, "é"])
def test_a_token_of_something_else(catalog: Catalog, daily: Identifier, token: str) -> None:
    with pytest.raises(Invalid, match="page token"):
        catalog.partitions.list(daily, page_token=token)


PATTERNS: Sequence[tuple[str, list[str]]] = [
    ("dt=2026-01-0%", ["2026-01-01", "2026-01-02"]),
    ("dt=2026%", ["2026-01-01", "2026-01-02", "2026-02-01"]),
    ("dt=2026-01-01", ["2026-01-01"]),
    ("dt=2026", []),
    ("%01", ["2026-01-01", "2026-02-01"]),
    ("dt=2026-0_-01", ["2026-01-01", "2026-02-01"]),
    ("dt=100\\%", ["100%"]),
    ("dt=100\\_%", ["100_x"]),
    ("DT=2026%", []),
    ("", ["100%", "100_x", "2026-01-01", "2026-01-02", "2026-02-01"]),
]


def test_patterns(catalog: Catalog, daily: Identifier, subtests: pytest.Subtests) -> None:
    days = ["2026-01-01", "2026-01-02", "2026-02-01", "100%", "100_x"]
    catalog.partitions.create(daily, _specs(*days))
    for pattern, expected in PATTERNS:
        with subtests.test(pattern=pattern):
            assert _days(catalog.partitions.list(daily, pattern=pattern).items) == expected
            first = catalog.partitions.list(daily, pattern=pattern, max_results=1)
            rest = catalog.partitions.list(daily, pattern=pattern, page_token=first.next_token)
            if len(expected) > 1:
                assert _days(first.items) + _days(rest.items) == expected


def test_names_longer_than_the_index(catalog: Catalog, daily: Identifier) -> None:
    long = "x" * 500
    days = [f"{long}{number}" for number in range(5)]
    catalog.partitions.create(daily, _specs(*days))
    found: list[str] = []
    token: str | None = None
    while True:
        page = catalog.partitions.list(daily, max_results=2, page_token=token)
        found += _days(page.items)
        token = page.next_token
        if token is None:
            break
    assert sorted(found) == days
    assert _days(catalog.partitions.list(daily, pattern=f"dt={long}3").items) == [days[3]]
    assert sorted(_days(catalog.partitions.list(daily, pattern=f"dt={long}%").items)) == days


def test_by_names(catalog: Catalog, hourly: Identifier) -> None:
    specs = [{"dt": "a", "hour": str(hour)} for hour in range(3)]
    catalog.partitions.create(hourly, specs)
    asked = [{"hour": "2", "dt": "a"}, specs[0], specs[0], {"dt": "z", "hour": "0"}, {"dt": "a"}]
    found = catalog.partitions.list_by_names(hourly, asked)
    assert [item.name for item in found] == ["dt=a/hour=0", "dt=a/hour=2"]
    assert not catalog.partitions.list_by_names(hourly, [])
    many = [{"dt": "a", "hour": str(hour)} for hour in range(1001)]
    with pytest.raises(Invalid, match="1000"):
        catalog.partitions.list_by_names(hourly, many)
    assert len(catalog.partitions.list_by_names(hourly, many[:1000])) == 3


CONDITIONS: Sequence[tuple[str, list[str]]] = [
    (_filter("dt", "EQUAL", DAYS[2]), DAYS[2:3]),
    (_filter("dt", "GREATER_THAN", DAYS[2]), DAYS[3:]),
    (_filter("dt", "LESS_OR_EQUAL", DAYS[2]), DAYS[:3]),
    (_filter("dt", "BETWEEN", DAYS[1], DAYS[2]), DAYS[1:3]),
    (_filter("dt", "IN", DAYS[1], DAYS[4], "x"), [DAYS[1], DAYS[4]]),
    (_filter("dt", "NOT_EQUAL", DAYS[0]), DAYS[1:]),
    (_filter("dt", "STARTS_WITH", "2026-01-0"), DAYS),
    (_filter("dt", "STARTS_WITH", "2027"), []),
    (_filter("dt", "IS_NULL"), []),
    # What the catalog cannot tell may match.
    (_filter("nope", "EQUAL", "x"), DAYS),
    (_filter("dt", "ENDS_WITH", "1"), DAYS),
]


def test_by_filter(catalog: Catalog, daily: Identifier, subtests: pytest.Subtests) -> None:
    catalog.partitions.create(daily, _specs(*DAYS))
    for condition, expected in CONDITIONS:
        with subtests.test(condition=condition):
            assert _days(catalog.partitions.list_by_filter(daily, condition).items) == expected
            found: list[str] = []
            token: str | None = None
            while True:
                page = catalog.partitions.list_by_filter(
                    daily, condition, max_results=2, page_token=token
                )
                assert len(page.items) <= 2
                found += _days(page.items)
                token = page.next_token
                if token is None:
                    break
            assert found == expected


def test_by_filter_of_several_columns(catalog: Catalog, hourly: Identifier) -> None:
    days = ["2026", "2026-01-01", "2026-01-02", "__DEFAULT_PARTITION__"]
    catalog.partitions.create(
        hourly, [{"dt": day, "hour": hour} for day in days for hour in ("1", "10", "9")]
    )

    def names(condition: str, pattern: str | None = None) -> list[str]:
        found = catalog.partitions.list_by_filter(hourly, condition, pattern=pattern).items
        return [f"{item.spec['dt']} {item.spec['hour']}" for item in found]

    # Numbers compare as numbers; names go on with a slash, which is above a hyphen.
    in_order = [days[1], days[2], days[0], days[3]]
    assert names(_filter("hour", "GREATER_THAN", 9)) == [f"{day} 10" for day in in_order]
    assert names(_filter("dt", "LESS_THAN", "2026-01-02")) == [
        f"{day} {hour}" for day in ("2026-01-01", "2026") for hour in ("1", "10", "9")
    ]
    assert names(_filter("dt", "IS_NULL"), pattern="%/hour=1%") == [
        f"{days[3]} 1",
        f"{days[3]} 10",
    ]


def test_a_filter_that_is_none(catalog: Catalog, daily: Identifier) -> None:
    for text in ("", "dt = 'a'", "[]"):
        with pytest.raises(Invalid, match="filter"):
            catalog.partitions.list_by_filter(daily, text)
