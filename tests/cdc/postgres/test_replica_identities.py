"""Rows whose replica identity is not the one that the log, or the catalogs, name with them."""

from __future__ import annotations

from functools import partial

import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase
from tests.cdc.waiting import until

from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.service.verify import verify

pytestmark = pytest.mark.postgresql

DOCUMENT = TableName("public", "documents")
# What is FULL of a whole table does not make its partitions so.
DOCUMENTS = (
    "CREATE TABLE documents (id INT, day DATE NOT NULL DEFAULT '2024-01-01', body TEXT, "
    "PRIMARY KEY (id)) PARTITION BY RANGE (id)",
    "ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL",
    "CREATE TABLE documents_0 PARTITION OF documents FOR VALUES FROM (0) TO (1000)",
    "ALTER TABLE documents REPLICA IDENTITY FULL",
)
ROWS = (
    "INSERT INTO documents SELECT n, '2024-01-01', repeat(md5(n::text), 320) FROM generate_series"
)
NEW_PARTITION = (
    "CREATE TABLE documents_1 PARTITION OF documents FOR VALUES FROM (1000) TO (2000)",
    f"{ROWS}(1001, 1020) n",
)
BY_DAY = LayoutRules(primary_keys={"": ("day", "id")})
MOVES = (
    "UPDATE documents SET day = '2024-02-02' WHERE id IN (1, 1001)",
    "DELETE FROM documents WHERE id IN (2, 1002)",
)


def _has(follower: Follower, number: int) -> bool:
    """Whether the lake has a row."""
    return follower.lake.table("lake.documents").scan(where=f"id = {number}").count() == 1


def _check(follower: Follower) -> None:
    """Check that the table is followed, and that the lake has the source's rows."""
    assert follower.states()["documents"].phase is TablePhase.STREAMING, follower.states()
    (verdict,) = verify(follower.lake, follower.address, follower.settings)
    assert verdict.is_equal, (verdict.problem, verdict.differences.to_pylist()[:10])


def test_long_values_of_a_partition_whose_keys_change(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*DOCUMENTS, f"{ROWS}(1, 20) n")
    follower.once()
    postgres.run("UPDATE documents SET id = id + 100 WHERE id < 10")
    assert follower.once() == set()
    _check(follower)


def test_long_values_of_a_partition_that_is_made_later(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*DOCUMENTS, "ALTER TABLE documents_0 REPLICA IDENTITY FULL", f"{ROWS}(1, 20) n")
    follower.once()
    postgres.run(*NEW_PARTITION)
    follower.once()
    postgres.run(
        "UPDATE documents SET id = id + 100 WHERE id < 10 OR id > 1010",
        "DELETE FROM documents WHERE id IN (15, 1005)",
    )
    assert follower.once() == set()
    _check(follower)


@pytest.mark.parametrize(
    "statements",
    [
        ("UPDATE documents SET id = id + 100 WHERE id < 10", "{new}", "{long}"),
        ("{new}", "{long}", "ALTER TABLE documents_1 REPLICA IDENTITY FULL", "{long}"),
        (
            *("{new}", "ALTER TABLE documents_1 REPLICA IDENTITY FULL", "{long}"),
            *("ALTER TABLE documents_1 REPLICA IDENTITY DEFAULT", "{long}"),
            "UPDATE documents SET id = id + 100 WHERE id < 10",
        ),
    ],
)
def test_partitions_that_differ_within_a_transaction(
    postgres: PostgresDatabase, follower: Follower, statements: tuple[str, ...]
) -> None:
    postgres.run(*DOCUMENTS, "ALTER TABLE documents_0 REPLICA IDENTITY FULL", f"{ROWS}(1, 20) n")
    postgres.run(*NEW_PARTITION)
    follower.once()
    texts = {
        "{new}": "UPDATE documents SET id = id + 100 WHERE id BETWEEN 1001 AND 1010",
        "{long}": "UPDATE documents SET id = id + 20 WHERE id BETWEEN 1011 AND 1090",
    }
    with postgres.connect() as session:
        for statement in statements:
            session.execute(texts.get(statement, statement).encode())
    follower.once()
    _check(follower)


def test_keys_of_the_lake_that_a_new_partition_does_not_log(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*DOCUMENTS, "ALTER TABLE documents_0 REPLICA IDENTITY FULL", f"{ROWS}(1, 20) n")
    follower.change(layout=BY_DAY)
    follower.once()
    postgres.run(*NEW_PARTITION, *MOVES)
    follower.once()
    state = follower.states()["documents"]
    assert state.phase is TablePhase.QUARANTINED
    assert "ALTER TABLE public.documents REPLICA IDENTITY FULL, and each of its partitions" in (
        state.reason or ""
    )
    postgres.run("ALTER TABLE documents_1 REPLICA IDENTITY FULL")
    follower.resnapshot("documents")
    follower.once()
    _check(follower)
    postgres.run("UPDATE documents SET day = '2024-03-03'", "DELETE FROM documents WHERE id = 1003")
    assert follower.once() == set()
    _check(follower)


