"""Tables of the lake that have the rows of several tables of the source."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.killed_pipelines import Writer
from tests.cdc.pipeline.test_interruptions import ends
from tests.cdc.pipeline.test_table_layout import equal

from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.target_names import TargetNames
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.sink.schema_changes import Narrowing
from headwater.storage.errors import Invalid

NAMES = TargetNames(mapping={"o1": "orders", "o2": "orders"})
MERGED = LayoutRules(NAMES, metadata=("table_name",), merges=True)
# Names of options are of tables that are there when a pipeline begins.
WITH_THIRD = replace(MERGED, names=TargetNames(mapping={**NAMES.mapping, "o3": "orders"}))
TABLES = (
    "CREATE TABLE o1 (id INT PRIMARY KEY, v INT NOT NULL, a VARCHAR(5))",
    "CREATE TABLE o2 (id INT PRIMARY KEY, v BIGINT, b VARCHAR(9) NOT NULL)",
    "INSERT INTO o1 VALUES (1, 10, 'x'), (2, 20, NULL), (3, 30, 'z')",
    "INSERT INTO o2 VALUES (1, 1000000000000, 'p'), (4, NULL, 'q')",
)


@pytest.fixture
def merged(origin: Origin, follower: Follower) -> Follower:
    """A pipeline that has merged two tables."""
    origin.run(*TABLES)
    follower.change(layout=MERGED, range_rows=2)
    follower.once()
    equal(follower, "o1", "o2")
    follower.change(layout=WITH_THIRD)
    return follower


def rows(follower: Follower, *columns: str) -> list[tuple[object, ...]]:
    """Columns of the merged table's rows, in order."""
    table = follower.lake.table("lake.orders").scan().to_arrow()
    table = table.sort_by([("table_name", "ascending"), ("id", "ascending")])
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def test_a_quarantined_table_does_not_catch_up(origin: Origin, merged: Follower) -> None:
    merged.change(narrowing=Narrowing.FAIL, tag_batches=1)
    merged.once()
    tags = merged.lake.table("lake.orders").tags()
    assert tags
    origin.run("ALTER TABLE o1 MODIFY v SMALLINT NOT NULL", "UPDATE o2 SET v = 5 WHERE id = 4")
    merged.once()
    assert merged.phases()["o1"] is TablePhase.QUARANTINED
    state = PipelineState.open(merged.lake, "lake", "shop")
    state.request(f"catchup:{origin.table('o1').escaped}", "")
    merged.change(narrowing=Narrowing.KEEP)
    merged.once()
    reason = str(merged.states()["o1"].reason)
    assert "it cannot catch up: table lake.orders has the rows of other tables, too" in reason
    assert reason.endswith(f"headwater cdc resnapshot {origin.table('o1')}")
    # Nor is the lake's table tagged while it has rows of before.
    assert merged.lake.table("lake.orders").tags() == tags
    merged.resnapshot("o1")
    merged.once()
    equal(merged, "o1", "o2")
    assert len(merged.lake.table("lake.orders").tags()) > len(tags)


def test_columns_are_united_and_keys_kept_apart(origin: Origin, merged: Follower) -> None:
    schema = merged.lake.table("lake.orders").schema
    assert schema.primary_keys == ("table_name", "id")
    assert {field.name: str(field.type) for field in schema.fields} == {
        "id": "INT NOT NULL",
        "v": "BIGINT",
        "a": "VARCHAR(5)",
        "b": "VARCHAR(9)",
        "table_name": "STRING NOT NULL",
    }
    origin.run(
        "UPDATE o1 SET v = 11 WHERE id = 1",
        "DELETE FROM o2 WHERE id = 1",
        "UPDATE o1 SET id = 4 WHERE id = 2",
        "INSERT INTO o2 VALUES (2, 7, 'r')",
    )
    origin.session("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE o2 SET b = 's' WHERE id = 4")
    merged.once()
    equal(merged, "o1", "o2")
    assert rows(merged, "table_name", "id", "v", "a", "b") == [
        ("o1", 1, 11, "x", None),
        ("o1", 3, 30, "z", None),
        ("o1", 4, 20, None, None),
        ("o2", 2, 7, None, "r"),
        ("o2", 4, None, None, "s"),
    ]


