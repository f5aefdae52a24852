"""A clock that is wrong alone neither revives nor deletes anything."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.clock import TOLERANCE_MILLIS, Clock, Moment
from headwater.storage.runtime import SYSTEM_RUNTIME

START = 1_700_000_000_000
YEAR = 366 * 86_400_000
_WRONG = st.integers(-YEAR, YEAR)


class _Machine:
    """A machine's clock, which is wrong by so much."""

    def __init__(self) -> None:
        self.passed = self.wrong_by = 0

    def millis(self) -> int:
        return START + self.passed + self.wrong_by

    def seconds(self) -> float:
        return self.passed / 1000


@given(
    at_start=_WRONG,
    other=st.none() | _WRONG,
    turns=st.lists(st.tuples(st.integers(0, YEAR), _WRONG), max_size=5),
)
def test_the_true_time_is_within_if_any_clock_is_right(
    at_start: int, other: int | None, turns: list[tuple[int, int]]
) -> None:
    machine = _Machine()
    machine.wrong_by = at_start
    clock = Clock(machine.millis, machine.seconds)
    if other is not None:
        clock.compare(machine.millis() - at_start + other)
    for passed, wrong_by in [(0, at_start), *turns]:
        machine.passed += passed
        machine.wrong_by = wrong_by
        true = START + machine.passed
        errors = [wrong_by, at_start, *([] if other is None else [other])]
        slack = len(turns) + 1  # milliseconds are rounded down
        assert true + min(errors) - slack <= clock.earliest_millis() <= true + min(errors)
        assert true + max(errors) - slack <= clock.latest_millis() <= true + max(errors)
        # One clock that is wrong alone does not change what is written down.
        if errors.count(0) >= len(errors) - 1 and (other is not None or at_start == 0):
            assert abs(clock.now_millis() - true) <= TOLERANCE_MILLIS + slack


def test_small_corrections_are_followed() -> None:
    machine = _Machine()
    clock = Clock(machine.millis, machine.seconds)
    machine.wrong_by = TOLERANCE_MILLIS
    assert clock.now_millis() == START + TOLERANCE_MILLIS
    machine.wrong_by += 1
    assert clock.now_millis() == START


def test_a_process_that_starts_later_has_the_start_of_the_first() -> None:
    machine = _Machine()
    first = Clock(machine.millis, machine.seconds)
    machine.passed, machine.wrong_by = 5000, -YEAR
    second = Clock(machine.millis, machine.seconds, first.start)
    assert second.now_millis() == first.now_millis() == START + 5000
    assert first.start == Moment(START, 0.0)


def test_a_pickled_clock_is_no_later_than_the_one_it_came_from() -> None:
    clock = Clock(SYSTEM_RUNTIME.now_millis, SYSTEM_RUNTIME.monotonic)
    clock.compare(SYSTEM_RUNTIME.now_millis() - YEAR)
    earliest = clock.earliest_millis()
    came = pickle.loads(pickle.dumps(clock))
    assert earliest <= came.earliest_millis() <= clock.earliest_millis()
    assert came.now_millis() > earliest + YEAR // 2
    runtime = pickle.loads(pickle.dumps(SYSTEM_RUNTIME.with_clock(clock)))
    assert runtime.clock is not None
    assert runtime.latest_millis() >= runtime.earliest_millis() > START