def test_changelogs_that_a_new_partition_does_not_log(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*DOCUMENTS, "ALTER TABLE documents_0 REPLICA IDENTITY FULL", f"{ROWS}(1, 20) n")
    follower.change(table_options={"changelog-producer": "input"})
    follower.once()
    postgres.run("UPDATE documents SET day = '2024-02-02'")
    follower.once()
    _check(follower)
    postgres.run(*NEW_PARTITION, *MOVES)
    follower.once()
    assert follower.states()["documents"].phase is TablePhase.QUARANTINED
    assert "lacks rows as they were" in (follower.states()["documents"].reason or "")


def test_partitions_that_are_full_where_their_table_is_not(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        *DOCUMENTS,
        f"{ROWS}(1, 20) n",
        "ALTER TABLE documents_0 REPLICA IDENTITY FULL",
        "ALTER TABLE documents REPLICA IDENTITY DEFAULT",
    )
    follower.change(layout=BY_DAY)
    follower.once()
    postgres.run(*MOVES, "UPDATE documents SET id = id + 100 WHERE id < 10")
    assert follower.once() == set()
    _check(follower)


def test_a_partition_that_is_mended_and_has_no_more_rows(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE TABLE documents (id INT PRIMARY KEY, u INT NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE documents_0 PARTITION OF documents FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE documents_1 PARTITION OF documents FOR VALUES FROM (1000) TO (2000)",
        "CREATE UNIQUE INDEX documents_0_u_key ON documents_0 (u)",
        "INSERT INTO documents SELECT n, n FROM generate_series(1, 20) n",
    )
    follower.once()
    with RunningPipeline(follower.pipeline()) as running:
        postgres.run(
            f"ALTER TABLE documents_0 {IDENTITY} documents_0_u_key",
            "UPDATE documents SET id = id + 100 WHERE id < 10",
            "ALTER TABLE documents_0 REPLICA IDENTITY DEFAULT",
        )
        for number in range(1000, 1005):
            postgres.run(f"INSERT INTO documents VALUES ({number}, {number})")
            until(partial(_has, follower, number))
        until(lambda: running.status().tables[DOCUMENT].phase is TablePhase.STREAMING)
        running.stop()
        running.wait(60)
    follower.once()
    _check(follower)


IDENTITY = "REPLICA IDENTITY USING INDEX"


@pytest.mark.parametrize(
    "table",
    [
        ("CREATE TABLE documents (id INT PRIMARY KEY, u INT NOT NULL UNIQUE)", "documents"),
        (
            "CREATE TABLE documents (id INT PRIMARY KEY, u INT NOT NULL) PARTITION BY RANGE (id);"
            "CREATE TABLE documents_0 PARTITION OF documents DEFAULT;"
            "CREATE UNIQUE INDEX documents_0_u_key ON documents_0 (u)",
            "documents_0",
        ),
    ],
)
def test_another_identity_for_a_while(
    postgres: PostgresDatabase, follower: Follower, table: tuple[str, str]
) -> None:
    create, name = table
    postgres.run(create, "INSERT INTO documents SELECT n, n FROM generate_series(1, 20) n")
    follower.once()
    postgres.run(
        f"ALTER TABLE {name} {IDENTITY} {name}_u_key",
        "UPDATE documents SET id = id + 100 WHERE id < 10",
        f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT",
    )
    assert follower.once() == {"documents"}
    _check(follower)
    postgres.run("UPDATE documents SET id = id + 200 WHERE id = 11")
    assert follower.once() == set()
    _check(follower)


@pytest.mark.parametrize("stored", ["STORED", "VIRTUAL"])
def test_generated_columns_of_a_replica_identity(
    postgres: PostgresDatabase, follower: Follower, stored: str
) -> None:
    """A server that rejects changes of them is not kept from changes of its tables."""
    if int(postgres.value("SHOW server_version_num")) < 180_000:
        pytest.xfail("servers allow them before 18")
    columns = f"(id INT PRIMARY KEY, v INT, d INT GENERATED ALWAYS AS (id * 2) {stored})"
    postgres.run(
        f"CREATE TABLE whole {columns} PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100)",
        # Rows have the identity of their partition.
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "INSERT INTO whole VALUES (1, 1), (2, 2)",
    )
    follower.once()
    changes = "UPDATE {0} SET v = 10 WHERE id = 1", "DELETE FROM {0} WHERE id = 2"
    postgres.run(
        *(change.format("whole") for change in changes),
        f"CREATE TABLE later {columns}",
        "ALTER TABLE later REPLICA IDENTITY FULL",
        "INSERT INTO later VALUES (1, 1), (2, 2)",
    )
    follower.once()
    follower.check("whole")
    reason = follower.states()["later"].reason or ""
    assert "its replica identity is FULL, and column d is generated" in reason
    postgres.run(*(change.format("later") for change in changes))
    postgres.run("ALTER TABLE part REPLICA IDENTITY FULL")
    follower.once()
    reason = follower.states()["whole"].reason or ""
    assert "identity of its partition public.part is FULL, and column d is generated" in reason
    for table in ("part", "later"):
        postgres.run(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
    postgres.run("INSERT INTO whole VALUES (3, 3)", "UPDATE whole SET v = 20 WHERE id = 1")
    for table in ("whole", "later"):
        follower.resnapshot(table)
    follower.once()
    follower.check("whole", "later")
