"""Pipelines that follow PostgreSQL: every test ends with a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.cdc.pipeline.test_interruptions import ends_after_alter
from tests.cdc.postgres.conftest import Follower, PostgresDatabase, ReadTables
from tests.cdc.waiting import until

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.settings import OnDrop, TablesWithoutKey
from headwater.cdc.pipeline.state import TablePhase, TableState
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.postgres.types import TypeMapping
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.service.verify import verify
from headwater.storage.errors import Invalid
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.schema.change import SetOption

pytestmark = pytest.mark.postgresql

ORDERS = (
    "CREATE TABLE orders "
    "(id BIGINT PRIMARY KEY, customer TEXT, amount NUMERIC(10, 2), at TIMESTAMP)"
)

EVENTS = "CREATE TABLE events (id INT PRIMARY KEY, v TEXT)"


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


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "mapping",
    [TypeMapping.ARRAY_TO_STRING, TypeMapping.NUMERIC_TO_DECIMAL, TypeMapping.TO_STRING],
)
def test_other_choices_of_types(
    postgres: PostgresDatabase, follower: Follower, mapping: TypeMapping, *, is_first: bool
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC, a INT[])",
        "INSERT INTO t VALUES (1, 1.5, '{1,2}'), (2, 2.25, '{}')",
    )
    if mapping is TypeMapping.TO_STRING:
        # The key of a lake's table keeps its type.
        postgres.run("ALTER TABLE t ALTER id TYPE TEXT")
    choices = [frozenset({mapping}), frozenset[TypeMapping]()]
    for type_mapping in choices if is_first else reversed(choices):
        follower.change(type_mapping=type_mapping)
        follower.once()
    follower.check("t")
    postgres.run("INSERT INTO t VALUES (3, 3, '{3}')")
    assert follower.once() == set()
    follower.check("t")


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


@pytest.mark.parametrize(
    "statements",
    [
        (
            "ALTER TABLE orders ADD COLUMN note TEXT DEFAULT 'none'",
            "ALTER TABLE orders ALTER COLUMN note DROP DEFAULT",
        ),
        ("ALTER TABLE orders DROP COLUMN customer", "ALTER TABLE orders ADD COLUMN customer TEXT"),
    ],
)
def test_statements_that_the_first_rows_come_after(
    postgres: PostgresDatabase, follower: Follower, statements: tuple[str, ...]
) -> None:
    postgres.run(ORDERS, "INSERT INTO orders VALUES (1, 'one', 1, now()), (2, 'two', 2, now())")
    follower.once()
    postgres.run(*statements, "INSERT INTO orders (id, amount) VALUES (99, 9)")
    follower.once()
    follower.check("orders")


@pytest.mark.parametrize("by", ["", " PARTITION BY HASH (id)"])
@pytest.mark.parametrize(
    "statements",
    [
        (
            "ALTER TABLE t ADD c INT",
            "UPDATE t SET c = 5 WHERE id = 1",
            "ALTER TABLE t DROP c",
            "ALTER TABLE t ADD c INT",
        ),
        (
            "ALTER TABLE t RENAME a TO b",
            "UPDATE t SET b = 5 WHERE id = 1",
            "ALTER TABLE t DROP b",
            "ALTER TABLE t ADD b INT",
        ),
    ],
)
def test_columns_that_are_gone_where_the_log_describes_them(
    postgres: PostgresDatabase, follower: Follower, statements: tuple[str, ...], by: str
) -> None:
    postgres.run(f"CREATE TABLE t (id INT PRIMARY KEY, a INT){by}")
    if by:
        postgres.run("CREATE TABLE p PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    postgres.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    follower.once()
    postgres.run(*statements)
    for _ in range(2):
        follower.once()
        follower.check("t")


@pytest.mark.parametrize("by", ["", " PARTITION BY HASH (id)"])
def test_a_new_column_is_not_read_again(
    postgres: PostgresDatabase, follower: Follower, by: str
) -> None:
    postgres.run(f"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT){by}")
    if by:
        postgres.run("CREATE TABLE p PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    postgres.run("INSERT INTO t VALUES (1, 1, 1)", "ALTER TABLE t DROP b")
    follower.once()
    postgres.run("ALTER TABLE t ADD c INT", "UPDATE t SET c = 5")
    assert follower.once() == set()
    follower.check("t")


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


def test_changelogs_of_what_the_log_has_not(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(ORDERS, "INSERT INTO orders VALUES (1, 'a', 1, now())")
    follower.change(table_options={"changelog-producer": "input"})
    with pytest.raises(Invalid, match="changelog-producer is input, and the log lacks its"):
        follower.once()
    postgres.run("ALTER TABLE orders REPLICA IDENTITY FULL")
    follower.once()
    postgres.run("UPDATE orders SET amount = 3")
    follower.once()
    follower.check("orders")
    postgres.run("ALTER TABLE orders REPLICA IDENTITY DEFAULT")
    follower.lake.table("lake.orders").alter(SetOption("changelog-producer", "input"))
    postgres.run("UPDATE orders SET amount = 2")
    follower.once()
    reason = follower.states()["orders"].reason
    assert reason is not None
    assert "lacks rows as they were before updates" in reason


def test_names_that_change_while_the_log_is_read(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    """What was asked for of tables is older than what the log tells of them."""
    postgres.run(ORDERS, "INSERT INTO orders VALUES (1, 'a', 1, now())")
    follower.once()
    follower.change(look_seconds=0.0, batch_seconds=0.05)
    pipeline = follower.pipeline()
    renamed = 0

    class Renames(ProgressLog):
        def states(self, states: Mapping[TableName, TableState]) -> None:
            nonlocal renamed
            super().states(states)
            if renamed == 10:
                pipeline.stop()
                return
            old, new = ("orders", "purchases") if renamed % 2 == 0 else ("purchases", "orders")
            renamed += 1
            postgres.run(
                f"INSERT INTO {old} VALUES ({10 * renamed}, 'b', 2, now())",
                f"ALTER TABLE {old} RENAME TO {new}",
                f"INSERT INTO {new} VALUES ({10 * renamed + 1}, 'c', 3, now())",
            )

    pipeline.progress = Renames()
    pipeline.run()
    follower.once()
    follower.check("orders")
    assert len(follower.rows("orders")) == 21


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE orders ALTER COLUMN amount TYPE NUMERIC(10, 2) USING amount * 2",
        "ALTER TABLE orders ALTER COLUMN customer TYPE TEXT USING upper(customer)",
    ],
)
def test_rows_that_a_statement_rewrites(
    postgres: PostgresDatabase, follower: Follower, statement: str
) -> None:
    postgres.run(ORDERS, "INSERT INTO orders VALUES (1, 'a', 1, now()), (2, 'b', 2, now())")
    follower.once()
    postgres.run(statement)
    follower.once()
    follower.check("orders")
    before = follower.lake.table("lake.orders").latest_snapshot()
    # What leaves the rows as they are is not a reason to read them.
    postgres.run("VACUUM FULL orders")
    follower.once()
    assert follower.lake.table("lake.orders").latest_snapshot() == before
    follower.check("orders")


def test_partitions_that_come_and_go_with_rows(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE TABLE logs (id INT, day DATE, v TEXT, PRIMARY KEY (id, day)) PARTITION BY RANGE "
        "(day)",
        "CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "CREATE TABLE more (id INT NOT NULL, day DATE NOT NULL, v TEXT, PRIMARY KEY (id, day))",
        "INSERT INTO logs VALUES (1, '2024-01-02', 'a')",
        "INSERT INTO more VALUES (2, '2024-02-02', 'b')",
    )
    follower.change(exclude=("public.more",))
    follower.once()
    postgres.run(
        "ALTER TABLE logs ATTACH PARTITION more FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')"
    )
    follower.once()
    follower.check("logs")
    assert len(follower.rows("logs")) == 2
    postgres.run("ALTER TABLE logs DETACH PARTITION logs_1")
    follower.once()
    follower.check("logs")
    postgres.run("TRUNCATE more")
    follower.once()
    follower.check("logs")
    assert follower.rows("logs") == []


def test_tables_of_tools_are_not_followed(postgres: PostgresDatabase, follower: Follower) -> None:
    """No look takes them for new tables, which would be a batch each time."""
    postgres.run(ORDERS, "CREATE TABLE _orders_new (LIKE orders INCLUDING ALL)")
    follower.change(look_seconds=0.0, batch_seconds=0.05, quiet_seconds=3600.0)
    follower.once()

    def batch_of_row(number: int) -> int:
        postgres.run(f"INSERT INTO orders VALUES ({number}, 'a', 1, now())")
        until(lambda: len(follower.rows("orders")) > number)
        return follower.plan().number

    with RunningPipeline(follower.pipeline()) as running:
        postgres.run("CREATE TABLE _orders_old (LIKE orders INCLUDING ALL)")
        batches = [batch_of_row(number) for number in range(4)]
        running.stop()
        running.wait(60)
    assert batches == [batches[0] + number for number in range(4)]
    assert list(follower.states()) == ["orders"]
    follower.check("orders")


def test_a_table_that_leaves_the_publication(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(ORDERS, "CREATE TABLE items (id INT PRIMARY KEY)")
    follower.once()
    postgres.run(
        "ALTER PUBLICATION headwater_shop DROP TABLE orders",
        "INSERT INTO orders VALUES (1, 'a', 1, now())",
        "INSERT INTO items VALUES (1)",
    )
    follower.once()
    reason = follower.states()["orders"].reason
    assert reason is not None
    assert "publication headwater_shop: it does not have the table public.orders" in reason
    assert reason.endswith("headwater cdc resnapshot public.orders")
    follower.check("items")
    follower.resnapshot("orders")
    follower.once()
    follower.check("orders", "items")


@pytest.mark.parametrize("is_selected", [False, True])
def test_a_name_for_a_while_between_two_runs(
    postgres: PostgresDatabase, follower: Follower, is_selected: bool
) -> None:
    postgres.run(ORDERS, "INSERT INTO orders SELECT n, 'c', n, now() FROM generate_series(1, 9) n")
    if not is_selected:
        follower.change(exclude=("public.*_away",))
    follower.once()
    postgres.run(
        "ALTER TABLE orders RENAME TO orders_away",
        "UPDATE orders_away SET id = id + 100",
        "INSERT INTO orders_away VALUES (50, 'd', 5, now())",
        "ALTER TABLE orders_away RENAME TO orders",
        "INSERT INTO orders VALUES (51, 'e', 6, now())",
    )
    follower.once()
    follower.check("orders")
    assert len(follower.rows("orders")) == 11


def test_ranges_of_several_tables_are_compared_at_once(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        postgres.run(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT)",
            f"INSERT INTO {name} SELECT n, 0 FROM generate_series(-200, 200) n",
        )
    follower.change(task_rows=60)
    follower.once()
    follower.lake.table("lake.t3").write({"id": [-200, 201], "v": [-1, -1]})
    verdicts = verify(follower.lake, follower.address, follower.settings, LocalExecutor(2))
    differing = {
        verdict.table.table: {row["id"] for row in verdict.differences.to_pylist()}
        for verdict in verdicts
        if not verdict.is_equal
    }
    assert differing == {"t3": {-200, 201}}


class _LookingPipeline:
    """A pipeline that runs, and looks at the catalogs again and again.

    Attributes:
        read: The tables that were read, besides their log.
    """

    def __init__(self, follower: Follower, running: RunningPipeline, read: set[str]) -> None:
        self._follower, self._running, self.read = follower, running, read

    def finds(self, *tables: str) -> None:
        """Wait until all of these tables, and no others, are followed."""

        def are_followed() -> bool:
            phases = {
                name.table: table.phase
                for name, table in self._running.status().tables.items()
                if table.phase is not TablePhase.GONE
            }
            return phases == dict.fromkeys(tables, TablePhase.STREAMING)

        until(are_followed)

    def writes(self, table: str, *keys: int) -> None:
        """Wait until the lake's table has these keys."""
        until(lambda: {row["id"] for row in self._follower.rows(table)} == set(keys))


