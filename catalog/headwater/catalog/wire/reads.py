"""The JSON of a request for rows, and what is said of the rows beside them. See `…catalog.wire`.

This operation is Headwater's own. The rows are an Arrow IPC stream, whose schema bears the table's
schema, the snapshot and the fingerprint of the policies as metadata.
"""

from __future__ import annotations

import json

import pyarrow as pa
from pydantic import ConfigDict, Field, JsonValue

from headwater.catalog.model.access import (
    ChangesAsked,
    ReadKind,
    ReadRequest,
    RowStream,
    StreamAsked,
)
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import WireModel
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.scan.stream import StreamPosition

__all__ = [
    "ARROW_STREAM",
    "ChangesModel",
    "ReadTableRequest",
    "StreamModel",
    "metadata_of",
    "stream_of",
]

ARROW_STREAM = "application/vnd.apache.arrow.stream"
"""The media type of Arrow's IPC stream."""

_SNAPSHOT = b"headwater.snapshot-id"
_SCHEMA = b"headwater.table-schema"
_POLICIES = b"headwater.policies"
_STREAM = b"headwater.stream"
# Reading a condition takes a server some 20 microseconds for each value in it.
_LONGEST_CONDITION = 262_144


class ChangesModel(WireModel):
    """The changes that are wanted.

    Attributes:
        since: A snapshot's id, a tag's name, or milliseconds since the epoch with `byTime`. Null
            takes both ends from the table's `incremental-…` options.
        until: The same; null is the latest snapshot.
        by_time: True if both are moments.
        mode: `auto`, `delta`, `changelog` or `diff`.
        skip_overwrites: Leave out what overwrites changed, instead of refusing it.
        row_kinds: False leaves out the column `_ROW_KIND` and the rows that retract.
    """

    model_config = ConfigDict(**example({"since": 3, "until": 7}), extra="forbid")

    since: int | str | None = None
    until: int | str | None = None
    by_time: bool = False
    mode: str = "auto"
    skip_overwrites: bool = False
    row_kinds: bool = True


class StreamModel(WireModel):
    """A batch of a stream. A position is an object that an answer gave, or that begins a stream.

    Attributes:
        start: The position of the stream, such as `{"snapshotId": 3, "changes": true}` for the
            changes of snapshot 3 and what follows. Null asks where `options` start a new stream.
        end: The position at which the batch ends. Null asks for the end of all that there is, with
            `limit` 0.
        earliest: Start with the earliest changes there are, instead of by `options`.
        to_schema_change: End before the first snapshot with other columns than those of `schemaId`.
        row_kinds: False leaves out the column `_ROW_KIND` and the rows that retract.
    """

    model_config = ConfigDict(
        **example({"start": {"snapshotId": 3, "changes": True}}), extra="forbid"
    )

    start: dict[str, JsonValue] | None = None
    end: dict[str, JsonValue] | None = None
    earliest: bool = False
    to_schema_change: bool = False
    row_kinds: bool = True

    @staticmethod
    def of(asked: StreamAsked) -> StreamModel:
        """The wire form."""
        return StreamModel(
            start=None if asked.start is None else asked.start.to_json(),
            end=None if asked.end is None else asked.end.to_json(),
            earliest=asked.earliest,
            to_schema_change=asked.to_schema_change,
            row_kinds=asked.row_kinds,
        )

    def asked(self) -> StreamAsked:
        """The batch; raises Invalid."""
        return StreamAsked(
            None if self.start is None else StreamPosition.from_json(self.start),
            None if self.end is None else StreamPosition.from_json(self.end),
            self.earliest,
            self.to_schema_change,
            self.row_kinds,
        )


