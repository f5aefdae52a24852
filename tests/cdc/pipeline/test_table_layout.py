"""Tables of the lake with keys, partitions and columns that the source's do not have."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.killed_pipelines import Writer

from headwater.cdc.model.computed_columns import ComputedColumn
from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.target_names import TargetNames
from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.pipeline.state import TablePhase
from headwater.storage.errors import Invalid

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL, v VARCHAR(20))"
ROWS = (
    "INSERT INTO t VALUES (1, '2024-01-31 23:59:59', 'a'), (2, '2024-02-01', 'b'), "
    "(3, '2024-02-01 10:00:00', NULL)"
)
CHANGES = (
    "UPDATE t SET at = '2024-03-01' WHERE id = 1",
    "UPDATE t SET v = 'x' WHERE id = 2",
    "DELETE FROM t WHERE id = 3",
    "INSERT INTO t VALUES (4, '2024-02-01', 'd')",
    "UPDATE t SET id = 5, at = '2024-05-05' WHERE id = 4",
)
DAY = ComputedColumn.parse("dt=date_format(at, yyyy-MM-dd)")
BY_DAY = LayoutRules(
    partition_keys={"": ("dt",)}, primary_keys={"t": ("dt", "id")}, computed=(DAY,)
)


def equal(follower: Follower, *tables: str) -> None:
    """Check that tables are followed and equal the source's."""
    verdicts = follower.verify()
    for table in tables:
        verdict = verdicts[table]
        assert verdict.is_equal, (verdict.problem, verdict.differences.to_pylist())


