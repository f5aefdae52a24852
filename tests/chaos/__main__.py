"""Run chaos: `python -m tests.chaos --help`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from rich.console import Console
from rich.table import Table
from tests.chaos.database import KINDS
from tests.chaos.faults import FAULTS
from tests.chaos.ledger import Fate
from tests.chaos.run import Result, run

__all__ = ["main"]


def main() -> int:
    """Run on each database that is asked for; 1 if anything was found, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("databases", nargs="*", metavar="DATABASE", help=", ".join(KINDS))
    parser.add_argument("--seconds", type=float, default=60.0, help="on each database")
    parser.add_argument("--seed", type=int, help="chooses faults; by default another each time")
    parser.add_argument("--clients", type=int, default=4, help="client processes")
    chosen = parser.parse_args()
    kinds = chosen.databases or KINDS
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        parser.error(f"no chaos on {', '.join(unknown)}; choose of {', '.join(KINDS)}")
    seed = SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    console = Console()
    console.print(f"seed {seed}: to do the same again, give --seed {seed} (CHAOS_SEED={seed})")
    results = []
    for kind in kinds:
        folder = Path(tempfile.mkdtemp(prefix=f"headwater-chaos-{kind}-"))
        result = run(
            kind,
            folder,
            seconds=chosen.seconds,
            seed=seed,
            clients=chosen.clients,
            tell=lambda text: console.print(
                text, style="dim", markup=False, highlight=False, soft_wrap=True
            ),
        )
        results.append(result)
        for finding in result.findings:
            console.print(f"{kind}: {finding}", style="red", markup=False, highlight=False)
        if result.findings:
            console.print(f"{kind}: logs and ledger are kept in {folder}", markup=False)
        else:
            shutil.rmtree(folder)
    console.print(_table(results))
    console.print(f"seed {seed}")
    return int(any(result.findings for result in results))


def _table(results: list[Result]) -> Table:
    table = Table("", *(f"{result.kind}, {result.seconds:g} s" for result in results))
    for name in FAULTS:
        counts = [
            "not here" if name in result.left_out else str(result.faults[name])
            for result in results
        ]
        table.add_row(name, *counts)
    table.add_section()
    for fate in Fate:
        table.add_row(f"commits {fate}", *(str(result.fates[fate]) for result in results))
    table.add_row("snapshots", *(str(result.snapshots) for result in results))
    table.add_section()
    table.add_row("found", *(str(len(result.findings)) for result in results))
    return table


if __name__ == "__main__":
    sys.exit(main())
