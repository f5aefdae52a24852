"""Tables of tools that change a table's schema while it is in use.

They copy the table's rows into another table, and rename that at the end: what they log of it until
then is not to be followed. Sources: gh-ost's ``go/base/context.go``, pt-online-schema-change,
Facebook's ``osc/lib/constant.py``, LHM's ``lib/lhm/migration.rb``, and Vitess's
``go/vt/schema/name.go`` and ``tablegc.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from headwater.cdc.model.tables import TableName

__all__ = ["is_tool_table"]

# Each with the table that is changed as `base`.
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        # gh-ost: the copy, the log of changes, the former table; on request with a timestamp.
        r"_(?P<base>.+)_(?:gho|ghc|del)",
        r"_(?P<base>.+)_\d{14}_del",
        # pt-online-schema-change: a name that is taken gets more underscores, up to ten.
        *(rf"_{{{count}}}(?P<base>.+)_(?:new|old)" for count in range(1, 11)),
        # OnlineSchemaChange of Facebook: the copy, its deltas, the former table.
        r"__osc_(?:new|chg|old)_(?P<base>.+)",
        # Large Hadron Migrator: the new table, and the former one with the time.
        r"lhmn_(?P<base>.+)",
        r"lhma_\d{4}(?:_\d{2}){5}_\d{3}_(?P<base>.+)",
    )
)
# Vitess names none of the tables that it is about: a hint, a UUID and a timestamp.
_VITESS = re.compile(
    r"_vt_[a-z]{3}_[0-9a-f]{32}_\d{14}_"
    r"|_vt_(?:HOLD|PURGE|EVAC|DROP)_[0-9a-f]{32}_\d{14}"
    r"|_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}_\d{14}_vrepl"
)


def is_tool_table(name: TableName, followed: Callable[[TableName], bool]) -> bool:
    """Whether a table is one that a tool made to change a table that is followed.

    A table of Vitess does not name that table: its own name decides. gh-ost cuts names of more than
    59 characters, of which it cannot be seen whose they are: those tables count as others.

    Args:
        name: The table.
        followed: Whether a table is followed.
    """
    if _VITESS.fullmatch(name.table):
        return True
    matches = (pattern.fullmatch(name.table) for pattern in _PATTERNS)
    bases = (match["base"] for match in matches if match is not None)
    return any(followed(TableName(name.database, base)) for base in bases)
