"""Runs of two interleaved operations, and what has to be so after them.

After each run all references read their rows, a check finds no damage, and commits and expiries
work. An operation succeeds or is rejected in a way that callers expect, and what is seen
afterwards is what some order of the successful ones makes, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from tests.catalog.interleaved_operations import Client, Operation
from tests.catalog.interleaved_tables import TABLE, Rows, StartingState, expire_all, rows_of
from tests.catalog.interleavings import Actor, Interleaving, explore, interleave, watched_sql

from headwater.catalog.table.table import Table
from headwater.storage.errors import AlreadyExists, Conflict, HeadwaterError, Invalid, NotFound
from headwater.storage.files.local import local_path
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["Interleaver", "Run"]

_REJECTIONS = (AlreadyExists, Conflict, Invalid, NotFound)
_HELD = {"reader": 7, "feed": 2}
_ANOTHER = "9999"
# What was done before a table was dropped is reported with the drop.
_CREATED = "was created, and is gone"

_View: TypeAlias = Mapping[str, object]
"""What a user sees: rows of branches and tags, positions of consumers and so on, by name."""
_Step: TypeAlias = tuple[Operation, int]
"""An operation, and which of its calls is meant."""


@dataclass(frozen=True)
class Run:
    """An interleaving and what is wrong after it.

    Attributes:
        interleaving: What happened.
        outcomes: How each operation ended.
        violations: What is wrong.
        digest: Tells files and database after it from those after other runs.
    """

    interleaving: Interleaving
    outcomes: Sequence[str]
    violations: Sequence[str]
    digest: bytes

    def __str__(self) -> str:
        return "\n    ".join([str(self.interleaving), *self.outcomes, *self.violations])


@dataclass
class _Progress:
    """How far an operation came.

    Attributes:
        operation: The operation.
        done: How many of its calls had an effect, or may have had.
        error: The error of the last one.
        is_held: Whether the snapshot that it set a consumer to was there afterwards.
    """

    operation: Operation
    done: int = 0
    error: BaseException | None = None
    is_held: bool = False

    def __str__(self) -> str:
        error = self.error
        outcome = "succeeded" if error is None else f"raised {type(error).__name__}: {error}"
        return f"{self.operation} {outcome}"

    @property
    def is_ordinary(self) -> bool:
        """Whether it succeeded, or was rejected in a way that callers expect."""
        return self.error is None or isinstance(self.error, _REJECTIONS)

    def leaves(self, name: str) -> bool:
        """Whether it was stopped by an error, and leaves a tag that it was to remove again."""
        interim = self.operation.interim
        return self.error is not None and bool(interim) and name.startswith(f"tag {interim}")

    @property
    def steps(self) -> Sequence[_Step]:
        """The calls that had an effect, or may have had."""
        return [(self.operation, index) for index in range(self.done)]


@dataclass
class _Findings:
    """What a look at a catalog finds.

    Attributes:
        view: What a user sees.
        violations: What is wrong, whatever was done before.
    """

    view: dict[str, object] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @contextmanager
    def works(self, what: str) -> Iterator[None]:
        """Take what the block raises for a violation."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation
            self.violations.append(f"{what} fails: {type(error).__name__}: {error}")


