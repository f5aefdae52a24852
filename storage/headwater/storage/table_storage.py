"""A table as storage sees it: its files, its schema, and who decides its snapshots."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol, runtime_checkable

from headwater.storage.capabilities import QUERY_AUTH, Operation, refuse_options
from headwater.storage.errors import (
    CorruptData,
    Forbidden,
    HeadwaterError,
    NotFound,
    OutcomeUnknown,
    ResourceType,
    Unavailable,
    Unsupported,
)
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.withheld import WithheldFiles
from headwater.storage.options import is_true
from headwater.storage.recent import Recent
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.chain import chain_of
from headwater.storage.schema.option_changes import options_at
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import Json

__all__ = [
    "DEFAULT_TIMEOUT_MILLIS",
    "BranchPointers",
    "CommitAnswer",
    "Fate",
    "LongMemory",
    "PartitionStatistics",
    "RememberedCommits",
    "SnapshotPointer",
    "TablePresence",
    "TableStorage",
]

DEFAULT_TIMEOUT_MILLIS = 5_000
"""How long a catalog that does not answer is waited for, where no option sets it."""

# The lists of manifests of a few snapshots.
_RECENT = 9


@dataclass(frozen=True)
class PartitionStatistics:
    """The changes of a commit in one partition (``PartitionStatistics.java``); counts may be < 0.

    Attributes:
        spec: Column name to value as text.
        record_count: Rows added less rows deleted, before merging.
        file_size_in_bytes: Bytes added less bytes deleted.
        file_count: Files added less files deleted.
        last_file_creation_time: Milliseconds since the epoch.
        total_buckets: Buckets of the partition.
    """

    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    total_buckets: int

    def to_json(self) -> dict[str, Json]:
        """The wire form."""
        return {
            "spec": dict(self.spec),
            "recordCount": self.record_count,
            "fileSizeInBytes": self.file_size_in_bytes,
            "fileCount": self.file_count,
            "lastFileCreationTime": self.last_file_creation_time,
            "totalBuckets": self.total_buckets,
        }


class Fate(Enum):
    """The outcome for a snapshot that was to be a table's latest.

    Attributes:
        TAKEN: It is, or was, the latest.
        REFUSED: Another commit came first; this snapshot will never be taken.
        NOT_SENT: It did not reach the catalog: nothing happened.
        UNKNOWN: It was sent and no answer came; it may be taken, even now.
    """

    TAKEN = "taken"
    REFUSED = "refused"
    NOT_SENT = "not sent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CommitAnswer:
    """One answer to one try to commit a snapshot.

    Attributes:
        fate: The outcome of this attempt.
        problem: The reason that it is not known to be taken or refused; None when it is.
        retry_after: Seconds to wait before another try, if the other side said so.
    """

    fate: Fate
    problem: Unavailable | None = None
    retry_after: float | None = None

    @staticmethod
    def of(is_taken: bool) -> CommitAnswer:
        """Taken or refused."""
        return CommitAnswer(Fate.TAKEN if is_taken else Fate.REFUSED)

    @staticmethod
    def not_sent(problem: HeadwaterError, retry_after: float | None = None) -> CommitAnswer:
        """Nothing happened, for a reason that may pass."""
        return CommitAnswer(Fate.NOT_SENT, _as(Unavailable, problem), retry_after)

    @staticmethod
    def unknown(problem: HeadwaterError, retry_after: float | None = None) -> CommitAnswer:
        """It may have been taken."""
        return CommitAnswer(Fate.UNKNOWN, _as(OutcomeUnknown, problem), retry_after)

    def decided(self) -> bool:
        """True when it was taken, False when it was refused.

        Raises:
            Unavailable: It was not sent.
            OutcomeUnknown: Its fate is not known.
        """
        if self.problem is not None:
            raise self.problem
        return self.fate is Fate.TAKEN

    def __bool__(self) -> bool:
        """Refused: four answers are not two."""
        raise TypeError("a commit's answer is one of four: ask for its fate, or decided()")


def _as(kind: type[Unavailable], problem: HeadwaterError) -> Unavailable:
    if type(problem) is kind:
        return problem
    answer = kind(problem.message)
    answer.__cause__ = problem
    return answer


class SnapshotPointer(Protocol):
    """The owner of a table's latest snapshot: the catalog."""

    def latest(self) -> Snapshot | None:
        """The latest snapshot; None for a table without snapshots."""
        ...

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        """Try once to make `snapshot` the latest, if `base` still is.

        The same snapshot may be tried again, whatever the answer: one that was taken is taken.

        Raises:
            HeadwaterError: It was refused for another reason than a commit that came first.
        """
        ...

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        """Look once whether a snapshot was taken.

        Returns:
            True when it was, False when another has its id and None when none has yet.

        Raises:
            NotFound: There are later ones, and what had its id is gone (SNAPSHOT).
            HeadwaterError: It cannot be known now.
        """
        ...


