"""Reading the two branches of a chain table as one.

Source: ``ChainGroupReadTable.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from headwater.catalog.table.branch_scan import check_alike
from headwater.catalog.table.scan import Scan
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.chain import ChainStorage, plan_chain
from headwater.storage.scan.split import ScanPlan
from headwater.storage.schema.chain import CHAIN_BRANCH_OPTIONS, Chain
from headwater.storage.table_storage import TableStorage

__all__ = ["ChainScan"]


class ChainScan(Scan):
    """The partitions of the snapshot branch, and what the delta branch makes of them later.

    Rows are merged by the merge engine of the delta branch. Its snapshot is the delta branch's.

    Args:
        whole: A scan of the snapshot branch.
        delta: The same of the delta branch, whose columns and predicate count.
        chain: The table's chain.
        min_level: Only rows in files of this LSM level and above.
        whole_again: Partitions, serialised, that are read as if the snapshot branch had none.

    Raises:
        Invalid: The branches differ in their columns, keys or partition keys.
    """

    def __init__(
        self,
        whole: Scan,
        delta: Scan,
        chain: Chain,
        *,
        min_level: int = 0,
        whole_again: frozenset[bytes] = frozenset(),
    ) -> None:
        _check_alike(whole.storage, delta.storage)
        storage = ChainStorage.of(whole.storage, delta.storage)
        super().__init__(
            storage, delta.snapshot, delta.columns, delta.predicate, min_level=min_level
        )
        self._whole, self._delta, self._chain = whole, delta, chain
        self._both = storage
        self._whole_again = whole_again

    def _origin(self) -> str:
        return self.branches

    @property
    def branches(self) -> str:
        """The words for both."""
        chain = self._chain
        return f"branch {chain.snapshot_branch} and the later changes of {chain.delta_branch}"

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> ChainScan:
        """The rows of the same two snapshots, with these columns and by this predicate."""
        return ChainScan(
            self._whole,
            self._delta.narrowed(columns, predicate),
            self._chain,
            min_level=self.min_level,
            whole_again=self._whole_again,
        )

    def read_optimized(self) -> ChainScan:
        """The rows that are made of files on the highest LSM level alone."""
        least = self._delta.storage.schema.table_options.highest_level
        return ChainScan(self._whole, self._delta, self._chain, min_level=least)

    @cached_property
    def plan(self) -> ScanPlan | None:
        """The plan of the read; None if neither branch has a snapshot."""
        plan = plan_chain(
            self._both,
            self._delta.storage,
            self._chain,
            (self._whole.snapshot, self._delta.snapshot),
            predicate=self.predicate,
            min_level=self.min_level,
            whole_again=self._whole_again,
        )
        if plan is None:
            return None
        branch = self.storage.layout.branch
        return replace(plan, splits=tuple(replace(each, branch=branch) for each in plan.splits))

    @property
    def storages(self) -> tuple[TableStorage, ...]:
        """Both branches."""
        return self._whole.storage, self._delta.storage


def _check_alike(whole: TableStorage, delta: TableStorage) -> None:
    check_alike(whole, delta, CHAIN_BRANCH_OPTIONS)
    mine, theirs = whole.schema, delta.schema
    if mine.primary_keys != theirs.primary_keys:
        raise Invalid(
            f"table {whole.name}: its rows and those of branch {delta.layout.branch} are merged by "
            f"different primary keys, {', '.join(mine.primary_keys) or 'none'} and "
            f"{', '.join(theirs.primary_keys) or 'none'}"
        )
    for field in mine.fields:
        # Files tell columns by these numbers.
        if theirs.field_by_name[field.name].id != field.id:
            raise Invalid(
                f"table {whole.name}: column '{field.name}' is another one in branch "
                f"{delta.layout.branch}: columns were added or dropped in a different order. "
                "Change the columns of both branches alike"
            )