class Interleaver:
    """Interleaves operations that begin with one state, and judges the results.

    Args:
        state: The starting state.
    """

    def __init__(self, state: StartingState) -> None:
        self.state = state
        self._orders: dict[Sequence[tuple[str, int]], _View | None] = {}
        self._findings: dict[tuple[bytes, object], _Findings] = {}

    def pair(self, first: Operation, second: Operation, *, in_parts: bool = False) -> Iterator[Run]:
        """Interleave two operations in all ways that may differ.

        The first one is stopped at each step while the second one runs.

        Args:
            first: Is stopped, and goes on when the second one has ended.
            second: Runs meanwhile.
            in_parts: Where the first one deletes files, the second one is also stopped after each
                transaction that it goes on from.
        """
        runs: list[Run] = []

        def run(stop_at: int, commits: int | None = None) -> Interleaving:
            runs.append(self.run(first, second, stop_at, commits))
            return runs[-1].interleaving

        decisions = max(each.second.decisions for each in explore(run))
        for commits in range(1, (in_parts and first.deletes) * decisions + 1):
            for _ in explore(partial(run, commits=commits)):
                pass
        yield from runs

    def run(
        self, first: Operation, second: Operation, stop_at: int, commits: int | None = None
    ) -> Run:
        """Interleave two operations; see `interleave`."""
        progress = (_Progress(first), _Progress(second))
        self.state.restore()
        with watched_sql(), ExitStack() as stack:
            actors = []
            for user, mine in zip("12", progress, strict=True):
                lake = stack.enter_context(self.state.opened(user, repaired=False))
                client = Client(self.state, lake, lake.table(TABLE))
                actors.append(Actor(str(mine.operation), partial(self._perform, mine, client)))
            interleaving = interleave(actors[0], actors[1], stop_at, commits)
        digest = self.state.digest()
        with watched_sql():
            violations = list(self._judge(progress, digest))
        return Run(interleaving, [str(mine) for mine in progress], violations, digest)

    def _perform(self, progress: _Progress, client: Client) -> None:
        operation = progress.operation
        for index, call in enumerate(operation.calls):
            try:
                call(client)
            except BaseException as error:
                progress.error = error
                progress.done += index in operation.maintains or _CREATED in str(error)
                if isinstance(error, HeadwaterError):
                    return
                raise
            progress.done += 1
        if operation.position is not None:
            progress.is_held = self._is_there(operation.position[1])

    def _is_there(self, number: int) -> bool:
        location = Path(local_path(self.state.paths[TABLE]))
        names = (f"snapshot/snapshot-{number}", f"changelog/changelog-{number}")
        return any((location / name).exists() for name in names)

    # What has to be so afterwards -------------------------------------------------------------

    def _judge(self, progress: Sequence[_Progress], digest: bytes) -> Iterator[str]:
        for mine in progress:
            if not mine.is_ordinary:
                yield f"{mine.operation} fails, instead of succeeding or being rejected"
        findings = self._look(digest, _held(progress))
        yield from findings.violations
        if not findings.violations:
            yield from self._lost_tags(findings.view, progress)
            yield from self._unexplained(findings.view, progress)

    def _lost_tags(self, view: _View, progress: Sequence[_Progress]) -> Iterator[str]:
        removed = frozenset().union(*(mine.operation.removes for mine in progress))
        for tag in sorted(self.state.tags - removed):
            if _branch_name("t", "main") in view and _tag_name("t", "main", tag) not in view:
                yield f"tag {tag} is gone, which neither of the two removes"

    def _unexplained(self, view: _View, progress: Sequence[_Progress]) -> Iterator[str]:
        """Compare what is seen with what operations one after the other make."""
        maintaining = [
            step for mine in progress for step in mine.steps if step[1] in step[0].maintains
        ]
        views: list[_View] = []
        for left_out in _subsets(maintaining):
            steps = [[step for step in mine.steps if step not in left_out] for mine in progress]
            for order in _merges(*steps):
                ordered = self._in_order(order)
                if ordered is not None:
                    views.append(ordered)
        if not views:
            yield "both succeeded, which they do in no order one after the other"
        elif not maintaining and view not in views:
            closest = min(views, key=lambda other: len(_differing(view, other)))
            for name in _differing(view, closest):
                yield f"{name} is {view.get(name)}, not {closest.get(name)}, as in any order"
        elif maintaining:
            # It may do a part of what is due: so each thing is looked at for itself.
            for name in sorted({name for seen in (view, *views) for name in seen}):
                values = [seen.get(name) for seen in views]
                is_interim = any(mine.leaves(name) for mine in progress)
                if view.get(name) not in values and not is_interim:
                    yield f"{name} is {view.get(name)}, in any order one of {values}"

    def _in_order(self, order: Sequence[_Step]) -> _View | None:
        """What is seen after calls one after the other; None if one of them is rejected."""
        key = tuple((operation.name, index) for operation, index in order)
        if key not in self._orders:
            self.state.restore()
            succeeds = self._succeed(order)
            self._orders[key] = self._look(self.state.digest(), None).view if succeeds else None
        return self._orders[key]

    def _succeed(self, order: Sequence[_Step]) -> bool:
        with self.state.opened("1", repaired=False) as lake:
            client = Client(self.state, lake, lake.table(TABLE))
            for operation, index in order:
                try:
                    operation.calls[index](client)
                except HeadwaterError:
                    if index not in operation.maintains:
                        return False
        return True

    # A look at everything ---------------------------------------------------------------------

    def _look(self, digest: bytes, held: Mapping[str, int] | None) -> _Findings:
        """Look at everything there is, unless the same was looked at before.

        Args:
            digest: Tells what there is from other results.
            held: The positions of consumers whose snapshots have to be there, by consumer; None
                only looks at what a user sees.
        """
        key = (digest, None if held is None else tuple(sorted(held.items())))
        if key not in self._findings:
            self._findings[key] = findings = _Findings()
            with findings.works("the catalog"), self.state.opened("9") as lake:
                names = lake.list_tables("s")
                dropped = lake.catalog.dropped_tables.list().items
                findings.view["tables"] = names
                findings.view["dropped tables"] = sorted(info.identifier.table for info in dropped)
                if "t" not in names and self.state.table_ids[TABLE] in {i.id for i in dropped}:
                    lake.catalog.dropped_tables.restore(self.state.table_ids[TABLE])
                    names = [*names, "t"]
                for name in names:
                    with findings.works(f"table {name}"):
                        self._look_at(findings, lake.table(f"s.{name}"), held)
        return self._findings[key]

    def _look_at(self, findings: _Findings, table: Table, held: Mapping[str, int] | None) -> None:
        branches = {"main": table, **{branch: table.branch(branch) for branch in table.branches()}}
        self._look_at_references(findings, branches)
        consumers = {each.consumer_id: each.next_snapshot for each in table.consumers()}
        findings.view.update({f"consumer {name}": number for name, number in consumers.items()})
        if held is None:
            return
        findings.violations += [f"fsck: {damage}" for damage in table.check_files().damages]
        for name, number in consumers.items():
            if held.get(name) == number:
                with findings.works(f"what consumer {name} has yet to read"):
                    table.changes(since=number - 1, skip_overwrites=True).to_arrow()
        if table.identifier.table == "t" and not findings.violations:
            self._work_on(findings, branches)

    def _work_on(self, findings: _Findings, branches: Mapping[str, Table]) -> None:
        """Commit to all branches and expire snapshots, after which all has to be there still."""
        for branch, handle in branches.items():
            with findings.works(f"a write to branch {branch}"):
                handle.write(_another_row(handle))
        with findings.works("an expiry"):
            expire_all(branches["main"])
        again = _Findings()
        self._look_at_references(again, branches)
        findings.violations += [f"after another expiry, {text}" for text in again.violations]
        for branch in branches:
            name = _branch_name("t", branch)
            if _ANOTHER not in str(again.view.get(name)):
                findings.violations.append(f"{name} lacks the row that was written")

    def _look_at_references(self, findings: _Findings, branches: Mapping[str, Table]) -> None:
        """Read the rows of all snapshots and tags."""
        for branch, table in branches.items():
            name = table.identifier.table
            with findings.works(_branch_name(name, branch)):
                findings.view[_branch_name(name, branch)] = rows_of(table.scan().to_arrow())
                for snapshot in table.snapshots():
                    self._read(findings, table, snapshot, f"snapshot {snapshot.id} of {branch}")
                for tag in table.tags():
                    tag_name = _tag_name(name, branch, tag.name)
                    rows = self._read(findings, table, tag.snapshot, tag_name, tag=tag.name)
                    findings.view[tag_name] = rows

    def _read(
        self,
        findings: _Findings,
        table: Table,
        snapshot: Snapshot,
        name: str,
        *,
        tag: str | None = None,
    ) -> Rows | None:
        """Read the rows of a snapshot; of one that is known, look for its files first."""
        known = self.state.known.get(snapshot.uuid or "")
        if known is not None and table.identifier.table == "t" and not known.missing:
            return known.rows
        with findings.works(name):
            try:
                version = {"snapshot_id": snapshot.id} if tag is None else {"tag": tag}
                return rows_of(table.scan(**version).to_arrow())
            except NotFound:
                # An expiry has begun to take the snapshot, and said so.
                if tag is not None:
                    raise
        return None


