"""Paimon's own functions of queries, such as ``sys.max_pt('table')``.

Source: ``PaimonFunctions.scala``, ``ReplacePaimonFunctions.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.catalog.model.identifier import SYSTEM_DATABASE
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.names import string_literal
from headwater.spark.sql.query.descriptor_functions import (
    DESCRIPTOR_FUNCTIONS,
    register_descriptor_function,
)
from headwater.spark.sql.query.references import FunctionCall
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.formats.blob_descriptor import descriptor
from headwater.storage.options import TableOptions
from headwater.storage.rows.partition import static_partition
from headwater.storage.types.values import arrow_scalar, partition_text

__all__ = ["PAIMON_FUNCTIONS", "REFUSED_FUNCTIONS", "max_partition", "paimon_call"]

_MAX_PT = "max_pt"
_PATH = "path_to_descriptor"
PAIMON_FUNCTIONS = (_MAX_PT, *DESCRIPTOR_FUNCTIONS)
"""The functions of the database ``sys`` that queries call."""
_SIGNS = (
    "Headwater signs no URLs of files; read the value, or sign the URI that "
    "sys.descriptor_to_string shows with the store's own client"
)
_BUCKETS = "the column __paimon_bucket of a table has the buckets of its rows"
REFUSED_FUNCTIONS: Mapping[str, str] = {
    "blob_view": "no column here holds views of values of other tables; join the other table",
    "bucket": _BUCKETS,
    "descriptor_to_presigned_url": _SIGNS,
    "hive_bucket": _BUCKETS,
    "mod_bucket": _BUCKETS,
    "try_descriptor_to_presigned_url": _SIGNS,
}
"""Paimon's functions that are refused, and why, or what to do instead."""
_READABLE = TableOptions({"partition.legacy-name": "false"})


def paimon_call(
    call: FunctionCall, context: SqlContext, database: str | None
) -> tuple[int, int, str] | None:
    """The offsets of a call of a function of ``sys``, and what to write there.

    None for a function of another database.

    Args:
        call: The call.
        context: The user's.
        database: The database of tables whose names say none.

    Raises:
        Unsupported: Queries here do not call the function.
        Invalid, NotFound: As `max_partition`.
    """
    parts = context.whole_name(call.parts)
    if len(parts) != 2 or parts[0].casefold() != SYSTEM_DATABASE:
        return None
    name = parts[1].casefold()
    if name == _MAX_PT:
        return call.start, call.close, max_partition(call.constants, context, database)
    if name == _PATH and len(call.constants) == 1 and call.constants[0] is not None:
        # VALUES takes no calls of SQL functions.
        literal = f"X'{descriptor(call.constants[0], 0, -1).hex()}'"
        return call.start, call.close, literal
    if name in DESCRIPTOR_FUNCTIONS:
        return call.start, call.end, register_descriptor_function(context, name)
    if name in REFUSED_FUNCTIONS:
        raise Unsupported(
            f"function {SYSTEM_DATABASE}.{name} is not supported: {REFUSED_FUNCTIONS[name]}"
        )
    raise Unsupported(
        f"unknown function {SYSTEM_DATABASE}.{name}; there are "
        f"{', '.join(f'{SYSTEM_DATABASE}.{known}' for known in PAIMON_FUNCTIONS)}"
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
