"""Paimon's own functions of queries: ``sys.max_pt('table')``.

Source: ``PaimonFunctions.scala``, ``ReplacePaimonFunctions.scala``.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import SYSTEM_DATABASE
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.names import string_literal
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.options import TableOptions
from headwater.storage.rows.partition import static_partition
from headwater.storage.types.values import arrow_scalar, partition_text

__all__ = ["PAIMON_FUNCTIONS", "is_paimon_function", "max_partition"]

_MAX_PT = "max_pt"
PAIMON_FUNCTIONS = (_MAX_PT,)
"""The functions of the database ``sys`` that queries call."""
_READABLE = TableOptions({"partition.legacy-name": "false"})


def is_paimon_function(database: str, name: str) -> bool:
    """Whether it is ``sys.max_pt``.

    Raises:
        Unsupported: It is another one of the database ``sys``, none of which queries here call.
    """
    if database.casefold() != SYSTEM_DATABASE:
        return False
    if name.casefold() == _MAX_PT:
        return True
    raise Unsupported(
        f"function {database}.{name} is not supported: of Paimon's functions queries call "
        f"{SYSTEM_DATABASE}.{_MAX_PT} alone; BLOB columns give and take the bytes themselves, and "
        "never descriptors of bytes elsewhere"
    )


def max_partition(
    arguments: Sequence[str | None], context: SqlContext, database: str | None
) -> str:
    """The literal in the place of ``sys.max_pt('table')``.

    That is the greatest value of the first partition column among the partitions with files, as a
    string.

    Args:
        arguments: The values of its arguments; None for those that are not constants.
        context: The user's.
        database: The database of a name that says none.

    Raises:
        Invalid: It is not one table's name as a string, or the table has no partition columns.
        NotFound: The table does not exist, or no partition of it has files.
    """
    name = arguments[0] if len(arguments) == 1 else None
    if name is None:
        raise Invalid(
            f"{SYSTEM_DATABASE}.{_MAX_PT} takes one table's name in quotes, as in "
            f"{SYSTEM_DATABASE}.{_MAX_PT}('database.table')"
        )
    parts = [part.strip("`") for part in name.split(".")]
    if len(parts) == 1 and database is not None:
        parts = [database, *parts]
    table = context.table(context.full_name(parts))
    if not table.schema.partition_keys:
        raise Invalid(f"{SYSTEM_DATABASE}.{_MAX_PT}: table {table.name} has no partitions")
    field = table.schema.partition_fields[0]
    values = [
        static_partition(table.storage, partition.spec)[field.name]
        for partition in table.partitions()
        if partition.file_count > 0
    ]
    known = [value for value in values if value is not None]
    if not known:
        raise NotFound(
            f"{SYSTEM_DATABASE}.{_MAX_PT}: no partition of table {table.name} has files",
            resource_type=ResourceType.PARTITION,
            resource_name=table.name,
        )
    greatest = max(known, key=lambda value: arrow_scalar(value, field.type).as_py())
    text = partition_text(greatest, field, _READABLE)
    if "\\" not in string_literal(text):
        return string_literal(text)
    # Not all sessions take a backslash for an escape.
    return f"decode(X'{text.encode().hex()}', 'UTF-8')"
