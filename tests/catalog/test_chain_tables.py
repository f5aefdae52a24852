"""Chain tables: a partition is the last whole one before it and the changes since."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.chain_tables import OPTIONS, STOCK, Row, rows
from tests.interrupted import WatchedBranches

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.jobs.deletion import held
from headwater.storage.jobs.partitions import expire_chain_partitions
from headwater.storage.maintenance.partition_expiry import PartitionRetention
from headwater.storage.options.lifecycle_options import LifecycleOptions
from headwater.storage.schema.chain import chain_options
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

KEYS = ["region", "day", "item"]


def deletes(*found: Row) -> pa.Table:
    return rows(*found).append_column("_ROW_KIND", pa.array(["-D"] * len(found)))


def read(table: Table, **scan: object) -> list[tuple[object, ...]]:
    result = table.scan(**scan).to_arrow()  # type: ignore[arg-type]
    return sorted(zip(*(column.to_pylist() for column in result.columns), strict=True))


def create(lake: Lake, name: str = "sales.stock", **options: str) -> Table:
    table = lake.create_table(
        name,
        STOCK,
        primary_keys=KEYS,
        partition_keys=["region", "day"],
        options=OPTIONS | {key.replace("_", "-"): value for key, value in options.items()},
    )
    table.create_branch("snapshot")
    table.create_branch("delta")
    return table


@pytest.fixture
def stock(lake: Lake) -> Table:
    """Whole partitions of the 1st and the 4th; changes of the 2nd, 3rd and 5th."""
    table = create(lake)
    whole, delta = table.branch("snapshot"), table.branch("delta")
    whole.write(rows(("EU", "20260101", "apple", 1, 10), ("EU", "20260101", "pear", 1, 20)))
    whole.write(rows(("EU", "20260104", "apple", 4, 44)))
    delta.write(rows(("EU", "20260102", "apple", 2, 11), ("EU", "20260102", "fig", 2, 5)))
    delta.write(deletes(("EU", "20260103", "pear", 3, None)))
    delta.write(rows(("EU", "20260104", "apple", 4, -1)))
    delta.write(rows(("EU", "20260105", "fig", 5, 6)))
    # Another chain, without a whole partition.
    delta.write(rows(("US", "20260102", "apple", 1, 7)))
    delta.write(rows(("US", "20260103", "apple", 2, 8), ("US", "20260103", "kiwi", 2, 9)))
    return table.refresh()


EXPECTED = [
    ("EU", "20260101", "apple", 1, 10),
    ("EU", "20260101", "pear", 1, 20),
    ("EU", "20260102", "apple", 2, 11),
    ("EU", "20260102", "fig", 2, 5),
    ("EU", "20260102", "pear", 1, 20),
    ("EU", "20260103", "apple", 2, 11),
    ("EU", "20260103", "fig", 2, 5),
    ("EU", "20260104", "apple", 4, 44),
    ("EU", "20260105", "apple", 4, 44),
    ("EU", "20260105", "fig", 5, 6),
    ("US", "20260102", "apple", 1, 7),
    ("US", "20260103", "apple", 2, 8),
    ("US", "20260103", "kiwi", 2, 9),
]


def test_a_partition_is_the_last_whole_one_and_the_changes_since(stock: Table) -> None:
    assert read(stock) == EXPECTED
    assert stock.scan().count() == len(EXPECTED)
    for day in ("20260101", "20260102", "20260103", "20260104", "20260105", "20260106"):
        expected = [row for row in EXPECTED if row[1] == day]
        assert read(stock, where=f"day = '{day}'") == expected
    assert read(stock, where="region = 'US' AND amount > 8") == EXPECTED[-1:]
    assert read(stock, where="day = '20260103' OR item = 'kiwi'") == [
        row for row in EXPECTED if row[1] == "20260103" or row[2] == "kiwi"
    ]
    # A newer row that does not match still supersedes the one that does.
    assert read(stock, where="day = '20260102' AND amount = 10") == []
    assert stock.scan(["amount"], "item = 'pear'").to_arrow()["amount"].to_pylist() == [20, 20]
    assert [each.name for each in stock.partitions()] == [
        *(f"region=EU/day=2026010{day}" for day in range(1, 6)),
        "region=US/day=20260102",
        "region=US/day=20260103",
    ]


def test_each_branch_is_read_alone(stock: Table) -> None:
    assert read(stock.branch("snapshot")) == [EXPECTED[0], EXPECTED[1], EXPECTED[7]]
    delta = stock.branch("delta")
    assert read(delta, where="day = '20260102' AND region = 'EU'") == EXPECTED[2:4]
    assert read(stock.with_options({"scan.fallback-delta-branch": ""})) == []
    # The table's own partitions go before both.
    stock.write(rows(("EU", "20260103", "own", 1, 1)))
    assert read(stock, where="day = '20260103'") == [
        ("EU", "20260103", "own", 1, 1), *EXPECTED[-2:]
    ]  # fmt: skip


def test_retracting_rows_outlive_a_full_compaction(stock: Table) -> None:
    for branch in ("delta", "snapshot"):
        stock.branch(branch).compact(full=True)
    assert read(stock) == EXPECTED
    assert read(stock.branch("delta"), where="day = '20260103' AND region = 'EU'") == []
    files = stock.branch("delta").files()
    assert all(file.level > 0 for file in files)
    assert sum(file.delete_row_count or 0 for file in files) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "partial-update", "fields.version.sequence-group": "amount"},
        {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"},
        {"changelog-producer": "input"},
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_every_engine_merges_the_branches_by_its_own_rules(
    lake: Lake, options: dict[str, str]
) -> None:
    if "fields.version.sequence-group" in options:
        options = {"merge-engine": "partial-update"}
    table = create(lake, **options)
    whole, delta = table.branch("snapshot"), table.branch("delta")
    whole.write(rows(("EU", "1", "a", 1, 10), ("EU", "1", "b", 1, 20)))
    delta.write(rows(("EU", "2", "a", 2, 5), ("EU", "2", "c", 2, 1)))
    delta.write(rows(("EU", "3", "b", 3, None)))
    for branch in (whole, delta):
        branch.compact(full=True)
    amounts = {
        "aggregation": [15, 20, 1],
        "partial-update": [5, 20, 1],
    }.get(options.get("merge-engine", ""), [5, None, 1])
    amounts_read = table.scan(["amount"], "day = '3'").to_arrow()["amount"].to_pylist()
    assert sorted(amounts_read, key=str) == sorted(amounts, key=str)


def test_branches_have_schemas_of_their_own(stock: Table) -> None:
    for name in ("snapshot", "delta", None):
        table = stock if name is None else stock.branch(name)
        if name == "delta":
            table.alter(SetOption("manifest.merge-min-count", "9"))
        table.alter(AddColumn(("note",), parse_type("STRING")))
    stock.refresh()
    more = rows(("EU", "20260106", "pear", 6, 60)).append_column("note", pa.array(["new"]))
    stock.branch("delta").write(more)
    assert read(stock, where="day = '20260106'") == [
        ("EU", "20260106", "apple", 4, 44, None),
        ("EU", "20260106", "fig", 5, 6, None),
        ("EU", "20260106", "pear", 6, 60, "new"),
    ]
    stock.branch("snapshot").alter(AddColumn(("other",), parse_type("INT")))
    with pytest.raises(Invalid, match="different columns"):
        stock.refresh().scan()


def test_a_read_of_the_past_is_of_both_branches(stock: Table, clock: Clock) -> None:
    moment = stock.branch("delta").latest_snapshot()
    assert moment is not None
    clock.turn(seconds=1)
    stock.branch("snapshot").write(rows(("EU", "20260105", "all", 5, 1)))
    assert read(stock, where="day = '20260105'") == [("EU", "20260105", "all", 5, 1)]
    assert read(stock, timestamp=moment.time_millis) == EXPECTED
    with pytest.raises(NotFound):
        read(stock, snapshot_id=1)
    stock.write(rows(("EU", "20260109", "own", 1, 1)))
    stock.create_tag("v1")
    clock.turn(seconds=1)
    stock.branch("snapshot").drop_partitions({"region": "EU", "day": "20260105"})
    assert ("EU", "20260105", "all", 5, 1) in read(stock, tag="v1")
    assert ("EU", "20260105", "all", 5, 1) not in read(stock)


def test_system_tables_show_the_chain(lake: Lake, stock: Table) -> None:
    log = lake.system_table("sales.stock$audit_log").to_arrow()
    assert log.num_rows == len(EXPECTED) + 1
    assert sorted(log["rowkind"].to_pylist())[-1] == "-D"
    assert lake.system_table("sales.stock$ro").to_arrow().num_rows == 0
    for branch in ("delta", "snapshot"):
        stock.branch(branch).compact(full=True)
    assert lake.system_table("sales.stock$ro").to_arrow().num_rows == len(EXPECTED)
    assert lake.system_table("sales.stock$partitions").to_arrow().num_rows == 7


def test_a_split_reads_files_of_several_partitions(stock: Table) -> None:
    scan = stock.scan(["item", "amount"], "day = '20260103' AND region = 'EU'")
    assert "snapshot and the later changes of delta" in repr(scan)
    splits = pickle.loads(pickle.dumps(scan.splits))
    assert {split.branch for split in splits} == {"delta"}
    batches = [batch for split in splits for batch in scan.read_split(split)]
    assert sorted(pa.Table.from_batches(batches)["item"].to_pylist()) == ["apple", "fig"]
    plan = scan.plan
    assert plan is not None
    assert sum(len(split.files) for split in plan.splits) == 4


def test_whole_partitions_that_changes_build_on_are_not_dropped(stock: Table) -> None:
    whole = stock.branch("snapshot")
    first, fourth = ({"region": "EU", "day": f"2026010{day}"} for day in (1, 4))
    with pytest.raises(Invalid, match=r"day=20260101 of branch snapshot.*day=20260102 of branch"):
        whole.drop_partitions(first)
    # Neither at once, though each has the other before the next.
    with pytest.raises(Invalid, match="cannot be dropped"):
        whole.truncate()
    assert read(stock) == EXPECTED
    whole.drop_partitions(fourth)
    assert read(stock, where="day = '20260104'") == [
        ("EU", "20260104", "apple", 4, -1), ("EU", "20260104", "fig", 2, 5)
    ]  # fmt: skip
    # Replacing them by other rows does not drop them.
    whole.overwrite(rows(("EU", "20260101", "lime", 1, 1)), first)
    assert ("EU", "20260102", "lime", 1, 1) in read(stock)


def millis(date: str) -> int:
    return int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def monthly(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Whole partitions at the beginning of three months, and changes before and in them."""
    monkeypatch.setenv("TZ", "UTC")
    clock.millis = millis("2026-01-01")
    table = create(lake, **{"partition.expiration-time": "30 d"})
    whole, delta = table.branch("snapshot"), table.branch("delta")
    whole.write(rows(*(("EU", f"20260{month}01", "apple", month, 1) for month in (1, 2, 3))))
    changes = ("20251231", "20260101", "20260110", "20260210", "20260211", "20260315")
    delta.write(rows(*(("EU", day, f"of {day}", int(day), 2) for day in changes)))
    # One chain without a whole partition, and one with a single one.
    delta.write(rows(("US", "20260101", "fig", 1, 1), ("US", "20260110", "kiwi", 1, 2)))
    whole.write(rows(("AU", "20260101", "fig", 1, 1)))
    delta.write(rows(("AU", "20260110", "kiwi", 1, 2)))
    return table.refresh()