def test_another_table_joins_and_one_goes(origin: Origin, merged: Follower) -> None:
    origin.run(
        "CREATE TABLE o3 (id INT PRIMARY KEY, v INT, c DATE)",
        "INSERT INTO o3 VALUES (1, 1, '2024-01-01')",
        "DROP TABLE o1",
    )
    merged.once()
    equal(merged, "o2", "o3")
    assert merged.phases()["o1"] is TablePhase.GONE
    assert [name for (name,) in rows(merged, "table_name")] == ["o1"] * 3 + ["o2"] * 2 + ["o3"]
    origin.run("CREATE TABLE o1 (id INT PRIMARY KEY, v INT)", "INSERT INTO o1 VALUES (9, 9)")
    merged.once()
    equal(merged, "o1", "o2", "o3")
    assert [name for (name,) in rows(merged, "table_name")] == ["o1", "o2", "o2", "o3"]


def test_truncated_and_read_again_alone(origin: Origin, merged: Follower) -> None:
    origin.run(
        "INSERT INTO o1 VALUES (5, 5, 'e')", "TRUNCATE TABLE o1", "INSERT INTO o1 VALUES (6, 6, '')"
    )
    merged.once()
    equal(merged, "o1", "o2")
    assert rows(merged, "table_name", "id") == [("o1", 6), ("o2", 1), ("o2", 4)]
    origin.session("SET SESSION sql_log_bin = 0", "DELETE FROM o2 WHERE id = 1")
    origin.session("SET SESSION sql_log_bin = 0", "INSERT INTO o2 VALUES (7, 7, 'g')")
    merged.resnapshot("o2")
    merged.once()
    equal(merged, "o1", "o2")
    assert rows(merged, "table_name", "id") == [("o1", 6), ("o2", 4), ("o2", 7)]


def test_columns_that_one_of_them_changes(origin: Origin, merged: Follower) -> None:
    origin.run("ALTER TABLE o2 ADD a VARCHAR(30) DEFAULT 'new'", "ALTER TABLE o1 MODIFY v BIGINT")
    merged.once()
    equal(merged, "o1", "o2")
    # Others keep it; a rename is another column.
    origin.run("ALTER TABLE o1 DROP a", "ALTER TABLE o2 RENAME COLUMN b TO c")
    origin.run("INSERT INTO o2 (id, v, c, a) VALUES (8, 8, 'h', 'eight')")
    merged.once()
    equal(merged, "o1", "o2")
    names = merged.lake.table("lake.orders").schema.field_by_name.keys()
    assert names == {"id", "v", "a", "c", "table_name"}
    assert rows(merged, "id", "a", "c")[-1] == (8, "eight", "h")
    origin.run("ALTER TABLE o2 DROP a")
    merged.once()
    equal(merged, "o1", "o2")
    assert "a" not in merged.lake.table("lake.orders").schema.field_by_name


def test_a_renamed_table_takes_its_rows_along(origin: Origin, merged: Follower) -> None:
    origin.run("RENAME TABLE o1 TO o3", "INSERT INTO o3 VALUES (7, 7, 'g')")
    merged.once()
    equal(merged, "o2", "o3")
    assert [name for (name,) in rows(merged, "table_name")] == ["o2"] * 2 + ["o3"] * 4


def test_a_table_that_is_renamed_while_its_columns_are_unknown(
    origin: Origin, merged: Follower
) -> None:
    merged.once()
    origin.run("RENAME TABLE o1 TO o3")
    merged.resnapshot("o1")
    merged.once()
    equal(merged, "o2", "o3")
    assert {name for (name,) in rows(merged, "table_name")} == {"o2", "o3"}
    assert merged.phases() == dict.fromkeys(("o2", "o3"), TablePhase.STREAMING)


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_renamed_table_without_a_table_of_the_lake(
    origin: Origin, merged: Follower, is_taken: bool
) -> None:
    if is_taken:
        schema = pa.schema([pa.field("v", pa.int32(), nullable=False)])
        merged.lake.create_table("lake.letters", schema, primary_keys=["v"])
    origin.run("CREATE TABLE letters (v INT)")
    merged.once()
    assert merged.phases()["letters"] is TablePhase.QUARANTINED
    origin.run("RENAME TABLE letters TO notes", "ALTER TABLE notes ADD PRIMARY KEY (v)")
    merged.once()
    assert merged.phases() == dict.fromkeys(("o1", "o2", "notes"), TablePhase.STREAMING)
    equal(merged, "o1", "o2", "notes")


