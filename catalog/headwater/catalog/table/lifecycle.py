"""The lifecycle of a table's contents, through its handle: partitions expire or are complete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cached_property, partial

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.branches import branch_of
from headwater.catalog.table.presence import follow_up
from headwater.catalog.table.reading import ReadableTable
from headwater.catalog.table.references import references_of
from headwater.storage.capabilities import Operation
from headwater.storage.commit.manifest_compaction import compact_manifests
from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.jobs.deletion import delete_tag, held
from headwater.storage.jobs.expire import delete_unreferenced_snapshot, expire_snapshots
from headwater.storage.jobs.partitions import expire_chain_partitions, expire_partitions
from headwater.storage.jobs.tags import AutomaticTags, TagEnds, tell_of_tag
from headwater.storage.maintenance.partition_done import (
    idle_partitions,
    partition_success_file,
    write_success_file,
)
from headwater.storage.maintenance.partition_expiry import ExpiredPartitions, PartitionRetention
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.options.lifecycle_options import (
    DoneAction,
    ExpirationStrategy,
    LifecycleOptions,
    TagCreation,
)
from headwater.storage.rows.partition import partition_spec, static_partition
from headwater.storage.schema.chain import chain_options
from headwater.storage.snapshot.files import read_snapshot_file
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import BranchPointers, TableStorage
from headwater.storage.types.values import partition_text

__all__ = ["TableLifecycle"]

_LOG = logging.getLogger(__name__)
_MILLISECOND = timedelta(milliseconds=1)


@checks_arguments
class TableLifecycle(ReadableTable):
    """A table whose contents come and go; `headwater.catalog.table.table.Table` adds writing."""

    def expire_partitions(
        self,
        *,
        older_than: timedelta | None = None,
        strategy: str | None = None,
        timestamp_pattern: str | None = None,
        timestamp_formatter: str | None = None,
        max_partitions: int | None = None,
        dry_run: bool = False,
    ) -> ExpiredPartitions:
        """Drop the partitions whose time is over.

        What is not given is taken from the table's ``partition.…`` options. Earlier snapshots
        keep the rows until they expire. Of a chain table those of both branches go that no
        partition which stays is made of, whichever branch is named.

        Args:
            older_than: The age at which a partition goes (``partition.expiration-time``).
            strategy: ``values-time`` counts the age from the time in the partition's values,
                ``update-time`` from its newest file's.
            timestamp_pattern: Text that makes a time of the values, such as ``$year-$month-$day``.
            timestamp_formatter: The form of that time, such as ``yyyyMMdd``.
            max_partitions: The number of partitions that go at most; in a chain table the number
                of whole partitions of each chain.
            dry_run: Only say what would go.

        Raises:
            Invalid: The table has no partitions, no age is given or set, the pattern does not name
                partition columns, or the form of times is not one that Headwater reads.
            Conflict: Other commits changed the partitions each time.
            OutcomeUnknown: A commit may have happened.
        """
        given = {
            "partition.expiration-time": None if older_than is None else _text(older_than),
            "partition.expiration-strategy": strategy,
            "partition.timestamp-pattern": timestamp_pattern,
            "partition.timestamp-formatter": timestamp_formatter,
            "partition.expiration-max-num": None if max_partitions is None else str(max_partitions),
        }
        overrides = {key: value for key, value in given.items() if value is not None}
        retention = PartitionRetention.of(LifecycleOptions({**self.schema.options, **overrides}))
        if not self.schema.partition_keys:
            raise Invalid(f"table {self.name} has no partitions")
        if retention is None:
            raise Invalid(
                f"table {self.name}: its partitions do not expire; set "
                "'partition.expiration-time', or give that time with the call"
            )
        if retention.strategy is ExpirationStrategy.VALUES_TIME:
            retention.times.check(self.schema.partition_keys)
        pointer, chain = self.pointer, chain_options(self.schema)
        identifiers = [self.identifier]
        if chain is None:
            result = expire_partitions(self._storage, pointer, retention, dry_run=dry_run)
        elif retention.strategy is not ExpirationStrategy.VALUES_TIME:
            raise Invalid(
                f"table {self.name} is a chain table, whose partitions expire by values-time, not "
                f"{retention.strategy}"
            )
        else:
            assert isinstance(pointer, BranchPointers)
            identifiers = [branch_of(self.identifier, each) for each in chain.branches]
            result = expire_chain_partitions(
                self._storage, pointer, chain, retention, dry_run=dry_run, hold=self._held_snapshot
            )
        if result.dropped and not dry_run and self._keeps_partitions:
            done = [_done(spec) for spec in result.dropped]
            for identifier in identifiers:
                self._catalog.partitions.drop(identifier, [*result.dropped, *done])
        return result

    def _held_snapshot(
        self, storage: TableStorage, snapshot: Snapshot
    ) -> AbstractContextManager[None]:
        """Keep the files of a snapshot of one of the table's branches, by a tag.

        Args:
            storage: The branch.
            snapshot: The snapshot.

        Raises:
            Conflict: The snapshot has expired.
        """
        pointer, branch = self.pointer, storage.layout.branch
        assert isinstance(pointer, BranchPointers)
        authority = references_of(
            self._catalog,
            branch_of(self.identifier, branch),
            storage,
            is_external=self.info.is_external,
        )
        return held(storage, pointer.of_branch(branch), authority, snapshot)

    def mark_partitions_done(
        self, *partitions: Mapping[str, object], idle: timedelta | None = None
    ) -> list[dict[str, str]]:
        """Tell those who wait for partitions that they are complete.

        It is told in the ways that ``partition.mark-done-action`` names: by a file ``_SUCCESS`` in
        the partition's directory, by a partition with ``.done`` at the end of its name, by the
        mark that the catalog keeps.

        Args:
            partitions: Each names all partition columns. Without any, those are meant to which
                nothing was written for a while, and whose file ``_SUCCESS`` is missing or older.
            idle: That while; None takes ``partition.idle-time-to-done``.

        Returns:
            The partitions that were marked.

        Raises:
            Invalid: A column is missing or is not a partition column, no while is given or set, or
                the catalog keeps no partitions of the table and is to.
            Unsupported: The option names a way that Headwater does not have.
        """
        self._storage.refuse(Operation.MARK_DONE)
        if not self.schema.partition_keys and not partitions:
            return []
        actions = LifecycleOptions(self._storage.schema.options).done_actions
        for action in actions:
            if action is not DoneAction.SUCCESS_FILE and not self._keeps_partitions:
                raise Invalid(
                    f"table {self.name}: 'partition.mark-done-action' is {action}, for which the "
                    "catalog must keep its partitions; set 'metastore.partitioned-table' to true"
                )
        specs = [self._full_spec(partition) for partition in partitions]
        self.require_present()
        if not specs:
            latest = self.pointer.latest()
            millis = None if idle is None else idle // _MILLISECOND
            if latest is not None:
                specs = idle_partitions(self._storage, latest, idle_millis=millis)
        if specs:
            for action in actions:
                self._tell(action, specs)
        return specs

    def create_due_tags(self) -> list[str]:
        """Make the tags that are due by ``tag.automatic-creation``, as each commit does.

        Returns:
            The names of the tags made; a tag that another has made meanwhile is not among them.

        Raises:
            Invalid: An option has a value that it cannot have.
        """
        return AutomaticTags(self._storage, self.pointer, self.references).create_due()

    def rename_tag(self, name: str, new_name: str) -> None:
        """Give a tag another name; its snapshot and its retention stay (``TagManager.java``).

        Raises:
            AlreadyExists: There is a tag of the new name.
            Invalid: The new name cannot be one of a tag.
            NotFound: There is no such tag.
        """
        self._catalog.tags.rename(self.identifier, name, new_name)
        with follow_up(self._storage):
            tell_of_tag(self._storage, new_name)

    def replace_tag(
        self, name: str, snapshot_id: int | None = None, *, retained: timedelta | None = None
    ) -> None:
        """Let a tag name another snapshot, and delete the files that it alone kept.

        Args:
            name: The tag.
            snapshot_id: The snapshot; None names the latest.
            retained: As for `create_tag`, from now on.

        Raises:
            Conflict: Others kept changing the table's tags, branches or consumers.
            NotFound: There is no such tag or snapshot.
        """
        millis = None if retained is None else retained // _MILLISECOND
        if millis is not None and millis < 1:
            raise Invalid(f"tag '{name}': it must be kept for at least 1 ms")
        replaced = self.tag(name).snapshot
        self._catalog.tags.replace(self.identifier, name, snapshot_id, retained_millis=millis)
        with follow_up(self._storage):
            tell_of_tag(self._storage, name)
            delete_unreferenced_snapshot(self._storage, self.pointer, self.references, replaced)

    def compact_manifests(self) -> Snapshot | None:
        """Rewrite the list of the table's files in the order of their partitions; no data changes.

        A plan that reads few partitions then reads few manifests. The smaller
        ``manifest.target-file-size``, the fewer files of others they list.

        Returns:
            The snapshot made; None when the manifests are in order.

        Raises:
            Conflict: Other commits came first each time.
            OutcomeUnknown: The commit may have happened.
        """
        return compact_manifests(self._storage, self.pointer)

    # After a commit ---------------------------------------------------------------------------

    def keep_up(self, *, at_end: bool = True, written: Collection[bytes] = ()) -> None:
        """Do what is due after a commit: tags, and the expiry of tags, partitions and snapshots.

        Writers call it; those of other engines do the like. A table with ``write-only`` leaves it
        to others. What fails is logged, and is due again after the next commit: the rows are
        committed.

        Args:
            at_end: True after a batch, false between the batches of a stream.
            written: The partitions that were written to, serialised.
        """
        options = LifecycleOptions(self._storage.schema.options)
        write_only = CompactionOptions(options.raw).write_only
        steps: list[tuple[str, Callable[[], object]]] = []
        try:
            makes_tags = options.tag_creation
            if (at_end and makes_tags is TagCreation.BATCH) or (
                not write_only and makes_tags not in (TagCreation.NONE, TagCreation.BATCH)
            ):
                steps.append(("making tags", self.create_due_tags))
            if at_end and options.marks_partitions_at_end and written:
                specs = [dict(partition_spec(self._storage, each)) for each in sorted(written)]
                steps.append(("marking partitions", partial(self.mark_partitions_done, *specs)))
            if not write_only:
                if options.expires_tags:
                    steps.append(("expiring tags", self._expire_timed_tags))
                if options.partition_expiration is not None and self.schema.partition_keys:
                    always = at_end and options.expires_partitions_at_end
                    expiry = partial(self._expire_due_partitions, always=always)
                    steps.append(("expiring partitions", expiry))
                steps.append(("expiring snapshots", self._expire_by_options))
        except Invalid as error:
            _LOG.warning("table %s: no maintenance after the commit: %s", self.name, error.message)
        for name, step in steps:
            try:
                step()
            except HeadwaterError as error:
                _LOG.warning(
                    "table %s: %s after the commit failed: %s", self.name, name, error.message
                )

    def _expire_timed_tags(self) -> None:
        for name in self._tag_ends.expired(self._storage):
            delete_tag(self._storage, self.pointer, self.references, name)

    def _expire_due_partitions(self, *, always: bool) -> None:
        """Expire partitions after the first commit of each ``partition.expiration-check-interval``.

        Paimon's writers count from when they began, which says nothing where a writer is a call.
        """
        latest = self.pointer.latest()
        if latest is None:
            return
        interval = LifecycleOptions(self._storage.schema.options).partition_check_interval
        is_first = always or not interval
        if not is_first:
            before = read_snapshot_file(self._files, self._storage.layout, latest.id - 1)
            own = latest.time_millis // interval
            is_first = before is None or before.time_millis // interval != own
        if is_first:
            self.expire_partitions()

    def _expire_by_options(self) -> None:
        expire_snapshots(self._storage, self.pointer, self.references, yields=True)

    @cached_property
    def _tag_ends(self) -> TagEnds:
        return TagEnds()

    def _tell(self, action: DoneAction, specs: list[dict[str, str]]) -> None:
        match action:
            case DoneAction.SUCCESS_FILE:
                now = self._runtime.now_millis()
                for spec in specs:
                    path = partition_success_file(self._storage, spec)
                    write_success_file(self._files, path, now)
            case DoneAction.DONE_PARTITION:
                done = [_done(spec) for spec in specs]
                self._catalog.partitions.create(self.identifier, done)
            case DoneAction.MARK_EVENT:
                self._catalog.partitions.mark_done(self.identifier, specs)

    @property
    def _keeps_partitions(self) -> bool:
        return self.schema.table_options.partitions_in_catalog and not self.info.is_external

    def _full_spec(self, partition: Mapping[str, object]) -> dict[str, str]:
        """A partition's values as in directory names; raises Invalid."""
        values = static_partition(self._storage, partition)
        missing = [key for key in self.schema.partition_keys if key not in values]
        if missing:
            raise Invalid(f"table {self.name}: name the partition's '{missing[0]}', too")
        options = self.schema.table_options
        return {
            field.name: partition_text(values[field.name], field, options)
            for field in self.schema.partition_fields
        }


def _done(spec: Mapping[str, str]) -> dict[str, str]:
    """The partition that tells that another is complete (``AddDonePartitionAction.java``)."""
    last = list(spec)[-1]
    return {**spec, last: f"{spec[last]}.done"}


def _text(time: timedelta) -> str:
    if time < timedelta(0):
        raise Invalid(f"a partition's age cannot be negative: {time}")
    return f"{time // _MILLISECOND} ms"
