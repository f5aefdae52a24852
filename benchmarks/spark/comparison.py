"""Two ways to do one thing, measured in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchmarks.measurement import Measurement
from benchmarks.spark.processor import Spent, spent

__all__ = ["Clock", "Comparison", "middle"]

Clock = Literal["wall", "processor"]


def middle(times: Sequence[Spent]) -> Spent:
    """The medians."""
    return Spent(median(one.wall for one in times), median(one.processor for one in times))


@dataclass(frozen=True)
class Comparison:
    """Measures two ways in turns, so that what disturbs the machine disturbs both.

    Attributes:
        rounds: How often each is measured; medians count.
        clock: The clock that ratios are of. Processor time hardly changes with a machine's load.
        report: Told what is going on.
    """

    rounds: int
    clock: Clock
    report: Callable[[str], None]

    def measure(
        self,
        name: str,
        most: float,
        ours: Callable[[], object],
        reference: Callable[[], object],
        prepare: Callable[[], object] = lambda: None,
    ) -> Measurement:
        """Compare what two ways take; raises SystemExit if they answer differently.

        Args:
            name: What is done.
            most: How many times the reference's median ours may be.
            ours: Does it with Headwater; what it returns must equal the reference's.
            reference: Does it otherwise.
            prepare: What has to be done before each of ours, unmeasured.
        """
        own: list[Spent] = []
        others: list[Spent] = []
        answers: list[object] = []
        # The first round warms up.
        for turn in range(self.rounds + 1):
            self.report(f"{name}, {f'round {turn} of {self.rounds}' if turn else 'warming up'}")

            def one(times: list[Spent], work: Callable[[], object]) -> None:
                times.append(spent(lambda: answers.append(work())))

            def headwater() -> None:
                prepare()
                one(own, ours)

            def other() -> None:
                one(others, reference)

            for side in (headwater, other)[:: -1 if turn % 2 else 1]:
                side()
        if len(set(answers)) != 1:
            raise SystemExit(f"{name}: the answers differ: {sorted(map(str, set(answers)))}")
        return self.of(name, most, own[1:], others[1:])

    def of(
        self, name: str, most: float, own: Sequence[Spent], others: Sequence[Spent]
    ) -> Measurement:
        """The comparison of times that were measured already."""
        first, second = middle(own), middle(others)
        ratios = {"wall": first.wall / second.wall, "processor": first.processor / second.processor}
        return Measurement(name, str(first), str(second), ratios[self.clock], most=most)