@pytest.fixture
def looking(postgres: PostgresDatabase, follower: Follower) -> Iterator[_LookingPipeline]:
    """A pipeline whose log has described the table ``events``."""
    postgres.run(EVENTS, "INSERT INTO events VALUES (1, 'a')")
    follower.change(on_drop=OnDrop.DROP)
    follower.once()
    follower.change(look_seconds=0.0, batch_seconds=0.05)
    pipeline = follower.pipeline()
    pipeline.progress = progress = ReadTables()
    with RunningPipeline(pipeline) as running:
        postgres.run("INSERT INTO events VALUES (2, 'b')")
        looking = _LookingPipeline(follower, running, progress.tables)
        looking.writes("events", 1, 2)
        yield looking
        running.stop()
        running.wait(60)


def test_a_rename_that_a_look_has_found(
    postgres: PostgresDatabase, follower: Follower, looking: _LookingPipeline
) -> None:
    """Its rows come later, and their description has the name that is known already."""
    postgres.run("ALTER TABLE events RENAME TO events_old")
    looking.finds("events_old")
    postgres.run("INSERT INTO events_old VALUES (3, 'c')")
    looking.writes("events_old", 1, 2, 3)
    looking.finds("events_old")
    assert looking.read == set()
    follower.check("events_old")


