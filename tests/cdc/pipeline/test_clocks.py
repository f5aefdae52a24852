"""Clocks that jump, at the source and where the pipeline runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin

from headwater.client import Lake, connect
from headwater.storage.runtime import SYSTEM_RUNTIME

_DAY_MILLIS = 86_400_000


class _JumpingClock:
    """Tells times that may be a day early or late; tasks get copies of it."""

    def __init__(self, seed: int) -> None:
        self._numbers = random.Random(seed)

    def __call__(self) -> int:
        return SYSTEM_RUNTIME.now_millis() + self._numbers.choice((-1, 0, 0, 1)) * _DAY_MILLIS


@pytest.fixture
def jumping_lake(lake_path: Path, lake: Lake, seed: int) -> Iterator[Lake]:
    """The same lake, where each look at the clock may be a day early or late."""
    lake.close()
    runtime = replace(SYSTEM_RUNTIME, now_millis=_JumpingClock(seed))
    with connect(str(lake_path), runtime=runtime) as jumping:
        yield jumping


def test_clocks_that_jump(origin: Origin, jumping_lake: Lake, seed: int) -> None:
    numbers = random.Random(seed)
    follower = Follower(origin, jumping_lake)
    follower.change(batch_seconds=0.05, range_rows=40)
    rows = ", ".join(f"({key}, 0)" for key in range(200))
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {rows}")
    for number in range(8):
        origin.session(
            f"SET SESSION timestamp = {1_700_000_000 + numbers.randrange(-90_000, 90_000)}",
            f"UPDATE t SET v = v + 1 WHERE id % 8 = {number}",
            f"DELETE FROM t WHERE id = {number * 20 + 3}",
            f"INSERT INTO t (id, v) VALUES ({1000 + number}, {number})",
        )
        if number == 4:
            origin.session("SET SESSION timestamp = 1500000000", "ALTER TABLE t ADD w INT")
        follower.once()
        follower.check("t")
