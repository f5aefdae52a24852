"""The lifecycle of a table's contents, through its handle: partitions expire or are complete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headwater.catalog.table.reading import ReadableTable
from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid
from headwater.storage.jobs.partitions import expire_partitions
from headwater.storage.maintenance.lifecycle_options import DoneAction, LifecycleOptions
from headwater.storage.maintenance.partition_done import (
    idle_partitions,
    partition_success_file,
    write_success_file,
)
from headwater.storage.maintenance.partition_expiry import ExpiredPartitions, PartitionRetention
from headwater.storage.rows.partition import static_partition
from headwater.storage.types.values import partition_text

__all__ = ["TableLifecycle"]

_MILLISECOND = timedelta(milliseconds=1)


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
        keep the rows until they expire.

        Args:
            older_than: The age at which a partition goes (``partition.expiration-time``).
            strategy: ``values-time`` counts the age from the time in the partition's values,
                ``update-time`` from its newest file's.
            timestamp_pattern: Text that makes a time of the values, such as ``$year-$month-$day``.
            timestamp_formatter: The form of that time, such as ``yyyyMMdd``.
            max_partitions: The number of partitions that go at most.
            dry_run: Only say what would go.

        Raises:
            Invalid: The table has no partitions, no age is given or set, or the form of times is
                not one that Headwater reads.
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
                "'partition.expiration-time', or give older_than"
            )
        result = expire_partitions(self._storage, self.pointer, retention, dry_run=dry_run)
        if result.dropped and not dry_run and self._keeps_partitions:
            done = [_done(spec) for spec in result.dropped]
            self._catalog.partitions.drop(self.identifier, [*result.dropped, *done])
        return result

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
            Invalid: A column is missing or is no partition column, no while is given or set, or
                the catalog keeps no partitions of the table and is to.
            Unsupported: The option names a way that Headwater does not have.
        """
        self._storage.refuse(Operation.MARK_DONE)
        if not self.schema.partition_keys and not partitions:
            return []
        actions = LifecycleOptions.of(self._storage).done_actions
        for action in actions:
            if action is not DoneAction.SUCCESS_FILE and not self._keeps_partitions:
                raise Invalid(
                    f"table {self.name}: 'partition.mark-done-action' is {action}, for which the "
                    "catalog must keep its partitions; set 'metastore.partitioned-table' to true"
                )
        specs = [self._full_spec(partition) for partition in partitions]
        if not specs:
            latest = self.pointer.latest()
            millis = None if idle is None else idle // _MILLISECOND
            if latest is not None:
                specs = idle_partitions(self._storage, latest, idle_millis=millis)
        if specs:
            for action in actions:
                self._tell(action, specs)
        return specs

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
