"""Rights: what a principal may do with a thing, from all that was granted to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.catalog.model.permissions import (
    GRANTABLE,
    Access,
    ColumnSet,
    PermissionTarget,
    TargetType,
)
from headwater.storage.errors import Invalid

__all__ = ["NO_RIGHTS", "WITHIN", "Rights", "Thing", "expanded", "thing_of"]

WITHIN = {TargetType.CATALOG: TargetType.CATALOG_ALL, TargetType.DATABASE: TargetType.DATABASE_ALL}
"""The target of permissions on everything in a thing."""


@dataclass(frozen=True)
class Thing:
    """Something of a warehouse that rights are about; by name, or by id.

    Attributes:
        type: CATALOG, DATABASE, TABLE, VIEW or FUNCTION.
        database: Its database's name, which is its own for a DATABASE; empty for a CATALOG.
        name: Its name in the database, without a branch.
        id: The id of a TABLE that is found by it alone; for a DATABASE, that of a dropped table
            which was in it.
        is_dropped: True for a TABLE that was dropped and can be restored.
    """

    type: TargetType
    database: str = ""
    name: str = ""
    id: str = ""
    is_dropped: bool = False


@dataclass(frozen=True)
class Rights:
    """A principal's rights on a thing.

    Attributes:
        own: On the thing itself.
        within: On everything in it; only catalogs and databases hold anything.
        columns: The sets of columns that permissions on columns keep SELECT on a table to: only
            what is in each of them may be selected. Where there are any, `own` has no SELECT.
        holds_visible: True if something in it may be seen.
        ends_at: The earliest end of what they come from, milliseconds since the epoch; None is
            never.
    """

    own: frozenset[Access] = frozenset()
    within: frozenset[Access] = frozenset()
    columns: Sequence[ColumnSet] = field(default=())
    holds_visible: bool = False
    ends_at: int | None = None

    @property
    def is_visible(self) -> bool:
        """True if the thing may be seen."""
        return bool(self.own or self.within or self.columns) or self.holds_visible

    def hidden_columns(self, columns: Iterable[str]) -> Sequence[str]:
        """Those of some columns that may not be selected."""
        if Access.SELECT in self.own:
            return ()
        if not self.columns:
            return list(columns)
        return [name for name in columns if not all(each.holds(name) for each in self.columns)]


def thing_of(target: PermissionTarget) -> Thing:
    """The thing that a target is; raises Invalid for what is in a thing, and for columns."""
    if target.type is TargetType.COLUMN or target.type in WITHIN.values():
        raise Invalid(f"{target.type} is no thing that somebody sees; name what holds it")
    name = target.table or target.view or target.function or ""
    return Thing(target.type, target.database or "", name)


NO_RIGHTS = Rights()


def expanded(target: TargetType, accesses: Iterable[str]) -> frozenset[Access]:
    """Accesses that were granted on a target, ALL being each that can be."""
    granted = frozenset(map(Access, accesses))
    return granted | GRANTABLE[target] if Access.ALL in granted else granted
