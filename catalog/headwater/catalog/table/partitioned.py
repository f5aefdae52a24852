"""The partitions of a table, through its handle: by their names, and by their values."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.partitions import PartitionInfo
from headwater.catalog.table.files import directories_of, partitions_of
from headwater.catalog.table.history import TableHistory
from headwater.storage.rows.partition import static_partition
from headwater.storage.schema.chain import chain_of
from headwater.storage.schema.other_branch import other_branch
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.types.values import StorageValue

__all__ = ["PartitionedTable"]


@checks_arguments
class PartitionedTable(TableHistory):
    """A table, to list its partitions; `headwater.catalog.table.reading` adds reading."""

    def partitions(self) -> list[PartitionInfo]:
        """The partitions and their contents.

        A table with ``metastore.partitioned-table`` keeps its partitions in the catalog; those of
        others are read from the latest snapshot's manifests, and have no times and no mark. Those
        that a read takes from another branch are that branch's. Those of a format table are its
        directories, whose rows nobody has counted.
        """
        # By their names: ``month=1`` and ``month=01`` are two directories of a format table.
        listed = self._listed()
        return list(self.partitions_by_values().values()) if listed is None else listed

    def partitions_by_values(self) -> dict[tuple[StorageValue, ...], PartitionInfo]:
        """As `partitions`, by their values: a blank text and null have one name."""
        storage = self._storage
        listed = self._listed()
        if listed is not None:
            return self._by_values(listed)
        branches = [self]
        chain = chain_of(storage.layout.branch, self.schema)
        other = other_branch(self.name, storage.layout.branch, self.schema)
        if chain is not None:
            branches += [self.branch(chain.snapshot_branch), self.branch(chain.delta_branch)]
        elif other is not None:
            branch, is_first = other
            branches.insert(0 if is_first else 1, self.branch(branch))
        infos: dict[tuple[StorageValue, ...], PartitionInfo] = {}
        for branch_table in branches:
            infos = {**partitions_of(branch_table.storage, branch_table.pointer.latest()), **infos}
        return dict(sorted(infos.items(), key=lambda item: item[1].name))

    def _by_values(
        self, listed: Sequence[PartitionInfo]
    ) -> dict[tuple[StorageValue, ...], PartitionInfo]:
        """Partitions by the values that their names stand for."""
        storage, schema = self._storage, self.schema
        named = schema.table_options.partition_default_name
        values: dict[str, list[tuple[StorageValue, ...]]] = {}
        is_told = table_type(schema.options).has_snapshots and self._access.reader is None
        if is_told and any(named in info.spec.values() for info in listed):
            # Which of null and a blank text it is, the rows tell, if there are any.
            for own, info in partitions_of(storage, self.pointer.latest()).items():
                values.setdefault(info.name, []).append(own)
        return {
            own: info
            for info in listed
            for own in values.get(info.name)
            or [tuple(static_partition(storage, info.spec).values())]
        }

    def _listed(self) -> list[PartitionInfo] | None:
        """The partitions that the catalog keeps, or directories; None for those of manifests."""
        is_format = table_type(self.schema.options) is TableType.FORMAT
        in_catalog = self.schema.table_options.partitions_in_catalog
        if in_catalog and (is_format or not self.info.is_external):
            kept = self.catalog.partitions
            return all_pages(lambda token: kept.list(self.identifier, page_token=token))
        if not is_format:
            return None
        self.refuse_restricted("the sizes of its partitions")
        self.require_present()
        return directories_of(self._storage) if self.schema.partition_keys else []
