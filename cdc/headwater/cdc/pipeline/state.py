"""The state of pipelines, in a table of the lake: what each has planned, and where its tables are.

A batch is planned before its rows are committed. The plan is one numbered commit, so that of two
processes that run one pipeline, or of one that was killed, all go by the same plan: `record`
returns the one that counts.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, Self, TypeVar

import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter, ValidationError

from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.pipeline.settings import commit_user
from headwater.client import Lake
from headwater.storage.errors import Conflict, CorruptData, Invalid, Unavailable
from headwater.storage.predicate.tree import Comparison
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.types.data_type import DataType, parse_type, type_json

__all__ = [
    "STATE_TABLE",
    "Backlog",
    "BatchPlan",
    "ColumnState",
    "PipelineState",
    "Reading",
    "TablePhase",
    "TableState",
]

STATE_TABLE = "cdc_state"
"""The name of the state table, which all pipelines into a database share."""

_SCHEMA = pa.schema(
    [
        pa.field("pipeline", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
        ("value", pa.string()),
    ]
)
_KEYS = ("pipeline", "item")
# Each batch commits a few rows: a compaction costs as much as their commit.
_OPTIONS = {"bucket": "1", "num-sorted-run.compaction-trigger": "20"}
_PLAN = "plan"
_TABLE = "table:"
_SETTINGS, _REQUEST, _LOG_FILE, _TAGGED = "settings", "request:", "log-file", "tagged"
_PROCESS = "cdc.process"
_NOT_OF_PLANS = (_SETTINGS, _REQUEST, _LOG_FILE, _TAGGED)

_COMPACT = CommitKind.COMPACT

# Stored values are read by later versions and, after a downgrade, by earlier ones.
_STRICT = ConfigDict(extra="forbid", strict=True)

T = TypeVar("T")


class TablePhase(StrEnum):
    """What a pipeline does with a table."""

    SNAPSHOT = "snapshot"
    """Its rows are read for the first time, while changes are applied."""
    STREAMING = "streaming"
    """Its changes are applied."""
    REREADING = "rereading"
    """Its rows are read again after a change without row events, while changes are applied."""
    QUARANTINED = "quarantined"
    """Nothing is applied until it catches up or is read again."""
    CATCHING_UP = "catching-up"
    """It was quarantined, and its changes since then are read and applied part by part."""
    GONE = "gone"
    """The source does not have it any more; the lake's table stays."""


@dataclass(frozen=True)
class ColumnState:
    """A column of the source, see `SourceColumn`.

    Attributes:
        type: Its type in the lake as SQL writes it; that of an array as JSON.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    source_type: str
    type: str
    comment: str = ""
    is_generated: bool = False
    collation: str | None = None
    id: int | None = None


@dataclass(frozen=True)
class Reading:
    """What a batch reads of a table besides the log.

    Attributes:
        after: The upper bound of the range of keys that was read last; None for none.
        until: The upper bound of the ranges that this batch reads; None for none, and an empty
            bound for all that is left.
        deletes: Whether keys that the source lacks are deleted at the end of this reading.
        deletes_now: Whether this batch deletes them.
        settles: The table is as the source's from this position on; None while ranges are left.
        repeats: Whether all is read once more afterwards, as rows of ranges that were read may have
            changed without an event.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    after: tuple[str, ...] | None = None
    until: tuple[str, ...] | None = None
    deletes: bool = False
    deletes_now: bool = False
    settles: str | None = None
    repeats: bool = False

    @property
    def is_all_read(self) -> bool:
        """Whether no range is left when the batch begins."""
        return self.after == ()


