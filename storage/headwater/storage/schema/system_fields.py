"""Columns beside a table's own, and the names that a table's own columns cannot have.

Paimon reserves the names of ``SpecialFields.java``. Headwater also reserves ``_ROW_KIND``, the
prefix of Paimon's metadata columns and the prefix of its own temporary columns, in any case, since
Spark does not tell names apart by case. No other name is reserved: ``_FILE_NAME``,
``_COMMIT_TIMESTAMP``, ``_INDEX_SCORE`` and the like are ordinary columns, which nothing hides.

A column of a table that another engine made keeps its name. Reads that would hide it fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.printable import has_unprintable
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

__all__ = [
    "KEY_PREFIX",
    "KIND_FIELD",
    "METADATA_PREFIX",
    "ROW_ID_FIELD",
    "ROW_KIND",
    "ROW_KIND_COLUMN",
    "SEQUENCE_FIELD",
    "STORED_TRACKING_FIELDS",
    "TRACKING_FIELDS",
    "check_column_names",
    "check_row_kind_column",
]

_NUMBER = AtomicType(Root.BIGINT, nullable=False)
_UNKNOWN_NUMBER = AtomicType(Root.BIGINT)

SEQUENCE_FIELD = DataField(2**31 - 2, "_SEQUENCE_NUMBER", _NUMBER)
"""The order of the rows of one key; with row tracking, the snapshot that made the row."""
ROW_ID_FIELD = DataField(2**31 - 6, "_ROW_ID", _NUMBER)
"""The column of the ids that rows keep, with row tracking."""
TRACKING_FIELDS: Mapping[str, DataField] = {
    field.name: field for field in (ROW_ID_FIELD, SEQUENCE_FIELD)
}
"""The columns that row tracking adds to a table, by name: read when they are asked for."""
STORED_TRACKING_FIELDS: Mapping[str, DataField] = {
    name: replace(field, type=_UNKNOWN_NUMBER) for name, field in TRACKING_FIELDS.items()
}
"""The same as they stand in files: null where the file's metadata tell."""

KIND_FIELD = DataField(2**31 - 3, "_VALUE_KIND", AtomicType(Root.TINYINT, nullable=False))
"""The column of row kinds: 0 ``+I``, 1 ``-U``, 2 ``+U``, 3 ``-D``."""
KEY_PREFIX = "_KEY_"
"""The prefix of key columns in the files of tables with a primary key."""
ROW_KIND_COLUMN = "_ROW_KIND"
"""The column of row kinds, as names, among changes that are read or written."""
ROW_KIND = "rowkind"
"""The same in audit logs and binlogs."""
METADATA_PREFIX = "__paimon_"
"""The prefix of the metadata columns, which queries can name."""

_PAIMON_NAMES = frozenset({SEQUENCE_FIELD.name, KIND_FIELD.name, "_LEVEL", ROW_KIND, "_ROW_ID"})
_OWN_PREFIXES = (METADATA_PREFIX, "_headwater_")


def check_column_names(names: Iterable[str], present: Collection[str] = ()) -> None:
    """Reject new columns with reserved names, or with names that are unsafe to print.

    Args:
        names: The names of all top-level columns.
        present: The names that columns of the table have already.

    Raises:
        Invalid: A name is reserved, or has a control, format or separator character.
    """
    for name in names:
        if name not in present and has_unprintable(name):
            raise Invalid(
                f"{name!r} is not a column name: it must not contain a control, format or "
                "separator character"
            )
        if name not in present and _is_reserved(name):
            raise Invalid(f"column name '{name}' is reserved; choose another")


def check_row_kind_column(names: Collection[str], column: str) -> None:
    """Reject a read whose column of row kinds would hide one of the table's own.

    Args:
        names: The table's columns that are read.
        column: The name of the column of row kinds.

    Raises:
        Unsupported: The table has a column of that name.
    """
    if column in names:
        raise Unsupported(
            f"cannot read row kinds: the table's own column '{column}' has the name of theirs; "
            "read only other columns, leave the row kinds out, or rename the column"
        )


def _is_reserved(name: str) -> bool:
    if name in _PAIMON_NAMES or name.startswith(KEY_PREFIX):
        return True
    folded = name.casefold()
    return folded == ROW_KIND_COLUMN.casefold() or folded.startswith(_OWN_PREFIXES)
