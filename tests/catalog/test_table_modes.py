"""Primary-key tables of every mode against a plain dictionary, by random steps through the SDK.

A mode is a merge engine with its rules for rows that retract, a changelog producer, a way to spread
rows over buckets, a file format, whether superseded rows are marked by deletion vectors, whether a
key is unique across partitions or within one, and whether it holds nulls. Whatever the mode, the
table is what its engine makes of all changes in their order, as of every snapshot and tag that is
kept, and its changelog, replayed, is the table.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import AddColumn, DropColumn
from headwater.storage.snapshot.snapshot import CommitKind
from headwater.storage.types.data_type import parse_type

from .modes import CHANGES, MODES, PARTITIONS, Change, Key, Mode, Model, Rows, Values

SCHEMA = pa.schema(
    [
        ("p", pa.string()),
        ("id", pa.int64()),
        ("v", pa.int32()),
        ("note", pa.string()),
        ("s", pa.int64()),
    ]
)
COLUMNS = SCHEMA.names
# Longer than snapshots, or they would go with these.
KEEPS_CHANGELOGS = {"changelog.time-retained": "2000 d"}


@dataclass(frozen=True)
class Moment:
    """A snapshot as it must be found for as long as it is kept.

    Attributes:
        number: Its id.
        shown: The rows that a read shows.
        most: Those that it may show: an overwrite shows the buckets that need no compaction.
        written: The rows with those that wait for a compaction.
        waiting: The keys of those that are merged with each other then.
        replayed: The rows that the changelog up to it makes.
        millis: The time of its commit.
    """

    number: int
    shown: Rows
    most: Rows
    written: Rows
    waiting: frozenset[object]
    replayed: Rows
    millis: int

    def check(self, found: Rows) -> None:
        """Compare rows with those of the snapshot."""
        assert self.shown.items() <= found.items() <= self.most.items()


@dataclass
class Line:
    """A branch of the table.

    Attributes:
        name: Its table's name.
        moments: Its snapshots.
        tags: The snapshots that its tags name.
        told: The changes that each snapshot's commit was given; expired ones, too.
        first: The first snapshot of which the changelog is still there, and those after it.
    """

    name: str
    moments: dict[int, Moment] = field(default_factory=dict)
    tags: dict[str, Moment] = field(default_factory=dict)
    told: dict[int, Sequence[Change]] = field(default_factory=dict)
    first: int = 1


class TableOfAnyMode(RuleBasedStateMachine):
    """The dictionary is the truth; the table must agree, now and as of every kept snapshot."""

    lake: Lake
    table: Table
    mode: Mode
    model: Model

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-modes-"))
        self.millis = 1_700_000_000_000
        self.line = Line("db.t")
        self.others: list[Line] = []
        self.shown: Rows = {}
        self.replayed: Rows = {}
        self.keeps_changelogs = False

    def teardown(self) -> None:
        try:
            if hasattr(self, "table"):
                for line in (*self.others, self.line):
                    self._past_agrees(line)
        finally:
            if hasattr(self, "lake"):
                self.lake.close()
            shutil.rmtree(self.folder)

    def _open(self) -> None:
        runtime = Runtime(
            lambda: self.millis,
            SYSTEM_RUNTIME.new_uuid,
            lambda seconds: None,
            monotonic=lambda: self.millis / 1000,
        )
        self.lake = connect(self.folder, runtime=runtime)

    @initialize(mode=MODES, small=st.booleans(), keeps_changelogs=st.booleans())
    def create(self, mode: Mode, small: bool, keeps_changelogs: bool) -> None:
        # Snapshots expire in steps of their own alone, not after writes.
        options = {
            **mode.options,
            "snapshot.num-retained.min": "1",
            "snapshot.time-retained": "1000 d",
        }
        if small:
            options |= {"write-buffer-size": "64 b", "target-file-size": "1 kb"}
        if keeps_changelogs:
            options |= KEEPS_CHANGELOGS
        self._open()
        self.lake.create_database("db")
        self.table = self.lake.create_table(
            "db.t",
            SCHEMA,
            primary_keys=["id"] if mode.across else ["p", "id"],
            partition_keys=["p"],
            options=options,
        )
        self.mode, self.model = mode, Model(mode)
        self.keeps_changelogs = keeps_changelogs

    # What is done -------------------------------------------------------------------------------

    @rule(writes=st.lists(CHANGES, min_size=1, max_size=3))
    def write(self, writes: list[list[Change]]) -> None:
        for changes in writes:
            self._write(changes)

    @rule(writes=st.lists(CHANGES, min_size=1, max_size=3), full=st.booleans())
    def write_and_compact(self, writes: list[list[Change]], full: bool) -> None:
        self.write(writes)
        self._compact(full)

    def _write(self, changes: list[Change]) -> None:
        changes = self.model.taken(changes)
        self.table.write(_data(changes), pa.array([one.kind for one in changes], pa.string()))
        hidden = self.shown
        if not self.mode.waits:
            self.shown = dict(self.model.rows)
        self._done(hidden, [one for one in changes if not self.model.drops(one)])

    @precondition(lambda self: not (self.mode.across or self.mode.has_complete_changelog))
    @rule(p=PARTITIONS.filter(bool), rows=st.dictionaries(st.integers(0, 9), st.integers(0, 9)))
    def overwrite(self, p: str, rows: dict[int, int]) -> None:
        new: Rows = {
            (p, number): Values(v, None, self.model.newest + 1) for number, v in rows.items()
        }
        self.model.newest += 1
        data = _data([Change(key, "+I", values) for key, values in new.items()])
        self.table.overwrite(data, {"p": p})
        for kept in (self.model.rows, self.shown):
            for key in [key for key in kept if key[0] == p]:
                del kept[key]
        self.model.rows |= new
        self.model.merged_together.update(new)
        hidden = dict(self.shown)
        if not self.mode.waits:
            self.shown |= new
        self._done(hidden)

    def _compact(self, full: bool) -> None:
        self.table.compact(full=full or self.mode.waits)
        self.model.merged_together.clear()
        hidden, self.shown = self.shown, dict(self.model.rows)
        self._done(hidden)
        if full and self.mode.has_complete_changelog:
            assert self.replayed == self.shown

    @rule(least=st.integers(1, 3))
    def expire(self, least: int) -> None:
        gone = self.table.expire_snapshots(retain_min=least, retain_max=least, retain=timedelta(0))
        for number in gone.expired:
            del self.line.moments[number]
        if not self.keeps_changelogs and self.line.moments:
            self.line.first = max(self.line.first, min(self.line.moments))
        if self.mode.has_complete_changelog:
            self._compact(True)

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self._open()
        self.table = self.lake.table(self.line.name)

    @rule()
    def alter(self) -> None:
        """A column comes and goes; old files have none, or one that counts no more."""
        self.table.refresh()
        self.table.alter(
            DropColumn(("extra",))
            if "extra" in self.table.schema.field_by_name
            else AddColumn(("extra",), parse_type("INT"))
        )

    @precondition(lambda self: self.line.moments)
    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.line.moments)))
        name = f"tag{len(self.line.tags)}"
        if name not in self.line.tags:
            self.table.create_tag(name, number)
            self.line.tags[name] = self.line.moments[number]

    @precondition(lambda self: self.line.tags)
    @rule(data=st.data())
    def delete_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.line.tags)))
        self.table.delete_tag(name)
        del self.line.tags[name]

    @precondition(lambda self: any(map(self._resumes, self.line.moments.values())))
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        moments = self.line.moments
        number = data.draw(st.sampled_from([k for k in moments if self._resumes(moments[k])]))
        self.table.rollback(snapshot_id=number)
        self._go_back(self.line.moments[number])

    @precondition(lambda self: any(map(self._resumes, self.line.tags.values())))
    @rule(data=st.data())
    def roll_back_to_tag(self, data: st.DataObject) -> None:
        tags = self.line.tags
        name = data.draw(st.sampled_from([k for k in tags if self._resumes(tags[k])]))
        self.table.rollback(tag=name)
        self._go_back(self.line.tags[name])

    def _resumes(self, moment: Moment) -> bool:
        """True if the next compaction shows all rows, whatever buckets it is about."""
        return self.mode.waits or moment.shown == moment.written

    def _go_back(self, moment: Moment) -> None:
        line, number = self.line, moment.number
        if number not in line.moments:
            line.first = number + 1
        line.moments = {k: each for k, each in line.moments.items() if k < number}
        line.moments[number] = moment
        line.tags = {name: tagged for name, tagged in line.tags.items() if tagged.number <= number}
        self._take(moment)

    def _take(self, moment: Moment) -> None:
        """Go on from what was there at a moment."""
        self.shown, self.replayed = dict(moment.shown), dict(moment.replayed)
        self.model.rows = dict(moment.written)
        self.model.merged_together = set(moment.waiting)

    @precondition(lambda self: not self.others and any(map(self._resumes, self.line.tags.values())))
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        """Go on in a branch that begins at a tag; the table stays as it is."""
        tags = self.line.tags
        name = data.draw(st.sampled_from([k for k in tags if self._resumes(tags[k])]))
        moment = tags[name]
        self.table = self.table.create_branch("side", tag=name)
        self.others.append(self.line)
        begun = {moment.number: moment}
        self.line = Line("db.t$branch_side", begun, {name: moment}, first=moment.number + 1)
        self._take(moment)

    # What must hold -----------------------------------------------------------------------------

    def _done(self, hidden: Rows, told: Sequence[Change] = ()) -> None:
        """Note the snapshots that a step made.

        Args:
            hidden: The rows that are shown until a compaction has come.
            told: The changes that the first of them wrote.
        """
        self.millis += 60_000
        moments = self.line.moments
        new = [each for each in reversed(self.table.snapshots()) if each.id not in moments]
        for snapshot in new:
            self._replay(snapshot.id)
            spread = snapshot.commit_kind is CommitKind.COMPACT
            hides = self.mode.hides_level_zero or (self.mode.waits and not spread)
            self.line.told[snapshot.id] = told if snapshot is new[0] else ()
            shown = hidden if hides and snapshot is not new[-1] else self.shown
            moments[snapshot.id] = Moment(
                snapshot.id,
                dict(shown),
                dict(self.shown if snapshot.commit_kind is CommitKind.OVERWRITE else shown),
                dict(self.model.rows),
                frozenset(self.model.merged_together),
                dict(self.replayed),
                snapshot.time_millis,
            )

    def _replay(self, number: int) -> None:
        """Apply a snapshot's changes; each must fit the row that is there."""
        if self.mode.has_complete_changelog:
            _apply(self.table, number - 1, number, self.replayed)

    @invariant()
    def rows_agree(self) -> None:
        if not hasattr(self, "table"):
            return
        assert _rows(self.table) == self.shown
        assert self.table.scan().count() == len(self.shown)
        narrow = self.table.scan(["id"], "p = 'a' AND v >= 5").to_arrow()
        assert Counter(narrow.column("id").to_pylist()) == Counter(
            key[1]
            for key, row in self.shown.items()
            if key[0] == "a" and row.v is not None and row.v >= 5
        )
        # The columns of a condition are not those that are wanted.
        notes = self.table.scan(["note"], "(s > 3 OR v IS NULL) AND id <> 1").to_arrow()
        assert Counter(notes.column("note").to_pylist()) == Counter(
            row.note
            for key, row in self.shown.items()
            if ((row.s or 0) > 3 or row.v is None) and key[1] not in (None, 1)
        )
        without = self.table.scan(["p"], "id IS NULL").to_arrow().column("p").to_pylist()
        assert Counter(without) == Counter(p for p, number in self.shown if number is None)

    def _past_agrees(self, line: Line) -> None:
        table = self.lake.table(line.name)
        moments = line.moments
        assert [each.id for each in reversed(table.snapshots())] == sorted(moments)
        assert {tag.name for tag in table.tags()} == set(line.tags)
        for number, moment in moments.items():
            moment.check(_rows(table, snapshot_id=number))
            then = table.scan(timestamp=moment.millis).snapshot
            assert then is not None
            assert then.id == max(k for k in moments if moments[k].millis <= moment.millis)
        for name, moment in line.tags.items():
            moment.check(_rows(table, tag=name))
        if not moments:
            return
        latest = max(moments)
        self._difference_agrees(table, moments[min(moments)], moments[latest])
        start = min(moments) if line.first > 1 else 0
        if self.mode.has_complete_changelog:
            replayed = dict(moments[start].replayed) if start else {}
            _apply(table, start, latest, replayed)
            assert replayed == moments[latest].replayed
        if self.mode.tells_what_is_written:
            told = [one for number in range(start + 1, latest + 1) for one in line.told[number]]
            found = table.changes(start, latest, columns=COLUMNS, skip_overwrites=True).to_arrow()
            assert _by_key(_changes(found)) == _by_key(told)

    def _difference_agrees(self, table: Table, first: Moment, last: Moment) -> None:
        if self.mode.across or first.shown != first.most:
            return
        # An overwrite forgets the buckets that keys were in.
        with suppress(Invalid) if self.mode.bucket == "-1" else nullcontext():
            found = table.changes(first.number, last.number, mode="diff").to_arrow()
            assert _differing(found) == _difference(first.shown, last.shown)


