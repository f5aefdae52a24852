"""Primary-key tables of every mode against a plain dictionary, by random steps through the SDK.

A mode is a merge engine, a changelog producer, a way to spread rows over buckets, a file format,
whether superseded rows are marked by deletion vectors, whether a key is unique across partitions or
within one, and whether it holds nulls. Whatever the mode, the table is what its engine makes of all
changes in their order, and its changelog, replayed, is the table.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import AddColumn, DropColumn
from headwater.storage.types.data_type import parse_type

Key: TypeAlias = tuple[str | None, int | None]
Values: TypeAlias = tuple[int | None, str | None]
Rows: TypeAlias = dict[Key, Values]

PARTITIONS = st.sampled_from(["a", "b", None])
KEYS = st.tuples(PARTITIONS, st.none() | st.integers(0, 9))
VALUES = st.tuples(st.none() | st.integers(0, 9), st.none() | st.sampled_from(["", "x", "yy"]))
CHANGES = st.lists(st.tuples(KEYS, st.none() | VALUES), min_size=1, max_size=15)
SCHEMA = pa.schema(
    [
        ("p", pa.string()),
        ("id", pa.int64()),
        ("v", pa.int32()),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True)
class Mode:
    """A mode of a table.

    Attributes:
        engine: Its merge engine.
        producer: Its changelog producer.
        bucket: Its option ``bucket``.
        format: Its file format.
        vectors: Its option ``deletion-vectors.enabled``.
        across: True if its primary key lacks the partition's column.
        nullable: Its option ``primary-key.nullable``.
    """

    engine: str
    producer: str
    bucket: str
    format: str
    vectors: bool
    across: bool
    nullable: bool

    @property
    def options(self) -> dict[str, str]:
        """The table's options."""
        return {
            "merge-engine": self.engine,
            "changelog-producer": self.producer,
            "bucket": self.bucket,
            "file.format": self.format,
            "deletion-vectors.enabled": str(self.vectors).lower(),
            "primary-key.nullable": str(self.nullable).lower(),
            **_ENGINE_OPTIONS[self.engine],
            "postpone.batch-write-fixed-bucket": "false",
        }

    @property
    def is_possible(self) -> bool:
        """True if Paimon has such tables."""
        if self.across and self.bucket != "-1":
            return False
        if self.engine == "first-row":
            return self.producer in ("none", "lookup") and not self.vectors
        return not (self.vectors and self.producer == "full-compaction")

    @property
    def takes_deletes(self) -> bool:
        """True if a ``-D`` row removes its key's row."""
        return self.engine in ("deduplicate", "partial-update")

    @property
    def shows_after_compaction(self) -> bool:
        """True if rows are part of the table only when they have been compacted."""
        return self.bucket == "-2"

    @property
    def has_complete_changelog(self) -> bool:
        """True if the changelog has each row before and after each change."""
        return self.producer in ("lookup", "full-compaction")


