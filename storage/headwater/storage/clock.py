"""The time, told by several clocks of which one may be wrong.

A machine's clock may be set while a program runs: by hand, by a time service that finds it wrong,
or by a host that let the machine sleep. So the time is also counted from the start by the monotonic
clock, which nobody sets, and compared with another machine's where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

__all__ = ["TOLERANCE_MILLIS", "Clock", "Moment"]

TOLERANCE_MILLIS = 60_000
"""The difference between two clocks that is of no account; time services correct as much."""


@dataclass(frozen=True)
class Moment:
    """A clock's time at a moment.

    Attributes:
        millis: The time that it said, milliseconds since the epoch.
        monotonic: The moment, seconds of the monotonic clock of this machine.
    """

    millis: int
    monotonic: float

    def after(self, monotonic: float) -> int:
        """The time at a later moment, if nobody sets the clock meanwhile."""
        return self.millis + int((monotonic - self.monotonic) * 1000)


class Clock:
    """The machine's clock, the time counted since the start, and what another machine says.

    `latest_millis` is for refusing what is over, and `earliest_millis` for deleting what is old: no
    clock that is wrong alone then revives or deletes anything. What is written down is dated by
    `now_millis`.

    It pickles. Elsewhere it starts anew, and its earliest time is no later than it was here by more
    than has passed since.

    Args:
        machine: The machine's clock, milliseconds since the epoch.
        monotonic: Seconds since some moment, which never jump.
        start: The machine's time at the start; by default, its time now.
    """

    def __init__(
        self,
        machine: Callable[[], int],
        monotonic: Callable[[], float],
        start: Moment | None = None,
    ) -> None:
        self.machine = machine
        self._monotonic = monotonic
        self.start = Moment(machine(), monotonic()) if start is None else start
        # Replaced as a whole, so that threads need no lock.
        self._other: Moment | None = None

    def __reduce__(
        self,
    ) -> tuple[
        Callable[[Callable[[], int], Callable[[], float], int], Clock],
        tuple[Callable[[], int], Callable[[], float], int],
    ]:
        return _carried, (self.machine, self._monotonic, self.earliest_millis())

    def compare(self, millis: int) -> Self:
        """Note what another machine's clock says now; the last one that was noted counts."""
        self._other = Moment(millis, self._monotonic())
        return self

    def now_millis(self) -> int:
        """The time that two of the three clocks agree upon, milliseconds since the epoch.

        Without another machine's it is the machine's as long as that is no further than a minute
        from the time counted since the start, and then that: which of two is wrong nobody knows,
        but what jumps has been set.
        """
        machine, counted, *other = self._readings()
        if other:
            return sorted((machine, counted, *other))[1]
        return machine if abs(machine - counted) <= TOLERANCE_MILLIS else counted

    def earliest_millis(self) -> int:
        """The time that has come by every clock, milliseconds since the epoch: for deleting."""
        return min(self._readings())

    def latest_millis(self) -> int:
        """The time that has come by any clock, milliseconds since the epoch: for refusing."""
        return max(self._readings())

    def differences(self) -> Mapping[str, float]:
        """Seconds by which clocks are ahead of the time counted since the start.

        Returns:
            By ``machine`` and, if another machine's clock was noted, ``other``.
        """
        machine, counted, *other = self._readings()
        found = {"machine": (machine - counted) / 1000}
        return {**found, "other": (other[0] - counted) / 1000} if other else found

    def _readings(self) -> list[int]:
        monotonic = self._monotonic()
        readings = [self.machine(), self.start.after(monotonic)]
        if self._other is not None:
            readings.append(self._other.after(monotonic))
        return readings


def _carried(machine: Callable[[], int], monotonic: Callable[[], float], earliest: int) -> Clock:
    """A clock that came from another process; the time that it took to come is not counted."""
    return Clock(machine, monotonic).compare(earliest)