def test_types_that_do_not_go_together(origin: Origin, follower: Follower) -> None:
    origin.run(*TABLES, "CREATE TABLE o3 (id INT PRIMARY KEY, v VARCHAR(9))")
    follower.change(layout=WITH_THIRD)
    with pytest.raises(Invalid, match=r"table .*o3: column 'v' is VARCHAR\(9\), and BIGINT in the"):
        follower.once()
    assert follower.lake.list_tables("lake") == []
    origin.run("DROP TABLE o3")
    follower.change(layout=MERGED)
    follower.once()
    follower.change(layout=WITH_THIRD)
    origin.run("CREATE TABLE o3 (id INT PRIMARY KEY, v VARCHAR(9))", "ALTER TABLE o1 MODIFY v TEXT")
    origin.run("INSERT INTO o2 VALUES (5, 5, 'e')")
    follower.once()
    equal(follower, "o2")
    for table in ("o1", "o3"):
        assert follower.phases()[table] is TablePhase.QUARANTINED
        assert "do not go together" in (follower.states()[table].reason or "")


def test_tables_that_no_column_tells_apart(origin: Origin, follower: Follower) -> None:
    origin.run(*TABLES)
    for rules, message in (
        (
            LayoutRules(NAMES, metadata=("database_name",), merges=True),
            "are both table lake.orders",
        ),
        (
            LayoutRules(NAMES, primary_keys={"": ("id",)}, metadata=("table_name",), merges=True),
            "whose rows could replace those of another table; name a column of metadata-column",
        ),
    ):
        follower.change(layout=rules)
        with pytest.raises(Invalid, match=message):
            follower.once()
        assert follower.lake.list_tables("lake") == []


def test_it_is_not_replaced_for_one_of_them(origin: Origin, merged: Follower) -> None:
    state = PipelineState.open(merged.lake, "lake", merged.settings.name)
    state.request(f"resnapshot:{origin.table('o1').escaped}", "replace")
    merged.once()
    assert "it may have rows of other tables" in (merged.states()["o1"].reason or "")
    equal(merged, "o2")
    merged.resnapshot("o1")
    merged.once()
    equal(merged, "o1", "o2")


@pytest.mark.parametrize("is_done", [False, True])
def test_each_commits_its_part_once(origin: Origin, merged: Follower, is_done: bool) -> None:
    origin.run(
        "INSERT INTO o1 VALUES (5, 5, 'e')",
        "UPDATE o2 SET v = 5 WHERE id = 4",
        "DELETE FROM o1 WHERE id = 1",
    )
    # One of both, whose write comes first.
    ends(merged, "write", "orders", is_done=is_done)
    origin.run("UPDATE o1 SET v = v + 1", "INSERT INTO o2 VALUES (9, 9, 'i')")
    merged.once()
    equal(merged, "o1", "o2")
    commits = [
        (snapshot.commit_user, snapshot.commit_identifier)
        for snapshot in merged.lake.table("lake.orders").snapshots()
        if "cdc.batch" in (snapshot.properties or {}) and str(snapshot.commit_kind) == "APPEND"
    ]
    assert len(commits) == len(set(commits))
    users = {origin.table(name).escaped for name in ("o1", "o2")}
    assert {user.partition("/")[2] for user, _ in commits} == users


def test_all_of_them_change_while_rows_are_read(
    origin: Origin, follower: Follower, seed: int
) -> None:
    names = ("o1", "o2", "o3")
    for name in names:
        rows = ", ".join(f"({key}, {key})" for key in range(1000))
        origin.run(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES {rows}"
        )
    follower.change(
        layout=WITH_THIRD, range_rows=100, task_rows=1000, task_bytes=1 << 20, batch_seconds=0.1
    )

    def statements(values: random.Random) -> list[str]:
        name, key = values.choice(names), values.randrange(1500)
        truncates = values.random() < 0.001
        return [
            f"UPDATE {name} SET v = v + 1 WHERE id BETWEEN {key} AND {key + 9}",
            f"REPLACE INTO {name} VALUES ({values.randrange(1500)}, 0)",
            f"TRUNCATE TABLE {name}" if truncates else f"DELETE FROM {name} WHERE id = {key}",
        ]

    with Writer(origin.address, origin.database, statements, seed, 0.01) as writer:
        follower.once()
        follower.resnapshot("o2")
        follower.once()
    assert writer.transactions
    follower.once()
    equal(follower, *names)
