"""A run: faults for a stated time, then the checker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.checker import COLUMNS, Finding, check
from tests.chaos.cluster import WAREHOUSE, Cluster
from tests.chaos.evidence import evidence_of
from tests.chaos.faults import FAULTS, possible_faults
from tests.chaos.ledger import Fate, Row

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table

__all__ = ["Result", "run", "turns_of"]

# Some outlast the database's time-outs, most do not.
_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0, 7.0)
_CALM_SECONDS = (0.3, 1.0, 2.0)
_PAIR_SHARE = 0.3


@dataclass
class Result:
    """What came of a run.

    Attributes:
        kind: The database's kind.
        seconds: How long faults happened.
        faults: How often each did.
        left_out: Those that cannot happen here.
        fates: The commits by what their clients were told.
        snapshots: Of all tables.
        findings: What must not be.
    """

    kind: str
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    left_out: Sequence[str] = ()
    fates: Counter[Fate] = field(default_factory=Counter)
    snapshots: int = 0
    findings: Sequence[Finding] = ()


def run(
    kind: str,
    folder: Path,
    *,
    seconds: float,
    seed: int,
    clients: int,
    tell: Callable[[str], None],
) -> Result:
    """Let faults happen to a cluster, then check it.

    Args:
        kind: The database's kind.
        folder: An empty folder.
        seconds: How long faults happen.
        seed: What is chosen by; the same seed makes the same faults in the same order.
        clients: The number of client processes.
        tell: Told of each fault.
    """
    random = Random(f"{seed}-{kind}")
    result = Result(kind, seconds)
    wrong: list[str] = []
    tell(f"{kind}: starting")
    with closing(Cluster(kind, folder, f"{seed}-{kind}", clients)) as cluster:
        possible = possible_faults(cluster)
        result.left_out = [name for name in FAULTS if name not in possible]
        wrong += cluster.wait_for_progress()
        began = time.monotonic()
        turns = turns_of(possible, random)
        while (passed := time.monotonic() - began) < seconds and not wrong:
            chosen = next(turns)
            lasts = random.choice(_SECONDS)
            with ExitStack() as faults:
                told = [f"{name} ({faults.enter_context(FAULTS[name](cluster, random))})"
                        for name in chosen]  # fmt: skip
                result.faults.update(chosen)
                counts = cluster.ledger.counts()
                said = ", ".join(f"{counts[fate]} {fate}" for fate in Fate)
                tell(f"{kind}: {passed:5.0f} s  {'; '.join(told)}, {lasts:g} s  [{said}]")
                time.sleep(lasts)
            time.sleep(random.choice(_CALM_SECONDS))
            wrong += cluster.servers.supervise()
        tell(f"{kind}: waiting for everything to go on")
        for at in range(len(cluster.servers)):
            cluster.servers.start(at)
        wrong += cluster.servers.wait_until_ready()
        wrong += cluster.wait_for_progress()
        wrong += cluster.end()
        tell(f"{kind}: checking")
        result.findings = [
            *(Finding("stuck", text) for text in wrong),
            *(Finding("seen", text) for text in cluster.ledger.wrongs()),
            *(Finding("server", text) for text in _exceptions(folder)),
            *_check(cluster, result),
        ]
        result.fates = cluster.ledger.counts()
    return result


def turns_of(possible: Sequence[str], random: Random) -> Iterator[Sequence[str]]:
    """The faults that happen at a time, without end: one, or two different ones.

    Each has its turn before any has another.
    """
    waiting: list[str] = []
    while True:
        if len(waiting) < 2:
            waiting += random.sample(possible, len(possible))
        chosen = [waiting.pop(0)]
        if random.random() < _PAIR_SHARE:
            # What one fault does at its end, the same one beside it cannot do again.
            other = next(at for at, name in enumerate(waiting) if name != chosen[0])
            chosen.append(waiting.pop(other))
        yield chosen


def _check(cluster: Cluster, result: Result) -> Sequence[Finding]:
    location = str(cluster.lake / "warehouse")
    # Opening it is a sweep.
    with closing(SqlCatalog.open(cluster.url, warehouse=WAREHOUSE, location=location)) as catalog:
        failures = catalog.operation.sweep().repaired.failures

        def read(name: str) -> Sequence[Row]:
            table = Table(catalog, catalog.tables.get(Identifier.parse(name)))
            found = table.scan(columns=list(COLUMNS[name])).to_arrow()
            columns = [found[column].to_pylist() for column in COLUMNS[name]]
            return list(zip(*columns, strict=True))

        evidence = evidence_of(cluster.url)
        result.snapshots = sum(len(table.snapshots) for table in evidence.tables.values())
        found = check(evidence, cluster.ledger.entries(), read)
    return [*(Finding("sweep", failure) for failure in failures), *found]


def _exceptions(folder: Path) -> Sequence[str]:
    """What servers logged that only a mistake of theirs explains."""
    found = []
    for path in sorted(folder.glob("server-*.log")):
        with path.open(encoding="utf-8") as log:
            found += [line.strip()[:2000] for line in log if '"exception"' in line]
    return found[:5]
