"""A log that is read with interruptions while sessions write: nothing is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread

import psycopg
import pytest
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.postgres.logs import Row, SourceLog, contents, source_log

from headwater.cdc.ddl import Truncate
from headwater.cdc.postgres.relations import Redefined, Relation
from headwater.cdc.postgres.slots import log_position
from headwater.cdc.source.log_batches import BatchLimits, LogBatch
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Unavailable
from headwater.storage.rows.kinds import RowKind

pytestmark = pytest.mark.postgresql

SESSIONS, TRANSACTIONS = 3, 150
IDS = 60


class Writer(Thread):
    """Changes a table in transactions of all kinds.

    Args:
        database: The table's database.
        seed: Chooses the changes.
    """

    def __init__(self, database: PostgresDatabase, seed: int) -> None:
        super().__init__(daemon=True)
        self._database, self._random = database, random.Random(seed)

    def run(self) -> None:
        with self._database.connect() as session:
            for _ in range(TRANSACTIONS):
                # Others hold what it needs, or have the key already.
                with suppress(psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                    for statement in self._statements():
                        session.execute(statement.encode())
                if self._random.random() < 0.1:
                    session.rollback()
                else:
                    session.commit()

    def _statements(self) -> Iterator[str]:
        if self._random.random() < 0.02:
            yield "TRUNCATE t"
        if self._random.random() < 0.02:
            yield f"INSERT INTO other SELECT generate_series(1, {self._random.randrange(30_000)})"
        for _ in range(self._random.randrange(1, 8)):
            one, other = self._random.randrange(IDS), self._random.randrange(IDS)
            word = self._random.choice(["'short'", "NULL", "repeat(md5(random()::text), 200)"])
            yield self._random.choice(
                [
                    f"INSERT INTO t VALUES ({one}, {word}, {other}) ON CONFLICT (id) DO UPDATE "
                    f"SET n = excluded.n",
                    f"UPDATE t SET v = {word} WHERE id = {one}",
                    f"UPDATE t SET n = n + 1 WHERE id = {one}",
                    f"UPDATE t SET id = {other} WHERE id = {one} "
                    f"AND NOT EXISTS (SELECT FROM t WHERE id = {other})",
                    f"DELETE FROM t WHERE id = {one}",
                ]
            )


@dataclass
class Copy:
    """What a pipeline has of the table.

    Attributes:
        position: Until where.
        rows: The rows by their keys.
        known: The table as it was described last.
    """

    position: Position
    rows: dict[str | None, Row] = field(default_factory=dict)
    known: Relation | None = None

    def apply(self, batch: LogBatch) -> None:
        assert batch.start == self.position
        assert not batch.rereads
        for change in batch.changes:
            if isinstance(change, Truncate):
                self.rows.clear()
            else:
                assert isinstance(change, Redefined)
                self.known = change.relation
        old: Row = {}
        for kind, row in contents([batch], "t").rows:
            if kind is RowKind.INSERT:
                assert row["id"] not in self.rows, "a row was inserted twice"
                self.rows[row["id"]] = row
            elif kind is RowKind.UPDATE_BEFORE:
                old = self.rows.pop(row["id"])
            elif kind is RowKind.UPDATE_AFTER:
                self.rows[row["id"]] = {**(old or self.rows[row["id"]]), **row}
                old = {}
            else:
                del self.rows[row["id"]]
        self.position = batch.end


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_is_equal_after_many_interruptions(postgres: PostgresDatabase, seed: int) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text, n int)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        "CREATE TABLE other (a int)",
    )
    log, chance = source_log(postgres), random.Random(seed)
    copy = Copy(log.start)
    writers = [Writer(postgres, 10 * seed + number) for number in range(SESSIONS)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        _read_on(log, copy, chance)
    goal = log_position(postgres.connection)
    while not copy.position.contains(goal):
        _read_on(log, copy, chance)
    assert copy.rows == {
        str(row_id): {"id": str(row_id), "v": text, "n": None if n is None else str(n)}
        for row_id, text, n in postgres.rows("SELECT id, v, n FROM t")
    }


def _read_on(log: SourceLog, copy: Copy, chance: random.Random) -> None:
    """Read some batches, until the connection is cut or the process ends."""
    known = [] if copy.known is None else [copy.known]
    with (
        log.reader("t", start=copy.position, known=known, memory_bytes=50_000) as reader,
        suppress(Unavailable),
    ):
        for _ in range(chance.randrange(1, 60)):
            limits = BatchLimits(chance.choice([0.02, 0.2]), bytes=chance.choice([1, 10_000]))
            batch = reader.read_batch(limits)
            if chance.random() < 0.04:
                # It was planned, and the process was killed: another one reads it again.
                reader.close()
                _carry_out(log, copy, batch.end)
                return
            copy.apply(batch)
            reader.released()
            if chance.random() < 0.3:
                reader.confirm(copy.position)
            if chance.random() < 0.03:
                _cut(log)


def _carry_out(log: SourceLog, copy: Copy, end: Position) -> None:
    known = [] if copy.known is None else [copy.known]
    with log.reader("t", start=copy.position, known=known) as reader:
        copy.apply(reader.read_until(end))
    assert copy.position == end


def _cut(log: SourceLog) -> None:
    log.database.rows(
        "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots "
        f"WHERE slot_name = '{log.source.slot}'"
    )
