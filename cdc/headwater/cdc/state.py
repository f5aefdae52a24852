"""The state of pipelines, in a table of the lake: what each has planned, and where its tables are.

A batch is planned before its rows are committed. The plan is one numbered commit, so that of two
processes that run one pipeline, or of one that was killed, all go by the same plan: `record`
returns the one that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self, TypeVar

import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter, ValidationError

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Conflict, CorruptData, Invalid
from headwater.storage.predicate.tree import Comparison

__all__ = ["STATE_TABLE", "BatchPlan", "PipelineState", "TablePhase", "TableState"]

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
_OPTIONS = {"bucket": "1"}
_PLAN = "plan"
_TABLE = "table:"

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
    """Nothing is applied until somebody resumes it."""


@dataclass(frozen=True)
class TableState:
    """Where a pipeline is with a table.

    Attributes:
        target: The table of the lake, ``database.table``.
        phase: What the pipeline does with it.
        position: The source position that the phase began at; None for the pipeline's first.
        reason: Why the table is quarantined.

    Raises:
        Invalid: A quarantined table has no reason, or another one has.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    target: str
    phase: TablePhase
    position: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.phase is TablePhase.QUARANTINED) != bool(self.reason):
            raise Invalid(
                f"table {self.target} is in phase {self.phase} with the reason {self.reason!r}; a "
                "quarantined table needs a reason, and no other table has one"
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

    @property
    def commit_user(self) -> str:
        """The user of the pipeline's commits, of its plans and of the rows of its batches."""
        return f"cdc-{self._pipeline}"

    def plan(self) -> BatchPlan | None:
        """The plan that was recorded last; None for a new pipeline.

        Raises:
            CorruptData: A stored value is not of this version; the message names its key.
        """
        own = Comparison("pipeline", "=", self._pipeline)
        stored = self._table.scan(where=own).to_arrow()
        values = dict(zip(stored["item"].to_pylist(), stored["value"].to_pylist(), strict=True))
        if not values:
            return None
        if _PLAN not in values:
            raise CorruptData(f"{self._subject(_PLAN)}: it is missing; restore {self._table.name}")
        bounds = self._parsed(_Bounds, _PLAN, values.pop(_PLAN))
        tables: dict[str, TableState] = {}
        for item, value in values.items():
            source = item.removeprefix(_TABLE)
            if source == item:
                raise CorruptData(f"{self._subject(item)}: unknown item; upgrade Headwater")
            tables[source] = self._parsed(TableState, item, value)
        return BatchPlan(bounds.number, bounds.start, bounds.end, tables)

    def record(self, plan: BatchPlan) -> BatchPlan:
        """Record the plan of a batch, as one commit of its number.

        Args:
            plan: The plan after the last one, or the last one again.

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
        items = {_PLAN: _json(_Bounds(plan.number, plan.start, plan.end))}
        before = {} if last is None else last.tables
        for source, state in plan.tables.items():
            if before.get(source) != state:
                items[_TABLE + source] = _json(state)
        gone = [_TABLE + source for source in before if source not in plan.tables]
        names = [*items, *gone]
        rows = pa.table(
            {
                "pipeline": [self._pipeline] * len(names),
                "item": names,
                "value": [*items.values(), *[None] * len(gone)],
            },
            schema=_SCHEMA,
        )
        self._table.write(
            rows,
            pa.array(["+U"] * len(items) + ["-D"] * len(gone)),
            commit_user=self.commit_user,
            commit_identifier=plan.number,
            properties={"cdc.position": plan.end},
        )
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

    def _parsed(self, of: type[T], item: str, value: str | None) -> T:
        try:
            return TypeAdapter(of).validate_json(value or "")
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


def _json(value: TableState | _Bounds) -> str:
    return TypeAdapter(type(value)).dump_json(value).decode()


def _fault(error_type: str, location: tuple[int | str, ...], message: str) -> str:
    key = ".".join(map(str, location))
    if error_type == "unexpected_keyword_argument":
        return f"unknown key {key!r}"
    if error_type == "missing":
        return f"key {key!r} is missing"
    return f"key {key!r}: {message}" if key else message
