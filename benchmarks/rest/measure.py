"""The measurements of the server, each beside its reference in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from benchmarks.measurement import Measurement
from benchmarks.rest import headwater, lakana
from benchmarks.rest.bare import BareCommitter, BareLookup
from benchmarks.rest.headwater import ORDINARY, Committer, table_path
from benchmarks.rest.http import Connection
from benchmarks.rest.load import Load, Work, paced, saturated
from benchmarks.rest.postgresql import postgresql
from benchmarks.rest.seed import seed_snapshots, seed_tables
from headwater.migrations import upgrade

__all__ = ["Limits", "RestServer"]

THREADS = 8
FEW = 10
DATABASE = "bench"
NAMES = tuple(f"orders_{number}" for number in range(THREADS))


@dataclass(frozen=True)
class Limits:
    """How large the measurements are.

    Attributes:
        seconds: How long each load lasts.
        rounds: How often each is measured, in turns with its reference; medians count.
        tables: How many tables are "many".
        snapshots: How many snapshots are a "long" history.
        commits: How many commits are timed for growth.
    """

    seconds: float
    rounds: int
    tables: int
    snapshots: int
    commits: int


class RestServer:
    """The measurements.

    Args:
        folder: For all files.
        limits: How large they are.
        lakana_folder: Where lakana's environment is, or is to be made; None leaves lakana out.
        options: More arguments for ``headwater serve``.
        say: Told what is going on.
    """

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        lakana_folder: Path | None,
        options: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._lakana = lakana_folder
        self._options = options
        self._say = say
        self._servers = ""

    def run(self) -> list[Measurement]:
        """Measure everything."""
        with postgresql() as self._servers:
            with self._headwater("main") as (address, url):
                headwater.create_tables(address, DATABASE, NAMES)
                results, commits, gets = self._beside_sql(address, url)
                results += self._beside_the_ordinary_way(address, commits, gets)
                if self._lakana is not None:
                    results += self._beside_lakana(self._lakana, commits, gets)
            return [*results, self._growth_of_history(), self._growth_of_catalog()]

    @contextmanager
    def _headwater(self, name: str) -> Iterator[tuple[str, str]]:
        """A server over a database of its own; its address and the database's URL."""
        url = self._new_database(f"headwater_{name}")
        upgrade(url)
        with headwater.server(url, self._folder / name, self._options) as address:
            yield address, url

    def _new_database(self, name: str) -> str:
        with psycopg.connect(f"{self._servers}/postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"{self._servers}/{name}"

    def _beside_sql(
        self, address: str, url: str
    ) -> tuple[list[Measurement], Sequence[Work], Sequence[Work]]:
        paths = [table_path(DATABASE, name) for name in NAMES]
        commits = [Committer(address, path) for path in paths]
        for commit in commits:
            commit()
        gets = [_getter(address, path) for path in paths]
        snapshots = [_getter(address, f"{path}/snapshot") for path in paths]
        with ExitStack() as stack:
            lookups = [BareLookup(url, DATABASE, name) for name in NAMES]
            for lookup in lookups:
                stack.callback(lookup.close)
            looked, got, shown = self._in_turns(
                "look-ups", ("bare", lookups), ("get-table", gets), ("get-snapshot", snapshots)
            )
            half = _rate(got) / 2
            calm, calm_bare = [], []
            for turn in range(self._limits.rounds):
                self._say(f"get-table at {half:.0f}/s, round {turn + 1} of {self._limits.rounds}")
                calm.append(paced(gets, self._limits.seconds, half))
                calm_bare.append(paced(lookups, self._limits.seconds, half))
            # Commits of the one kind make those of the other conflict: so each has its tables.
            others = [f"bare_{name}" for name in NAMES]
            headwater.create_tables(address, f"{DATABASE}_bare", others)
            for name in others:
                Committer(address, table_path(f"{DATABASE}_bare", name))()
            bare_commits = [BareCommitter(url, f"{DATABASE}_bare", name) for name in others]
            for bare in bare_commits:
                stack.callback(bare.close)
            decided, committed = self._in_turns(
                "commits", ("bare", bare_commits), ("commits", commits)
            )
        typical = sorted(calm, key=_tail)[len(calm) // 2]
        # How much of the tail is the machine's own.
        bare_p99 = median(load.p99 for load in calm_bare)
        sql = "bare psycopg"
        return (
            [
                _at_least(f"commits to {THREADS} tables", committed, decided, sql, 0.3),
                _at_least("get-table", got, looked, sql, 0.3),
                _at_least("get-snapshot", shown, looked, sql, 0.3),
                Measurement(
                    "get-table at half its peak: p99",
                    f"{typical.p99 * 1000:.2f} ms",
                    f"median {typical.median * 1000:.2f} ms; bare p99 {bare_p99 * 1000:.2f} ms",
                    _tail(typical),
                    most=5.0,
                ),
            ],
            commits,
            gets,
        )

    def _beside_the_ordinary_way(
        self, address: str, commits: Sequence[Work], gets: Sequence[Work]
    ) -> list[Measurement]:
        """What the fast lane buys: the same requests with and without it."""
        names = [f"ordinary_{name}" for name in NAMES]
        headwater.create_tables(address, f"{DATABASE}_ordinary", names)
        paths = [table_path(f"{DATABASE}_ordinary", name) for name in names]
        slow_commits = [Committer(address, path, query=ORDINARY) for path in paths]
        for commit in slow_commits:
            commit()
        paths = [table_path(DATABASE, name) for name in NAMES]
        slow_gets = [_getter(address, f"{path}{ORDINARY}") for path in paths]
        slow_shows = [_getter(address, f"{path}/snapshot{ORDINARY}") for path in paths]
        shows = [_getter(address, f"{path}/snapshot") for path in paths]
        results = []
        for name, fast, slow in (
            ("commits by the fast lane", commits, slow_commits),
            ("get-table by the fast lane", gets, slow_gets),
            ("get-snapshot by the fast lane", shows, slow_shows),
        ):
            ordinary, ours = self._in_turns(name, ("without", slow), ("with", fast))
            results.append(_at_least(name, ours, ordinary, "without", 1.0))
        return results

    def _beside_lakana(
        self, environment: Path, commits: Sequence[Work], gets: Sequence[Work]
    ) -> list[Measurement]:
        self._say("lakana")
        programs = lakana.environment(environment)
        folder = self._folder / "lakana"
        folder.mkdir()
        with lakana.server(programs, self._new_database("lakana"), folder) as address:
            lakana.create_tables(address, folder, NAMES)
            paths = [lakana.table_path(name) for name in NAMES]
            theirs = [lakana.LakanaCommitter(address, path) for path in paths]
            loads = [_getter(address, path, lakana.headers()) for path in paths]
            their_commits, our_commits = self._in_turns(
                "commits beside lakana", ("lakana", theirs), ("Headwater", commits)
            )
            their_loads, our_loads = self._in_turns(
                "loads beside lakana", ("lakana", loads), ("Headwater", gets)
            )
        return [
            _at_least("commits", our_commits, their_commits, "lakana", 10.0),
            _at_least("load a table", our_loads, their_loads, "lakana", 10.0),
        ]

    def _growth_of_history(self) -> Measurement:
        many = self._limits.snapshots
        self._say(f"{many:,} snapshots of one table")
        with self._headwater("history") as (address, url):
            headwater.create_tables(address, DATABASE, ["short", "long"])
            sides: list[Work] = []
            for name, count in (("short", FEW), ("long", many)):
                path = table_path(DATABASE, name)
                Committer(address, path)()
                base = seed_snapshots(url, DATABASE, name, count)
                sides.append(Committer(address, path, count + 1, base))
            return self._growth(f"commit after {many:,} snapshots", f"after {FEW}", *sides)

    def _growth_of_catalog(self) -> Measurement:
        many = self._limits.tables
        self._say(f"{many:,} tables")
        with self._headwater("few") as (few, few_url), self._headwater("many") as (lots, lots_url):
            sides: list[Work] = []
            for address, url, count in ((few, few_url, FEW), (lots, lots_url, many)):
                headwater.create_tables(address, DATABASE, ["orders"])
                sides.append(Committer(address, table_path(DATABASE, "orders")))
                seed_tables(url, self._folder.as_uri(), count)
            return self._growth(f"commit among {many:,} tables", f"among {FEW}", *sides)

    def _growth(self, name: str, reference: str, few: Work, many: Work) -> Measurement:
        """Time single commits to both in turn."""
        for side in (few, many):
            for _ in range(10):
                side()
        small: list[float] = []
        large: list[float] = []
        for _ in range(self._limits.commits):
            small.append(_seconds(few))
            large.append(_seconds(many))
        return Measurement(
            name,
            f"{median(large) * 1000:.2f} ms",
            f"{reference} {median(small) * 1000:.2f} ms",
            median(large) / median(small),
            most=1.3,
        )

    def _in_turns(self, what: str, *sides: tuple[str, Sequence[Work]]) -> list[list[Load]]:
        """Load each side in turn, so that what disturbs the machine disturbs all."""
        found: list[list[Load]] = [[] for _ in sides]
        for turn in range(self._limits.rounds):
            order = list(enumerate(sides))[:: -1 if turn % 2 else 1]
            for at, (name, works) in order:
                self._say(f"{what}, round {turn + 1} of {self._limits.rounds}: {name}")
                found[at].append(saturated(works, self._limits.seconds))
        return found


def _getter(address: str, path: str, headers: dict[str, str] | None = None) -> Work:
    connection = Connection(address, headers)
    return lambda: connection.get(path)


def _seconds(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _rate(loads: Sequence[Load]) -> float:
    return median(load.rate for load in loads)


def _tail(load: Load) -> float:
    """How many times the median the slowest call of a hundred takes."""
    return load.p99 / load.median


def _at_least(
    name: str, ours: Sequence[Load], theirs: Sequence[Load], reference: str, least: float
) -> Measurement:
    return Measurement(
        name,
        f"{_rate(ours):.0f}/s",
        f"{reference} {_rate(theirs):.0f}/s",
        _rate(ours) / _rate(theirs),
        least=least,
    )
