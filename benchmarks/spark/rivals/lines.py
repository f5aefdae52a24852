"""What is measured of whole engines, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.spark.comparison import Comparison
from benchmarks.spark.processor import Spent
from benchmarks.spark.rivals.processes import EngineProcess, delta, headwater, paimon

__all__ = ["RIVALS", "RivalLine"]

RivalLine = Callable[[Path, int, int, str, Comparison], list[Measurement]]
"""Measures with a folder, rows, cores and memory."""

_STEPS: Mapping[str, tuple[str, float]] = {
    "ingest": ("ingest", 1 / 2),
    "upsert": ("three upserts of a tenth", 1 / 2.5),
    "scan": ("merge on read, all columns", 1 / 4),
    "compact": ("full compaction", 1 / 5),
}
"""By method: what it is, and how many times the other engine's time ours may be."""


def beside_delta(
    folder: Path, rows: int, cores: int, memory: str, comparison: Comparison
) -> list[Measurement]:
    """``MERGE`` of new values for one row in a hundred, beside Delta Lake's."""
    with headwater(folder, cores, memory) as ours, delta(folder, cores, memory) as theirs:
        comparison.report("writing the tables")
        ours.ask("make_source", str(rows))
        tables = [
            (ours, "keyed", "a primary key"),
            (ours, "vectors", "deletion vectors"),
            (theirs, "plain", "files written anew"),
            (theirs, "vectors", "deletion vectors"),
        ]
        for engine, kind, _ in tables:
            for method, *more in (("create", kind), ("ingest",), ("keep",)):
                engine.ask(method, kind, *more)
        taken: list[list[Spent]] = [[] for _ in tables]
        for turn in range(comparison.rounds + 1):
            answers: set[str] = set()
            for at in range(len(tables))[:: -1 if turn % 2 else 1]:
                engine, kind, what = tables[at]
                comparison.report(f"round {turn} of {comparison.rounds}: {engine.name}, {what}")
                engine.ask("restore", kind)
                taken[at].append(engine.ask("merge", kind)[0])
                if turn == 0:
                    answers.add(str(engine.ask("scan", kind)[1]))
            if len(answers) > 1:
                raise SystemExit(f"MERGE: the answers differ: {sorted(answers)}")
        return [
            comparison.of(
                f"MERGE of 1 %, {tables[own][2]}, beside Delta Lake with {tables[other][2]}",
                1.0,
                taken[own][1:],
                taken[other][1:],
            )
            for own in (0, 1)
            for other in (2, 3)
        ]


def beside_paimon(
    folder: Path, rows: int, cores: int, memory: str, comparison: Comparison
) -> list[Measurement]:
    """Writes, a scan and a compaction of a primary-key table, beside Paimon's JAR for Spark."""
    with headwater(folder, cores, memory) as ours, paimon(folder, cores, memory) as theirs:
        comparison.report("writing the data")
        ours.ask("make_source", str(rows))
        taken: dict[str, tuple[list[Spent], list[Spent]]] = {step: ([], []) for step in _STEPS}
        for turn in range(comparison.rounds + 1):
            answers: set[str] = set()
            for side in (0, 1)[:: -1 if turn % 2 else 1]:
                engine = (ours, theirs)[side]
                comparison.report(f"round {turn} of {comparison.rounds}: {engine.name}")
                engine.ask("create", "t", "keyed")
                answers.add(_measured(engine, {step: both[side] for step, both in taken.items()}))
            if len(answers) > 1:
                raise SystemExit(f"the rows differ: {sorted(answers)}")
        return [
            comparison.of(f"{what}, beside Paimon's Spark", most, own[1:], other[1:])
            for (own, other), (what, most) in zip(taken.values(), _STEPS.values(), strict=True)
        ]


def _measured(engine: EngineProcess, taken: Mapping[str, list[Spent]]) -> str:
    """Take every step; what the scan found, which the compaction must not change."""
    found: list[object] = []
    for step, times in taken.items():
        took, answer = engine.ask(step, "t")
        times.append(took)
        if step == "scan":
            found.append(answer)
    found.append(engine.ask("scan", "t")[1])
    if found[0] != found[1]:
        raise SystemExit(f"{engine.name}: the compaction changed the rows: {found}")
    return str(found[0])


RIVALS: Mapping[str, RivalLine] = {"delta": beside_delta, "paimon": beside_paimon}
"""What is measured beside other engines, by the name that `--only` has for it."""
