"""Random histories of branches and tags, and a cleaning in between that must harm none of them."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.examples import examples

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import HeadwaterError
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

BRANCHES = st.sampled_from(["main", "b1", "b2"])
NAMES = st.sampled_from(["t1", "t2"])


class CleaningAmongHistories(RuleBasedStateMachine):
    """Before and after each cleaning, every snapshot and tag of every branch reads the same."""

    lake: Lake
    table: Table

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-orphans-"))
        # Beyond what the disk's clock says: every file is old.
        self.millis = 4_000_000_000_000
        self.next = 0

    def teardown(self) -> None:
        if hasattr(self, "table"):
            self.clean(stray=True)
            self.lake.close()
        shutil.rmtree(self.folder)

    @initialize(is_keyed=st.booleans())
    def create(self, is_keyed: bool) -> None:
        runtime = Runtime(
            lambda: self.millis,
            SYSTEM_RUNTIME.new_uuid,
            lambda seconds: None,
            monotonic=lambda: self.millis / 1000,
        )
        self.lake = connect(self.folder, runtime=runtime)
        self.lake.create_database("db")
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
        options = {"manifest.merge-min-count": "3"}
        if is_keyed:
            options |= {"bucket": "1", "changelog-producer": "input"}
        self.table = self.lake.create_table(
            "db.t", schema, primary_keys=["id"] if is_keyed else [], options=options
        )

    def _handle(self, branch: str) -> Table | None:
        if branch == "main":
            return self.table
        return self.table.branch(branch) if branch in self.table.branches() else None

    @rule(branch=BRANCHES, is_overwrite=st.booleans())
    def write(self, branch: str, is_overwrite: bool) -> None:
        if (handle := self._handle(branch)) is not None:
            self.millis += 60_000
            self.next += 1
            (handle.overwrite if is_overwrite else handle.write)({"id": [self.next]})

    @rule(branch=BRANCHES)
    def compact(self, branch: str) -> None:
        handle = self._handle(branch)
        if handle is not None and handle.schema.primary_keys:
            handle.compact()

    @rule(branch=BRANCHES, name=NAMES)
    def tag(self, branch: str, name: str) -> None:
        handle = self._handle(branch)
        if handle is not None and handle.latest_snapshot() is not None:
            if name in [tag.name for tag in handle.tags()]:
                # By its name alone, as over the API: its files stay.
                self.lake.catalog.tags.delete(handle.identifier, name)
            else:
                handle.create_tag(name)

    @rule(branch=BRANCHES, name=NAMES)
    def fork(self, branch: str, name: str) -> None:
        if branch == "main":
            return
        if branch in self.table.branches():
            self.table.drop_branch(branch)
        elif name in [tag.name for tag in self.table.tags()]:
            self.table.create_branch(branch, tag=name)
        else:
            latest = self.table.latest_snapshot()
            self.table.create_branch(branch, snapshot_id=None if latest is None else latest.id)

    @rule(branch=BRANCHES)
    def forward(self, branch: str) -> None:
        if branch != "main" and branch in self.table.branches():
            self.table.fast_forward(branch)

    @rule(branch=BRANCHES, data=st.data())
    def roll_back(self, branch: str, data: st.DataObject) -> None:
        handle = self._handle(branch)
        if handle is not None and (snapshots := handle.snapshots()):
            handle.rollback(snapshot_id=data.draw(st.sampled_from([s.id for s in snapshots])))

    @rule(branch=BRANCHES)
    def expire(self, branch: str) -> None:
        if (handle := self._handle(branch)) is not None:
            # So that there is something to expire.
            handle.overwrite({"id": [0]})
            handle.expire_snapshots(retain_min=1, retain_max=1, retain=timedelta(0))

    @rule(branch=BRANCHES, name=NAMES)
    def outlive(self, branch: str, name: str) -> None:
        """Of what it names only the tag is left."""
        self.write(branch, is_overwrite=False)
        self.tag(branch, name)
        self.expire(branch)

    def _everything(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for branch in ("main", *self.table.branches()):
            handle = self._handle(branch)
            assert handle is not None
            for snapshot in handle.snapshots():
                rows = handle.scan(snapshot_id=snapshot.id).to_arrow().column("id").to_pylist()
                found[branch, str(snapshot.id)] = sorted(rows)
            for tag in handle.tags():
                rows = handle.scan(tag=tag.name).to_arrow().column("id").to_pylist()
                found[branch, tag.name] = sorted(rows)
        return found

    def _needed(self) -> set[str]:
        """Names of the data files that anything holds, told by the table's own lists."""
        names: set[str] = set()
        for branch in ("main", *self.table.branches()):
            handle = self._handle(branch)
            assert handle is not None
            for snapshot in handle.snapshots():
                names |= {file.name for file in handle.files(snapshot_id=snapshot.id)}
            for tag in handle.tags():
                try:
                    names |= {file.name for file in handle.files(snapshot_id=tag.snapshot.id)}
                except HeadwaterError:
                    continue  # the snapshot itself has expired; `_everything` reads the tag
        return names

    @rule(stray=st.booleans())
    def clean_now(self, stray: bool) -> None:
        self.clean(stray=stray)

    def clean(self, *, stray: bool) -> None:
        before, needed = self._everything(), self._needed()
        files, location = self.table.storage.files, self.table.storage.layout.location
        strays = [f"{location}/bucket-0/data-stray.parquet", f"{location}/manifest/manifest-stray"]
        if stray:
            for path in strays:
                files.write(path, b"nothing")
        would = self.table.remove_orphan_files(older_than=timedelta(0), dry_run=True)
        done = self.table.remove_orphan_files(older_than=timedelta(0))
        assert done.files == would.files
        gone = {file.path for file in done.files}
        assert gone.isdisjoint(f"{location}/bucket-0/{name}" for name in needed)
        assert not stray or gone >= set(strays)
        assert not any(files.exists(path) for path in gone)
        assert self._everything() == before
        assert self.table.remove_orphan_files(older_than=timedelta(0)).files == ()


class MoreHistories(CleaningAmongHistories):
    """The same for more histories."""


_HISTORIES = settings(
    max_examples=examples(15),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCleaningAmongHistories = CleaningAmongHistories.TestCase
TestCleaningAmongHistories.settings = _HISTORIES
TestCleaningAmongMoreHistories = pytest.mark.modes(MoreHistories.TestCase)
TestCleaningAmongMoreHistories.settings = settings(_HISTORIES, max_examples=15)
