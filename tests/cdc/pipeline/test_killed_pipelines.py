"""Pipelines that are killed at any time while their source changes: nothing is lost or doubled."""

from __future__ import annotations

import random
from pathlib import Path

from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.killed_pipelines import Writer, running
from tests.cdc.source_logs import with_files

TABLES = 6


def changes(numbers: random.Random) -> list[str]:
    """A transaction that changes rows of some tables."""
    statements = ["BEGIN"]
    for _ in range(numbers.randint(1, 4)):
        table, key = f"t{numbers.randrange(TABLES)}", numbers.randrange(400)
        kind = numbers.random()
        if kind < 0.4:
            statements.append(
                f"REPLACE INTO {table} VALUES ({key}, {numbers.randrange(99)}, 'new')"
            )
        elif kind < 0.7:
            statements.append(f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN {key} AND {key + 5}")
        elif kind < 0.85:
            statements.append(f"DELETE FROM {table} WHERE id = {key}")
        else:
            statements.append(f"UPDATE IGNORE {table} SET id = id + 1000 WHERE id = {key}")
    statements.append("COMMIT" if numbers.random() < 0.9 else "ROLLBACK")
    return statements


@with_files
def test_nothing_is_lost_when_it_is_killed(
    origin: Origin, follower: Follower, lake_path: Path, kills: int, seed: int
) -> None:
    for number in range(TABLES):
        origin.run(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT, w VARCHAR(9))")
        rows = ", ".join(f"({key}, {number}, 'old')" for key in range(0, 600, 2))
        origin.run(f"INSERT INTO t{number} VALUES {rows}")
    follower.change(range_rows=50, batch_seconds=0.1)
    numbers, log = random.Random(seed), lake_path.parent / "errors"
    with Writer(origin.address, origin.database, changes, seed) as writer:
        for _ in range(kills):
            with running(str(lake_path), origin.address, follower.settings, log) as process:
                # Some batches further, and then at any point of the next one.
                goal = follower.batch() + numbers.randint(0, 3)
                while follower.batch() < goal:
                    process.join(0.02)
                    assert process.exitcode is None, log.read_text()
                process.join(numbers.uniform(0, 0.3))
    assert writer.transactions > kills
    follower.once()
    follower.check(*(f"t{number}" for number in range(TABLES)))
