"""Tags of all tables at one batch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.test_interruptions import ends
from tests.cdc.source_logs import only_mariadb

from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import TablePhase
from headwater.storage.errors import Invalid

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
    "INSERT INTO a VALUES (1, 0)",
    "INSERT INTO b VALUES (1, 0)",
)


def tags(follower: Follower, table: str) -> list[str]:
    """The tags of a table, in the order of their batches."""
    names = [tag.name for tag in follower.lake.table(f"lake.{table}").tags()]
    return sorted(names, key=lambda name: int(name.rpartition("-")[2]))


def values(follower: Follower, table: str, tag: str) -> list[int]:
    rows: list[Any] = follower.lake.table(f"lake.{table}").scan(tag=tag).to_arrow()["v"].to_pylist()
    return rows


def both(origin: Origin, value: int) -> None:
    """Change both tables in one transaction."""
    origin.run("BEGIN", f"UPDATE a SET v = {value}", f"UPDATE b SET v = {value}", "COMMIT")


@only_mariadb
def test_tables_are_the_same_at_each_tag(origin: Origin, follower: Follower) -> None:
    origin.run(*TABLES)
    follower.change(tag_batches=1)
    for value in range(1, 4):
        both(origin, value)
        follower.once()
    # A batch that changes one of them.
    origin.run("UPDATE a SET v = 4")
    follower.once()
    names = tags(follower, "a")
    assert names == tags(follower, "b")
    seen = [(values(follower, "a", name), values(follower, "b", name)) for name in names]
    assert ([3], [3]) in seen
    assert seen[-1] == ([4], [3])
    assert all(one == other for one, other in seen if one != [4])


@only_mariadb
def test_every_so_many_batches_and_so_many_of_them(origin: Origin, follower: Follower) -> None:
    origin.run(*TABLES)
    follower.once()
    assert tags(follower, "a") == []
    follower.change(tag_batches=2, tag_num_retained_max=2)
    made = []
    for value in range(1, 7):
        both(origin, value)
        follower.once()
        made += [name for name in tags(follower, "a") if name not in made]
    numbers = [int(name.removeprefix("cdc-shop-")) for name in made]
    assert all(later - number >= 2 for number, later in pairwise(numbers))
    assert len(numbers) > 2
    assert tags(follower, "a") == tags(follower, "b") == made[-2:]


@only_mariadb
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("table", ["a", "b"])
@pytest.mark.parametrize(
    "later", [(), ("CREATE TABLE c (id INT PRIMARY KEY, v INT)", "INSERT INTO c VALUES (1, 0)")]
)
def test_interrupted_between_two_tables(
    origin: Origin, follower: Follower, table: str, is_done: bool, later: tuple[str, ...]
) -> None:
    origin.run(*TABLES)
    follower.change(tag_batches=1, writers=1)
    follower.once()
    both(origin, 1)
    ends(follower, "create_tag", table, is_done=is_done)
    both(origin, 2)
    origin.run(*later)
    follower.once()
    names = tags(follower, "a")
    assert names == tags(follower, "b")
    seen = [values(follower, "a", name) for name in names]
    assert seen == [values(follower, "b", name) for name in names]
    # Also the batch that was interrupted.
    assert [1] in seen
    assert seen[-1] == [2]


@only_mariadb
def test_interrupted_at_the_batch_that_a_snapshot_ends_with(
    origin: Origin, follower: Follower
) -> None:
    origin.run(*TABLES, "DROP TABLE b")
    follower.once()
    follower.change(tag_batches=1, writers=1)
    origin.run(TABLES[1], TABLES[3])
    ends(follower, "create_tag", "b")
    # Repeated, the batch would read the rows at a later position.
    both(origin, 1)
    follower.once()
    assert tags(follower, "a") == tags(follower, "b")
    assert [0] in [values(follower, "b", name) for name in tags(follower, "b")]


@only_mariadb
@pytest.mark.parametrize("is_done", [False, True])
def test_interrupted_while_the_source_goes_on(
    origin: Origin, follower: Follower, is_done: bool
) -> None:
    origin.run(*TABLES)
    follower.once()
    follower.change(tag_batches=1, tag_num_retained_max=2, writers=1)
    both(origin, 1)
    ends(follower, "create_tag", "b", is_done=is_done)
    # Repeated, the batch is behind what its tables have by then.
    origin.run("ALTER TABLE a ADD COLUMN w INT NOT NULL DEFAULT 5")
    for value in range(2, 6):
        both(origin, value)
        follower.once()
    names = tags(follower, "a")
    assert names == tags(follower, "b")
    assert len(names) == 2


@only_mariadb
def test_tables_that_are_read_or_quarantined(origin: Origin, follower: Follower) -> None:
    origin.run("SET SESSION sql_mode = ''", *TABLES, "ALTER TABLE b ADD COLUMN d DATE")
    follower.change(tag_batches=1)
    follower.once()
    origin.run("UPDATE b SET d = '0000-00-00'", "UPDATE a SET v = 5")
    follower.once()
    origin.run("UPDATE a SET v = 6")
    follower.once()
    assert follower.phases()["b"] is TablePhase.QUARANTINED
    assert values(follower, "a", tags(follower, "a")[-1]) == [6]
    assert set(tags(follower, "b")) < set(tags(follower, "a"))
    # Its rows are those of the source again at the next tag that it has.
    origin.run("UPDATE b SET d = NULL, v = 7")
    follower.resnapshot("b")
    follower.once()
    both(origin, 8)
    follower.once()
    name = tags(follower, "b")[-1]
    assert name == tags(follower, "a")[-1]
    assert values(follower, "b", name) == values(follower, "a", name) == [8]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tag_batches": 0}, "tag-batches is 0; use 1 or more"),
        ({"tag_batches": 1, "tag_num_retained_max": 0}, "tag-num-retained-max is 0; use 1 or more"),
        ({"tag_num_retained_max": 3}, "tag-batches is missing: no tags are made"),
    ],
)
def test_wrong_options(options: dict[str, int], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        PipelineSettings("p", "mysql://h", "lake", ("a.*",), **options)  # type: ignore[arg-type]
