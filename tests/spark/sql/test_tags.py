"""Tags by SQL, and how the table's handle renames and replaces them."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.spark.sql.conftest import Run

from headwater.catalog.table.table import Table
from headwater.spark.sql.context import SqlContext
from headwater.storage.errors import AlreadyExists, Invalid, NotFound


@pytest.fixture
def table(run: Run, context: SqlContext) -> Table:
    """A table of three snapshots."""
    run("CREATE TABLE t (id INT)")
    table = context.catalog.table("db.t")
    for number in range(3):
        table.write({"id": [number]})
    return table


def test_tags_name_snapshots(run: Run, table: Table) -> None:
    run("ALTER TABLE t CREATE TAG `TAG-1`")
    run("ALTER TABLE t CREATE TAG second AS OF VERSION 2 RETAIN 12 HOURS")
    run("ALTER TABLE t CREATE TAG IF NOT EXISTS second AS OF VERSION 1")
    with pytest.raises(AlreadyExists, match="second"):
        run("ALTER TABLE t CREATE TAG second")
    assert run("SHOW TAGS t") == [("TAG-1",), ("second",)]
    second = table.tag("second")
    assert (second.snapshot.id, second.retained_millis) == (2, 12 * 3_600_000)
    assert table.tag("TAG-1").snapshot.id == 3


def test_a_tag_is_replaced(run: Run, table: Table) -> None:
    run("ALTER TABLE t CREATE OR REPLACE TAG a AS OF VERSION 1")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.scan(tag="a").to_arrow().to_pydict() == {"id": [0]}
    with pytest.raises(NotFound):
        run("ALTER TABLE t REPLACE TAG a AS OF VERSION 2")
    assert table.tag("a").snapshot.id == 1
    run("ALTER TABLE t REPLACE TAG a RETAIN 3 MINUTES")
    tag = table.tag("a")
    assert (tag.snapshot.id, tag.retained_millis) == (3, 180_000)
    run("ALTER TABLE t REPLACE TAG b AS OF VERSION 3")
    assert table.tag("b").retained_millis is None
    with pytest.raises(NotFound, match="no tag 'c'"):
        table.replace_tag("c")
    table.truncate()
    table.expire_snapshots(retain_max=1, retain_min=1)
    place = Path(table.info.path.removeprefix("file://"))
    assert len(list(place.rglob("data-*"))) == 3
    for name in "ab":
        run(f"ALTER TABLE t REPLACE TAG {name}")
    assert list(place.rglob("data-*")) == []
    with pytest.raises(Invalid, match="at least 1 ms"):
        table.replace_tag("a", retained=timedelta(0))


def test_a_tag_is_renamed_even_when_its_snapshot_has_expired(run: Run, table: Table) -> None:
    run("ALTER TABLE t CREATE TAG a AS OF VERSION 1 RETAIN 2 DAYS")
    run("ALTER TABLE t CREATE TAG taken")
    table.expire_snapshots(retain_max=1, retain_min=1)
    before = table.tag("a")
    run("ALTER TABLE t RENAME TAG a TO `b`")
    after = table.tag("b")
    assert (after.snapshot.id, after.created_at, after.retained_millis) == (
        1,
        before.created_at,
        before.retained_millis,
    )
    assert table.scan(tag="b").to_arrow().to_pydict() == {"id": [0]}
    with pytest.raises(AlreadyExists, match="taken"):
        run("ALTER TABLE t RENAME TAG b TO taken")
    with pytest.raises(NotFound, match="no tag 'a'"):
        run("ALTER TABLE t RENAME TAG a TO c")
    assert run("SHOW TAGS t") == [("b",), ("taken",)]


def test_tags_are_deleted_together_or_not_at_all(run: Run, table: Table) -> None:
    for name in "abc":
        run(f"ALTER TABLE t CREATE TAG {name}")
    with pytest.raises(NotFound, match="'x'"):
        run("ALTER TABLE t DELETE TAG `a,x`")
    assert len(table.tags()) == 3
    run("ALTER TABLE t DELETE TAG `a, b`")
    run("ALTER TABLE t DELETE TAG IF EXISTS `a`")
    assert run("SHOW TAGS t") == [("c",)]
    with pytest.raises(Invalid, match="DAYS, HOURS or MINUTES"):
        run("ALTER TABLE t CREATE TAG d RETAIN 3 WEEKS")
