"""What a start makes of the first description of each table, which the log has before its rows."""

from __future__ import annotations

import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.progress import ProgressLog

pytestmark = pytest.mark.postgresql


class _Changes(ProgressLog):
    """Notes the tables for which something else than rows was in a batch of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[str] = []

    def schema_changed(self, table: TableName, statement: str) -> None:
        super().schema_changed(table, statement)
        self.tables.append(table.table)


def _changed_tables(follower: Follower) -> list[str]:
    """Follow the source once; the tables that had batches besides those of rows."""
    pipeline = follower.pipeline()
    pipeline.progress = progress = _Changes()
    pipeline.run(once=True)
    return sorted(progress.tables)


def test_tables_that_did_not_change_have_no_batch_of_their_own(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE DOMAIN price AS numeric(10, 2)",
        "CREATE TABLE a (id int PRIMARY KEY, p price, ps price[], c varchar(7))",
        'CREATE TABLE b ("Id" int, day date, v int GENERATED ALWAYS AS (1) STORED, '
        'PRIMARY KEY (day, "Id")) PARTITION BY LIST (day)',
        "CREATE TABLE b_any PARTITION OF b DEFAULT",
        "CREATE TABLE c (id int PRIMARY KEY, v text)",
        "ALTER TABLE c REPLICA IDENTITY FULL",
    )
    follower.once()
    postgres.run(
        "BEGIN; INSERT INTO a VALUES (1, 1, '{2}', 'c'); INSERT INTO b VALUES (1, now()); "
        "INSERT INTO c VALUES (1, 'x'); COMMIT",
        "UPDATE c SET v = 'y'",
        "DELETE FROM a WHERE id = 1",
    )
    assert _changed_tables(follower) == []
    follower.check("a", "b", "c")


def test_tables_that_did_change(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run("CREATE TABLE a (id int PRIMARY KEY, v int, w text)", "INSERT INTO a VALUES (1)")
    follower.once()
    for statement in (
        "ALTER TABLE a ALTER v TYPE bigint",
        "ALTER TABLE a RENAME v TO x",
        "ALTER TABLE a DROP w",
        "ALTER TABLE a REPLICA IDENTITY FULL",
    ):
        postgres.run(statement, "UPDATE a SET id = id + 1")
        # Another identity changes nothing of a table.
        assert bool(_changed_tables(follower)) == ("IDENTITY" not in statement)
        follower.check("a")


def test_a_column_whose_type_is_gone(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TYPE mood AS ENUM ('sad')")
    follower.once()
    postgres.run(
        "ALTER TABLE a ADD m mood",
        "INSERT INTO a VALUES (1, 1, 'sad')",
        "ALTER TABLE a DROP m",
        "DROP TYPE mood",
        "INSERT INTO a VALUES (2, 2)",
    )
    follower.once()
    follower.check("a")
