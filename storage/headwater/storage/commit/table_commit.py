"""Make written files part of a table, as one new snapshot, exactly once.

A commit re-reads the latest snapshot, checks that it still fits, writes manifests, and has the
snapshot decided (see `fate`). When another commit came first it starts over; when it cannot find
out whether its own was taken, it keeps every file. Source:
``FileStoreCommitImpl.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from headwater.storage.commit.attempt import Attempt, checked_snapshots
from headwater.storage.commit.chain_commits import ChainCommits, written_in
from headwater.storage.commit.checks import changes_between
from headwater.storage.commit.conflicts import check_fit, latest_schema
from headwater.storage.commit.entries import (
    PartitionFilter,
    append_entries,
    changelog_entries,
    compact_entries,
    partition_statistics,
    upgraded,
)
from headwater.storage.commit.fate import Patience, commit_snapshot
from headwater.storage.commit.index_changes import IndexChanges
from headwater.storage.commit.late_rows import LateRows
from headwater.storage.commit.message_files import (
    delete_data_files,
    delete_message_files,
    written_names,
)
from headwater.storage.commit.new_snapshot import new_snapshot
from headwater.storage.commit.own_history import BATCH_IDENTIFIER, CommittedUpTo, OwnHistory
from headwater.storage.commit.row_ids import assign_row_ids
from headwater.storage.commit.sequence_numbers import numbered_by_snapshot
from headwater.storage.commit.strict_mode import StrictMode
from headwater.storage.errors import (
    Conflict,
    CorruptData,
    HeadwaterError,
    Invalid,
    OutcomeUnknown,
    Unavailable,
)
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import (
    ManifestFile,
    write_manifest_list,
    write_manifests,
)
from headwater.storage.manifest.merge import merge_manifests
from headwater.storage.scan.live import manifests_of
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.files import FileSnapshotPointer
from headwater.storage.snapshot.invariants import check_invariants
from headwater.storage.snapshot.snapshot import (
    CommitKind,
    CommitOperation,
    Snapshot,
    SnapshotIdentity,
)
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["BATCH_IDENTIFIER", "CommittedUpTo", "OutcomeUnknown", "TableCommit"]


class TableCommit:
    """Commits to one table on behalf of one user.

    Args:
        storage: The table.
        pointer: Decides which snapshot is the latest.
        commit_user: One id for each writing job; together with a growing identifier it lets a job
            find its commits again.
        in_chain: False if the caller sees to it that overwrites of a chain table's branches leave
            its partitions whole.
        begins_chains: Partitions of a chain table's changes, serialised, that need no whole ones
            before them without any.
        operation: The statement whose rows are committed; None for writes and overwrites.
    """

    def __init__(
        self,
        storage: TableStorage,
        pointer: SnapshotPointer,
        commit_user: str,
        *,
        in_chain: bool = True,
        begins_chains: frozenset[bytes] = frozenset(),
        operation: CommitOperation | None = None,
    ) -> None:
        self._storage = storage
        self._pointer = pointer
        self._user = commit_user
        self._operation = operation
        self._options = storage.schema.table_options
        self._own = OwnHistory(storage, pointer, commit_user)
        self._strict = StrictMode.of(storage, commit_user)
        self._chain = ChainCommits.of(storage, pointer, begins_chains) if in_chain else None
        # Files of commits that certainly did not happen, as the catalog was out of reach.
        self._unsent: set[str] = set()

    @property
    def storage(self) -> TableStorage:
        """The table."""
        return self._storage

    @property
    def pointer(self) -> SnapshotPointer:
        """The authority on the latest snapshot."""
        return self._pointer

    # Committing -------------------------------------------------------------------------------

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        identifier: int = BATCH_IDENTIFIER,
        kind: CommitKind | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        unchanged_since: SnapshotIdentity | None = None,
    ) -> Snapshot | None:
        """Commit what writers did.

        New files become an APPEND snapshot, compactions and index files that change no row a
        COMPACT one. With kind OVERWRITE both
        may be given: the snapshot replaces files by others. New deletion vectors without a
        compaction delete rows, which makes an OVERWRITE snapshot, too.

        Args:
            messages: The results of writers.
            identifier: The user's number of this commit.
            kind: None or OVERWRITE.
            watermark: Event time, milliseconds since the epoch.
            properties: Free properties of the snapshot.
            allow_empty: Make a snapshot of a commit without files, too.
            unchanged_since: Refuse when a snapshot after this one changed rows of the same
                buckets, or this one was rolled back.

        Returns:
            The snapshot made; None when there was nothing to commit. When another attempt of the
            user at the same numbered commit comes first, that one's, or a later one of the user;
            the messages' files are deleted then.

        Raises:
            Invalid: New files and compactions are mixed.
            Conflict: Another commit changed what this one builds on, or was faster each time.
            OutcomeUnknown: The commit may have happened; keep the files.
            HeadwaterError: The commit did not happen. The messages' files are still there: give
                them to `abort`.
        """
        added, compacted = append_entries(messages), compact_entries(messages)
        changelog = changelog_entries(messages)
        indexes = IndexChanges.from_messages(self._storage, messages)
        if kind is CommitKind.OVERWRITE:
            added, compacted = [*added, *compacted], []
        elif kind is not None:
            raise Invalid(f"a commit is of kind OVERWRITE or of its messages' kind, not {kind}")
        elif compacted and added:
            # Two snapshots would be two outcomes, and one answer could not tell both.
            raise Invalid("commit new files and compactions separately")
        elif compacted:
            kind = CommitKind.COMPACT
        elif indexes.deletes_rows:
            kind = CommitKind.OVERWRITE
        elif indexes.named and not (added or changelog):
            # Hash indexes alone: no row changes.
            kind = CommitKind.COMPACT
        if not (added or changelog or compacted or indexes.named or allow_empty):
            return None
        changes = added or compacted
        operation = None if kind is CommitKind.COMPACT else self._operation
        if operation is None and kind is None:
            operation = CommitOperation.WRITE
        # A deletion is refused, and an overwrite replaces the others' rows.
        is_late_possible = bool(
            added
            and kind is None
            and unchanged_since is None
            and self._storage.schema.primary_keys
            and not self._options.orders_by_snapshot
        )
        return self._commit(
            Attempt(
                lambda _: changes,
                changelog,
                identifier,
                kind or CommitKind.APPEND,
                watermark,
                dict(properties or {}),
                unchanged_since,
                indexes,
                messages=messages,
                operation=operation,
                late_rows=LateRows(self._storage) if is_late_possible else None,
            )
        )

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        replaced: PartitionFilter,
        *,
        identifier: int = BATCH_IDENTIFIER,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        unchanged_since: SnapshotIdentity | None = None,
    ) -> Snapshot:
        """Replace all files of some partitions.

        Args:
            messages: The results of writers, all within those partitions.
            replaced: The partitions to replace.
            identifier: The user's number of this commit.
            watermark: Event time, milliseconds since the epoch.
            properties: Free properties of the snapshot.
            unchanged_since: Refuse when a snapshot after this one changed rows of what is replaced,
                or this one was rolled back.

        Raises:
            Invalid: A message lies outside the partitions.
            Conflict, OutcomeUnknown, HeadwaterError: As `commit`.
        """
        for message in messages:
            if not message.is_beside and not replaced.includes(message.partition):
                raise Invalid(
                    f"table {self._storage.name}: rows lie outside {replaced}, which is to be "
                    "overwritten"
                )
        beside = [message for message in messages if message.is_beside]
        within = [message for message in messages if not message.is_beside]
        added = [*upgraded(self._storage, append_entries(within)), *append_entries(beside)]

        def changes(base: Snapshot | None) -> Sequence[ManifestEntry]:
            if base is None:
                return added
            present = live_entries(self._storage, base, partitions=replaced.partitions)
            old = [entry for entry in present if replaced.includes(entry.partition)]
            return [*(_deleted(entry) for entry in old), *added]

        snapshot = self._commit(
            Attempt(changes, (), identifier, CommitKind.OVERWRITE, watermark,
                     dict(properties or {}), unchanged_since,
                     IndexChanges.from_messages(self._storage, messages, replaced),
                     messages=messages,
                     operation=self._operation or CommitOperation.OVERWRITE)
        )  # fmt: skip
        for message in messages:
            # As in Paimon an overwrite has no changelog.
            delete_data_files(self._storage, message, message.changelog_files)
        return snapshot

    def truncate(self, *, identifier: int = BATCH_IDENTIFIER) -> Snapshot:
        """Replace all files by none, their indexes included; earlier snapshots keep them.

        Raises:
            Conflict, OutcomeUnknown, HeadwaterError: As `commit`.
        """

        def changes(base: Snapshot | None) -> Sequence[ManifestEntry]:
            present = () if base is None else live_entries(self._storage, base)
            return [_deleted(entry) for entry in present]

        return self._commit(
            Attempt(changes, (), identifier, CommitKind.OVERWRITE, None, {}, None,
                     IndexChanges(
                         self._storage, replaced=PartitionFilter.whole_table(self._storage)
                     ),
                     operation=CommitOperation.TRUNCATE)
        )  # fmt: skip

    def analyze(
        self, statistics: str, of: Snapshot, *, identifier: int = BATCH_IDENTIFIER
    ) -> Snapshot:
        """Have the table carry statistics; no data changes.

        Args:
            statistics: The name of the statistics file, which was written before.
            of: The snapshot whose rows they describe.
            identifier: The user's number of this commit.

        Raises:
            Conflict, OutcomeUnknown, HeadwaterError: As `commit`; the file is kept.
        """
        return self._commit(
            Attempt(lambda _: (), (), identifier, CommitKind.ANALYZE, None, {}, None,
                     IndexChanges.from_messages(self._storage, ()), read_from=of.identity,
                     statistics=statistics)
        )  # fmt: skip

    def committed_up_to(self) -> CommittedUpTo:
        """The user's last commit: of those whose snapshots expired the catalog tells, if it can."""
        return self._own.up_to_now()

    def filter_committed(self, identifiers: Sequence[int]) -> list[int]:
        """The identifiers that are still to be committed.

        A user's identifiers grow from commit to commit, so everything up to the last one in the
        table's history is done. When all of the user's snapshots have expired, and the catalog is
        not one that remembers them, everything is still to be done; `committed_up_to` tells that
        case apart.
        """
        last = self.committed_up_to().identifier
        return [number for number in identifiers if last is None or number > last]

    def has_committed(self, identifier: int) -> bool:
        """Whether the user's commit of a number was made before, see `filter_committed`."""
        return not self.filter_committed([identifier])

    def abort(self, messages: Sequence[CommitMessage], *, is_certain: bool = False) -> None:
        """Delete the files of messages that were not, and will not be, committed.

        Files that the table has all the same, and files of which that cannot be found out, stay.
        Of a commit that this object made and never sent, the table's own files tell: the catalog
        was waited for in vain already.

        Args:
            messages: The messages.
            is_certain: Whether a commit is known to be refused. Then packs of BLOBs go,
                too, of which the table's files do not tell that no row needs one: compactions move
                what refers to them.
        """
        pointer: SnapshotPointer = self._pointer
        if self._unsent.issuperset(written_names(messages)):
            pointer = FileSnapshotPointer(self._storage.files, self._storage.layout)
        try:
            used = self._used(messages, pointer.latest())
        except HeadwaterError:
            return
        keeps_packs = not is_certain or not used.isdisjoint(written_names(messages))
        for message in messages:
            delete_message_files(self._storage, message, keep=used, keeps_packs=keeps_packs)

    def _used(self, messages: Sequence[CommitMessage], latest: Snapshot | None) -> set[str]:
        """Names of the files that the table has, or had after the messages were written."""
        if latest is None:
            return set()
        partitions = list({message.partition for message in messages})
        entries = list(live_entries(self._storage, latest, partitions=partitions))
        indexes = index_entries(self._storage, latest)
        checked = checked_snapshots(messages)
        if checked:
            for snapshot, changed in changes_between(self._storage, checked[0], latest) or []:
                entries += changed
                if any(message.new_index_files for message in messages):
                    indexes += index_entries(self._storage, snapshot)
        names = {name for entry in entries for name in entry.file.names}
        return names | {entry.index_file.file_name for entry in indexes}

    # One attempt after another ----------------------------------------------------------------

    def _commit(self, attempt: Attempt) -> Snapshot:
        names = written_names(attempt.messages)
        self._unsent -= names
        retries = 0
        patience = Patience.with_others(self._storage)
        try:
            while True:
                base = self._pointer.latest()
                done = self._own.repeated(base, attempt.identifier, attempt.kind)
                if done is not None:
                    self._give_up(attempt)
                    return done
                try:
                    snapshot = self._try(attempt, base)
                except CorruptData:
                    if self._pointer.latest() == base:
                        raise
                    # The snapshot expired while it was being built upon.
                    snapshot = None
                if snapshot is not None:
                    self._own.add(snapshot)
                    if self._strict is not None:
                        self._strict.add(snapshot)
                    if attempt.late_rows is not None:
                        attempt.late_rows.delete_replaced()
                    self._follow(snapshot, attempt)
                    return snapshot
                if retries >= self._options.commit_max_retries or not patience.wait():
                    raise Conflict(
                        f"table {self._storage.name}: other commits came first {retries + 1} times "
                        "in a row; try again later, or raise 'commit.max-retries' or "
                        "'commit.timeout'"
                    )
                retries += 1
        except OutcomeUnknown:
            raise
        except HeadwaterError as error:
            self._delete_written(attempt)
            if not isinstance(error, Unavailable):
                raise
            self._unsent |= names
            raise Unavailable(
                f"table {self._storage.name}: nothing was committed: {error.message}"
            ) from error

    def _follow(self, snapshot: Snapshot, attempt: Attempt) -> None:
        """Drop what an overwrite of a chain table's changes makes wrong; an error is logged."""
        if self._chain is None:
            return
        dropped: frozenset[bytes] = frozenset()
        try:
            delta = attempt.delta or ()
            dropped = self._chain.follow(snapshot, delta)
            if dropped:
                storage, pointer = self._chain.whole_branch()
                whole = TableCommit(storage, pointer, self._user, begins_chains=written_in(delta))
                whole.overwrite([], PartitionFilter(storage, dropped))
        except HeadwaterError as error:
            self._chain.tell(dropped, error)

    def _delete_written(self, attempt: Attempt) -> None:
        """Delete what was written for a commit that certainly did not happen, but for its rows."""
        self._discard(attempt.written)
        attempt.indexes.discard()
        if attempt.late_rows is not None:
            attempt.late_rows.delete_written()

    def _give_up(self, attempt: Attempt) -> None:
        """Leave no file of an attempt whose rows another attempt has committed."""
        self._delete_written(attempt)
        self.abort(attempt.messages)

    def _try(self, attempt: Attempt, base: Snapshot | None) -> Snapshot | None:
        """One attempt on top of `base`; None when another commit came first."""
        schema = latest_schema(self._storage, base)
        delta = attempt.changes(base)
        if self._chain is not None:
            self._chain.check(attempt.kind, base, delta)
        if self._strict is not None:
            self._strict.check(attempt, base, delta)
        unseen = check_fit(self._storage, attempt, base, delta, schema)
        if attempt.late_rows is not None and unseen:
            delta = attempt.late_rows.renumbered(delta, unseen)
            attempt.changes = lambda _: delta
        delta, next_row_id = assign_row_ids(self._options, base, delta)
        delta = numbered_by_snapshot(self._options, base, attempt.kind, delta)
        before = [] if base is None else manifests_of(self._storage, base)
        merged = merge_manifests(self._storage, before)
        known = {manifest.file_name for manifest in before}
        scrap = [m.file_name for m in merged if m.file_name not in known]
        attempt.written += scrap
        base_list = self._write_list(attempt, merged)
        if attempt.delta is None or list(attempt.delta) != list(delta):
            self._forget(attempt, [manifest.file_name for manifest in attempt.delta_files])
            attempt.delta = delta
            attempt.delta_files = write_manifests(self._storage, delta)
            attempt.written += [manifest.file_name for manifest in attempt.delta_files]
        delta_list = self._write_list(attempt, attempt.delta_files)
        changelog_list: tuple[str, int] | None = None
        if attempt.changelog:
            if attempt.changelog_files is None:
                attempt.changelog_files = write_manifests(self._storage, attempt.changelog)
                attempt.written += [m.file_name for m in attempt.changelog_files]
            changelog_list = self._write_list(attempt, attempt.changelog_files)
        index_manifest = attempt.indexes.manifest(base)
        snapshot = new_snapshot(
            self._storage,
            self._user,
            attempt,
            base,
            delta,
            schema.id,
            base_list,
            delta_list,
            changelog_list,
            index_manifest,
            next_row_id,
        )
        check_invariants(base, snapshot)
        statistics = partition_statistics(self._storage, delta)
        if commit_snapshot(self._storage, self._pointer, snapshot, base, statistics):
            return snapshot
        lists = [base_list, delta_list, *([] if changelog_list is None else [changelog_list])]
        self._forget(attempt, [*scrap, *(name for name, _ in lists)])
        return None

    def _write_list(self, attempt: Attempt, files: Sequence[ManifestFile]) -> tuple[str, int]:
        written = write_manifest_list(self._storage, files)
        attempt.written.append(written[0])
        return written

    def _forget(self, attempt: Attempt, names: Sequence[str]) -> None:
        self._discard(names)
        attempt.written = [name for name in attempt.written if name not in names]

    def _discard(self, names: Sequence[str]) -> None:
        """Delete manifests of a commit that certainly did not happen."""
        for name in names:
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                self._storage.files.delete(self._storage.layout.manifest(name))


def _deleted(entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry(
        FileKind.DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file
    )
