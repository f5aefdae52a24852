"""Whether a handle's table is still there, as another table may have its name by now.

Readers and writers of files do not ask before each file. When an operation fails for lack of files,
this is where the catalog is asked whether it has the table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import (
    CorruptData,
    HeadwaterError,
    NotFound,
    OutcomeUnknown,
    ResourceType,
    Unavailable,
)
from headwater.storage.snapshot.files import FileSnapshotPointer
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TablePresence

__all__ = ["CatalogPresence", "ExternalPointer", "reports_dropped_tables"]

C = TypeVar("C")


@dataclass(frozen=True)
class CatalogPresence:
    """Asks the catalog for a table by its id.

    It pickles; without the catalog if only this process reaches that, and reports nothing then.

    Attributes:
        catalog: The catalog.
        identifier: The table or branch, bound to its id.
    """

    catalog: Catalog | None
    identifier: Identifier

    def __reduce__(self) -> tuple[type[CatalogPresence], tuple[Catalog | None, Identifier]]:
        catalog = self.catalog
        reached = catalog if catalog is not None and catalog.is_remote else None
        return CatalogPresence, (reached, self.identifier)

    def require(self) -> None:
        """Look once for the table; raises NotFound (TABLE)."""
        if self.catalog is not None:
            self.catalog.tables.get(self.identifier)


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
        except HeadwaterError as error:
            if _may_lack_files(error):
                try:
                    handle.storage.check_dropped()
                except NotFound as dropped:
                    raise dropped from error
            raise

    return reporting


def _may_lack_files(error: HeadwaterError) -> bool:
    if isinstance(error, NotFound):
        return error.resource_type in (None, ResourceType.SNAPSHOT)
    return isinstance(error, CorruptData | Unavailable) and not isinstance(error, OutcomeUnknown)