def days(specs: Sequence[Mapping[str, str]]) -> list[str]:
    return sorted(f"{spec['region']} {spec['day'][2:]}" for spec in specs)


def kept(table: Table, branch: str) -> list[str]:
    return days([partition.spec for partition in table.branch(branch).partitions()])


@pytest.mark.parametrize(
    ("branch", "batch"),
    [
        ("main", "1"),
        pytest.param("snapshot", "100", marks=pytest.mark.modes),
        pytest.param("delta", "100", marks=pytest.mark.modes),
    ],
)
def test_partitions_expire_that_no_later_one_builds_on(
    monthly: Table, clock: Clock, branch: str, batch: str
) -> None:
    before = read(monthly, where="region <> 'EU' OR day >= '20260201'")
    of_others = {each for each in kept(monthly, "delta") if not each.startswith("EU")}
    clock.millis = millis("2026-03-31")
    named = monthly if branch == "main" else monthly.branch(branch)
    named = named.with_options({"partition.expiration-batch-size": batch})
    # The first of February is over, too, but the 10th of February is made of it.
    gone = ["EU 251231", "EU 260101", "EU 260110"]
    assert days(named.expire_partitions(dry_run=True).dropped) == gone
    assert days(named.expire_partitions().dropped) == gone
    assert kept(monthly, "snapshot") == ["AU 260101", "EU 260201", "EU 260301"]
    assert set(kept(monthly, "delta")) - of_others == {"EU 260210", "EU 260211", "EU 260315"}
    assert read(monthly) == before
    assert named.expire_partitions().dropped == ()
    with pytest.raises(Invalid, match="expire by values-time, not update-time"):
        named.expire_partitions(strategy="update-time")