def test_a_table_that_takes_the_name_of_one_before_a_look(
    postgres: PostgresDatabase, follower: Follower, looking: _LookingPipeline
) -> None:
    postgres.run(f"BEGIN; ALTER TABLE events RENAME TO events_old; {EVENTS}; COMMIT")
    looking.finds("events", "events_old")
    looking.read.clear()
    postgres.run("INSERT INTO events_old VALUES (3, 'c')", "INSERT INTO events VALUES (4, 'd')")
    looking.writes("events", 4)
    looking.writes("events_old", 1, 2, 3)
    looking.finds("events", "events_old")
    assert looking.read == set()
    follower.check("events", "events_old")


def test_a_rename_that_is_undone_after_a_look(
    postgres: PostgresDatabase, follower: Follower, looking: _LookingPipeline
) -> None:
    postgres.run("ALTER TABLE events RENAME TO others")
    looking.finds("others")
    postgres.run(
        "BEGIN; ALTER TABLE others RENAME TO events; INSERT INTO events VALUES (3, 'c'); COMMIT"
    )
    looking.finds("events")
    postgres.run("INSERT INTO events VALUES (4, 'd')")
    until(lambda: any(row["id"] == 4 for row in follower.rows("events")))
    assert looking.read == set()
    follower.check("events")


