"""The columns that the keys of maps get in a file."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headwater.storage.options import KeyPlacement
from headwater.storage.shredded_maps.placement import NO_COLUMN, placement

Rows = list[list[int]]


class Recent:
    """The policy ``lru``, a row at a time, as Paimon's allocator goes about it."""

    def __init__(self, columns: int) -> None:
        self.resident = [NO_COLUMN] * columns
        self.used = [0] * columns
        self.clock = 0

    def row(self, keys: list[int]) -> list[int]:
        found = [self.resident.index(key) if key in self.resident else NO_COLUMN for key in keys]
        planned, taken = list(self.resident), set(found)
        for at, key in enumerate(keys):
            free = [column for column in range(len(planned)) if column not in taken]
            if found[at] != NO_COLUMN or not free:
                continue
            unused = [column for column in free if planned[column] == NO_COLUMN]
            column = unused[0] if unused else min(free, key=lambda each: self.used[each])
            found[at], planned[column] = column, key
            taken.add(column)
        for column in taken - {NO_COLUMN}:
            self.used[column] = self.clock
        self.clock += 1
        self.resident = planned
        return found


def leading(keys: list[int], columns: int) -> list[int]:
    return [at if at < columns else NO_COLUMN for at in range(len(keys))]


def random_rows(seed: int, keys: int, widest: int) -> Rows:
    """Rows of keys that are numbered as they first come, with some that come often."""
    chosen = random.Random(seed)
    numbers: dict[int, int] = {}
    rows: Rows = []
    for _ in range(300):
        width = min(chosen.randint(0, widest), keys)
        often = [min(int(chosen.expovariate(0.3)), keys - 1) for _ in range(width)]
        some = chosen.sample(range(keys), width)
        picked = dict.fromkeys(often + some if chosen.random() < 0.5 else often)
        rows.append([numbers.setdefault(key, len(numbers)) for key in list(picked)[:widest]])
    return rows


def test_columns_change_hands_now_and_then_in_a_long_file() -> None:
    chosen = random.Random(5)
    numbers: dict[int, int] = {}
    rows: Rows = []
    for at in range(6_000):
        # A few keys come all the time; others, alone or one after another, for some rows.
        others = [100 + at // 7] if at % 1_500 < 60 or at % 211 == 0 else []
        picked = chosen.sample(range(8), 3) + others
        rows.append(sorted(numbers.setdefault(key, len(numbers)) for key in picked))
    recent = Recent(10)
    expected = [column for row in rows for column in recent.row(row)]
    placed = placement(KeyPlacement.LRU, 10)
    found: list[int] = []
    for part in (rows[:4_000], rows[4_000:]):
        owners = np.repeat(np.arange(len(part)), [len(row) for row in part])
        found += placed.columns(owners, np.array([key for row in part for key in row])).tolist()
    assert found == expected


@pytest.mark.parametrize("policy", KeyPlacement)
@pytest.mark.parametrize(
    ("columns", "keys", "widest"), [(1, 3, 3), (3, 3, 3), (3, 8, 5), (5, 60, 4), (40, 30, 20)]
)
def test_keys_get_the_columns_that_paimon_gives_them(
    policy: KeyPlacement, columns: int, keys: int, widest: int
) -> None:
    for seed in range(8):
        rows = random_rows(seed, keys, widest)
        if policy is not KeyPlacement.PLAIN:
            rows = [sorted(row) for row in rows]
        recent = Recent(columns)
        expected = [
            recent.row(row) if policy is KeyPlacement.LRU else leading(row, columns) for row in rows
        ]
        placed = placement(policy, columns)
        step = 1 + 37 * seed
        found: list[int] = []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            owners = np.repeat(np.arange(len(part)), [len(row) for row in part])
            numbers = np.array([key for row in part for key in row], np.int64)
            found += placed.columns(owners, numbers).tolist()
        assert found == [column for row in expected for column in row]