def _data(changes: list[Change]) -> pa.Table:
    columns = [(*change.key, *change.values) for change in changes]
    return pa.Table.from_pylist(
        [dict(zip(COLUMNS, row, strict=True)) for row in columns], schema=SCHEMA
    )


def _rows(table: Table, **moment: object) -> Rows:
    found: Rows = {}
    scan = table.scan(COLUMNS, **moment)  # type: ignore[arg-type]
    for p, number, *values in zip(*scan.to_arrow().to_pydict().values(), strict=True):
        assert (p, number) not in found
        found[p, number] = Values(*values)
    return found


def _apply(table: Table, since: int, until: int, rows: Rows) -> None:
    """Apply the changes of some snapshots; each must fit the row that is there."""
    for key, kind, values in _changes(table.changes(since, until, columns=COLUMNS).to_arrow()):
        if kind in ("-U", "-D"):
            assert rows.pop(key) == values
        else:
            assert key not in rows
            rows[key] = values


def _changes(told: pa.Table) -> list[Change]:
    return [
        Change((row["p"], row["id"]), row["_ROW_KIND"], Values(row["v"], row["note"], row["s"]))
        for row in told.to_pylist()
    ]


def _by_key(changes: Iterable[Change]) -> dict[Key, list[Change]]:
    found: dict[Key, list[Change]] = {}
    for change in changes:
        found.setdefault(change.key, []).append(change)
    return found


def _difference(before: Rows, after: Rows) -> Counter[Change]:
    gone = [Change(key, "-D", before[key]) for key in before.keys() - after.keys()]
    new = [Change(key, "+I", row) for key, row in after.items() if before.get(key) != row]
    return Counter([*gone, *new])


def _differing(told: pa.Table) -> Counter[Change]:
    found = _changes(told)
    return Counter(each._replace(kind="-D" if each.kind == "-D" else "+I") for each in found)


# Hypothesis takes up to five minutes to make a failing example small.
TestTableOfAnyMode = pytest.mark.timeout(900)(pytest.mark.modes(TableOfAnyMode.TestCase))
TestTableOfAnyMode.settings = settings(
    max_examples=16,
    # Not `explain`, which traces every line of every example.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
