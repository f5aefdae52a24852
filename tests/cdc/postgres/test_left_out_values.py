"""Long values that updates leave out: airbytehq/airbyte#30518, bruin-data/ingestr#805."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.postgres.consistent_reads import PostgresRead

pytestmark = pytest.mark.postgresql

LONG = "long" * 2000


@pytest.fixture
def documents(postgres: PostgresDatabase, follower: Follower) -> PostgresDatabase:
    """A database with a table that is followed."""
    postgres.run(
        "CREATE TABLE documents (id INT PRIMARY KEY, n INT, body TEXT NOT NULL, at DATE NOT NULL)",
        "ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL",
        "INSERT INTO documents SELECT n, n, repeat(md5(n::text), 200), date '2024-01-01' + n "
        "FROM generate_series(1, 20) n",
    )
    follower.once()
    return postgres


@pytest.fixture
def read_keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The keys that the source is asked for."""
    read: list[int] = []
    original = PostgresRead.rows_of_keys

    def noted(
        self: PostgresRead, table: SourceTable, keys: pa.Table, bad_dates: BadDates
    ) -> Iterator[pa.RecordBatch]:
        read.extend(keys.column(0).to_pylist())
        return original(self, table, keys, bad_dates)

    monkeypatch.setattr(PostgresRead, "rows_of_keys", noted)
    return read


def _followed(follower: Follower) -> dict[object, object]:
    """The bodies in the lake, when all changes are followed."""
    follower.once()
    follower.check("documents")
    return {row["id"]: row["body"] for row in follower.rows("documents")}


def test_a_value_that_an_earlier_batch_had(
    documents: PostgresDatabase, follower: Follower, read_keys: list[int]
) -> None:
    documents.run("UPDATE documents SET n = 100 WHERE id = 1")
    _followed(follower)
    assert read_keys == [1]


def test_a_value_of_a_row_whose_key_changes(
    documents: PostgresDatabase, follower: Follower, read_keys: list[int]
) -> None:
    documents.run("UPDATE documents SET id = 102 WHERE id = 2")
    assert 2 not in _followed(follower)
    assert sorted(read_keys) == [2, 102]


def test_insert_and_update_in_one_batch(
    documents: PostgresDatabase, follower: Follower, read_keys: list[int]
) -> None:
    # Not in parts, of which each has its task: one asks for what another has.
    follower.change(task_bytes=1 << 20)
    documents.run(
        f"BEGIN; INSERT INTO documents VALUES (30, 30, '{LONG}', now()), (31, 31, '{LONG}', now());"
        "UPDATE documents SET n = n + 1 WHERE id >= 30; UPDATE documents SET n = n + 1 "
        "WHERE id >= 30; DELETE FROM documents WHERE id = 31; COMMIT"
    )
    assert _followed(follower)[30] == LONG
    assert read_keys == []


def test_insert_and_a_changed_key_in_one_batch(
    documents: PostgresDatabase, follower: Follower, read_keys: list[int]
) -> None:
    # Not in parts, of which each has its task: one asks for what another has.
    follower.change(task_bytes=1 << 20)
    documents.run(
        f"BEGIN; INSERT INTO documents VALUES (30, 30, '{LONG}', now());"
        "UPDATE documents SET id = 130 WHERE id = 30; UPDATE documents SET n = 0 WHERE id = 130;"
        "INSERT INTO documents VALUES (30, 30, 'short', now()); COMMIT"
    )
    bodies = _followed(follower)
    assert (bodies[30], bodies[130]) == ("short", LONG)
    assert read_keys == []


def test_a_long_value_of_a_row_that_many_updates_change(
    documents: PostgresDatabase, follower: Follower, read_keys: list[int]
) -> None:
    documents.run(
        "BEGIN; INSERT INTO documents VALUES (30, 30, repeat('long', 250000), now()); "
        "DO 'BEGIN FOR i IN 1..90 LOOP UPDATE documents SET n = i WHERE id = 30; END LOOP; END'; "
        "INSERT INTO documents VALUES (31, 31, 'short', now()); COMMIT"
    )
    bodies = _followed(follower)
    assert (bodies[30], bodies[31]) == ("long" * 250000, "short")
    assert read_keys == [30]


def test_rows_go_away_by_their_keys(
    documents: PostgresDatabase, follower: Follower, read_keys: list[int]
) -> None:
    documents.run(
        "DELETE FROM documents WHERE id <= 10",
        f"UPDATE documents SET id = id + 100, body = '{LONG}' WHERE id > 15",
        f"INSERT INTO documents VALUES (3, 3, '{LONG}', now())",
    )
    assert sorted(map(int, map(str, _followed(follower)))) == [3, *range(11, 16), *range(116, 121)]
    assert read_keys == []