FEBRUARY = {"region": "EU", "day": "20260201"}
LATE = rows(("EU", "20260110", "late", 99, 9))


@pytest.mark.parametrize("lake", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    "is_late",
    [
        pytest.param(False, id="a drop"),
        pytest.param(True, id="late rows", marks=pytest.mark.modes),
    ],
)
def test_partitions_that_expire_are_whole_whatever_others_do_meanwhile(
    monthly: Table, clock: Clock, is_late: bool
) -> None:
    monthly = monthly.with_options({"partition.expiration-batch-size": "1"})
    chain = chain_options(monthly.schema)
    retention = PartitionRetention.of(LifecycleOptions(monthly.schema.options))
    assert chain is not None
    assert retention is not None
    whole, delta = monthly.branch("snapshot"), monthly.branch("delta")
    # A writer that lets nothing expire itself.
    late = delta.with_options({"write-only": "true"})
    february = read(monthly, where="day = '20260210' AND region = 'EU'")
    steps: list[str] = []

    def expire(other_at: int) -> list[str]:
        """The partitions that go if somebody else acts before a step."""
        steps.clear()

        def step(name: str) -> None:
            steps.append(name)
            if len(steps) == other_at + 1:
                late.write(LATE) if is_late else whole.drop_partitions(FEBRUARY)

        pointers = WatchedBranches(monthly.pointer, step)
        expired = expire_chain_partitions(
            monthly.storage, pointers, chain, retention, hold=lambda _storage, _base: nullcontext()
        )
        return days(expired.dropped)

    clock.millis = millis("2026-03-20")
    start = {branch.name: branch.latest_snapshot() for branch in (whole, delta)}
    expire(-1)
    for other_at in range(len(steps)):
        for branch in (whole, delta):
            snapshot = start[branch.name]
            assert snapshot is not None
            branch.rollback(snapshot_id=snapshot.id)
        gone = expire(other_at)
        places = steps[other_at:]
        if is_late:
            # They go with the others, or come when those have gone.
            assert gone == ["EU 251231", "EU 260101", "EU 260110"], places
            assert "EU 260101" not in kept(monthly, "snapshot"), places
            assert read(monthly, where="day = '20260210' AND region = 'EU'") == february, places
            continue
        # One of the two does not happen.
        if gone:
            assert "EU 260201" in kept(monthly, "snapshot"), places
            assert read(monthly, where="day = '20260210' AND region = 'EU'") == february, places
            continue
        assert {"EU 251231", "EU 260101", "EU 260110"} <= set(kept(monthly, "delta")), places
        assert read(monthly, where="day = '20260210' AND region = 'EU'") == [
            ("EU", "20260210", "apple", 1, 1),
            ("EU", "20260210", "of 20260110", 20260110, 2),
            ("EU", "20260210", "of 20260210", 20260210, 2),
        ], places


