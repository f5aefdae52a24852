"""Chain tables against plain dictionaries, by random steps in both branches through the SDK.

The model keeps every row that a branch was given. A partition of the table is the whole one, or
else the rows of the last whole one before it and of all changes since, of which each key's row with
the greatest sequence is left.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.chain_tables import OPTIONS, STOCK, rows

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

Partition: TypeAlias = tuple[str, int]
Change: TypeAlias = tuple[int, str, str, int | None]
"""A sequence, a row's kind, an item and an amount."""
Branch: TypeAlias = dict[Partition, list[Change]]
Row: TypeAlias = tuple[str, str, str, int | None]

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 5
PARTITIONS = st.tuples(st.sampled_from(["EU", "EU", "US"]), st.integers(0, DAYS - 1))
ITEMS = st.sampled_from(["apple", "fig", "kiwi", "pear"])
AMOUNTS = st.none() | st.integers(0, 9)
BRANCHES = st.sampled_from(["snapshot", "delta"])


def name_of(day: int) -> str:
    return f"{FIRST + timedelta(days=day):%Y%m%d}"


class ChainAgainstDictionaries(RuleBasedStateMachine):
    """The dictionaries are the truth; the table and its branches must agree."""

    lake: Lake

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-chains-"))
        self.branches: dict[str, Branch] = {"snapshot": {}, "delta": {}}
        self.taken: set[int] = set()
        self.merges_columns = False

    def teardown(self) -> None:
        if hasattr(self, "lake"):
            self.lake.close()
        shutil.rmtree(self.folder)

    def _open(self) -> None:
        now = int((FIRST + timedelta(days=DAYS, hours=1)).timestamp() * 1000)
        runtime = Runtime(
            lambda: now,
            SYSTEM_RUNTIME.new_uuid,
            lambda seconds: None,
            monotonic=lambda: now / 1000,
            time_zone=lambda: UTC,
        )
        self.lake = connect(self.folder, runtime=runtime)

    def _branch(self, name: str) -> Table:
        return self.lake.table(f"d.t$branch_{name}")

    @initialize(
        kind=st.sampled_from([(False, False), (False, True), (True, False)]),
        form=st.sampled_from(["parquet", "avro", "orc"]),
        filled=st.lists(st.tuples(BRANCHES, PARTITIONS), min_size=6, max_size=12, unique=True),
    )
    def create(
        self, kind: tuple[bool, bool], form: str, filled: list[tuple[str, Partition]]
    ) -> None:
        self.merges_columns, has_vectors = kind
        self._open()
        self.lake.create_database("d")
        table = self.lake.create_table(
            "d.t",
            STOCK,
            primary_keys=["region", "day", "item"],
            partition_keys=["region", "day"],
            options={
                **OPTIONS,
                "merge-engine": "partial-update" if self.merges_columns else "deduplicate",
                "deletion-vectors.enabled": str(has_vectors).lower(),
                "file.format": form,
                "num-sorted-run.compaction-trigger": "2",
            },
        )
        table.create_branch("snapshot")
        table.create_branch("delta")
        for sequence, (branch, partition) in enumerate(filled):
            self.write(branch, partition, [(sequence, False, "apple", sequence)], False)

    @rule(
        branch=BRANCHES,
        partition=PARTITIONS,
        changes=st.lists(st.tuples(st.integers(0, 10_000), st.booleans(), ITEMS, AMOUNTS),
                         min_size=1, max_size=5, unique_by=lambda each: each[2]),
        replaces=st.booleans(),
    )  # fmt: skip
    def write(
        self,
        branch: str,
        partition: Partition,
        changes: list[tuple[int, bool, str, int | None]],
        replaces: bool,
    ) -> None:
        given = [
            (sequence, "-D" if deletes and not self.merges_columns else "+I", item, amount)
            for sequence, deletes, item, amount in changes
            if sequence not in self.taken
        ]
        if len({each[0] for each in given}) < len(given) or not given:
            return
        region, day = partition[0], name_of(partition[1])
        data = rows(*((region, day, item, sequence, n) for sequence, _, item, n in given))
        kinds = pa.array([kind for _, kind, _, _ in given])
        table = self._branch(branch)
        if not replaces:
            table.write(data, row_kinds=kinds)
        elif "-D" in kinds.to_pylist() or not self._replaced(branch, partition, data):
            return
        self.taken.update(each[0] for each in given)
        model = self.branches[branch]
        model[partition] = [*([] if replaces else model.get(partition, [])), *given]

    def _replaced(self, branch: str, partition: Partition, data: pa.Table) -> bool:
        """Overwrite a partition; false if the chains forbid it."""
        spec = {"region": partition[0], "day": name_of(partition[1])}
        if branch == "delta" and not self._may_drop(partition, {partition}):
            with pytest.raises(Invalid, match="cannot be dropped"):
                self._branch(branch).overwrite(data, spec)
            return False
        self._branch(branch).overwrite(data, spec)
        if branch == "delta":
            self.branches["snapshot"].pop(partition, None)
        return True

    @rule(branch=BRANCHES, data=st.data())
    def drop(self, branch: str, data: st.DataObject) -> None:
        model = self.branches[branch]
        if not model:
            return
        partition = data.draw(st.sampled_from(sorted(model)))
        spec = {"region": partition[0], "day": name_of(partition[1])}
        kept = set() if branch == "delta" else {partition}
        if not self._may_drop(partition, kept):
            with pytest.raises(Invalid, match="cannot be dropped"):
                self._branch(branch).drop_partitions(spec)
            return
        self._branch(branch).drop_partitions(spec)
        del model[partition]
        if branch == "delta":
            self.branches["snapshot"].pop(partition, None)

    def _may_drop(self, partition: Partition, kept: set[Partition]) -> bool:
        """True if no changes would lose the whole partition that they build on.

        Args:
            partition: The partition that goes from the snapshot branch.
            kept: It, if the delta branch has it afterwards.
        """
        whole, (region, day) = self.branches["snapshot"], partition
        if partition not in whole or any(each[0] == region and each[1] < day for each in whole):
            return True
        later = [each[1] for each in whole if each[0] == region and each[1] > day]
        before_next = min(later, default=DAYS)
        changes = {
            *(set(self.branches["delta"]) - {partition}),
            *(kept & set(self.branches["delta"])),
        }
        return not any(each[0] == region and day < each[1] < before_next for each in changes)

    @rule(branch=BRANCHES, full=st.booleans())
    def compact(self, branch: str, full: bool) -> None:
        self._branch(branch).compact(full=full)

    @rule(
        age=st.integers(0, DAYS - 1),
        name=st.sampled_from(["t", "t$branch_snapshot", "t$branch_delta"]),
    )
    def expire(self, age: int, name: str) -> None:
        self.lake.table(f"d.{name}").expire_partitions(older_than=timedelta(days=age, seconds=1))
        whole, delta = self.branches["snapshot"], self.branches["delta"]
        for region in ("EU", "US"):
            over = sorted(day for own, day in whole if own == region and day <= DAYS - age)
            for branch in (whole, delta):
                for each in [each for each in branch if over and each[0] == region]:
                    if each[1] < over[-1] and len(over) > 1:
                        del branch[each]

    @precondition(lambda self: self.taken)
    @rule(branch=BRANCHES)
    def expire_snapshots(self, branch: str) -> None:
        self._branch(branch).expire_snapshots(retain_min=1, retain_max=1)

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self._open()

    def _merged(self, changes: list[Change]) -> dict[str, tuple[int, int | None]]:
        """Each item's sequence and amount."""
        found: dict[str, tuple[int, int | None]] = {}
        gone: set[str] = set()
        for sequence, kind, item, amount in sorted(changes):
            before = found.get(item)
            if self.merges_columns and amount is None and before is not None:
                amount = before[1]
            found[item] = (sequence, amount)
            gone = gone - {item} if kind == "+I" else gone | {item}
        return {item: values for item, values in found.items() if item not in gone}

    def _rows(self, partition: Partition) -> dict[str, tuple[int, int | None]]:
        whole, delta = self.branches["snapshot"], self.branches["delta"]
        region, day = partition
        earlier = [each for each in whole if each[0] == region and each[1] < day]
        anchor = max(earlier, default=None)
        changes = [] if anchor is None else list(whole[anchor])
        first = -1 if anchor is None else anchor[1]
        for each in delta:
            if each[0] == region and first < each[1] <= day:
                changes += delta[each]
        return self._merged(changes)

    @staticmethod
    def _read(table: Table, where: str | None = None) -> list[Row]:
        found = table.scan(["region", "day", "item", "amount"], where).to_arrow()
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)

    @invariant()
    def rows_agree(self) -> None:
        if not hasattr(self, "lake"):
            return
        whole, delta = self.branches["snapshot"], self.branches["delta"]
        expected: dict[str, list[Row]] = {"snapshot": [], "delta": [], "": []}
        for name, branch in self.branches.items():
            for partition, changes in branch.items():
                expected[name] += self._shown(partition, self._merged(changes))
        for partition in {*whole, *delta}:
            merged = self._merged(whole[partition]) if partition in whole else self._rows(partition)
            expected[""] += self._shown(partition, merged)
        table = self.lake.table("d.t")
        assert self._read(table) == sorted(expected[""], key=repr)
        few = [row for row in expected[""] if row[2] == "fig" and (row[3] or 0) > 4]
        assert self._read(table, "item = 'fig' AND amount > 4") == sorted(few, key=repr)
        for name in self.branches:
            assert self._read(self._branch(name)) == sorted(expected[name], key=repr)

    @staticmethod
    def _shown(partition: Partition, merged: dict[str, tuple[int, int | None]]) -> list[Row]:
        region, day = partition[0], name_of(partition[1])
        return [(region, day, item, amount) for item, (_, amount) in merged.items()]


TestChainAgainstDictionaries = pytest.mark.modes(ChainAgainstDictionaries.TestCase)
TestChainAgainstDictionaries.settings = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
