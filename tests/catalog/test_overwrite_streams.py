"""Streams of primary-key tables that tell what overwrites changed: they replay to the table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import NotFound
from headwater.storage.read.split import read_split
from headwater.storage.scan.stream import StreamPosition, next_plan
from headwater.storage.schema.change import SetOption

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        ("v", pa.int64()),
    ]
)

# One way to reach a catalog will do: the engine is the same behind both.
pytestmark = pytest.mark.parametrize("lake", ["embedded"], indirect=True)


def new_table(lake: Lake, **options: str) -> Table:
    plain = option_names(options)
    return lake.create_table(
        "sales.told",
        COLUMNS,
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"bucket": "2", "streaming-read-overwrite": "true", **plain},
    )


def rows(partition: str, *found: tuple[int, int]) -> pa.Table:
    keys, values = zip(*found, strict=True)
    return pa.table({"k": keys, "p": [partition] * len(found), "v": values}, COLUMNS)


class Follower:
    """Follows a table from its beginning, and keeps its rows by what it is told."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.position = StreamPosition(1)
        self.rows: dict[tuple[Any, ...], int] = {}
        self.told: list[tuple[Any, ...]] = []

    def follow(self) -> list[tuple[Any, ...]]:
        """Read all there is; what was told."""
        storage = self.table.storage
        self.told = []
        while True:
            plan, self.position = next_plan(storage, self.position, self.table.pointer.latest())
            if plan is None:
                return sorted(self.told)
            for split in plan.splits:
                for batch in read_split(storage, split, row_kinds=True):
                    for k, p, v, kind in zip(
                        *(column.to_pylist() for column in batch.columns), strict=True
                    ):
                        self._take(kind, (k, p), v)

    def _take(self, kind: str, key: tuple[Any, ...], value: int) -> None:
        self.told.append((kind, *key, value))
        if kind in ("-D", "-U"):
            # No row is taken back that is not there, or is another one.
            assert self.rows.pop(key) == value, (kind, key, value)
        else:
            self.rows[key] = value

    def check(self) -> None:
        self.follow()
        found = self.table.scan().to_arrow()
        columns = (found[name].to_pylist() for name in ("k", "p", "v"))
        assert self.rows == {(k, p): v for k, p, v in zip(*columns, strict=True)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "1", "changelog_producer": "input"},
        pytest.param({"changelog_producer": "lookup"}, marks=pytest.mark.modes),
        {"changelog_producer": "full-compaction", "full_compaction__delta_commits": "1"},
        {"deletion_vectors__enabled": "true", "changelog_producer": "lookup"},
        pytest.param(
            {"deletion_vectors__enabled": "true", "deletion_vectors__merge_on_read": "true"},
            marks=pytest.mark.modes,
        ),
        {"bucket": "-1", "dynamic_bucket__target_row_num": "2"},
        {"overwrite_upgrade": "false"},
        pytest.param(
            {"merge_engine": "partial-update", "changelog_producer": "lookup"},
            marks=pytest.mark.modes,
        ),
    ],
    ids=str,
)
def test_what_overwrites_change_is_told(lake: Lake, options: dict[str, str]) -> None:
    table = new_table(lake, **options)
    follower = Follower(table)
    table.write(rows("a", (1, 1), (2, 2), (3, 3)))
    table.write(rows("b", (1, 10)))
    table.write(rows("a", (1, 11)))
    follower.check()
    table.overwrite(rows("a", (2, 2), (4, 4), (5, 5), (6, 6)), partition={"p": "a"})
    assert follower.follow() == [
        *(("+I", number, "a", number) for number in (2, 4, 5, 6)),
        *(("-D", number, "a", value) for number, value in ((1, 11), (2, 2), (3, 3))),
    ]
    follower.check()
    table.write(rows("a", (2, 20), (7, 7)))
    table.compact()
    follower.check()
    table.drop_partitions({"p": "b"})
    table.overwrite(rows("c", (1, 1)))
    follower.check()
    table.truncate()
    follower.check()
    assert follower.rows == {}


def test_rows_that_change_their_bucket_are_told_once_they_are_gone(lake: Lake) -> None:
    table = new_table(lake)
    follower = Follower(table)
    table.write(rows("a", *((number, number) for number in range(20))))
    follower.check()
    table.alter(SetOption("bucket", "5"))
    follower.table = table = lake.table("sales.told")
    table.overwrite(rows("a", *((number, number + 1) for number in range(20))))
    told = follower.follow()
    assert [kind for kind, *_ in told] == ["+I"] * 20 + ["-D"] * 20
    follower.check()


def test_the_snapshot_that_had_the_rows_must_be_there(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", (1, 1)))
    table.overwrite(rows("a", (2, 2)))
    table.write(rows("a", (3, 3)))
    follower = Follower(table)
    follower.position, follower.rows = StreamPosition(2), {(1, "a"): 1}
    # A consumer of the overwrite keeps it.
    table.consumer("reader").reset(2)
    assert table.expire_snapshots(retain_max=1, retain_min=1).held_back_by == "reader"
    assert follower.follow() == [("+I", 2, "a", 2), ("+I", 3, "a", 3), ("-D", 1, "a", 1)]


def test_an_overwrite_whose_rows_have_expired_is_an_error(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", (1, 1)))
    table.overwrite(rows("a", (2, 2)))
    table.write(rows("a", (3, 3)))
    table.expire_snapshots(retain_max=2, retain_min=2)
    follower = Follower(table)
    follower.position = StreamPosition(2)
    with pytest.raises(NotFound, match="snapshot 2 has expired"):
        follower.follow()