@pytest.mark.parametrize("lake", ["embedded"], indirect=True)
def test_changes_come_back_beside_an_expiry_of_snapshots(monthly: Table, clock: Clock) -> None:
    """Their files are kept until it is known that the full partitions go, too."""
    chain = chain_options(monthly.schema)
    retention = PartitionRetention.of(LifecycleOptions(monthly.schema.options))
    assert chain is not None
    assert retention is not None
    whole, delta = monthly.branch("snapshot"), monthly.branch("delta")
    dropped: list[Snapshot] = []

    def step(name: str) -> None:
        if name == "commit to snapshot" and not dropped:
            dropped.append(whole.drop_partitions(FEBRUARY))
            delta.expire_snapshots(retain_min=1, retain_max=1, retain=timedelta(0))

    clock.millis = millis("2026-03-20")
    pointers = WatchedBranches(monthly.pointer, step)
    expired = expire_chain_partitions(
        monthly.storage,
        pointers,
        chain,
        retention,
        hold=lambda storage, base: held(storage, delta.pointer, delta.references, base),
    )
    assert dropped
    # Without February, nothing later builds on January.
    assert expired.dropped == ()
    assert {"EU 251231", "EU 260101", "EU 260110"} <= set(kept(monthly, "delta"))
    assert delta.check_files().is_whole
    assert delta.tags() == []


