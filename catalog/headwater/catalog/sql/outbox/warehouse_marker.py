"""The marker of a warehouse: a file in its directory with the id that the database knows.

A disk that is not mounted leaves an empty folder behind, and another disk, or another bucket, may
be where the warehouse was. Without its marker nothing is written there.
"""

from __future__ import annotations

import json
from math import inf
from threading import Lock

from sqlalchemy import delete, insert, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import WarehouseMarkerRow
from headwater.catalog.sql.queries.lookup import has_tables
from headwater.storage.errors import HeadwaterError, NotFound, Unavailable
from headwater.storage.files.layout import WAREHOUSE_MARKER

__all__ = ["KEPT_SECONDS", "WarehouseMarker"]

KEPT_SECONDS = 5.0
"""The time for which a warehouse that was found in its place counts as being there."""

_WRITABLE_SECONDS = 60.0
_LONGEST_ID = 36
_ABOUT = "This file tells Headwater that its warehouse is here. Keep it with the warehouse's files."
_MEANT = (
    "mount the warehouse's disk, or restore its files; or, if what is there is meant to be the "
    "warehouse, "
)


class WarehouseMarker:
    """Says if a warehouse is in its place; safe to use from several threads.

    A warehouse that has none yet gets a marker when it is first used. A marker that was there
    before the database knew it is taken for the warehouse's, unless it is another one's.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._path = f"{context.location.rstrip('/')}/{WAREHOUSE_MARKER}"
        self._is_local = context.place.scheme == "file"
        self._writable_until = -inf
        self._lock = Lock()
        self._known: str | None = None
        self._fault: Unavailable | None = None
        self._until: float | None = None

    def require(self) -> None:
        """Refuse to write unless the warehouse is in its place, or was a moment ago.

        Storage that does not answer is not refused here: it tells by itself. Must not be called in
        a transaction.

        Raises:
            Unavailable: Its marker is missing, or another's.
        """
        if self._is_due() and self._lock.acquire(blocking=self._until is None):
            try:
                # Others may have looked meanwhile.
                if self._is_due():
                    self._look()
            finally:
                self._lock.release()
        self.refuse()

    def refuse(self) -> None:
        """Refuse to write if the warehouse was not in its place when it was last looked for.

        Raises:
            Unavailable: It was not.
        """
        fault = self._fault
        if fault is not None:
            raise Unavailable(fault.message)

    def check(self) -> None:
        """Look for the warehouse now, and see that an object store takes writes.

        To write something new each time would cost more than to ask now and then for a put that is
        refused for the marker which is there, or for who asks.

        Raises:
            Forbidden: The store takes no writes.
            Unavailable: The warehouse is not in its place, or storage does not answer.
        """
        with self._lock:
            self._look()
        self.refuse()
        known, now = self._known, self._context.runtime.monotonic()
        if known is None or self._is_local or now < self._writable_until:
            return
        self._context.files.write_if_absent(self._path, _text(known))
        self._writable_until = now + _WRITABLE_SECONDS

    def accept(self) -> None:
        """Write a marker that is missing: what is there is the warehouse.

        Raises:
            Unavailable: There is another's, or storage does not answer.
        """
        with self._lock:
            if self._found() is None:
                known = self._recorded() or self._context.runtime.new_uuid()
                self._context.files.write_if_absent(self._path, _text(known))
            self._look()
        self.refuse()

    def _is_due(self) -> bool:
        return self._until is None or self._context.runtime.monotonic() >= self._until

    def _look(self) -> None:
        fault: Unavailable | None = None
        try:
            found = self._found()
            if found is None or found != self._known:
                self._known = self._settled(found)
        except _NotThereError as error:
            fault = error
        except (HeadwaterError, IntegrityError):
            # Who does not answer may be there.
            fault = self._fault
        self._fault = fault
        self._until = self._context.runtime.monotonic() + KEPT_SECONDS

    def _settled(self, found: str | None) -> str:
        """The warehouse's id, known to the database and in the marker from now on."""
        context = self._context
        recorded = self._recorded()
        if recorded is not None and found == recorded:
            return recorded
        with context.database.read() as connection:
            holds_tables = has_tables(connection, context.warehouse)
        if found is None:
            # An older version of Headwater made the tables, and no marker.
            is_older = recorded is None and bool(context.files.folders(context.location))
            if holds_tables and not is_older:
                raise _NotThereError(
                    f"the marker {self._path} of warehouse '{context.warehouse}' is missing, and "
                    f"nothing is written until it is there again: {_MEANT}run 'headwater "
                    "reconcile --apply'"
                )
            context.files.write_if_absent(self._path, _text(recorded or context.runtime.new_uuid()))
            # Another process may have been first.
            found = self._found()
        elif not found or (recorded is not None and holds_tables):
            raise _NotThereError(
                f"{self._path} is not the marker of warehouse '{context.warehouse}', and nothing "
                f"is written until that is there again: {_MEANT}delete the file and run 'headwater "
                "reconcile --apply'"
            )
        if found is None:
            raise NotFound(f"{self._path} is gone again")
        if found != recorded:
            self._record(found)
        return found

    def _found(self) -> str | None:
        """The id in the marker; None if there is none, and empty if it is not one."""
        try:
            document = json.loads(self._context.files.read(self._path))
        except NotFound:
            return None
        except ValueError:
            return ""
        found = document.get("id") if isinstance(document, dict) else None
        return found if isinstance(found, str) and len(found) <= _LONGEST_ID else ""

    def _recorded(self) -> str | None:
        row = WarehouseMarkerRow
        with self._context.database.read() as connection:
            return connection.execute(
                select(row.id).where(row.warehouse == self._context.warehouse)
            ).scalar_one_or_none()

    def _record(self, marker: str) -> None:
        row, warehouse = WarehouseMarkerRow, self._context.warehouse

        def work(connection: Connection) -> None:
            other = connection.execute(
                select(row.warehouse).where(row.id == marker)
            ).scalar_one_or_none()
            if other is not None and other != warehouse and has_tables(connection, other):
                raise _NotThereError(
                    f"{self._path} is the marker of warehouse '{other}', and nothing is written to "
                    f"'{warehouse}': if its files are a copy, delete the marker"
                )
            connection.execute(delete(row).where(or_(row.warehouse == warehouse, row.id == marker)))
            connection.execute(insert(row), {"warehouse": warehouse, "id": marker})

        try:
            self._context.database.write(work)
        except IntegrityError:
            # Another process may have been first.
            if self._recorded() != marker:
                raise


class _NotThereError(Unavailable):
    """The warehouse is not in its place."""


def _text(marker: str) -> bytes:
    return json.dumps({"about": _ABOUT, "id": marker}, indent=1).encode() + b"\n"
