"""Tables that may be created, or replaced, but could not be written."""

from __future__ import annotations

from headwater.storage.capabilities import Operation, refuse_options
from headwater.storage.errors import Unsupported
from headwater.storage.merge.rules import MergeRules
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema.table_type import table_type
from headwater.storage.types.data_type import refuse_kept
from headwater.storage.write.file_encoding import refuse_formats
from headwater.storage.write.new_writer import refuse_fixed_keys

__all__ = ["refuse_unwritable"]


def refuse_unwritable(
    table: str, schema: Schema, instead: str = "pass for_another_engine=True"
) -> None:
    """Refuse a table that this engine could not write, before anybody creates it or replaces one.

    A schema without columns is not judged: those of an external table are in its files.

    Args:
        table: The table's name in error messages.
        schema: The schema that is asked for.
        instead: The caller's way to create such a table for another engine, as advice.

    Raises:
        Invalid: The schema is not allowed.
        Unsupported: This engine does not write such a table; the message says how to have it for
            another engine.
    """
    if not schema.fields:
        return
    made = new_table_schema(schema, 0)
    try:
        refuse_options(table, made.options, Operation.WRITE, keyed=bool(made.primary_keys))
        if table_type(made.options).has_snapshots:
            for field in made.fields:
                refuse_kept(field)
            refuse_formats(made)
            if made.primary_keys:
                MergeRules.of(made)
                refuse_fixed_keys(table, made)
    except Unsupported as error:
        raise Unsupported(f"{error}; to create it for that engine anyway, {instead}") from error