@dataclass(frozen=True)
class RememberedCommits:
    """A user's commits to a table, of those that a catalog remembers.

    Attributes:
        identifier: The number of the last numbered one; None without one.
        is_unnumbered: Whether there are some, and all of them without a number.
        since: The catalog remembers every snapshot from this one to the latest; None if it may
            have missed some in between.
    """

    identifier: int | None = None
    is_unnumbered: bool = False
    since: int | None = None


@runtime_checkable
class LongMemory(Protocol):
    """A pointer that knows of commits without reading snapshots, expired ones included."""

    def commits_of(self, commit_user: str) -> RememberedCommits:
        """A user's commits."""
        ...


@runtime_checkable
class BranchPointers(Protocol):
    """A pointer that knows those of the table's other branches."""

    def of_branch(self, branch: str) -> SnapshotPointer:
        """The pointer of a branch."""
        ...


class TablePresence(Protocol):
    """Reports whether the catalog still has a table."""

    def require(self, *, waits: bool = True) -> None:
        """Look once for the table, by its id.

        Args:
            waits: Whether to wait for a catalog that cannot be reached.

        Raises:
            NotFound: It was dropped, whichever table has its name now (TABLE).
            HeadwaterError: It cannot be known now.
        """
        ...


@dataclass(frozen=True)
class TableStorage:
    """Everything that reading and writing a table's files needs.

    Attributes:
        name: The table's name in error messages, ``database.table``.
        layout: The locations of its files.
        files: Access to those files.
        schema: The schema in force, including options that the caller overrides.
        runtime: Clock and names.
        recent: The manifests that were read last, for `headwater.storage.scan.live`.
        sees_all: Whether the catalog was asked and shows this reader all rows and values.
        patience_millis: How long a catalog that does not answer is waited for.
        presence: Is asked when files cannot be read; None if nobody knows.
    """

    name: str
    layout: TableLayout
    files: FileAccess
    schema: TableSchema
    runtime: Runtime = SYSTEM_RUNTIME
    recent: Recent = field(default_factory=lambda: Recent(_RECENT), compare=False, repr=False)
    sees_all: bool = False
    patience_millis: int = DEFAULT_TIMEOUT_MILLIS
    presence: TablePresence | None = field(default=None, compare=False, repr=False)
    _schemas: dict[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)

    def schema_by_id(self, schema_id: int) -> TableSchema:
        """A version of the schema, from its file.

        Raises:
            CorruptData: The file is missing or malformed.
        """
        if schema_id == self.schema.id:
            return self.schema
        known = self._schemas.get(schema_id)
        if known is None:
            path = self.layout.schema(schema_id)
            try:
                known = TableSchema.from_json(self.files.read(path), path)
            except NotFound as error:
                raise CorruptData(
                    f"table {self.name} needs schema {schema_id}, but {path} does not exist"
                ) from error
            self._schemas[schema_id] = known
        return known

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot, from its file.

        Raises:
            NotFound: The snapshot expired or was never made.
        """
        path = self.layout.snapshot(snapshot_id)
        try:
            return Snapshot.from_json(self.files.read(path), path)
        except NotFound as error:
            raise NotFound(
                f"snapshot {snapshot_id} of table {self.name} does not exist: "
                "it expired or was never made",
                resource_type=ResourceType.SNAPSHOT,
                resource_name=str(snapshot_id),
            ) from error

    @contextmanager
    def reporting_drop(self) -> Generator[None]:
        """Report that the table was dropped, where that is why files cannot be read or written.

        Raises:
            NotFound: It was dropped (TABLE).
        """
        try:
            yield
        except HeadwaterError as error:
            if _may_lack_files(error) and not self._has_files(error):
                try:
                    self.check_dropped()
                except NotFound as dropped:
                    raise dropped from error
            raise

    def _has_files(self, error: HeadwaterError) -> bool:
        """Whether a service that is unavailable is another one than the table's storage."""
        if not isinstance(error, Unavailable):
            return False
        try:
            return self.files.exists(self.layout.schema(self.schema.id))
        except HeadwaterError:
            return False

    def check_dropped(self) -> None:
        """Find out whether files are missing because the table was dropped.

        Raises:
            NotFound: It was (TABLE).
        """
        if self.presence is None:
            return
        try:
            # A catalog that cannot be reached has been waited for already.
            self.presence.require(waits=False)
        except NotFound:
            raise
        except HeadwaterError:
            return  # what made the caller ask says more

    def refuse(self, operation: Operation) -> None:
        """Refuse an operation that one of the table's options forbids this engine.

        Raises:
            Unsupported: The message names the options and their values.
            Forbidden: The catalog may hide rows or values, and has not said that it hides none.
        """
        if isinstance(self.files, WithheldFiles):
            self.files.refuse()
        if not self.sees_all and is_true(self.schema.options, QUERY_AUTH):
            raise Forbidden(
                f"table {self.name} has {QUERY_AUTH}=true: its files are for readers whom the "
                "catalog shows all of it; read it with Table.scan of a catalog that was asked"
            )
        keyed = bool(self.schema.primary_keys)
        refuse_options(self.name, self.schema.options, operation, keyed=keyed)
        self.refuse_of_chain(operation)

    def refuse_of_chain(self, operation: Operation) -> None:
        """Refuse what a chain table allows in its branches alone; raises Unsupported."""
        refused = operation & (Operation.CHANGE | Operation.STREAM)
        if not refused:
            return
        chain = chain_of(self.layout.branch, self.schema)
        if chain is not None:
            raise Unsupported(
                f"Headwater does not {refused.verb} chain tables, and the rows of table "
                f"{self.name} are made of those of its branches {chain.snapshot_branch} and "
                f"{chain.delta_branch}; name one of them, as in t$branch_{chain.delta_branch}"
            )

    def at_schema(self, schema_id: int) -> TableStorage:
        """The same table as of a version of its schema, with the options that are in force now.

        Raises:
            CorruptData: The version's file is missing or malformed.
        """
        then = self.schema_by_id(schema_id)
        return self.with_schema(replace(then, options=options_at(self.schema, then)))

    def on_branch(self, branch: str, schema_id: int) -> TableStorage:
        """A branch of the same table, as of a version of the branch's schema.

        Raises:
            CorruptData: The version's file is missing or malformed.
        """
        layout = replace(self.layout, branch=branch)
        path = layout.schema(schema_id)
        try:
            schema = TableSchema.from_json(self.files.read(path), path)
        except NotFound as error:
            raise CorruptData(
                f"branch {branch} of table {self.name} needs schema {schema_id}, but {path} does "
                "not exist"
            ) from error
        return replace(self, layout=layout, schema=schema, recent=Recent(_RECENT), _schemas={})

    def with_schema(self, schema: TableSchema) -> TableStorage:
        """The same table with another schema in force."""
        return replace(self, schema=schema)


def _may_lack_files(error: HeadwaterError) -> bool:
    if isinstance(error, NotFound):
        return error.resource_type in (None, ResourceType.SNAPSHOT)
    return isinstance(error, CorruptData | Unavailable) and not isinstance(error, OutcomeUnknown)
