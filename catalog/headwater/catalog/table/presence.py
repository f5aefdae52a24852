"""Whether a handle's table is still there, as another table may have its name by now.

Readers and writers of files do not ask before each file. When an operation fails for lack of files,
this is where the catalog is asked whether it has the table.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import CorruptData, NotFound, ResourceType, Unavailable
from headwater.storage.snapshot.files import FileSnapshotPointer
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TablePresence, TableStorage

if TYPE_CHECKING:
    # Spark's tasks import this module, and do without the catalog.
    from headwater.catalog.model.catalog import Catalog

__all__ = [
    "CatalogPresence",
    "ExternalPointer",
    "PickledPresence",
    "follow_up",
    "reports_dropped_tables",
]

C = TypeVar("C")


@dataclass(frozen=True)
class CatalogPresence:
    """Asks the catalog for a table by its id. It pickles.

    Attributes:
        catalog: The catalog.
        identifier: The table or branch, bound to its id.
    """

    catalog: Catalog
    identifier: Identifier

    def __reduce__(self) -> tuple[type[PickledPresence], tuple[bytes | None, Identifier]]:
        catalog = pickle.dumps(self.catalog) if self.catalog.is_remote else None
        return PickledPresence, (catalog, self.identifier)

    def require(self, *, waits: bool = True) -> None:
        """Look once for the table; raises NotFound (TABLE)."""
        catalog = self.catalog if waits else self.catalog.patient(0)
        catalog.tables.get(self.identifier)


@dataclass(frozen=True)
class PickledPresence:
    """A `CatalogPresence` in another process, which makes no client unless files are missing.

    Attributes:
        catalog: The catalog, pickled; None for one that other processes cannot reach, of whose
            tables nothing is reported here.
        identifier: The table or branch, bound to its id.
    """

    catalog: bytes | None = field(repr=False)
    identifier: Identifier

    def require(self, *, waits: bool = True) -> None:
        """Look once for the table; raises NotFound (TABLE)."""
        if self.catalog is not None:
            CatalogPresence(pickle.loads(self.catalog), self.identifier).require(waits=waits)


@dataclass(frozen=True)
class ExternalPointer(FileSnapshotPointer):
    """Decides the snapshots of an external table by its files, as long as the catalog has it.

    Attributes:
        presence: Reports whether the catalog has it.
    """

    presence: TablePresence

    def latest(self) -> Snapshot | None:
        """The latest snapshot; NotFound (TABLE) when the table was dropped."""
        self.presence.require()
        return super().latest()


@contextmanager
def follow_up(storage: TableStorage) -> Generator[None]:
    """For what follows a change that the catalog has made: a dropped table needs none of it.

    The change was made before the table was dropped, and is not reported as rejected.
    """
    try:
        with storage.reporting_drop():
            yield
    except NotFound as error:
        if error.resource_type is not ResourceType.TABLE:
            raise


def reports_dropped_tables(owner: type[C]) -> type[C]:
    """Let the public methods of a table's handle report that the table was dropped.

    Without it they would report what they miss: files, or the table's directory. The class needs a
    property ``storage``.
    """
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(owner, name, _reporting(member))
    return owner


def _reporting(function: FunctionType) -> Callable[..., Any]:
    @wraps(function)
    def reporting(handle: Any, *arguments: object, **named: object) -> object:
        try:
            return function(handle, *arguments, **named)
        except (NotFound, CorruptData, Unavailable):
            storage: TableStorage = handle.storage
            with storage.reporting_drop():
                raise

    return reporting
