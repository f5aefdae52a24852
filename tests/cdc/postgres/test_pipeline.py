"""Pipelines that follow PostgreSQL: every test ends with a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import PipelineSettings, TablesWithoutKey
from headwater.cdc.pipeline.state import PipelineState, TablePhase, TableState
from headwater.cdc.postgres.server import Address
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.service.verify import verify
from headwater.client import Lake, connect

pytestmark = pytest.mark.postgresql

ORDERS = (
    "CREATE TABLE orders "
    "(id BIGINT PRIMARY KEY, customer TEXT, amount NUMERIC(10, 2), at TIMESTAMP)"
)


class Follower:
    """A pipeline from a database into a lake, run in this process."""

    def __init__(self, database: PostgresDatabase, lake: Lake) -> None:
        self.database, self.lake = database, lake
        self.address = Address.from_url(database.url)
        self.settings = PipelineSettings(
            "shop", database.url, "lake", ("public.*",), batch_seconds=0.3
        )

    def change(self, **settings: object) -> None:
        """Change the settings of the next run."""
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]

    def once(self) -> None:
        """Commit all that the source has."""
        connect_to = partial(PostgresSource, self.address, self.settings.name)
        Pipeline(self.lake, connect_to, self.settings).run(once=True)

    def states(self) -> Mapping[str, TableState]:
        """The tables' states in the last plan."""
        plan = PipelineState.open(self.lake, "lake", self.settings.name).plan()
        assert plan is not None
        return {TableName.from_escaped(name).table: state for name, state in plan.tables.items()}

    def check(self, *tables: str) -> None:
        """Check that tables are followed, and that the lake's are the source's."""
        states = self.states()
        verdicts = {
            verdict.table.table: verdict
            for verdict in verify(self.lake, self.address, self.settings)
        }
        for table in tables:
            assert states[table].phase is TablePhase.STREAMING, states[table]
            verdict = verdicts[table]
            assert verdict.is_equal, (verdict.problem, verdict.differences.to_pylist()[:10])
            count = self.database.value(f'SELECT count(*) FROM "{table}"')
            assert verdict.source_rows == verdict.lake_rows == count

    def rows(self, table: str) -> list[dict[str, object]]:
        """The rows of the lake's table, in the order of its first column."""
        rows = self.lake.table(f"lake.{table}").scan().to_arrow()
        return list(rows.sort_by(rows.column_names[0]).to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(str(tmp_path / "lake")) as lake:
        lake.create_database("lake")
        yield lake


@pytest.fixture
def follower(postgres: PostgresDatabase, lake: Lake) -> Follower:
    return Follower(postgres, lake)


def test_rows_that_are_there_and_changes(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(
        ORDERS,
        "INSERT INTO orders SELECT n, 'c' || n, n * 1.25, timestamp '2024-01-01' + n * interval "
        "'1 minute' FROM generate_series(1, 5000) n",
    )
    follower.change(range_rows=700)
    follower.once()
    follower.check("orders")
    postgres.run(
        "UPDATE orders SET amount = amount + 1 WHERE id % 10 = 0",
        "DELETE FROM orders WHERE id % 7 = 0",
        "UPDATE orders SET id = id + 10000 WHERE id % 11 = 0",
        "INSERT INTO orders VALUES (-1, NULL, NULL, NULL)",
    )
    follower.once()
    follower.check("orders")


def test_tables_that_appear_and_go(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(ORDERS, "INSERT INTO orders VALUES (1, 'a', 1, now())")
    follower.once()
    postgres.run(
        "CREATE TABLE items (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO items SELECT n, 'x' FROM generate_series(1, 100) n",
        "CREATE TABLE empty (id INT PRIMARY KEY)",
    )
    follower.once()
    follower.check("orders", "items", "empty")
    postgres.run("DROP TABLE items", "ALTER TABLE orders RENAME TO purchases")
    follower.once()
    assert follower.states()["items"].phase is TablePhase.GONE
    assert "orders" not in follower.states()
    postgres.run("INSERT INTO purchases VALUES (2, 'b', 2, now())")
    follower.once()
    follower.check("purchases")
    assert len(follower.rows("purchases")) == 2


@pytest.mark.parametrize("has_rows_after", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE orders ADD COLUMN note TEXT",),
        ("ALTER TABLE orders ADD COLUMN note TEXT DEFAULT 'none'",),
        ("ALTER TABLE orders DROP COLUMN customer",),
        ("ALTER TABLE orders RENAME COLUMN customer TO client",),
        (
            "ALTER TABLE orders RENAME COLUMN customer TO x",
            "ALTER TABLE orders ADD COLUMN customer TEXT",
        ),
        ("ALTER TABLE orders DROP COLUMN customer", "ALTER TABLE orders ADD COLUMN customer TEXT"),
        ("ALTER TABLE orders ALTER COLUMN amount TYPE NUMERIC(14, 3) USING amount * 2",),
        ("ALTER TABLE orders ALTER COLUMN customer TYPE VARCHAR(3) USING left(customer, 3)",),
        ("ALTER TABLE orders ALTER COLUMN customer SET NOT NULL",),
        ("COMMENT ON COLUMN orders.customer IS 'who'", "COMMENT ON TABLE orders IS 'what'"),
        ("TRUNCATE orders",),
        ("TRUNCATE orders", "INSERT INTO orders VALUES (3, 'abc', 3, now())"),
        ("DROP TABLE orders", ORDERS, "INSERT INTO orders VALUES (7, 'seven', 7, now())"),
    ],
)
def test_changes_of_a_table(
    postgres: PostgresDatabase,
    follower: Follower,
    statements: tuple[str, ...],
    has_rows_after: bool,
) -> None:
    postgres.run(
        ORDERS,
        "INSERT INTO orders SELECT n, 'customer ' || n, n, now() FROM generate_series(1, 50) n",
    )
    follower.once()
    postgres.run("UPDATE orders SET amount = 0 WHERE id = 3", *statements)
    if has_rows_after:
        postgres.run(
            "INSERT INTO orders (id, amount) VALUES (99, 9)"
            if "SET NOT NULL" not in statements[0]
            else "INSERT INTO orders (id, customer) VALUES (99, 'c')"
        )
    follower.once()
    follower.check("orders")
    names = postgres.rows(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum"
    )
    fields = follower.lake.table("lake.orders").schema.fields
    assert [field.name for field in fields] == [name for (name,) in names]


def test_values_that_messages_leave_out(postgres: PostgresDatabase, follower: Follower) -> None:
    """airbytehq/airbyte#30518, bruin-data/ingestr#805."""
    postgres.run(
        "CREATE TABLE documents (id INT PRIMARY KEY, n INT, body TEXT)",
        "ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL",
        "INSERT INTO documents SELECT n, n, repeat(md5(n::text), 200) "
        "FROM generate_series(1, 20) n",
    )
    follower.once()
    postgres.run(
        "UPDATE documents SET n = 100 WHERE id = 1",
        "UPDATE documents SET id = 102 WHERE id = 2",
        "INSERT INTO documents VALUES (30, 30, repeat('long', 2000))",
        "UPDATE documents SET n = 31 WHERE id = 30",
        "UPDATE documents SET id = 130 WHERE id = 30",
    )
    follower.once()
    follower.check("documents")
    bodies = {row["id"]: row["body"] for row in follower.rows("documents")}
    assert bodies[130] == "long" * 2000
    assert 30 not in bodies


def test_a_partitioned_table_is_one(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(
        "CREATE TABLE logs (id INT, day DATE, v TEXT, PRIMARY KEY (id, day)) PARTITION BY RANGE "
        "(day)",
        "CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "INSERT INTO logs VALUES (1, '2024-01-02', 'a')",
    )
    follower.once()
    postgres.run(
        "CREATE TABLE logs_2 PARTITION OF logs FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
        "INSERT INTO logs VALUES (2, '2024-02-02', 'b')",
        "UPDATE logs SET day = '2024-02-03' WHERE id = 1",
    )
    follower.once()
    follower.check("logs")
    assert set(follower.states()) == {"logs"}


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE logs DETACH PARTITION logs_1",),
        ("DROP TABLE logs_1",),
        ("TRUNCATE logs_1",),
        ("ALTER TABLE logs ATTACH PARTITION extra FOR VALUES FROM ('2024-03-01') TO (MAXVALUE)",),
        ("ALTER TABLE logs ATTACH PARTITION tree FOR VALUES FROM ('2024-03-01') TO (MAXVALUE)",),
        (
            "CREATE TABLE logs_3 PARTITION OF logs FOR VALUES FROM ('2024-03-01') TO (MAXVALUE)",
            "INSERT INTO logs VALUES (4, '2024-03-02', 'd')",
            "TRUNCATE logs_3",
        ),
    ],
)
def test_rows_that_come_and_go_with_partitions(
    postgres: PostgresDatabase, follower: Follower, statements: tuple[str, ...]
) -> None:
    columns = "(id INT, day DATE, v TEXT, PRIMARY KEY (id, day))"
    postgres.run(
        f"CREATE TABLE logs {columns} PARTITION BY RANGE (day)",
        "CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "CREATE TABLE logs_2 PARTITION OF logs FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
        f"CREATE TABLE extra {columns}",
        f"CREATE TABLE tree {columns} PARTITION BY RANGE (day)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM ('2024-03-01') TO ('2024-04-01')",
        "INSERT INTO logs VALUES (1, '2024-01-02', 'a'), (2, '2024-02-02', 'b')",
        "INSERT INTO extra VALUES (3, '2024-03-02', 'c')",
        "INSERT INTO tree VALUES (3, '2024-03-02', 'c')",
    )
    follower.change(include=("public.logs",))
    follower.once()
    follower.check("logs")
    postgres.run(*statements)
    follower.once()
    follower.check("logs")


def test_a_new_partition_is_not_read_again(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(
        "CREATE TABLE logs (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (1) TO (10)",
    )
    follower.once()
    before = follower.states()["logs"].position
    postgres.run(
        "CREATE TABLE logs_2 PARTITION OF logs FOR VALUES FROM (10) TO (20)",
        "INSERT INTO logs VALUES (11, 'a')",
    )
    follower.once()
    follower.check("logs")
    assert follower.states()["logs"].position == before


def test_tables_without_a_key(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(
        "CREATE TABLE events (v TEXT, n INT)",
        "ALTER TABLE events REPLICA IDENTITY FULL",
        "INSERT INTO events VALUES ('a', 1), ('a', 1), ('b', 2)",
    )
    follower.change(tables_without_key=TablesWithoutKey.APPEND)
    follower.once()
    postgres.run(
        "INSERT INTO events VALUES ('c', 3), ('c', 3)",
        "UPDATE events SET n = 4 WHERE v = 'b'",
        "DELETE FROM events WHERE v = 'a'",
    )
    follower.once()
    verdicts = list(verify(follower.lake, follower.address, follower.settings))
    assert [(verdict.is_equal, verdict.source_rows) for verdict in verdicts] == [(True, 3)]


def test_a_quiet_database_lets_go_of_its_log(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    """airbytehq/airbyte#27647, readysettech/readyset#263, risingwavelabs/risingwave#16697."""
    postgres.run(ORDERS, "CREATE SCHEMA other", "CREATE TABLE other.t (v TEXT)")
    follower.once()
    confirmed = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots"
    before = postgres.value(confirmed)
    postgres.run("INSERT INTO other.t SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    follower.once()
    follower.once()
    assert postgres.value(f"SELECT '{postgres.value(confirmed)}'::pg_lsn - '{before}'") > 1_000_000
