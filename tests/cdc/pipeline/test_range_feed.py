"""Ranges of a table that threads read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from tests.cdc.pipeline.conftest import Follower, Origin

from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.range_feed import RangeFeed


def test_several_threads_end_the_reading(origin: Origin, follower: Follower) -> None:
    values = ", ".join(f"({key})" for key in range(100))
    origin.run("CREATE TABLE t (id INT PRIMARY KEY)", f"INSERT INTO t VALUES {values}")
    follower.change(range_rows=1)
    with closing(MySQLSource(origin.address)) as source, ThreadPoolExecutor(4) as threads:
        (table,) = source.tables({origin.table("t")}).followed
        for _ in range(10):
            feed = RangeFeed(source, table, table, None, source.position(), follower.settings)
            assert next(iter(feed.batches())).num_rows == 1
            for ending in [threads.submit(feed.abort) for _ in range(4)]:
                ending.result()
            assert feed.is_done
    # Nothing holds the table any more.
    origin.run("SET SESSION lock_wait_timeout = 10", "ALTER TABLE t ADD v INT")