def test_a_computed_partition_is_part_of_the_key(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.change(layout=BY_DAY, range_rows=2)
    follower.once()
    equal(follower, "t")
    schema = follower.lake.table("lake.t").schema
    assert (schema.primary_keys, schema.partition_keys) == (("dt", "id"), ("dt",))
    origin.run(*CHANGES)
    follower.once()
    equal(follower, "t")
    assert [(row["id"], row["dt"]) for row in follower.rows("t")] == [
        (1, "2024-03-01"),
        (2, "2024-02-01"),
        (5, "2024-05-05"),
    ]


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_partial_rows_are_read_again_where_keys_move(
    origin: Origin, follower: Follower, image: str
) -> None:
    origin.run(
        TABLE, "ALTER TABLE t ADD b TEXT", "INSERT INTO t VALUES (1, '2024-01-31', 'a', 'b')"
    )
    follower.change(layout=BY_DAY)
    follower.once()
    origin.session(
        f"SET SESSION binlog_row_image = '{image}'", "UPDATE t SET at = '2024-03-01' WHERE id = 1"
    )
    follower.once()
    equal(follower, "t")
    assert [row["dt"] for row in follower.rows("t")] == ["2024-03-01"]


def test_a_partition_outside_the_key_needs_unfixed_buckets(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    rules = replace(BY_DAY, primary_keys={})
    follower.change(layout=rules, table_options={"bucket": "2"})
    with pytest.raises(Invalid, match=r"'dt' is not in the primary key.* unless bucket is -1"):
        follower.once()
    assert follower.lake.list_tables("lake") == []
    follower.change(table_options={"bucket": "-1"})
    follower.once()
    equal(follower, "t")
    origin.run(*CHANGES)
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE t SET at = '2030-01-01' WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
    )
    follower.once()
    equal(follower, "t")
    assert [(row["id"], row["dt"]) for row in follower.rows("t")] == [
        (2, "2030-01-01"),
        (5, "2024-05-05"),
    ]


def test_keys_that_the_source_lacks_are_deleted(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.change(layout=BY_DAY)
    follower.once()
    origin.run(*CHANGES[:3])
    # A re-read deletes what a session did not log.
    origin.session("SET SESSION sql_log_bin = 0", "UPDATE t SET at = '2025-01-01' WHERE id = 2")
    follower.resnapshot("t")
    follower.once()
    equal(follower, "t")
    assert [row["dt"] for row in follower.rows("t")] == ["2024-03-01", "2025-01-01"]


def test_keys_that_are_not_unique_create_nothing(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, "CREATE TABLE u (id INT PRIMARY KEY, n INT, m INT NOT NULL)")
    for keys, message in (
        (
            ("m",),
            r"option 'primary-keys' is \(m\) for table .*u, whose key at the source is \(id\)",
        ),
        (("id", "n"), "names the column 'n' of table .*u, which may be null; make it NOT NULL"),
        (("id", "x"), "'primary-keys' names the column 'x', which table .*u does not have"),
    ):
        follower.change(layout=LayoutRules(primary_keys={"u": keys}))
        with pytest.raises(Invalid, match=message):
            follower.once()
        assert follower.lake.list_tables("lake") == []


def test_columns_are_named_and_computed(origin: Origin, follower: Follower) -> None:
    origin.run(
        TABLE, ROWS, "CREATE TABLE log (a VARCHAR(9), n INT)", "INSERT INTO log VALUES ('x', 7)"
    )
    follower.change(
        tables_without_key=TablesWithoutKey.APPEND,
        layout=LayoutRules(
            computed=(
                ComputedColumn.parse("t.up=upper(v)"),
                ComputedColumn.parse("log.ten=truncate(n, 5)"),
                ComputedColumn.parse("region=cast(north)"),
            ),
            metadata=("database_name", "table_name"),
            metadata_prefix="_",
        ),
    )
    follower.once()
    equal(follower, "t", "log")
    origin.run(
        *CHANGES,
        "UPDATE log SET n = 13",
        "ALTER TABLE t ADD w INT, MODIFY v VARCHAR(40)",
        "INSERT INTO t VALUES (9, '2024-01-01', 'nine', 9)",
    )
    follower.once()
    equal(follower, "t", "log")
    names = {"_database_name": origin.database, "_table_name": "t", "region": "north"}
    row = follower.rows("t")[-1]
    assert {**row, **names, "up": "NINE", "w": 9} == row
    assert [row["ten"] for row in follower.rows("log")] == [5, 10, 5]
    # Its other name has other columns.
    origin.run("RENAME TABLE t TO t2", "INSERT INTO t2 VALUES (10, '2024-01-01', 'ten', 10)")
    follower.once()
    state = follower.states()["t2"]
    assert state.phase is TablePhase.QUARANTINED
    assert "for which the options have other keys or columns" in (state.reason or "")
    equal(follower, "log")


def test_a_renamed_table_has_its_new_name_in_its_rows(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    rules = LayoutRules(metadata=("table_name",), primary_keys={"": ("id", "table_name")})
    follower.change(layout=rules)
    follower.once()
    origin.run("RENAME TABLE t TO t2", "INSERT INTO t2 VALUES (10, '2024-01-01', 'ten')")
    follower.once()
    equal(follower, "t2")
    assert [row["table_name"] for row in follower.rows("t2")] == ["t2"] * 4


def test_a_computed_column_without_its_source_is_quarantined(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.change(layout=BY_DAY)
    follower.once()
    origin.run("ALTER TABLE t RENAME COLUMN at TO made")
    follower.once()
    assert "the table has no column 'at'" in (follower.states()["t"].reason or "")
    origin.run("ALTER TABLE t RENAME COLUMN made TO at")
    follower.resnapshot("t")
    follower.once()
    equal(follower, "t")


def test_a_column_of_the_source_may_not_take_their_names(
    origin: Origin, follower: Follower
) -> None:
    origin.run(TABLE, ROWS)
    follower.change(layout=BY_DAY)
    follower.once()
    origin.run("ALTER TABLE t ADD DT INT")
    follower.once()
    assert "cannot have the column 'dt' of the options" in (follower.states()["t"].reason or "")


def test_other_keys_at_a_later_start_are_rejected(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.change(layout=BY_DAY)
    follower.once()
    follower.change(layout=replace(BY_DAY, names=TargetNames("x_")))
    with pytest.raises(Invalid, match=r"options give the lake's table of .*\.t another name"):
        follower.once()
    follower.change(layout=replace(BY_DAY, metadata=("table_name",)))
    with pytest.raises(Invalid, match="another choice of metadata columns than before"):
        follower.once()


def test_keys_move_while_rows_are_read(origin: Origin, follower: Follower, seed: int) -> None:
    rows = ", ".join(f"({key}, '2024-01-{key % 28 + 1}', 'v')" for key in range(3000))
    origin.run(TABLE, f"INSERT INTO t VALUES {rows}")
    follower.change(
        layout=BY_DAY, range_rows=200, task_rows=200, task_bytes=1 << 20, batch_seconds=0.1
    )

    def statements(values: random.Random) -> list[str]:
        key, day = values.randrange(4000), values.randrange(1, 29)
        return [
            "BEGIN",
            f"UPDATE t SET at = '2024-02-{day}' WHERE id BETWEEN {key} AND {key + 20}",
            f"DELETE FROM t WHERE id = {values.randrange(4000)}",
            f"INSERT IGNORE INTO t VALUES ({values.randrange(4000)}, '2024-03-{day}', 'new')",
            "COMMIT",
        ]

    with Writer(origin.address, origin.database, statements, seed, 0.01) as writer:
        follower.once()
        follower.resnapshot("t")
        follower.once()
    assert writer.transactions
    follower.once()
    equal(follower, "t")