@pytest.mark.parametrize("question", ["tables", "unlogged"])
def test_a_rename_before_a_question_of_a_look(
    postgres: PostgresDatabase,
    follower: Follower,
    looking: _LookingPipeline,
    monkeypatch: pytest.MonkeyPatch,
    question: str,
) -> None:
    """Of two questions, one has an answer of before it."""
    ask = getattr(PostgresSource, question)
    changes = ["ALTER TABLE events RENAME TO others"]

    def change_and_ask(*arguments: object, **options: object) -> object:
        while changes:
            postgres.run(changes.pop())
        return ask(*arguments, **options)

    monkeypatch.setattr(PostgresSource, question, change_and_ask)
    looking.finds("others")
    postgres.run("INSERT INTO others VALUES (3, 'c')")
    looking.writes("others", 1, 2, 3)
    assert looking.read == set()
    follower.check("others")


@pytest.mark.parametrize("later", ["", "ALTER TABLE t ADD COLUMN c TEXT"])
@pytest.mark.parametrize("change", ["", "INSERT INTO t (id, b) VALUES (3, 'c')"])
@pytest.mark.parametrize(
    "statements",
    [
        "ALTER TABLE t DROP COLUMN b; ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t RENAME COLUMN a TO x; ALTER TABLE t RENAME COLUMN b TO a; "
        "ALTER TABLE t RENAME COLUMN x TO b",
        "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5",
        "ALTER TABLE t DROP COLUMN a",
    ],
)
def test_after_an_alter_and_before_the_next_plan(
    postgres: PostgresDatabase, follower: Follower, statements: str, change: str, later: str
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b TEXT)",
        "INSERT INTO t VALUES (1, 'a', 'b'), (2, 'a', 'b')",
    )
    follower.once()
    postgres.run(f"BEGIN; {statements}; COMMIT", *filter(None, [change]))
    ends_after_alter(follower.pipeline())
    postgres.run(*filter(None, [later]))
    follower.once()
    follower.check("t")
    # It is altered for the definition that it has, and for no other one.
    postgres.run(
        "BEGIN; ALTER TABLE t ADD COLUMN d TEXT; ALTER TABLE t RENAME COLUMN b TO e; COMMIT"
    )
    assert follower.once() == set()
    follower.check("t")


SWAP = (
    "BEGIN; ALTER TABLE t RENAME COLUMN a TO x; ALTER TABLE t RENAME COLUMN b TO a; "
    "ALTER TABLE t RENAME COLUMN x TO b; COMMIT"
)


def test_an_alter_that_is_undone_before_the_next_plan(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b TEXT)",
        "INSERT INTO t VALUES (1, 'a', 'b'), (2, 'a', 'b')",
    )
    follower.once()
    postgres.run(SWAP)
    ends_after_alter(follower.pipeline())
    postgres.run(SWAP, "UPDATE t SET a = 'c' WHERE id = 2")
    assert follower.once() == {"t"}
    follower.check("t")
    assert follower.once() == set()


def test_a_definition_that_a_table_had_before(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b TEXT)",
        "INSERT INTO t VALUES (1, 'a', 'b'), (2, 'a', 'b')",
    )
    follower.once()
    for _ in range(3):
        postgres.run(SWAP)
        assert follower.once() == set()
        follower.check("t")
