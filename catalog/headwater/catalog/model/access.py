"""The part of a table that a reader is shown, and rows that a server reads for such a reader.

The answer is Paimon's (``TableQueryAuthResult.java``); that a server reads is Headwater's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.predicate.restriction import Restriction
from headwater.storage.scan.stream import StreamPosition

__all__ = [
    "ALL_OF_IT",
    "ChangesAsked",
    "ReadKind",
    "ReadRequest",
    "RowReader",
    "RowStream",
    "StreamAsked",
    "TableAccess",
]


class ReadKind(StrEnum):
    """The kinds of rows that a server reads, by their names on the wire."""

    ROWS = "rows"
    READ_OPTIMIZED = "read-optimized"
    AUDIT_LOG = "audit-log"
    CHANGES = "changes"


@dataclass(frozen=True)
class ChangesAsked:
    """The changes that are wanted; see `headwater.catalog.table.reading.ReadableTable.changes`.

    Attributes:
        since: A snapshot's id, a tag's name, or milliseconds since the epoch with `by_time`; None
            takes both ends from the table's options.
        until: Likewise; None is the latest snapshot.
        by_time: True if numbers are moments.
        mode: The mode.
        skip_overwrites: True if overwrites are left out.
        row_kinds: False without the column ``_ROW_KIND``.
    """

    since: int | str | None = None
    until: int | str | None = None
    by_time: bool = False
    mode: str = "auto"
    skip_overwrites: bool = False
    row_kinds: bool = True


@dataclass(frozen=True)
class StreamAsked:
    """A batch of a stream, or where it begins and how far it could go.

    Attributes:
        start: The position of the stream; None asks for the one at which the request's options
            start a new stream.
        end: The end of the batch; None asks for the end of all that there is, and no rows are read.
        earliest: True to start with the earliest changes there are, instead of by the options.
        to_schema_change: True if a batch ends before the first snapshot whose columns are others
            than those of the request's schema.
        row_kinds: False without the column ``_ROW_KIND``, and the rows that retract.
    """

    start: StreamPosition | None = None
    end: StreamPosition | None = None
    earliest: bool = False
    to_schema_change: bool = False
    row_kinds: bool = True

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, or what only a reader of the files can ask for."""
        if self.start is None and self.end is not None:
            raise Invalid("a batch of a stream that has an end has a start; give both")
        if self.start is not None and self.earliest:
            raise Invalid("a stream starts at 'start' or with the earliest changes; give one")
        for each in (self.start, self.end):
            if each is not None and (each.parts or each.created_since is not None):
                raise Invalid(
                    "a server reads whole snapshots of a stream: a position must not lie within "
                    "one, nor choose files by the time at which they were made"
                )


@dataclass(frozen=True)
class ReadRequest:
    """Rows of a table that a server is asked to read.

    Attributes:
        kind: The kind of rows.
        columns: The columns, in this order; None means all.
        where: A SQL condition over the values that the reader is shown.
        filter_columns: The columns that `where` names and `columns` does not.
        limit: At most so many rows; 0 only says what would be read.
        snapshot_id: As of this snapshot.
        tag: As of this tag.
        timestamp: As of this moment, milliseconds since the epoch.
        watermark: As of the first snapshot with at least this watermark.
        version: As of a tag, a snapshot's id or ``watermark-<milliseconds>``.
        schema_id: The version of the schema that the rows of `snapshot_id`, or of a stream, are to
            have; None is the snapshot's own, or the latest.
        options: Options of reading that are laid over the table's own.
        policies: The fingerprint of the policies that earlier parts were read by; None for any.
        changes: The changes that are wanted; of kind CHANGES, and perhaps of AUDIT_LOG.
        stream: The batch of a stream that is wanted; likewise, and instead of `changes`.
        part: The part of the rows that is wanted, from 0.
        parts: The number of parts that they are divided into.

    Raises:
        Invalid: There is no such part.
    """

    kind: ReadKind = ReadKind.ROWS
    columns: tuple[str, ...] | None = None
    where: str | None = None
    filter_columns: tuple[str, ...] = ()
    limit: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    timestamp: int | None = None
    watermark: int | None = None
    version: str | None = None
    schema_id: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    policies: str | None = None
    changes: ChangesAsked | None = None
    stream: StreamAsked | None = None
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be read."""
        if not 0 <= self.part < self.parts:
            raise Invalid(f"there is no part {self.part} of {self.parts}; the first is 0")
        if self.limit is not None and self.limit < 0:
            raise Invalid(f"the limit is {self.limit}; give 0 or more")
        if self.kind is ReadKind.CHANGES and self.changes is None and self.stream is None:
            raise Invalid("say which changes are wanted")
        if self.changes is not None and self.stream is not None:
            raise Invalid("give changes or a batch of a stream, not both")
        of_changes = self.changes is not None or self.stream is not None
        if of_changes and self.kind not in (ReadKind.CHANGES, ReadKind.AUDIT_LOG):
            raise Invalid(f"changes are not asked for with {self.kind}")
        if self.stream is None and self.snapshot_id is None:
            if self.schema_id is not None or self.parts > 1:
                raise Invalid("a schema is chosen for a snapshot, and parts are of one; say which")
        elif self.stream is not None:
            self._check_stream(self.stream)

    def _check_stream(self, stream: StreamAsked) -> None:
        chosen = (self.snapshot_id, self.tag, self.timestamp, self.watermark, self.version)
        if any(each is not None for each in chosen):
            raise Invalid("a stream starts where its position or its options say; give no snapshot")
        if self.parts > 1 and (stream.start is None or stream.start.changes):
            raise Invalid("changes are in order, and have one part")
        if stream.end is None and self.limit != 0:
            raise Invalid("a batch of a stream that has no end is not read; set limit to 0")


@dataclass(frozen=True)
class RowStream:
    """Rows of a table as they are read; close `batches` to stop.

    Attributes:
        schema: Their Arrow schema.
        table_schema: The schema of the table as of the rows, as JSON.
        snapshot_id: The snapshot; None for changes and for a table without any.
        policies: A fingerprint of the policies, which changes with them.
        batches: The rows.
        stream: For a batch of a stream its start and its end.
    """

    schema: pa.Schema
    table_schema: str
    snapshot_id: int | None
    policies: str
    batches: Iterator[pa.RecordBatch]
    stream: tuple[StreamPosition, StreamPosition] | None = None


class RowReader(Protocol):
    """Has a server read rows of one table; it pickles, without a connection."""

    def read(self, request: ReadRequest) -> RowStream:
        """The rows that the caller is shown.

        Raises:
            Forbidden: A policy keeps these rows from being read.
            NotFound: There is no such column, snapshot or tag.
            Invalid: The request contradicts itself.
            Conflict: The policies are others than those of `ReadRequest.policies`.
            Unavailable: The server does not answer, or broke off.
        """
        ...


@dataclass(frozen=True)
class TableAccess:
    """The part of a table that whoever asked is shown.

    Attributes:
        restriction: The row filters and column masks; empty for all rows and values.
        reader: Has a server read what is shown; None where the caller reads the files itself.
    """

    restriction: Restriction = field(default_factory=Restriction)
    reader: RowReader | None = None


ALL_OF_IT = TableAccess()
"""All rows with all their values."""
