"""One consumer of a table, to be asked and moved."""

from __future__ import annotations

from datetime import timedelta

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.consumers import ConsumerInfo
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.table.consumer_hold import LEASE, ConsumerHold
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.runtime import Runtime
from headwater.storage.scan.stream import StreamPosition
from headwater.storage.table_storage import SnapshotPointer

__all__ = ["Consumer"]


@checks_arguments
class Consumer:
    """A saved position in a table's history; made by `Table.consumer`.

    Args:
        catalog: The catalog, which keeps it.
        identifier: The table.
        pointer: The authority on the table's latest snapshot.
        consumer_id: The name readers use.
        runtime: Clock and names.
    """

    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        pointer: SnapshotPointer,
        consumer_id: str,
        runtime: Runtime,
    ) -> None:
        self._consumers = catalog.consumers
        self._identifier = identifier
        self._pointer = pointer
        self._runtime = runtime
        self.consumer_id = consumer_id

    def __repr__(self) -> str:
        return f"Consumer({self.consumer_id} of {self._identifier})"

    @property
    def next_snapshot(self) -> int | None:
        """The first snapshot not yet consumed; None when there is no saved position."""
        info = self._info()
        return None if info is None else info.next_snapshot

    @property
    def is_rolled_back(self) -> bool:
        """True if the last consumed snapshot is known to be no longer part of the history."""
        info = self._info()
        return info is not None and info.is_rolled_back

    def position(self) -> StreamPosition | None:
        """The position of a reader that goes on from there; None when none is saved.

        Raises:
            Invalid: The table was rolled back, or replaced by a branch, to before it.
        """
        info = self._info()
        if info is None:
            return None
        if info.is_rolled_back:
            consumed = (
                f"reads all rows of snapshot {info.next_snapshot}"
                if info.full_read
                else f"has consumed snapshot {info.next_snapshot - 1}"
            )
            raise Invalid(
                f"table {self._identifier}: consumer '{self.consumer_id}' {consumed}, which is no "
                "longer part of the table's history: the table was rolled back, or replaced by a "
                "branch. Reset the consumer to go on"
            )
        return StreamPosition(info.next_snapshot, changes=not info.full_read)

    @property
    def saved(self) -> StreamPosition | None:
        """As `position`, whether or not a reader can go on from there."""
        info = self._info()
        return (
            None if info is None else StreamPosition(info.next_snapshot, changes=not info.full_read)
        )

    def _info(self) -> ConsumerInfo | None:
        found = all_pages(lambda token: self._consumers.list(self._identifier, page_token=token))
        return next((info for info in found if info.consumer_id == self.consumer_id), None)

    @property
    def lag(self) -> int | None:
        """Snapshots not yet consumed; None when there is no saved position."""
        position = self.next_snapshot
        if position is None:
            return None
        latest = self._pointer.latest()
        return 0 if latest is None else max(0, latest.id + 1 - position)

    def advance(self, next_snapshot: int) -> None:
        """Move forward, once everything before a snapshot has been consumed for good.

        Raises:
            Conflict: The saved position is further on: another reader uses the same id.
        """
        position = self.next_snapshot
        if position is not None and position > next_snapshot:
            raise Conflict(
                f"table {self._identifier}: consumer '{self.consumer_id}' is at snapshot "
                f"{position} already, which is after {next_snapshot}; is another reader using "
                "the same id?"
            )
        self.reset(next_snapshot)

    def reset(self, next_snapshot: int, *, force: bool = False) -> None:
        """Move to any snapshot, making the consumer if need be.

        Args:
            next_snapshot: The first snapshot to be consumed.
            force: Move it even while a reader holds it, which then fails.

        Raises:
            Conflict: A reader holds it, which is alive.
            Invalid: The id cannot name a consumer, or the snapshot's id is no positive number.
        """
        if not isinstance(next_snapshot, int):
            raise Invalid(f"a snapshot's id is a whole number, not {next_snapshot!r}")
        self._consumers.reset(self._identifier, self.consumer_id, next_snapshot, force=force)

    def delete(self, *, force: bool = False) -> None:
        """Forget the position; nothing happens when there is none.

        Raises:
            Conflict: A reader holds it, which is alive, and `force` is not set.
        """
        self._consumers.reset(self._identifier, self.consumer_id, None, force=force)

    def hold(self, lease: timedelta = LEASE) -> ConsumerHold:
        """Keep other readers from moving the consumer, as long as this process is alive.

        Use it in a ``with`` statement, and move the consumer by its `ConsumerHold.advance`.

        Args:
            lease: The time for which another reader has to wait after this process died.

        Raises:
            Conflict: Another reader holds it, which is alive; waits to see if it is.
            Invalid: The id cannot name a consumer, or the time is too long.
        """
        return ConsumerHold(
            self._consumers, self._identifier, self.consumer_id, self._runtime, lease
        )
