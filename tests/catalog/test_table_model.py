"""A primary-key table against a plain dictionary, by random steps through the SDK."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.examples import examples

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

Key: TypeAlias = tuple[str, int]
Rows: TypeAlias = dict[Key, tuple[int | None, str | None]]

PARTITIONS = st.sampled_from(["a", "b"])
KEYS = st.tuples(PARTITIONS, st.integers(0, 12))
VALUES = st.tuples(st.none() | st.integers(0, 9), st.none() | st.text(max_size=20))
SCHEMA = pa.schema(
    [
        pa.field("p", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        ("v", pa.int32()),
        ("note", pa.string()),
    ]
)


class TableAgainstDictionary(RuleBasedStateMachine):
    """The dictionary is the truth; the table must agree, now and as of every kept snapshot."""

    lake: Lake
    table: Table

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-model-"))
        self.millis = 1_700_000_000_000
        self.now: Rows = {}
        self.history: dict[int, Rows] = {}
        self.tags: dict[str, Rows] = {}
        self.times: dict[int, int] = {}

    def teardown(self) -> None:
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

    @initialize(
        buckets=st.integers(1, 3),
        small=st.booleans(),
        thin=st.booleans(),
        changelog=st.booleans(),
    )
    def create(self, buckets: int, small: bool, thin: bool, changelog: bool) -> None:
        # Snapshots expire in steps of their own alone, not after writes.
        options = {
            "bucket": str(buckets),
            "snapshot.num-retained.min": "1",
            "snapshot.time-retained": "1000 d",
        }
        if small:
            # Several files for each write, and several manifests to be merged.
            options |= {"write-buffer-size": "64 b", "target-file-size": "1 kb",
                        "manifest.merge-min-count": "3"}  # fmt: skip
        if thin:
            options["data-file.thin-mode"] = "true"
        if changelog:
            options["changelog-producer"] = "input"
        self._open()
        self.lake.create_database("db")
        self.table = self.lake.create_table(
            "db.t", SCHEMA, primary_keys=["p", "id"], partition_keys=["p"], options=options
        )

    def _done(self, rows: Rows) -> None:
        """A commit, and perhaps a compaction after it, made these rows the present ones."""
        self.now = rows
        self.millis += 60_000
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.history:
                self.history[snapshot.id] = dict(rows)
                self.times[snapshot.id] = snapshot.time_millis

    @rule(minutes=st.integers(1, 90))
    def time_passes(self, minutes: int) -> None:
        self.millis += minutes * 60_000

    @rule(rows=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=20))
    def upsert(self, rows: list[tuple[Key, tuple[int | None, str | None]]]) -> None:
        self.table.write(
            [
                {"p": p, "id": number, "v": value, "note": note}
                for (p, number), (value, note) in rows
            ]
        )
        self._done({**self.now, **dict(rows)})

    @rule(
        changes=st.lists(st.tuples(KEYS, st.none() | VALUES), min_size=1, max_size=12),
    )
    def change(self, changes: list[tuple[Key, tuple[int | None, str | None] | None]]) -> None:
        """Updates and deletes by row kind, in the order given."""
        table = pa.table(
            {
                "p": [key[0] for key, _ in changes],
                "id": [key[1] for key, _ in changes],
                "v": pa.array([row and row[0] for _, row in changes], pa.int32()),
                "note": pa.array([row and row[1] for _, row in changes], pa.string()),
            }
        )
        self.table.write(table, pa.array(["-D" if row is None else "+U" for _, row in changes]))
        rows = dict(self.now)
        for key, row in changes:
            if row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
        self._done(rows)

    @rule(p=PARTITIONS, least=st.integers(0, 9))
    def delete_where(self, p: str, least: int) -> None:
        self.table.delete(f"p = '{p}' AND v >= {least}")
        self._done(
            {
                key: row
                for key, row in self.now.items()
                if not (key[0] == p and row[0] is not None and row[0] >= least)
            }
        )

    @rule(p=PARTITIONS, rows=st.dictionaries(st.integers(0, 12), VALUES, max_size=5))
    def overwrite(self, p: str, rows: dict[int, tuple[int | None, str | None]]) -> None:
        data = pa.table(
            {
                "id": pa.array(list(rows), pa.int64()),
                "v": pa.array([row[0] for row in rows.values()], pa.int32()),
                "note": pa.array([row[1] for row in rows.values()], pa.string()),
            }
        )
        self.table.overwrite(data, partition={"p": p})
        kept = {key: row for key, row in self.now.items() if key[0] != p}
        self._done({**kept, **{(p, number): row for number, row in rows.items()}})

    @rule()
    def compact(self) -> None:
        self.table.compact()
        assert all(file.level > 0 for file in self.table.files())
        self._done(self.now)

    @rule(
        least=st.integers(1, 4),
        minutes=st.sampled_from([0, 0, 0, 5, 60]),
        back=st.none() | st.integers(0, 4),
    )
    def expire(self, least: int, minutes: int, back: int | None) -> None:
        if back is not None and self.history:
            self.consume(back)
        result = self.table.expire_snapshots(retain_min=least, retain=timedelta(minutes=minutes))
        position = self.table.consumer("reader").next_snapshot
        for number in result.expired:
            del self.history[number]
            assert position is None or number < position
        assert [s.id for s in self.table.snapshots()] == sorted(self.history, reverse=True)
        if position is not None:
            latest = max(self.history, default=0)
            assert result.earliest is None or result.earliest <= min(position, latest)
        self._everything_reads()

    def _everything_reads(self) -> None:
        for number, rows in self.history.items():
            assert self._rows(snapshot_id=number) == rows
        for name, rows in self.tags.items():
            assert self._rows(tag=name) == rows

    def consume(self, back: int) -> None:
        position = max(self.history) + 1 - min(back, len(self.history) - 1)
        self.table.consumer("reader").reset(position)

    @rule()
    def forget_consumer(self) -> None:
        self.table.consumer("reader").delete()

    @rule(data=st.data())
    @precondition(lambda self: self.history and len(self.tags) < 4)
    def tag(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.history)))
        name = f"tag-{number}-{len(self.tags)}-{self.millis}"
        if name not in self.tags:
            self.table.create_tag(name, number)
            self.tags[name] = self.history[number]

    @rule(data=st.data())
    @precondition(lambda self: self.tags)
    def delete_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self.table.delete_tag(name)
        del self.tags[name]
        self._everything_reads()

    @rule(data=st.data())
    @precondition(lambda self: self.history)
    def roll_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.history)))
        self.table.consumer("reader").delete()
        later = [name for name, tag in ((t.name, t) for t in self.table.tags())
                 if tag.snapshot.id > number]  # fmt: skip
        self.table.rollback(snapshot_id=number)
        self.history = {k: rows for k, rows in self.history.items() if k <= number}
        for name in later:
            del self.tags[name]
        self.now = dict(self.history[number])

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self._open()
        self.table = self.lake.table("db.t")

    @rule(data=st.data())
    @precondition(lambda self: self.history)
    def travel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.history)))
        assert self._rows(snapshot_id=number) == self.history[number]
        at = self.times[number]
        found = self.table.scan(timestamp=at).snapshot
        assert found is not None
        assert found.id == max(k for k in self.history if self.times[k] <= at)

    @rule(data=st.data())
    @precondition(lambda self: len(self.history) > 1)
    def follow(self, data: st.DataObject) -> None:
        """The changes after a snapshot, applied to it, give the present rows."""
        since = data.draw(st.sampled_from(sorted(self.history)))
        kinds = {self.table.snapshot(k).commit_kind for k in self.history if k > since}
        if "OVERWRITE" in kinds:
            return
        rows = dict(self.history[since])
        for row in self.table.changes(since).to_arrow().to_pylist():
            key = (row["p"], row["id"])
            if row["_ROW_KIND"] in ("-D", "-U"):
                rows.pop(key, None)
            else:
                rows[key] = (row["v"], row["note"])
        assert rows == self.now

    def _rows(self, **moment: object) -> Rows:
        found: Rows = {}
        for row in self.table.scan(**moment).to_arrow().to_pylist():  # type: ignore[arg-type]
            key = (row["p"], row["id"])
            assert key not in found
            found[key] = (row["v"], row["note"])
        return found

    @invariant()
    def rows_agree(self) -> None:
        if hasattr(self, "table"):
            assert self._rows() == self.now
            assert self.table.scan().count() == len(self.now)
            narrow = self.table.scan(["id"], "p = 'a' AND v >= 5").to_arrow()
            assert sorted(narrow.column("id").to_pylist()) == sorted(
                key[1]
                for key, row in self.now.items()
                if key[0] == "a" and row[0] is not None and row[0] >= 5
            )


class LongWalk(TableAgainstDictionary):
    """The same for more histories."""


_WALK = settings(
    max_examples=examples(6),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTableAgainstDictionary = TableAgainstDictionary.TestCase
TestTableAgainstDictionary.settings = _WALK
TestTableAgainstDictionaryAtLength = pytest.mark.modes(LongWalk.TestCase)
TestTableAgainstDictionaryAtLength.settings = settings(_WALK, max_examples=15)
