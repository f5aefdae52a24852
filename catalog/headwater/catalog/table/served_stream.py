"""A table's changes, batch by batch, as a server reads them where files are withheld.

A reader who keeps what it was shown by the changes that follow must be shown both by the same
policies. So each batch names the policies of the first one, and others are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.catalog.model.access import ReadKind, ReadRequest, RowStream, StreamAsked
from headwater.catalog.table.served_rows import Served, ServedChanges
from headwater.storage.errors import Unavailable
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.stream import StreamPosition
from headwater.storage.table_storage import TableStorage

__all__ = ["ServedBatch", "ServedStream"]


@dataclass(frozen=True)
class ServedBatch:
    """A batch of a stream that a server has planned.

    Attributes:
        start: The position at which it begins.
        end: The position after it.
        policies: A fingerprint of the policies that its rows are shown by.
    """

    start: StreamPosition
    end: StreamPosition
    policies: str


class ServedStream:
    """Asks a server for a stream of one table; made by `Table.served_stream`.

    Args:
        served: The way to the table's rows.
        storage: The table, with the schema that the stream keeps.
        columns: The columns; None means all.
        predicate: Only changes of which it is true; it sees masked values.
        row_kinds: False without the column ``_ROW_KIND``, and the rows that retract.
    """

    def __init__(
        self,
        served: Served,
        storage: TableStorage,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_kinds: bool,
    ) -> None:
        self.storage = storage
        self._served = served
        self._columns = columns
        self._predicate = predicate
        self._row_kinds = row_kinds

    def first(
        self, options: Mapping[str, str] | None = None, *, earliest: bool = False
    ) -> ServedBatch:
        """The first batch of a new stream.

        Args:
            options: Options that say where it starts.
            earliest: True to start with the earliest changes there are.

        Raises:
            NotFound: The start has expired.
            Forbidden: Changes cannot be told exactly by the policies.
        """
        asked = StreamAsked(earliest=earliest, row_kinds=self._row_kinds)
        return self._told(asked, None, options or {})

    def following(
        self, start: StreamPosition, policies: str | None, *, to_schema_change: bool = False
    ) -> ServedBatch:
        """All that follows a position.

        Args:
            start: The position.
            policies: The policies of the batches before; None for any.
            to_schema_change: True to end before the first snapshot with other columns.

        Raises:
            NotFound: The snapshot that the stream wants next has expired.
            Invalid: The position is no part of the table's history; or its columns changed.
            Conflict: The policies are others.
        """
        asked = StreamAsked(
            start=start, to_schema_change=to_schema_change, row_kinds=self._row_kinds
        )
        return self._told(asked, policies, {})

    def changes(self, batch: ServedBatch) -> ServedChanges:
        """The rows of a batch; in parts if they are all rows of a snapshot."""
        asked = StreamAsked(start=batch.start, end=batch.end, row_kinds=self._row_kinds)
        served = self._asking(asked, batch.policies, {})
        return ServedChanges(
            served, self.storage, self._columns, self._predicate, row_kinds=self._row_kinds
        )

    def _asking(
        self, asked: StreamAsked, policies: str | None, options: Mapping[str, str]
    ) -> Served:
        laid_over = {**self._served.request.options, **options}
        request = ReadRequest(
            kind=ReadKind.CHANGES,
            stream=asked,
            schema_id=self.storage.schema.id,
            policies=policies,
            options=laid_over,
            limit=0 if asked.end is None else None,
        )
        return replace(self._served, request=request)

    def _told(
        self, asked: StreamAsked, policies: str | None, options: Mapping[str, str]
    ) -> ServedBatch:
        served = self._asking(asked, policies, options)
        told: RowStream = served.reader.read(
            served.asking(self.storage.schema, self._columns, self._predicate)
        )
        if told.stream is None:
            raise Unavailable(
                f"table {self.storage.name}: the server's answer does not say where the stream is"
            )
        start, end = told.stream
        return ServedBatch(start, end, told.policies)