@pytest.mark.modes
def test_so_many_whole_partitions_of_a_chain_expire_at_a_time(monthly: Table, clock: Clock) -> None:
    clock.millis = millis("2026-06-01")
    first = monthly.expire_partitions(max_partitions=1)
    assert days(first.dropped) == ["EU 251231", "EU 260101", "EU 260110"]
    second = monthly.expire_partitions(max_partitions=1)
    assert days(second.dropped) == ["EU 260201", "EU 260210", "EU 260211"]
    assert monthly.expire_partitions().dropped == ()


def test_nothing_expires_before_a_partition_that_has_no_time(monthly: Table, clock: Clock) -> None:
    monthly.branch("delta").write(rows(("EU", "202601", "fig", 1, 1)))
    clock.millis = millis("2026-03-31")
    result = monthly.expire_partitions()
    assert (result.dropped, days(result.without_time)) == ((), ["EU 2601"])


def test_writers_of_either_branch_let_partitions_expire(monthly: Table, clock: Clock) -> None:
    where = "region <> 'EU' OR day >= '20260201' AND day < '20260315'"
    before = read(monthly, where=where)
    clock.millis = millis("2026-03-31")
    monthly.branch("delta").write(rows(("EU", "20260316", "fig", 9, 9)))
    assert kept(monthly, "snapshot") == ["AU 260101", "EU 260201", "EU 260301"]
    assert read(monthly, where=where) == before


@pytest.mark.modes
def test_an_external_chain_table_follows_the_same_rules(
    monthly: Table, clock: Clock, tmp_path: Path
) -> None:
    clock.millis = millis("2026-03-31")
    with connect(tmp_path / "other", runtime=monthly.storage.runtime) as other:
        other.create_database("sales")
        table = other.register_table("sales.stock", monthly.info.path)
        assert table.info.is_external
        before = read(table, where="region <> 'EU' OR day >= '20260201'")
        with pytest.raises(Invalid, match="cannot be dropped"):
            table.branch("snapshot").drop_partitions({"region": "EU", "day": "20260101"})
        assert days(table.expire_partitions().dropped) == ["EU 251231", "EU 260101", "EU 260110"]
        assert read(table) == before