@dataclass(frozen=True)
class Backlog:
    """What the log has of a table since it was quarantined.

    Attributes:
        after: The position that the table's rows are at.
        until: Where the part of it ends that this batch commits; None if it commits none.
        prepared: XA transactions that changed the table before, and had not ended then.
        clears: Whether the lake's rows are removed first, as the log has all rows.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    after: str
    until: str | None = None
    prepared: tuple[str, ...] = ()
    clears: bool = False


@dataclass(frozen=True)
class TableState:
    """Where a pipeline is with a table.

    Attributes:
        target: The table of the lake, ``database.table``.
        phase: What the pipeline does with it.
        position: The source position that the phase began at; None for the pipeline's first.
        reason: Why the table is quarantined, or read again; or why its snapshot is not read yet.
        columns, key, comment, id, storage: The source's table, as it is when the batch begins.
        reading: How far its rows are read, in the phases that read them.
        prepared: XA transactions that changed it and are not committed or rolled back.
        ahead: The position that single keys of it were read at; None if the log has reached it.
        backlog: What it can catch up with, in quarantine and after it; None if the log does not
            have that.

    Raises:
        Invalid: A quarantined table has no reason, or one that streams has one; or a table that
            catches up has nothing to catch up with.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    target: str
    phase: TablePhase
    position: str | None = None
    reason: str | None = None
    columns: tuple[ColumnState, ...] = ()
    key: tuple[str, ...] = ()
    comment: str = ""
    reading: Reading | None = None
    prepared: tuple[str, ...] = ()
    ahead: str | None = None
    id: int | None = None
    storage: str | None = None
    backlog: Backlog | None = None

    def __post_init__(self) -> None:
        if self.is_behind and self.backlog is None:
            raise Invalid(f"table {self.target} is in phase {self.phase}, and has no backlog")
        has_reason = self.phase in (TablePhase.QUARANTINED, TablePhase.REREADING)
        if has_reason != bool(self.reason) and self.phase is not TablePhase.SNAPSHOT:
            raise Invalid(
                f"table {self.target} is in phase {self.phase} with the reason {self.reason!r}; a "
                "table that is quarantined or read again needs a reason, and no other table has one"
            )

    @property
    def is_read(self) -> bool:
        """Whether its rows are read from the source, besides its log."""
        return self.phase in (TablePhase.SNAPSHOT, TablePhase.REREADING)

    @property
    def is_ahead(self) -> bool:
        """Whether some of its rows are as the source had them later than the batch begins."""
        return self.reading is not None or self.ahead is not None

    @property
    def is_followed(self) -> bool:
        """Whether the log's rows of it are applied: its columns are known."""
        return bool(self.columns) and self.phase not in (
            TablePhase.QUARANTINED,
            TablePhase.CATCHING_UP,
            TablePhase.GONE,
        )

    @property
    def is_behind(self) -> bool:
        """Whether it catches up with the others."""
        return self.phase is TablePhase.CATCHING_UP

    @property
    def is_appended(self) -> bool:
        """Whether it has no key, so that its rows are appended."""
        return bool(self.columns) and not self.key

    @property
    def awaits_snapshot(self) -> bool:
        """Whether all of its rows are to be read at one position, and the log's rows do not count.

        The snapshot is of the batch whose plan has it (`Reading.until`), or not yet begun.
        """
        return self.is_followed and self.is_appended and self.reading is not None

    def source_table(self, name: TableName) -> SourceTable:
        """The source's table when the batch begins."""
        columns = tuple(
            SourceColumn(
                column.name,
                column.source_type,
                _parsed_type(column.type),
                comment=column.comment,
                is_generated=column.is_generated,
                collation=column.collation,
                id=column.id,
            )
            for column in self.columns
        )
        return SourceTable(name, columns, self.key, self.comment, self.id, self.storage)

    @property
    def definition(self) -> str:
        """A digest of the source's table: the columns' ids, names, types and comments, and the key.

        It is stored: what later versions know of a column besides must not change it.
        """
        columns = [
            (column.id, column.name, column.source_type, column.type, column.comment)
            for column in self.columns
        ]
        parts = json.dumps([self.id, columns, self.key, self.comment])
        return sha256(parts.encode()).hexdigest()

    def with_source(self, table: SourceTable) -> TableState:
        """This state with another shape of the source's table."""
        columns = tuple(
            ColumnState(
                column.name,
                column.source_type,
                _type_text(column.type),
                column.comment,
                column.is_generated,
                column.collation,
                column.id,
            )
            for column in table.columns
        )
        return replace(
            self,
            columns=columns,
            key=tuple(table.primary_key),
            comment=table.comment,
            id=table.id,
            storage=table.storage,
        )


