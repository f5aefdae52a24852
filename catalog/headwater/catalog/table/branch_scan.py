"""Reading two branches of a table as one: the partitions that the first lacks are the second's.

Source: ``FallbackReadFileStoreTable.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from headwater.catalog.table.scan import Scan
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.partitions import partitions_with_rows
from headwater.storage.scan.split import ScanPlan, Split
from headwater.storage.schema.chain import CHAIN_BRANCH_OPTIONS, chain_of
from headwater.storage.schema.other_branch import OTHER_BRANCH_OPTIONS, other_branch
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, DataType

__all__ = ["BranchScan", "check_alike", "reads_branches"]


class BranchScan(Scan):
    """The rows of one branch, and those of another in the partitions that the first lacks.

    A partition is the first's as soon as the first has a file in it, whatever the predicate says
    of other columns than the partition's. Each branch is read by its own schema, keys and options.

    Args:
        own: A scan of the branch that was asked for, whose columns and snapshot the whole has.
        other: The same of the other branch.
        is_other_first: True if the other's partitions go before those of `own`.

    Raises:
        Invalid: The branches differ in their columns or partition keys.
    """

    def __init__(self, own: Scan, other: Scan, *, is_other_first: bool) -> None:
        schema = _common_schema(own.storage, other.storage)
        super().__init__(own.storage.with_schema(schema), own.snapshot, own.columns, own.predicate)
        self._own, self._other = own, other
        self._is_other_first = is_other_first

    def _origin(self) -> str:
        first = "before" if self._is_other_first else "after"
        return f"{super()._origin()}, {first} it {self._other.branches}"

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> BranchScan:
        """The rows of the same two snapshots, with these columns and by this predicate."""
        return BranchScan(
            self._own.narrowed(columns, predicate),
            self._other.narrowed(columns, predicate),
            is_other_first=self._is_other_first,
        )

    def read_optimized(self) -> BranchScan:
        """The rows of both branches that need no merge."""
        return BranchScan(
            self._own.read_optimized(),
            self._other.read_optimized(),
            is_other_first=self._is_other_first,
        )

    @cached_property
    def plan(self) -> ScanPlan | None:
        """The plans of both, as one; the snapshot is that of the branch that was asked for."""
        first, second = self._own, self._other
        if self._is_other_first:
            first, second = second, first
        if first.plan is None and second.plan is None:
            return None
        present = partitions_with_rows(
            first.storage, first.snapshot, first.predicate, min_level=first.min_level
        )
        splits = [*_of(first, frozenset()), *_of(second, present)]
        plans = [plan for plan in (first.plan, second.plan) if plan is not None]
        shown = self._own.plan or plans[0]
        return ScanPlan(
            tuple(splits),
            shown.snapshot,
            sum(plan.manifests_read for plan in plans),
            sum(plan.manifests_skipped for plan in plans),
            sum(plan.files_skipped for plan in plans),
            sum(plan.files_skipped_by_index for plan in plans),
            sum(plan.rows_skipped_by_index for plan in plans),
        )

    @property
    def storages(self) -> tuple[TableStorage, ...]:
        """All branches."""
        return *self._own.storages, *self._other.storages

    def storage_of(self, split: Split) -> TableStorage:
        """The branch that a split's files belong to."""
        is_other = split.branch == self._other.storage.layout.branch
        return (self._other if is_other else self._own).storage_of(split)


def _of(scan: Scan, without: frozenset[bytes]) -> list[Split]:
    """The splits of a branch's scan, but those of some partitions, with the branch's name."""
    branch = scan.storage.layout.branch
    return [
        replace(split, branch=branch) for split in scan.splits if split.partition not in without
    ]


def _common_schema(own: TableStorage, other: TableStorage) -> TableSchema:
    """The schema of `own`, in which a column may be null that may be null in either."""
    check_alike(own, other, OTHER_BRANCH_OPTIONS + CHAIN_BRANCH_OPTIONS)
    mine, theirs = own.schema, other.schema
    fields = tuple(
        field if field.type.nullable else replace(field, type=also.type)
        for field, also in zip(mine.fields, theirs.fields, strict=True)
    )
    return replace(mine, fields=fields)


def reads_branches(storage: TableStorage) -> bool:
    """True if a read of a table is of other branches, too; raises Invalid if options contradict."""
    branch, schema = storage.layout.branch, storage.schema
    both = other_branch(storage.name, branch, schema), chain_of(branch, schema)
    return any(each is not None for each in both)


def check_alike(own: TableStorage, other: TableStorage, options: Sequence[str]) -> None:
    """Refuse to read two branches together that have other columns or partition keys.

    Args:
        own: A branch.
        other: Another branch.
        options: The options that may ask for it.

    Raises:
        Invalid: They differ.
    """
    mine, theirs = own.schema, other.schema

    def refuse(what: str, ours: str, others: str) -> Invalid:
        return Invalid(
            f"table {own.name} is read together with its branch {other.layout.branch}, by one of "
            f"the options {', '.join(options)}, and they have different {what}: {ours}; and in the "
            f"branch {others}. Alter one of them, or unset the option"
        )

    if [_shape(field) for field in mine.fields] != [_shape(field) for field in theirs.fields]:
        raise refuse("columns", _columns(mine), _columns(theirs))
    if mine.partition_keys != theirs.partition_keys:
        keys = (", ".join(schema.partition_keys) or "none" for schema in (mine, theirs))
        raise refuse("partition keys", *keys)


def _shape(field: DataField) -> tuple[str, DataType]:
    return field.name, replace(field.type, nullable=True)


def _columns(schema: TableSchema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema.fields)
