"""What the parts of a batch have in common: they are opened, closed with rows, or given up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from threading import Event

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.pipeline.log_rows import ReadAgainError
from headwater.cdc.pipeline.range_feed import RangeFeed
from headwater.cdc.pipeline.range_tasks import TaskFeed
from headwater.cdc.source.log_batches import TableRows
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Unavailable

__all__ = ["AbortedError", "BatchPart"]

_OPEN_SECONDS = 0.2


class AbortedError(Unavailable):
    """The batch ends without this part."""


class BatchPart(ABC):
    """A table's part of a batch, which one thread commits when another one has closed it.

    Args:
        table: The lake's table.

    Attributes:
        feed: Ranges that are read for it; None if none are.
        deletes: Whether keys of the lake that the source lacks are deleted.
        ahead: A position that has all that was seen of single keys; None if none was read.
    """

    feed: RangeFeed | TaskFeed | None = None
    deletes = False
    ahead: Position | None = None

    def __init__(self, table: Table) -> None:
        self._table = table
        self._closed, self._aborted = Event(), Event()
        self._runs: Sequence[TableRows] = ()
        self._end: Position | None = None
        self._keys: pa.Table | None = None
        self._reread: str | None = None

    def close(self, runs: Sequence[TableRows], end: Position, keys: pa.Table | None = None) -> None:
        """Give it the log's rows, where the batch ends, and keys to read then; it is planned."""
        self._runs, self._end, self._keys = runs, end, keys
        self._closed.set()

    def read_again(self, reason: str) -> None:
        """End it without a commit, as all of the table is read again."""
        self._reread = reason
        self._closed.set()

    def abort(self) -> None:
        """End it without a commit."""
        self._aborted.set()
        self._closed.set()

    @abstractmethod
    def commit(self, user: str, number: int, properties: Callable[[], Mapping[str, str]]) -> int:
        """Write the rows and commit them, once.

        Returns:
            How many rows.

        Raises:
            ReadAgainError: The table must be read again.
            HeadwaterError: A value cannot be in the lake, or the lake or the source is not there.
        """

    def _wait_until_closed(self) -> None:
        """Wait for the log's rows.

        Raises:
            AbortedError: The batch was given up.
            ReadAgainError: The table must be read again.
        """
        while not self._closed.wait(_OPEN_SECONDS):
            pass
        if self._aborted.is_set():
            raise AbortedError(f"table {self._table.name}: the batch was given up")
        if self._reread is not None:
            raise ReadAgainError(self._reread)