@dataclass(frozen=True)
class BatchPlan:
    """A batch: the changes between two positions of the source.

    Attributes:
        number: Its number, and that of the commits of its rows; the first is 0.
        start: The position that it begins after, which is the end of the batch before; None for the
            first batch.
        end: The position of the last transaction in it.
        tables: The tables by their names in the source, as they are when the batch begins.

    Raises:
        Invalid: The number is negative, or the first batch has a start, or another one has none.
    """

    number: int
    start: str | None
    end: str
    tables: Mapping[str, TableState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.number < 0 or (self.number == 0) != (self.start is None):
            raise Invalid(
                f"batch {self.number} starts after {self.start!r}; number batches from 0, and give "
                "all but the first the end of the batch before as their start"
            )


@dataclass(frozen=True)
class _Bounds:
    """The stored part of a plan that is not of one table."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    number: int
    start: str | None
    end: str


@dataclass(frozen=True)
class _Settings:
    """What a pipeline was started with."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    values: Mapping[str, str]


# It takes milliseconds to make one, and a batch reads the states of all tables.
_TABLE_STATE, _BOUNDS = TypeAdapter(TableState), TypeAdapter(_Bounds)
_STORED_SETTINGS = TypeAdapter(_Settings)
_NUMBERS = TypeAdapter(list[int])


class PipelineState:
    """The state of one pipeline.

    Args:
        table: The state table.
        pipeline: The pipeline's name.

    Raises:
        Invalid: The table is not a state table, or the name is empty.
    """

    def __init__(self, table: Table, pipeline: str) -> None:
        schema = table.schema
        names = [column.name for column in schema.fields]
        if names != _SCHEMA.names or tuple(schema.primary_keys) != _KEYS:
            raise Invalid(
                f"table {table.name} is not a state table: expected the columns "
                f"{', '.join(_SCHEMA.names)} with the primary key {', '.join(_KEYS)}; rename the "
                "table, or use another database"
            )
        if not pipeline.strip():
            raise Invalid(f"pipeline name {pipeline!r} is empty; name the pipeline")
        self._table = table
        self._pipeline = pipeline
        # The items of a snapshot.
        self._scanned: Snapshot | None = None
        self._items: Mapping[str, str | None] = {}
        # Tells commits of this process from those of another one under the same number.
        self._process = secrets.token_hex(8)

    @classmethod
    def open(cls, lake: Lake, database: str, pipeline: str) -> Self:
        """The state of a pipeline; the state table is created if it does not exist.

        Args:
            lake: The lake.
            database: The database that the pipeline writes to.
            pipeline: The pipeline's name.

        Raises:
            Invalid: As the class.
            NotFound: The database does not exist.
        """
        table = lake.create_table(
            f"{database}.{STATE_TABLE}",
            _SCHEMA,
            primary_keys=_KEYS,
            options=_OPTIONS,
            comment="State of change data capture pipelines",
            ignore_if_exists=True,
        )
        return cls(table, pipeline)

    @classmethod
    def existing(cls, lake: Lake, database: str, pipeline: str) -> Self | None:
        """The state of a pipeline; None if there is no state table. Nothing is created.

        Raises:
            Invalid: As the class.
        """
        name = f"{database}.{STATE_TABLE}"
        return cls(lake.table(name), pipeline) if lake.table_exists(name) else None

    def pipelines(self) -> list[str]:
        """The names of all pipelines that have their state in the same table."""
        return sorted(
            set(self._table.scan(columns=["pipeline"]).to_arrow()["pipeline"].to_pylist())
        )

    @property
    def commit_user(self) -> str:
        """The user of the commits of the pipeline's plans."""
        return commit_user(self._pipeline)

    def plan(self) -> BatchPlan | None:
        """The plan that was recorded last; None for a new pipeline.

        Raises:
            CorruptData: A stored value is not of this version; the message names its key.
        """
        values = {
            item: value
            for item, value in self._stored().items()
            if not item.startswith(_NOT_OF_PLANS)
        }
        if not values:
            return None
        if _PLAN not in values:
            raise CorruptData(f"{self._subject(_PLAN)}: it is missing; restore {self._table.name}")
        bounds = self._parsed(_BOUNDS, _PLAN, values.pop(_PLAN))
        tables: dict[str, TableState] = {}
        for item, value in values.items():
            source = item.removeprefix(_TABLE)
            if source == item:
                raise CorruptData(f"{self._subject(item)}: unknown item; upgrade Headwater")
            tables[source] = self._parsed(_TABLE_STATE, item, value)
        return BatchPlan(bounds.number, bounds.start, bounds.end, tables)

    def record(
        self,
        plan: BatchPlan,
        properties: Mapping[str, str] | None = None,
        log_file: str | None = None,
    ) -> BatchPlan:
        """Record the plan of a batch, as one commit of its number.

        Args:
            plan: The plan after the last one, or the last one again.
            properties: What else the commit's snapshot has, besides the position.
            log_file: What was read last of the source's log, if that is to be kept with the plan.

        Returns:
            The plan that counts: the one that a process recorded first under this number.

        Raises:
            Conflict: Another process has planned later batches; or the state was deleted.
            Invalid: The plan does not follow the last one.
            OutcomeUnknown: It may have been recorded; record it again.
        """
        last = self.plan()
        if last is not None and last.number == plan.number:
            return last
        self._check_order(last, plan)
        items: dict[str, str | None] = {
            _PLAN: _json(_BOUNDS, _Bounds(plan.number, plan.start, plan.end))
        }
        if log_file is not None:
            items[_LOG_FILE] = log_file
        before = {} if last is None else last.tables
        for source, state in plan.tables.items():
            if before.get(source) != state:
                items[_TABLE + source] = _json(_TABLE_STATE, state)
        gone = [_TABLE + source for source in before if source not in plan.tables]
        written = self._table.write(
            self._rows({**items, **dict.fromkeys(gone)}),
            pa.array(["+U"] * len(items) + ["-D"] * len(gone)),
            commit_user=self.commit_user,
            commit_identifier=plan.number,
            properties={
                "cdc.position": plan.end,
                _PROCESS: self._process,
                **(properties or {}),
            },
        )
        if written is not None and written.properties.get(_PROCESS) == self._process:
            self._wrote(written, items, gone)
            return plan
        recorded = self.plan()
        if recorded is None or recorded.number != plan.number:
            raise Conflict(
                f"pipeline {self._pipeline!r}: cannot record batch {plan.number}: "
                + (
                    f"its state was deleted from {self._table.name}; restore it, or give the "
                    "pipeline another name"
                    if recorded is None
                    else f"another process has planned batch {recorded.number}; stop one of them"
                )
            )
        return recorded

    # Besides the plans -------------------------------------------------------------------------

    def settings(self) -> Mapping[str, str]:
        """What the pipeline was started with; empty for a new one.

        Raises:
            CorruptData: As `plan`.
        """
        stored = self._stored().get(_SETTINGS)
        return {} if stored is None else self._parsed(_STORED_SETTINGS, _SETTINGS, stored).values

    def save_settings(self, values: Mapping[str, str]) -> None:
        """Keep what the pipeline was started with, without secrets."""
        if self.settings() != dict(values):
            self._write({_SETTINGS: _json(_STORED_SETTINGS, _Settings(dict(values)))})

    def log_file(self) -> str | None:
        """What was read last of the source's log, as `LogReader.log_file` has it."""
        return self._stored().get(_LOG_FILE)

    def save_log_file(self, file: str | None) -> None:
        """Keep what was read last of the source's log; None forgets it."""
        self._write({_LOG_FILE: file})

    def tagged(self) -> list[int]:
        """The numbers of the batches whose tags are kept, or the last one.

        The number of a batch whose tables are not all tagged yet is negative.

        Raises:
            CorruptData: As `plan`.
        """
        stored = self._stored().get(_TAGGED)
        return [] if stored is None else self._parsed(_NUMBERS, _TAGGED, stored)

    def save_tagged(self, numbers: Sequence[int]) -> None:
        """Keep the numbers of batches that are tagged."""
        self._write({_TAGGED: _json(_NUMBERS, list(numbers))})

    def request(self, name: str, value: str) -> None:
        """Leave a request to the process that runs the pipeline, such as to stop."""
        self._write({_REQUEST + name: value})

    def requests(self) -> Mapping[str, str]:
        """The requests that wait."""
        return {
            item.removeprefix(_REQUEST): value or ""
            for item, value in self._stored().items()
            if item.startswith(_REQUEST)
        }

    def answer(self, requests: Mapping[str, str]) -> None:
        """Remove requests that are carried out, unless others came under their names since."""
        waiting = self.requests() if requests else {}
        names = [name for name, value in requests.items() if waiting.get(name) == value]
        if names:
            self._write({_REQUEST + name: None for name in names})

    def _stored(self) -> Mapping[str, str | None]:
        """The pipeline's items. A batch asks several times; a scan costs as much as a commit."""
        latest = self._table.latest_snapshot()
        if latest is not None and self._follows(latest) and latest.commit_kind is _COMPACT:
            self._scanned = latest
        if latest is None or latest != self._scanned:
            own = Comparison("pipeline", "=", self._pipeline)
            stored = self._table.scan(where=own).to_arrow()
            items, values = stored["item"].to_pylist(), stored["value"].to_pylist()
            self._scanned, self._items = latest, dict(zip(items, values, strict=True))
        return self._items

    def _follows(self, snapshot: Snapshot) -> bool:
        """Whether nothing was committed between the known items and a snapshot."""
        return self._scanned is not None and snapshot.id == self._scanned.id + 1

    def _wrote(
        self, snapshot: Snapshot, items: Mapping[str, str | None], gone: Collection[str]
    ) -> None:
        """Know the items that this process wrote, unless others wrote some that are not known."""
        if self._follows(snapshot):
            known = {**self._items, **items}
            self._items = {item: value for item, value in known.items() if item not in gone}
            self._scanned = snapshot

    def _write(self, items: Mapping[str, str | None]) -> None:
        kinds = ["-D" if value is None else "+U" for value in items.values()]
        try:
            written = self._table.write(self._rows(items), pa.array(kinds))
        except Conflict as error:
            raise Unavailable(
                f"pipeline {self._pipeline!r}: cannot write its state to {self._table.name}: "
                f"other pipelines write to it, too: {error.message}"
            ) from error
        if written is not None:
            self._wrote(written, items, [item for item, value in items.items() if value is None])

    def _rows(self, items: Mapping[str, str | None]) -> pa.Table:
        return pa.table(
            {
                "pipeline": [self._pipeline] * len(items),
                "item": list(items),
                "value": list(items.values()),
            },
            schema=_SCHEMA,
        )

    def _check_order(self, last: BatchPlan | None, plan: BatchPlan) -> None:
        expected, start = (0, None) if last is None else (last.number + 1, last.end)
        subject = f"pipeline {self._pipeline!r}: cannot record batch {plan.number}"
        if plan.number < expected:
            raise Conflict(
                f"{subject}: another process has planned batch {expected - 1}; stop one of them"
            )
        if (plan.number, plan.start) != (expected, start):
            raise Invalid(
                f"{subject} after {plan.start!r}: expected batch {expected} after {start!r}; read "
                "the last plan and continue from it"
            )

    def _parsed(self, of: TypeAdapter[T], item: str, value: str | None) -> T:
        try:
            return of.validate_json(value or "")
        except ValidationError as error:
            faults = "; ".join(
                _fault(each["type"], each["loc"], each["msg"]) for each in error.errors()
            )
            raise CorruptData(
                f"{self._subject(item)}: {faults}; use the version of Headwater that wrote it"
            ) from error
        except Invalid as error:
            raise CorruptData(f"{self._subject(item)}: {error.message}") from error

    def _subject(self, item: str) -> str:
        return f"table {self._table.name}: cannot read item {item!r} of pipeline {self._pipeline!r}"


def _type_text(type_: DataType) -> str:
    document = type_json(type_)
    return document if isinstance(document, str) else json.dumps(document)


def _parsed_type(text: str) -> DataType:
    return parse_type(json.loads(text) if text.startswith("{") else text)


def _json(of: TypeAdapter[T], value: T) -> str:
    return of.dump_json(value).decode()


def _fault(error_type: str, location: tuple[int | str, ...], message: str) -> str:
    key = ".".join(map(str, location))
    if error_type == "unexpected_keyword_argument":
        return f"unknown key {key!r}"
    if error_type == "missing":
        return f"key {key!r} is missing"
    return f"key {key!r}: {message}" if key else message
