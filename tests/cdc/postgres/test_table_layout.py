"""Tables of the lake with names, keys and columns that PostgreSQL's do not have."""

from __future__ import annotations

import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase

from headwater.cdc.model.computed_columns import ComputedColumn
from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.target_names import TargetNames
from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.verify import verify
from headwater.storage.errors import Invalid

pytestmark = pytest.mark.postgresql

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NOT NULL, v TEXT)"
ROWS = (
    "INSERT INTO t SELECT n, timestamp '2024-01-01' + n * interval '9 h', 'v' || n "
    "FROM generate_series(1, 20) n"
)
BY_DAY = LayoutRules(
    TargetNames("ods_"),
    partition_keys={"": ("dt",)},
    primary_keys={"": ("dt", "id")},
    computed=(ComputedColumn.parse("dt=date_format(at, yyyy-MM-dd)"),),
)
MOVES = (
    "UPDATE t SET at = at + interval '1 day' WHERE id < 5",
    "DELETE FROM t WHERE id = 7",
    "UPDATE t SET id = 100, v = NULL WHERE id = 8",
)


def equal(follower: Follower) -> set[str]:
    """Check that all tables equal the source's; their qualified names."""
    verdicts = list(verify(follower.lake, follower.address, follower.settings))
    for verdict in verdicts:
        assert verdict.is_equal, (verdict.problem, verdict.differences.to_pylist())
    return {str(verdict.table) for verdict in verdicts}


def test_keys_move_where_the_log_has_whole_rows(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(TABLE, "ALTER TABLE t REPLICA IDENTITY FULL", ROWS)
    follower.change(layout=BY_DAY, range_rows=6)
    follower.once()
    assert equal(follower) == {"public.t"}
    postgres.run(*MOVES, "ALTER TABLE t ADD w INT", "INSERT INTO t VALUES (200, now(), 'x', 1)")
    follower.once()
    equal(follower)
    schema = follower.lake.table("lake.ods_t").schema
    assert (schema.primary_keys, schema.partition_keys) == (("dt", "id"), ("dt",))


def test_keys_that_the_log_does_not_have_are_named(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(TABLE, ROWS)
    follower.change(layout=BY_DAY)
    with pytest.raises(
        Invalid, match=r"public\.t: its key in the lake has at besides its own, and the log lacks"
    ):
        follower.once()
    assert follower.lake.list_tables("lake") == []
    postgres.run("ALTER TABLE t REPLICA IDENTITY FULL")
    follower.once()
    equal(follower)
    postgres.run("ALTER TABLE t REPLICA IDENTITY DEFAULT", *MOVES)
    follower.once()
    state = follower.states()["t"]
    assert state.phase is TablePhase.QUARANTINED
    assert "ALTER TABLE public.t REPLICA IDENTITY FULL" in (state.reason or "")
    postgres.run("ALTER TABLE t REPLICA IDENTITY FULL")
    follower.resnapshot("t")
    follower.once()
    equal(follower)


def test_schemas_are_merged(postgres: PostgresDatabase, follower: Follower) -> None:
    for schema in ("s1", "s2"):
        postgres.run(
            f"CREATE SCHEMA {schema}",
            f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY, v TEXT)",
            f"INSERT INTO {schema}.orders SELECT n, '{schema}' FROM generate_series(1, 9) n",
        )
    rules = LayoutRules(
        metadata=("schema_name", "database_name"), database=postgres.name, merges=True
    )
    follower.change(include=("s?.*",), layout=rules)
    follower.once()
    assert equal(follower) == {"s1.orders", "s2.orders"}
    postgres.run(
        "UPDATE s1.orders SET v = 'new' WHERE id = 1",
        "DELETE FROM s2.orders WHERE id = 1",
        "ALTER TABLE s1.orders ADD w INT DEFAULT 7",
        "ALTER TABLE s2.orders ADD w BIGINT",
        "INSERT INTO s2.orders VALUES (10, 'ten', 1000000000000)",
    )
    follower.once()
    equal(follower)
    postgres.run("TRUNCATE s1.orders", "INSERT INTO s1.orders VALUES (3, 'three', 3)")
    follower.once()
    equal(follower)
    rows = follower.lake.table("lake.orders").scan(where="schema_name = 's1'").to_arrow()
    assert rows.to_pylist() == [
        {"id": 3, "v": "three", "w": 3, "schema_name": "s1", "database_name": postgres.name}
    ]
    postgres.run("ALTER TABLE s2.orders DROP COLUMN w", "ALTER TABLE s2.orders RENAME v TO u")
    follower.once()
    equal(follower)
