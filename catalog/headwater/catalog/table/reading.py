"""Reading a table through its handle: a snapshot's rows, and the changes between snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self

from headwater.catalog.model.access import ChangesAsked, ReadKind, ReadRequest
from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.table.between import Difference, between_arguments, between_options
from headwater.catalog.table.branch_scan import BranchScan, reads_branches
from headwater.catalog.table.chain_scan import ChainScan
from headwater.catalog.table.files import FileInfo, list_files
from headwater.catalog.table.history import millis_of
from headwater.catalog.table.partitioned import PartitionedTable
from headwater.catalog.table.scan import Changes, Scan
from headwater.catalog.table.served_rows import Served, ServedChanges, ServedScan, described
from headwater.catalog.table.served_stream import ServedStream
from headwater.storage.capabilities import Operation, unsupported_mode
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.predicate.filter import Predicate, parse_predicate
from headwater.storage.scan.appended_rows import updates_columns
from headwater.storage.scan.difference import plan_difference
from headwater.storage.scan.incremental import files_of_changes, plans_between
from headwater.storage.scan.past import first_snapshot_since, latest_compacted
from headwater.storage.scan.split import ScanPlan
from headwater.storage.scan.stream import changes_of
from headwater.storage.schema.chain import CHAIN_BRANCH_OPTIONS, chain_of
from headwater.storage.schema.other_branch import OTHER_BRANCH_OPTIONS, other_branch
from headwater.storage.schema.read_start import (
    IncrementalMode,
    ReadStart,
    StartMode,
    incremental_mode,
)
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["ReadableTable"]


@checks_arguments
class ReadableTable(PartitionedTable):
    """A table, to be read; `headwater.catalog.table.table.Table` adds writing."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | str | None = None,
        watermark: int | None = None,
        version: str | None = None,
    ) -> Scan:
        """Choose rows to read; ``to_arrow`` and the like read them.

        With a snapshot id, a tag and so on, the rows are those of that time, with the columns that
        the table had then; else those that the table's ``scan.…`` options ask for; else those of
        the latest snapshot.

        Partitions that ``scan.fallback-branch`` or ``scan.primary-branch`` says are another
        branch's are read from there, as of the same moment: a tag is the branch's own of that name
        if it has one, a snapshot's id stands for the time of its commit. So are those that a chain
        table's branches make up.

        Args:
            columns: The columns, in this order; None means all.
            where: A SQL condition, such as ``dt = '2026-01-01' AND amount > 10``.
            snapshot_id: As of this snapshot.
            tag: As of this tag.
            timestamp: As of this moment: milliseconds since the epoch, a ``datetime`` with a time
                zone, or ISO 8601 text with one.
            watermark: As of the first snapshot with at least this event-time watermark,
                milliseconds since the epoch.
            version: As of a tag, a snapshot's id or ``watermark-<milliseconds>``.

        Raises:
            NotFound: There is no such column, snapshot, tag or branch, or none at that moment any
                more.
            Invalid: `where` is not a condition, moments contradict each other, or two branches that
                are read as one differ in their columns.
        """
        arguments = (snapshot_id, tag, timestamp, watermark, version)
        if sum(item is not None for item in arguments) > 1:
            raise Invalid("give at most one of snapshot_id, tag, timestamp, watermark and version")
        if self._access.reader is not None:
            millis_or_none = None if timestamp is None else millis_of(timestamp)
            request = ReadRequest(
                snapshot_id=snapshot_id,
                tag=tag,
                timestamp=millis_or_none,
                watermark=watermark,
                version=version,
            )
            return self._served_scan(request, columns, where)
        moment = self._moment(snapshot_id, tag, timestamp, watermark, version)
        return self._scan_of_branches(moment, columns, where)

    def _moment(
        self,
        snapshot_id: int | None,
        tag: str | None,
        timestamp: int | datetime | str | None,
        watermark: int | None,
        version: str | None,
    ) -> ReadStart:
        """The moment that an argument of `scan` says, else the one of the table's options."""
        start = ReadStart.of(self.schema.options)
        moment = start
        if snapshot_id is not None:
            moment = ReadStart(StartMode.FROM_SNAPSHOT, "scan.snapshot-id", str(snapshot_id))
        elif tag is not None:
            moment = ReadStart(StartMode.FROM_SNAPSHOT, "scan.tag-name", tag)
        elif timestamp is not None:
            millis = str(millis_of(timestamp))
            moment = ReadStart(StartMode.FROM_TIMESTAMP, "scan.timestamp-millis", millis)
        elif watermark is not None:
            moment = ReadStart(StartMode.FROM_SNAPSHOT, "scan.watermark", str(watermark))
        elif version is not None:
            moment = ReadStart(StartMode.FROM_SNAPSHOT, "scan.version", version)
        if moment is not start and start.key is not None:
            raise Invalid(
                f"table {self.name}: the option {start.key}={start.value} says what is read; "
                "leave it out, or the argument"
            )
        return moment

    def _scan_of_branches(
        self, moment: ReadStart, columns: Sequence[str] | None, where: str | Predicate | None
    ) -> Scan:
        """The rows of a moment, with those of the branches that make up the table with this one."""
        chain = chain_of(self._storage.layout.branch, self.schema)
        if chain is not None:
            branches = self.branch(chain.snapshot_branch), self.branch(chain.delta_branch)
            own, (whole, delta) = self._scan_with(branches, moment, columns, where)
            return BranchScan(own, ChainScan(whole, delta, chain), is_other_first=False)
        other = other_branch(self.name, self._storage.layout.branch, self.schema)
        if other is None:
            return self._scan_from(moment, columns, where)
        branch, is_first = other
        own, (others,) = self._scan_with([self.branch(branch)], moment, columns, where)
        return BranchScan(own, others, is_other_first=is_first)

    def _scan_with(
        self,
        others: Sequence[Self],
        moment: ReadStart,
        columns: Sequence[str] | None,
        where: str | Predicate | None,
    ) -> tuple[Scan, Sequence[Scan]]:
        """The rows of this branch and those of some others, as of one moment."""
        if moment.mode in (StartMode.FROM_FILE_CREATION_TIME, StartMode.FROM_CREATION_TIMESTAMP):
            raise Invalid(
                f"table {self.name}: {moment.key} does not say which partitions a branch has; "
                f"unset it, or {' and '.join(OTHER_BRANCH_OPTIONS + CHAIN_BRANCH_OPTIONS)}"
            )
        try:
            own = self._scan_from(moment, columns, where)
        except NotFound as error:
            if moment.mode is not StartMode.FROM_TIMESTAMP or not _is_of_snapshot(error):
                raise
            # It may have begun later than the others.
            own = self._scan_nothing(columns, where)
            scans = [other._scan_as_of(None, moment, columns, where) for other in others]
            if all(scan.snapshot is None for scan in scans):
                raise
            return own, scans
        return own, [other._scan_as_of(own.snapshot, moment, columns, where) for other in others]

    def _scan_as_of(
        self,
        snapshot: Snapshot | None,
        moment: ReadStart,
        columns: Sequence[str] | None,
        where: str | Predicate | None,
    ) -> Scan:
        """This branch's rows at a moment of another, of which the moment chose a snapshot."""
        if moment.mode is StartMode.FROM_SNAPSHOT and moment.key in (
            "scan.tag-name",
            "scan.version",
        ):
            try:
                return self._scan_of(self.tag(moment.value).snapshot, columns, where)
            except NotFound as error:
                if error.resource_type is not ResourceType.TAG:
                    raise
        by_time = moment.key in ("scan.snapshot-id", "scan.tag-name", "scan.version")
        if moment.mode is not StartMode.FROM_TIMESTAMP and not by_time:
            return self._scan_from(moment, columns, where)
        try:
            if by_time and snapshot is not None:
                return self._scan_of(self.snapshot_at(snapshot.time_millis), columns, where)
            return self._scan_from(moment, columns, where)
        except NotFound as error:
            if not _is_of_snapshot(error):
                raise
            return self._scan_nothing(columns, where)

    def _scan_nothing(self, columns: Sequence[str] | None, where: str | Predicate | None) -> Scan:
        return Scan(self._storage, None, columns, self._predicate(where, self._storage))

    def _scan_from(
        self, start: ReadStart, columns: Sequence[str] | None, where: str | Predicate | None
    ) -> Scan:
        """The rows that the table's options ask for."""
        match start.mode:
            case StartMode.FROM_SNAPSHOT | StartMode.FROM_SNAPSHOT_FULL:
                return self._scan_of(self._named_snapshot(start), columns, where)
            case StartMode.FROM_TIMESTAMP:
                moment = start.time_millis(self._runtime.time_zone)
                return self._scan_of(self.snapshot_at(moment), columns, where)
            case StartMode.FROM_FILE_CREATION_TIME:
                return self._scan_now(columns, where, created_since=start.integer())
            case StartMode.FROM_CREATION_TIMESTAMP:
                return self._scan_since_creation(start.integer(), columns, where)
            case StartMode.COMPACTED_FULL:
                latest = self.pointer.latest()
                compacted = latest_compacted(self._storage, latest)
                return Scan(
                    self._storage, compacted, columns, self._predicate(where, self._storage)
                )
            case StartMode.INCREMENTAL:
                raise Invalid(
                    f"table {self.name}: {start.key}={start.value} asks for changes, which "
                    "Table.changes reads"
                )
        return self._scan_now(columns, where)

    def _named_snapshot(self, start: ReadStart) -> Snapshot:
        match start.key:
            case "scan.tag-name":
                return self.tag(start.value).snapshot
            case "scan.watermark":
                return self.snapshot_at_watermark(start.integer())
            case "scan.version":
                return self.snapshot_version(start.value)
        return self.snapshot(start.integer())

    def _scan_of(
        self, snapshot: Snapshot, columns: Sequence[str] | None, where: str | Predicate | None
    ) -> Scan:
        storage = self._storage
        if snapshot.schema_id != storage.schema.id:
            storage = storage.at_schema(snapshot.schema_id)
        return Scan(storage, snapshot, columns, self._predicate(where, storage))

    def _scan_now(
        self,
        columns: Sequence[str] | None,
        where: str | Predicate | None,
        *,
        created_since: int | None = None,
    ) -> Scan:
        predicate = self._predicate(where, self._storage)
        latest = self.pointer.latest()
        return Scan(self._storage, latest, columns, predicate, created_since=created_since)

    def _scan_since_creation(
        self, millis: int, columns: Sequence[str] | None, where: str | Predicate | None
    ) -> Scan:
        """The first snapshot at or after a moment; files since then when none is known to be."""
        first = first_snapshot_since(self._storage, self.pointer.latest(), millis)
        if first is not None:
            return self._scan_of(first, columns, where)
        return self._scan_now(columns, where, created_since=millis)

    def changes(
        self,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
        *,
        mode: str = IncrementalMode.AUTO,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        skip_overwrites: bool = False,
        row_kinds: bool = True,
    ) -> Changes:
        """Choose what the snapshots after `since`, up to and with `until`, changed.

        The rows bear a column ``_ROW_KIND``. Those of a primary-key table are what was written,
        ``+I`` for inserts and updates alike, unless its ``changelog-producer`` tells more. The mode
        ``diff`` compares the two snapshots instead: it gives each key whose row differs once, and
        a key that is gone as ``-D``.

        Args:
            since: A snapshot's id, 0 for the beginning; the name of a tag; or a moment, up to
                which snapshots are left out. None takes all from the table's ``incremental-…``
                options, with overwrites skipped.
            until: Likewise, of the same kind; None for the latest snapshot.
            mode: ``delta``: the rows that commits of new rows added; ``changelog``: the table's
                changelog files; ``auto``: the changelog if the table keeps one, but between two
                tags the difference; ``diff``.
            columns: The columns, in this order; None means all.
            where: A SQL condition; each change is judged for itself.
            skip_overwrites: Leave out what overwrites changed, as Paimon does: they say which
                files went, and not which rows, unless there is a changelog. Deleting from an append
                table is an overwrite.
            row_kinds: False leaves out the column and the rows that retract.

        Raises:
            NotFound: A snapshot or tag does not exist, or has expired.
            Invalid: The mode is none, or start and end are not of one kind or in this order.
            Unsupported: There is an overwrite among the snapshots, and it is not to be skipped; or
                the difference cannot be known.
        """
        chosen = incremental_mode(mode)
        self._storage.refuse_of_chain(Operation.STREAM)
        if self._access.reader is not None:
            asked = _changes_asked(since, until, chosen, skip_overwrites, row_kinds)
            return self._served_changes(asked, columns, where)
        storage = self._storage
        predicate = self._predicate(where, storage)
        if since is None:
            if until is not None:
                raise Invalid("say since what the changes are wanted, not only until what")
            between = between_options(self, chosen)
            skip_overwrites = True
        else:
            between = between_arguments(self, since, until, chosen)
        plans: list[ScanPlan] = []
        source = files_of_changes(storage.schema, chosen)
        if isinstance(between, Difference):
            source = IncrementalMode.DIFF
            plans = [plan_difference(storage, between.before, between.after, predicate=predicate)]
        elif between is not None:
            latest = self.pointer.latest()
            source = files_of_changes(storage.schema, between.mode)
            plans = list(
                plans_between(
                    storage,
                    between.since,
                    between.until,
                    latest,
                    source,
                    with_overwrites=not skip_overwrites and self._gives_overwrites(),
                    predicate=predicate,
                )
            )
            if not skip_overwrites and not self._gives_overwrites():
                told = source is IncrementalMode.CHANGELOG
                self._refuse_overwrites(between.since, between.until, told=told)
        return Changes(storage, plans, columns, predicate, row_kinds=row_kinds, source=source)

    # Where a server reads -----------------------------------------------------------------------

    def _served_scan(
        self,
        request: ReadRequest,
        columns: Sequence[str] | None,
        where: str | Predicate | None,
    ) -> ServedScan:
        """Rows that the server reads, as policies restrict what this program sees."""
        served = self._served(request)
        storage, told = described(self._storage, served)
        snapshot = None
        if told.snapshot_id is not None:
            snapshot = self.snapshot(told.snapshot_id)
            if not reads_branches(self._storage):
                served = served.pinned(snapshot.id, storage.schema.id, told.policies)
        return ServedScan(served, storage, snapshot, columns, self._predicate(where, storage))

    def _served_changes(
        self, asked: ChangesAsked, columns: Sequence[str] | None, where: str | Predicate | None
    ) -> ServedChanges:
        """Changes that the server reads, as policies restrict what this program sees."""
        served = self._served(ReadRequest(kind=ReadKind.CHANGES, changes=asked))
        storage, _ = described(self._storage, served)
        predicate = self._predicate(where, storage)
        return ServedChanges(served, storage, columns, predicate, row_kinds=asked.row_kinds)

    def served_stream(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        row_kinds: bool = True,
    ) -> ServedStream:
        """A stream that the server reads, of a table whose files are withheld from this program.

        Args:
            columns: The columns, in this order; None means all.
            where: A condition for the changes, over the values that are shown.
            row_kinds: False without the column ``_ROW_KIND``, and the rows that retract.

        Raises:
            Invalid: The files are not withheld; or the condition is none.
        """
        if self._access.reader is None:
            raise Invalid(f"table {self.name}: you read its files yourself, and no server does")
        served = self._served(ReadRequest())
        predicate = self._predicate(where, self._storage)
        return ServedStream(served, self._storage, columns, predicate, row_kinds=row_kinds)

    def _served(self, request: ReadRequest) -> Served:
        reader = self._access.reader
        assert reader is not None, "only a server restricts"
        return Served(reader, replace(request, options=self._overlay))

    def _gives_overwrites(self) -> bool:
        options = self.schema.table_options
        return not self.schema.primary_keys and options.streaming_read_append_overwrite

    def _refuse_overwrites(self, since: int, until: int, *, told: bool) -> None:
        """Refuse overwrites, but for those that a changelog tells of, if that is read."""
        for snapshot_id in range(since + 1, until + 1):
            found = changes_of(self._storage, snapshot_id)
            if self.schema.table_options.evolves_columns and updates_columns(self._storage, found):
                raise unsupported_mode(
                    "new values among changes",
                    f"table {self.name}: snapshot {snapshot_id} gave columns of older rows new "
                    "values",
                )
            if found.commit_kind is CommitKind.OVERWRITE and not (
                told and found.changelog_manifest_list is not None
            ):
                raise unsupported_mode(
                    "overwrite among changes",
                    f"table {self.name}: snapshot {snapshot_id} is an overwrite",
                )

    def _predicate(self, where: str | Predicate | None, storage: TableStorage) -> Predicate | None:
        if isinstance(where, str):
            return parse_predicate(where, storage.schema)
        if where is None or isinstance(where, Predicate):
            return where
        raise Invalid(
            f'table {self.name}: a filter is a SQL condition such as "amount > 10", not a '
            f"{type(where).__module__}.{type(where).__qualname__}; expressions of Polars go to "
            "scan().lazy().filter(...)"
        )

    def files(self, *, snapshot_id: int | None = None) -> list[FileInfo]:
        """The data files of the latest snapshot, or of another."""
        snapshot = self.pointer.latest() if snapshot_id is None else self.snapshot(snapshot_id)
        return [] if snapshot is None else list_files(self._storage, snapshot)


def _changes_asked(
    since: int | str | datetime | None,
    until: int | str | datetime | None,
    mode: IncrementalMode,
    skip_overwrites: bool,
    row_kinds: bool,
) -> ChangesAsked:
    """The arguments of `ReadableTable.changes` as a server takes them; raises Invalid."""
    by_time = isinstance(since, datetime)
    if until is not None and (since is None or by_time is not isinstance(until, datetime)):
        raise Invalid(
            f"changes since {since!r} until {until!r}: give two snapshot ids, two tags or two "
            "moments"
        )
    return ChangesAsked(
        millis_of(since) if isinstance(since, datetime) else since,
        millis_of(until) if isinstance(until, datetime) else until,
        by_time,
        mode.value,
        skip_overwrites,
        row_kinds,
    )


def _is_of_snapshot(error: NotFound) -> bool:
    return error.resource_type is ResourceType.SNAPSHOT