class ReadTableRequest(WireModel):
    """``POST …/read``. At most one of `snapshotId`, `tag`, `timestamp`, `watermark`, `version`.

    Attributes:
        kind: `rows`; `read-optimized`, only those that need no merge; `audit-log`, with their
            kinds; or `changes`.
        select: The columns, in this order; null means all.
        where: A SQL condition over the values that the caller is shown, of at most 262,144
            characters.
        filter_columns: The columns that `where` names and `select` does not.
        limit: At most so many rows; 0 only describes them.
        snapshot_id: As of this snapshot.
        tag: As of this tag.
        timestamp: As of this moment, milliseconds since the epoch.
        watermark: As of the first snapshot with at least this watermark.
        version: As of a tag, a snapshot's id or `watermark-<milliseconds>`.
        schema_id: The version of the schema that the rows are to have, beside `snapshotId` or
            `stream`.
        options: Options of reading that are laid over the table's own, such as `scan.tag-name`.
        policies: The fingerprint that another part of the same rows came with: where the policies
            have changed since, the answer is 409.
        changes: The changes that are wanted.
        stream: A batch of a stream that is wanted, of kind `changes` or `audit-log`. The metadata
            of the answer's schema has its start and end (`headwater.stream`).
        part: The part that is wanted, from 0.
        parts: The number of parts that the rows of a snapshot are divided into; changes have one.
    """

    # A key that is not known would mean other rows.
    model_config = ConfigDict(
        **example({"select": ["order_id", "amount"], "where": "amount > 10", "snapshotId": 5}),
        extra="forbid",
    )

    kind: str = "rows"
    select: list[str] | None = None
    where: str | None = None
    filter_columns: list[str] | None = None
    limit: int | None = Field(default=None, ge=0)
    snapshot_id: int | None = None
    tag: str | None = None
    timestamp: int | None = None
    watermark: int | None = None
    version: str | None = None
    schema_id: int | None = None
    options: dict[str, str] | None = None
    policies: str | None = None
    changes: ChangesModel | None = None
    stream: StreamModel | None = None
    part: int = Field(default=0, ge=0)
    parts: int = Field(default=1, ge=1, le=100_000)

    @staticmethod
    def of(request: ReadRequest) -> ReadTableRequest:
        """The wire form."""
        changes = request.changes
        return ReadTableRequest(
            kind=request.kind.value,
            select=None if request.columns is None else list(request.columns),
            where=request.where,
            filter_columns=list(request.filter_columns) or None,
            limit=request.limit,
            snapshot_id=request.snapshot_id,
            tag=request.tag,
            timestamp=request.timestamp,
            watermark=request.watermark,
            version=request.version,
            schema_id=request.schema_id,
            options=dict(request.options) or None,
            policies=request.policies,
            changes=None
            if changes is None
            else ChangesModel(
                since=changes.since,
                until=changes.until,
                by_time=changes.by_time,
                mode=changes.mode,
                skip_overwrites=changes.skip_overwrites,
                row_kinds=changes.row_kinds,
            ),
            stream=None if request.stream is None else StreamModel.of(request.stream),
            part=request.part,
            parts=request.parts,
        )

    def request(self) -> ReadRequest:
        """The request; raises Invalid."""
        if self.kind not in set(ReadKind):
            raise Invalid(f"'{self.kind}' is not a kind of rows, but {', '.join(ReadKind)}")
        if self.where is not None and len(self.where) > _LONGEST_CONDITION:
            raise Invalid(
                f"'where' has {len(self.where):,} characters, and may have {_LONGEST_CONDITION:,}: "
                "ask with a shorter condition, and filter the rows that come"
            )
        changes = self.changes
        return ReadRequest(
            kind=ReadKind(self.kind),
            columns=None if self.select is None else tuple(self.select),
            where=self.where,
            filter_columns=tuple(self.filter_columns or ()),
            limit=self.limit,
            snapshot_id=self.snapshot_id,
            tag=self.tag,
            timestamp=self.timestamp,
            watermark=self.watermark,
            version=self.version,
            schema_id=self.schema_id,
            options=self.options or {},
            policies=self.policies,
            changes=None
            if changes is None
            else ChangesAsked(
                changes.since,
                changes.until,
                changes.by_time,
                changes.mode,
                changes.skip_overwrites,
                changes.row_kinds,
            ),
            stream=None if self.stream is None else self.stream.asked(),
            part=self.part,
            parts=self.parts,
        )


def metadata_of(stream: RowStream) -> dict[bytes, bytes]:
    """The facts about some rows, as the metadata of their Arrow schema."""
    said = {_SCHEMA: stream.table_schema.encode(), _POLICIES: stream.policies.encode()}
    if stream.snapshot_id is not None:
        said[_SNAPSHOT] = str(stream.snapshot_id).encode()
    if stream.stream is not None:
        said[_STREAM] = json.dumps([each.to_json() for each in stream.stream]).encode()
    return said


def stream_of(reader: pa.RecordBatchReader) -> RowStream:
    """Rows with what their schema's metadata says of them.

    Raises:
        Unavailable: It is not what a Headwater server sends.
    """
    said = reader.schema.metadata or {}
    if _SCHEMA not in said or _POLICIES not in said:
        raise Unavailable("the answer is an Arrow stream, but not one of a Headwater server")
    snapshot, ends = said.get(_SNAPSHOT), said.get(_STREAM)
    stream = None
    if ends is not None:
        start, end = json.loads(ends)
        stream = StreamPosition.from_json(start), StreamPosition.from_json(end)
    return RowStream(
        reader.schema.remove_metadata(),
        said[_SCHEMA].decode(),
        None if snapshot is None else int(snapshot),
        said[_POLICIES].decode(),
        reader,
        stream,
    )
