"""Batches of the log of a MariaDB server."""

from __future__ import annotations

import itertools
import tracemalloc
from contextlib import closing

import pytest

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.log_files import LogFile
from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.source.log_batches import BatchDeadline, BatchLimits

pytestmark = pytest.mark.mariadb

NAME = TableName("shop", "t")
LIMITS = BatchLimits(0.05, quiet_seconds=3600)
MAX_ASKED = 50


def test_a_batch_without_a_limit_ends_soon_after_its_first_change(
    shop: MySQLServer, shop_source: Address
) -> None:
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    asked = itertools.count(1)
    with (
        closing(MySQLSource(shop_source)) as source,
        closing(source.open_log(source.position(), 1 << 20, lambda _: True)) as reader,
    ):
        reader.follow({NAME: None})
        quiet = reader.read_batch(LIMITS, lambda: next(asked) == MAX_ASKED)
        assert next(asked) > MAX_ASKED
        assert not quiet.has_content
        shop.rows("INSERT INTO shop.t VALUES (1)")
        changed = reader.read_batch(LIMITS, lambda: next(asked) > 2 * MAX_ASKED)
        assert next(asked) < 2 * MAX_ASKED
    assert list(changed.rows) == [NAME]


def test_compressed_rows_count_as_what_they_are_without(
    shop: MySQLServer, shop_source: Address
) -> None:
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGTEXT)")
    shop.rows("SET GLOBAL log_bin_compress = ON")
    try:
        with (
            closing(MySQLSource(shop_source)) as source,
            closing(source.open_log(source.position(), 1 << 20, lambda _: True)) as reader,
        ):
            reader.follow({NAME: None})
            for key in range(3):
                shop.rows("INSERT INTO shop.t VALUES (%s, REPEAT('x', 500000))", [key])
            batch = reader.read_batch(BatchLimits(60, bytes=900_000))
    finally:
        shop.rows("SET GLOBAL log_bin_compress = OFF")
    assert batch.transactions == 2
    assert batch.size > 1_000_000


def _deadlines(limits: BatchLimits, *changes: float) -> list[float]:
    """When a batch that begins at 100 s ends: at first, and after each change."""
    times = iter([100.0, *changes])
    deadline = BatchDeadline(limits, lambda: next(times))
    result = [deadline.seconds]
    for _ in changes:
        deadline.add_change()
        result.append(deadline.seconds)
    return result


def test_a_first_change_that_is_waited_for_does_not_begin_the_time_again() -> None:
    limits = BatchLimits(5, quiet_seconds=60, min_seconds=1)
    assert [_deadlines(limits, first) for first in (100, 103, 104, 130)] == [
        [160, 105],
        [160, 105],
        [160, 105],
        [160, 131],
    ]
    assert _deadlines(BatchLimits(5, quiet_seconds=60), 130, 133) == [160, 135, 135]
    assert _deadlines(BatchLimits(5), 103, 104) == [105, 105, 105]


def test_a_batch_with_a_change_that_is_waited_for_ends_when_nothing_follows_it() -> None:
    limits = BatchLimits(5, quiet_seconds=60, min_seconds=1, idle_seconds=0.25)
    assert _deadlines(limits, 130, 130.5, 130.875) == [160, 130.25, 130.75, 131]
    # The time between two commits is not shorter than the limit.
    assert _deadlines(limits, 103, 104.875) == [160, 105, 105]


def test_a_batch_ends_after_the_second_in_which_its_file_was_made(
    shop: MySQLServer, shop_source: Address
) -> None:
    """A log that is begun again has no file of that name that was made in the same second."""
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    for number in range(3):
        with (
            closing(MySQLSource(shop_source)) as source,
            closing(source.open_log(source.position(), 1 << 20, lambda _: True)) as reader,
        ):
            shop.rows("FLUSH BINARY LOGS")
            shop.rows(f"INSERT INTO shop.t VALUES ({number})")
            reader.read_until(source.position())
            assert reader.log_file is not None
            file = LogFile.from_text(reader.log_file)
            ((now,),) = shop.rows("SELECT UNIX_TIMESTAMP()")
            assert int(str(now)) > file.created


TABLES = 12
BIG_BYTES = 8 << 20
"""What is logged of another table between rows of two tables."""


@pytest.mark.parametrize(
    ("in_one_transaction", "memory_bytes"), [(False, 1 << 30), (True, 2 * BIG_BYTES)]
)
def test_few_rows_do_not_keep_the_log_around_them(
    shop: MySQLServer, shop_source: Address, in_one_transaction: bool, memory_bytes: int
) -> None:
    names = [TableName("shop", f"t{number}") for number in range(TABLES)]
    for name in names:
        shop.rows(f"CREATE TABLE shop.{name.table} (id INT PRIMARY KEY)")
    shop.rows("CREATE TABLE shop.big (v TEXT)")
    with (
        closing(MySQLSource(shop_source)) as source,
        closing(source.open_log(source.position(), memory_bytes, lambda _: True)) as reader,
    ):
        reader.follow(dict.fromkeys(names))
        if in_one_transaction:
            shop.rows("BEGIN")
        for name in names:
            shop.rows(f"INSERT INTO shop.{name.table} VALUES (1)")
            shop.rows(
                "INSERT INTO shop.big "
                f"SELECT REPEAT('x', 1000) FROM shop.seq_1_to_{BIG_BYTES // 1000}"
            )
        shop.rows("COMMIT")
        end = source.position()
        tracemalloc.start()
        try:
            batch = reader.read_until(end)
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert set(batch.rows) == set(names)
    # The reader is ahead by two such parts and two pieces of a third one.
    assert kept < 4 * BIG_BYTES
    assert peak < 7 * BIG_BYTES