def test_an_overwrite_of_changes_drops_the_whole_partition_behind_them(stock: Table) -> None:
    delta = stock.branch("delta")
    delta.overwrite(rows(("EU", "20260104", "plum", 9, 9)), {"region": "EU", "day": "20260104"})
    assert read(stock.branch("snapshot"), where="day = '20260104'") == []
    assert read(stock, where="day = '20260104'") == [
        ("EU", "20260104", "apple", 2, 11), ("EU", "20260104", "fig", 2, 5),
        ("EU", "20260104", "plum", 9, 9),
    ]  # fmt: skip
    # Not where later changes build on it.
    before = delta.latest_snapshot()
    with pytest.raises(Invalid, match="cannot be dropped"):
        delta.overwrite(rows(("EU", "20260101", "plum", 9, 9)), {"region": "EU", "day": "20260101"})
    assert delta.latest_snapshot() == before
    first, second = ("EU", "20260101", "plum", 9, 9), ("EU", "20260102", "fig", 9, 9)
    with pytest.raises(Invalid, match="cannot be dropped"):
        delta.overwrite(rows(first, second), dynamic=True)
    assert delta.latest_snapshot() == before
    # And no upsert does.
    delta.write(rows(first))
    assert read(stock, where="day = '20260101'") == EXPECTED[:2]
    # All changes that there are may be replaced.
    delta.overwrite(rows(first, second), dynamic=False)
    assert read(stock.branch("snapshot")) == []
    assert read(stock) == [first, second, ("EU", "20260102", "plum", 9, 9)]


def test_what_a_chain_cannot_do_is_refused(lake: Lake, stock: Table) -> None:
    with pytest.raises(Unsupported, match=r"update or delete rows of chain tables.*\$branch_delta"):
        stock.delete("amount = 10")
    with pytest.raises(Unsupported, match="stream changes of chain tables"):
        stock.changes(0)
    stock.branch("delta").delete("item = 'kiwi'")
    assert read(stock, where="item = 'kiwi'") == []
    with pytest.raises(Invalid, match="fallback-delta-branch"):
        stock.drop_branch("delta")
    with pytest.raises(Invalid, match="no branch 'other'"):
        stock.alter(SetOption("scan.fallback-delta-branch", "other"))
    with pytest.raises(Invalid, match="are both 'delta'"):
        stock.alter(SetOption("scan.fallback-snapshot-branch", "delta"))
    delta = stock.branch("delta")
    delta.alter(SetOption("bucket", "3"))
    delta.refresh().write(rows(("EU", "20260107", "fig", 7, 6)))
    with pytest.raises(Invalid, match=r"day=20260107 .* 2 and 3 buckets"):
        read(stock)
    assert read(stock, where="day = '20260105'") == EXPECTED[8:10]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bucket": "-1"}, "fixed number of buckets"),
        ({"sequence.field": ""}, "needs 'sequence.field'"),
        ({"changelog-producer": "lookup"}, "none or input, not lookup"),
        ({"partition.timestamp-pattern": ""}, "timestamp-pattern"),
        ({"partition.timestamp-formatter": ""}, "timestamp-formatter"),
        ({"chain-table.chain-partition-keys": "region"}, "last of the partition columns"),
        (
            {"deletion-vectors.enabled": "true", "merge-engine": "partial-update"},
            "engine deduplicate",
        ),
        (
            {
                "partition.expiration-time": "1 d",
                "partition.expiration-strategy": "update-time",
            },
            "values-time",
        ),
    ],
)
def test_options_that_contradict_a_chain(lake: Lake, options: dict[str, str], match: str) -> None:
    wanted = OPTIONS | options
    if wanted["bucket"] == "-1":
        del wanted["bucket-key"]
    with pytest.raises(Invalid, match=match):
        lake.create_table(
            "sales.bad", STOCK, primary_keys=KEYS, partition_keys=["region", "day"], options=wanted
        )
