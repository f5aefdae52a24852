"""The handle by which a program works on one table.

SDK, Spark and command line use tables through this class alone. It knows the catalog by the
`Catalog` protocol only, so that it is the same for an embedded catalog and for a server.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.table.inspect import Inspect
from headwater.catalog.table.presence import reports_dropped_tables
from headwater.catalog.table.upkeep import THIS_PROCESS, TableUpkeep
from headwater.storage.commit.commit_number import CommitNumber, checked_user, last_number
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.jobs.change import merge_into_table, update_table
from headwater.storage.jobs.compact import compact_written
from headwater.storage.jobs.delete import delete_from_table
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import reading, until_no_conflict
from headwater.storage.jobs.stepped_write import SteppedWrite
from headwater.storage.jobs.write import Replacement, WritePlan, with_partition, write_rows
from headwater.storage.maintenance.row_matchers import Assignment, WhenMatched
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.ingest import TabularData, arrow_table
from headwater.storage.schema.given import given_names, given_texts
from headwater.storage.snapshot.snapshot import CommitOperation, Snapshot
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["Table"]

# Of writing rows upon a snapshot, which may expire meanwhile.
_ATTEMPTS = 4

_Properties: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]] | None


@reports_dropped_tables
@checks_arguments
class Table(TableUpkeep):
    """A table, to be read and written.

    Made by `headwater.client.Lake.table`. It holds the schema that it was made with: `refresh`
    after somebody else altered the table.

    Args:
        catalog: The catalog that keeps the table.
        info: The table as the catalog has it.
        runtime: Clock and names.
        options: Table options that override the table's own in this handle.
    """

    @property
    def inspect(self) -> Inspect:
        """The table's system tables: ``table.inspect.snapshots()`` and so on."""
        return Inspect(self)

    # Writing ----------------------------------------------------------------------------------

    def write(
        self,
        data: TabularData,
        row_kinds: pa.Array | pa.ChunkedArray | None = None,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        properties: _Properties = None,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Write rows as one commit: upserts for a primary-key table, appended rows otherwise.

        With `commit_user` and `commit_identifier` the rows are committed at most once, however
        often and by whichever process the write is repeated. A user's identifiers grow from commit
        to commit: one up to `last_committed` counts as committed, and its data is not read.

        Args:
            data: Rows with the table's columns, in any order; nullable ones may be missing. An
                Arrow ``RecordBatchReader`` is read batch by batch, within ``write-buffer-size``.
            row_kinds: Each row's kind: ``+I``, ``-U``, ``+U``, ``-D``. A column ``_ROW_KIND`` of
                the data does the same; without either every row is added.
            commit_user: The name of the job that numbers its commits.
            commit_identifier: The job's number of this commit, 0 or more. A commit with a number
                makes a snapshot even without rows, so that it is known to be done.
            properties: Free properties of the snapshot, or a function that tells them when the
                rows are written.
            executor: Runs the compaction that is due after the commit, unless the table is
                ``write-only``; this process unless given.

        Returns:
            The snapshot with the rows; None when there were none, or when the commit of this number
            was made before. When another process commits the number at the same time, its snapshot
            or None. A compaction makes one after it.

        Raises:
            Invalid: The data does not fit the table, or the user and the number do not fit
                together; nothing is written.
            Conflict: Other commits were faster each time, or changed the table's buckets.
            OutcomeUnknown: The commit may have happened; with a number, repeat the write.
        """
        properties = _checked_properties(properties)
        number = CommitNumber.checked(self.name, commit_user, commit_identifier)
        wanted, retries = WritePlan(self._storage), 0
        if not isinstance(data, pa.RecordBatchReader):
            # Some streams can be read but once.
            data, retries = arrow_table(data), wanted.retries
        return until_no_conflict(
            retries,
            lambda: self._written(
                lambda: self._write_rows(wanted, data, row_kinds), number, properties, executor
            ),
        )

    def write_steps(
        self,
        write: Callable[[SteppedWrite], None],
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        properties: _Properties = None,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Write rows in steps, by this process and by tasks elsewhere, as one commit.

        Args:
            write: Writes the rows; it is called once, and not if the number was committed before.
            commit_user, commit_identifier, properties, executor: As for `write`.

        Returns:
            As `write`.

        Raises:
            Invalid, Conflict, OutcomeUnknown: As `write`.
            HeadwaterError: What `write` raises; nothing is committed then.
        """
        properties = _checked_properties(properties)
        number = CommitNumber.checked(self.name, commit_user, commit_identifier)

        def written() -> tuple[WritePlan, list[CommitMessage]]:
            base = self.pointer.latest()
            plan = WritePlan(self._storage).upon(base)
            with reading(self._storage, self.pointer, base), SteppedWrite(plan) as steps:
                write(steps)
                return plan, steps.finish()

        return self._written(written, number, properties, executor)

    def last_committed(self, commit_user: str) -> int | None:
        """The last number that a job committed, see `write`; None if it has none.

        The catalog remembers it when the snapshot has expired, for each branch. A rollback to an
        earlier snapshot makes the number that of the job's last commit that is left.

        Raises:
            Forbidden: The caller may not write to the table.
            Invalid: The user's name is not usable.
        """
        return last_number(self._new_commit(user=checked_user(self.name, commit_user)))

    def _written(
        self,
        write: Callable[[], tuple[WritePlan, list[CommitMessage]]],
        number: CommitNumber,
        properties: _Properties,
        executor: Executor,
    ) -> Snapshot | None:
        """Write rows and commit them, unless the commit of their number was made before."""
        # Before the rows, as it checks the options: nothing is to be left of a write.
        commit = self._new_commit(user=number.user)
        last = number.last_committed(commit)
        if last is not None:
            # The process that committed it may have ended before the compaction.
            compact_written(commit, None, executor, last)
            return None
        try:
            plan, messages = write()
            snapshot = plan.commit(
                commit,
                messages,
                executor,
                identifier=number.identifier,
                properties=_texts(properties()) if callable(properties) else properties,
                allow_empty=number.is_given,
            )
        except Conflict:
            if number.last_committed(commit) is not None:
                return None
            raise
        return self._kept_up(snapshot, messages)

    def _write_rows(
        self,
        wanted: WritePlan,
        data: TabularData,
        row_kinds: pa.Array | pa.ChunkedArray | None = None,
    ) -> tuple[WritePlan, list[CommitMessage]]:
        """Write rows; again where the snapshot that they build upon expires meanwhile."""
        attempts = 1 if isinstance(data, pa.RecordBatchReader) else _ATTEMPTS
        while True:
            base = self.pointer.latest()
            plan = wanted.upon(base)
            attempts -= 1
            try:
                with reading(self._storage, self.pointer, base):
                    return plan, write_rows(plan, data, row_kinds)
            except Conflict:
                if not attempts:
                    raise

    def overwrite(
        self,
        data: TabularData,
        partition: Mapping[str, object] | None = None,
        *,
        dynamic: bool | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        properties: _Properties = None,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Replace rows by others as one commit.

        Args:
            data: As for `write`; columns that `partition` names may be missing.
            partition: Replace the partitions with these values (of some or all partition columns),
                whether there are rows for them or not.
            dynamic: Without `partition`: replace only the partitions that there are rows for.
                None takes the option ``dynamic-partition-overwrite``; a table without partitions
                is replaced whole.
            commit_user, commit_identifier, properties, executor: As for `write`.

        Returns:
            The snapshot with the rows; None when there was nothing to replace, or when the commit
            of this number was made before.

        Raises:
            Invalid: The data does not fit the table, or lies outside the partition.
            Conflict, OutcomeUnknown: As `write`.
        """
        if partition is not None:
            data = with_partition(self._storage, arrow_table(data), partition)
        properties = _checked_properties(properties)
        number = CommitNumber.checked(self.name, commit_user, commit_identifier)
        wanted = WritePlan(self._storage, Replacement(partition, dynamic))
        if wanted.retries:
            # Some streams can be read but once.
            data = arrow_table(data)
        return until_no_conflict(
            wanted.retries,
            lambda: self._written(
                lambda: self._write_rows(wanted, data), number, properties, executor
            ),
        )

    def truncate(
        self,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Delete all rows as one commit.

        Args:
            commit_user, commit_identifier: As for `write`: rows that came after the commit of this
                number stay when it is repeated.
            properties: Free properties of the snapshot.

        Returns:
            The snapshot; None when the commit of this number was made before.
        """
        properties = _texts(properties)
        number = CommitNumber.checked(self.name, commit_user, commit_identifier)
        commit = self._new_commit(CommitOperation.TRUNCATE, user=commit_user)
        if number.last_committed(commit) is not None:
            return None
        whole = PartitionFilter.whole_table(self._storage)
        snapshot = commit.overwrite([], whole, identifier=number.identifier, properties=properties)
        self._kept_up(snapshot)
        return snapshot

    def drop_partitions(self, *partitions: Mapping[str, object]) -> Snapshot:
        """Delete all rows of some partitions as one commit.

        Args:
            partitions: Each names some or all partition columns; at least one.

        Raises:
            Invalid: A column is not a partition column, or a value is not of its type.
        """
        if not partitions or not all(partitions):
            raise Invalid(f"table {self.name}: name the partitions to drop by their values")
        replaced = PartitionFilter.static(self._storage, *partitions)
        snapshot = self._new_commit(CommitOperation.TRUNCATE).overwrite([], replaced)
        self._kept_up(snapshot)
        return snapshot

    def delete(
        self, where: str | Predicate, *, executor: Executor = THIS_PROCESS
    ) -> Snapshot | None:
        """Delete the rows for which a filter is true, as one commit.

        When another commit changes the same rows meanwhile, they are read again and the deletion
        is repeated, up to ``commit.max-retries`` times.

        Args:
            where: A SQL condition.
            executor: Runs the deletion's tasks; this process unless given.

        Returns:
            The snapshot made; None when no row matched.

        Raises:
            Invalid: The filter is not one, or the table ignores deletes.
            NotFound: A column of the filter does not exist.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: The commit may have happened.
        """
        predicate = self._predicate(where, self._storage)
        if predicate is None:
            raise Invalid(
                f"table {self.name}: say by a SQL condition which rows are to be deleted; "
                "truncate() deletes all"
            )
        watched = self._watched("deleting rows", executor)
        return self._kept_up(delete_from_table(self._storage, self.pointer, watched, predicate))

    def update(
        self,
        changes: Mapping[str, Assignment],
        *,
        where: str | Predicate | None = None,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Give some columns of the rows for which a filter is true new values, as one commit.

        In a primary-key table the changed rows are upserts, or, where these would not win over
        the stored ones, their files are rewritten. When another commit changes the same rows
        meanwhile, they are read again, up to ``commit.max-retries`` times.

        Args:
            changes: New values by column: constants, or expressions over the old row, of Arrow
                (``pc.field("amount") + 1``) or Polars (``pl.col("amount") * 2``).
            where: A SQL condition; all rows without one.
            executor: Runs the compaction that may be due then; this process unless given.

        Returns:
            The snapshot made; None when no row matched.

        Raises:
            Invalid: A value does not fit its column, or the column is part of the primary key.
            NotFound: A column does not exist.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: The commit may have happened.
        """
        predicate = self._predicate(where, self._storage)
        watched = self._watched("updating rows", executor)
        return self._kept_up(update_table(self._storage, self.pointer, watched, changes, predicate))

    def merge(
        self,
        source: TabularData,
        on: Sequence[str],
        *,
        when_matched: WhenMatched | None = "update",
        when_not_matched: Literal["insert"] | None = "insert",
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Merge rows into the table, as one commit.

        A row of the source matches the table's rows that are equal to it in the columns `on`; null
        equals nothing. When another commit changes the same rows meanwhile, they are matched again,
        up to ``commit.max-retries`` times.

        Args:
            source: Rows with some or all of the table's columns, those of `on` among them.
            on: The columns.
            when_matched: ``update`` gives the table's row the values of the source's columns and
                keeps the others, ``delete`` deletes it, None leaves it.
            when_not_matched: ``insert`` adds the source's rows that match none, None drops them.
            executor: Runs the compaction that may be due then; this process unless given.

        Returns:
            The snapshot made; None when there was nothing to change.

        Raises:
            Invalid: Several rows of the source match one row of the table, or the source does not
                fit the table, or an argument is not one of its values.
            NotFound: A column does not exist.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: The commit may have happened.
        """
        if when_matched not in ("update", "delete", None) or when_not_matched not in (
            "insert",
            None,
        ):
            raise Invalid(
                f"table {self.name}: when_matched is 'update', 'delete' or None, and "
                f"when_not_matched 'insert' or None, not {when_matched!r} and {when_not_matched!r}"
            )
        return self._kept_up(
            merge_into_table(
                self._storage,
                self.pointer,
                self._watched("merging rows", executor),
                arrow_table(source),
                given_names(on, "on"),
                when_matched,
                when_not_matched is not None,
            )
        )

    def upsert(self, data: TabularData, on: Sequence[str] | None = None) -> Snapshot | None:
        """Put rows in the place of those with equal keys, and add the others, as one commit.

        Args:
            data: As for `write`.
            on: The columns that are the key. A primary-key table has its own; a table without one
                needs them, keeps the values of columns that `data` lacks, and takes a key once.

        Returns:
            The snapshot made; None when there was nothing to change.

        Raises:
            Invalid: The key is missing or is not the table's; without a primary key, rows of the
                data have equal keys or null in one; or as `write` and `merge`.
            Conflict, OutcomeUnknown: As `write`.
        """
        keys = self.schema.primary_keys
        on = None if on is None else given_names(on, "on")
        if keys and (on is None or sorted(on) == sorted(keys)):
            return self.write(data)
        if keys:
            raise Invalid(
                f"table {self.name}: rows are upserted by its primary key ({', '.join(keys)}); "
                f"use merge to match rows by {', '.join(on or ())}"
            )
        if not on:
            raise Invalid(
                f"table {self.name} has no primary key: name the columns that rows are matched by, "
                "as in upsert(data, on=['id'])"
            )
        rows = arrow_table(data)
        known = [name for name in on if name in rows.column_names]
        if any(rows.column(name).null_count for name in known):
            raise Invalid(f"table {self.name}: rows to upsert have null in {', '.join(known)}")
        if len(known) == len(on) and rows.group_by(known).aggregate([]).num_rows < rows.num_rows:
            raise Invalid(
                f"table {self.name}: several rows to upsert have equal values in "
                f"{', '.join(known)}; leave one of each"
            )
        return self.merge(rows, on)


def _texts(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """A snapshot's properties; Invalid if they are not a mapping of text to text."""
    if properties is None:
        return {}
    if not isinstance(properties, Mapping):
        raise Invalid(
            f"write: properties is the {type(properties).__name__} {reprlib.repr(properties)}: "
            "give a mapping by text or None"
        )
    return given_texts(properties, "write: properties:")


def _checked_properties(properties: _Properties) -> _Properties:
    return properties if callable(properties) else _texts(properties)