_ENGINE_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "first-row": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {"fields.v.aggregate-function": "sum"},
}
MODES = st.builds(
    Mode,
    st.sampled_from(sorted(_ENGINE_OPTIONS)),
    st.sampled_from(["none", "input", "lookup", "full-compaction"]),
    st.sampled_from(["1", "2", "-1", "-2"]),
    st.sampled_from(["parquet", "avro", "orc"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
).filter(lambda mode: mode.is_possible)


def merged(mode: Mode, rows: Rows, key: Key, values: Values | None) -> None:
    """Take a change over into the rows; without values it is a deletion."""
    if mode.across:
        place = next((each for each in rows if each[1] == key[1]), key)
        if place != key and mode.engine == "deduplicate":
            del rows[place]  # the key moves
        elif place != key:
            key = place  # its row is merged where it is
    before = rows.get(key)
    if values is None:
        rows.pop(key, None)
    elif before is None or mode.engine == "deduplicate":
        rows[key] = values
    elif mode.engine != "first-row":
        (old, note), (new, said) = before, values
        total = mode.engine == "aggregation" and old is not None and new is not None
        number = old + new if total and old is not None and new is not None else new
        rows[key] = (old if number is None else number, note if said is None else said)


class TableOfAnyMode(RuleBasedStateMachine):
    """The dictionary is the truth; the table must agree, now and as of every kept snapshot."""

    lake: Lake
    table: Table
    mode: Mode

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-modes-"))
        self.millis = 1_700_000_000_000
        self.written: Rows = {}
        self.shown: Rows = {}
        self.replayed: Rows = {}
        self.position = 0
        self.has_extra = False

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

    @initialize(mode=MODES, small=st.booleans())
    def create(self, mode: Mode, small: bool) -> None:
        options = {**mode.options, "snapshot.num-retained.min": "1"}
        if small:
            options |= {"write-buffer-size": "64 b", "target-file-size": "1 kb"}
        self._open()
        self.lake.create_database("db")
        self.table = self.lake.create_table(
            "db.t",
            SCHEMA,
            primary_keys=["id"] if mode.across else ["p", "id"],
            partition_keys=["p"],
            options=options,
        )
        self.mode = mode

    @rule(changes=CHANGES)
    def write(self, changes: list[tuple[Key, Values | None]]) -> None:
        if not self.mode.nullable:
            changes = [((p or "a", id or 0), values) for (p, id), values in changes]
        if not self.mode.takes_deletes:
            changes = [(key, values) for key, values in changes if values is not None]
        if self.mode.engine == "partial-update":
            # As in Paimon a later row of the same write covers a deletion, which then does not
            # reach the rows written before.
            changes = list(
                {key[1] if self.mode.across else key: (key, row) for key, row in changes}.values()
            )
        self.table.write(
            {
                "p": [key[0] for key, _ in changes],
                "id": [key[1] for key, _ in changes],
                "v": pa.array([row and row[0] for _, row in changes], pa.int32()),
                "note": pa.array([row and row[1] for _, row in changes], pa.string()),
            },
            pa.array(["-D" if row is None else "+I" for _, row in changes], pa.string()),
        )
        for key, values in changes:
            merged(self.mode, self.written, key, values)
        if not self.mode.shows_after_compaction:
            self.shown = dict(self.written)
        self.millis += 60_000

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self._compact(full)

    def _compact(self, full: bool) -> None:
        self.table.compact(full=full or self.mode.shows_after_compaction)
        self.shown = dict(self.written)
        self.millis += 60_000
        if full and self.mode.has_complete_changelog:
            self._replay()
            assert self.replayed == self.shown

    @precondition(lambda self: self.written)
    @rule(least=st.integers(1, 3))
    def expire(self, least: int) -> None:
        if self.mode.has_complete_changelog:
            self._replay()  # the changelog goes with its snapshots
        self.table.expire_snapshots(retain_min=least, retain_max=least)
        if self.mode.has_complete_changelog:
            self._compact(True)

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self._open()
        self.table = self.lake.table("db.t")

    @rule()
    def alter(self) -> None:
        """A column comes and goes; old files have none, or one that counts no more."""
        change = (
            DropColumn(("extra",)) if self.has_extra else AddColumn(("extra",), parse_type("INT"))
        )
        self.table.alter(change)
        self.has_extra = not self.has_extra

    def _replay(self) -> None:
        """Apply the changes since the last time; each must fit the row that is there."""
        latest = self.table.latest_snapshot()
        if latest is None or latest.id == self.position:
            return
        for row in self.table.changes(self.position, latest.id).to_arrow().to_pylist():
            key, values = (row["p"], row["id"]), (row["v"], row["note"])
            match row["_ROW_KIND"]:
                case "+I":
                    assert key not in self.replayed
                    self.replayed[key] = values
                case "-U" | "-D":
                    assert self.replayed.pop(key) == values
                case "+U":
                    assert key not in self.replayed
                    self.replayed[key] = values
        self.position = latest.id

    @invariant()
    def rows_agree(self) -> None:
        if not hasattr(self, "table"):
            return
        found: Rows = {}
        for row in self.table.scan(["p", "id", "v", "note"]).to_arrow().to_pylist():
            key = (row["p"], row["id"])
            assert key not in found
            found[key] = (row["v"], row["note"])
        assert found == self.shown
        assert self.table.scan().count() == len(self.shown)
        narrow = self.table.scan(["id"], "p = 'a' AND v >= 5").to_arrow()
        assert Counter(narrow.column("id").to_pylist()) == Counter(
            key[1]
            for key, row in self.shown.items()
            if key[0] == "a" and row[0] is not None and row[0] >= 5
        )
        without = self.table.scan(["p"], "id IS NULL").to_arrow().column("p").to_pylist()
        assert Counter(without) == Counter(p for p, number in self.shown if number is None)


TestTableOfAnyMode = pytest.mark.modes(TableOfAnyMode.TestCase)
TestTableOfAnyMode.settings = settings(
    max_examples=30,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