def _held(progress: Sequence[_Progress]) -> dict[str, int]:
    """The positions of consumers whose snapshots have to be there."""
    held = dict(_HELD)
    for mine in progress:
        operation = mine.operation
        if operation.rewrites_history:
            return {}
        if operation.position is not None and mine.error is None:
            held.pop(operation.position[0], None)
            if mine.is_held:
                held.update([operation.position])
    return held


def _branch_name(table: str, branch: str) -> str:
    return f"branch {branch} of {table}"


def _tag_name(table: str, branch: str, tag: str) -> str:
    return f"tag {tag} of branch {branch} of {table}"


def _another_row(table: Table) -> pa.Table:
    """A row that a table does not have."""
    number = int(_ANOTHER)
    values = {"n": number, "day": "2024-01-01", "k": number, "v": number}
    schema = table.schema.arrow
    return pa.table({name: [values[name]] for name in schema.names}, schema=schema)


def _subsets(items: Sequence[_Step]) -> Iterator[Sequence[_Step]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def _merges(first: Sequence[_Step], second: Sequence[_Step]) -> Iterator[Sequence[_Step]]:
    """The orders of the calls of two clients, each of which keeps its own."""
    length = len(first) + len(second)
    for indexes in combinations(range(length), len(first)):
        mine, others = iter(first), iter(second)
        yield [next(mine) if index in indexes else next(others) for index in range(length)]


def _differing(view: _View, other: _View) -> Sequence[str]:
    return sorted(name for name in {*view, *other} if view.get(name) != other.get(name))
