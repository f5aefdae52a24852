"""The columns that Paimon adds to data files, whatever their format (``SpecialFields.java``)."""

from __future__ import annotations

from dataclasses import replace

from headwater.storage.schema.system_fields import (
    KEY_PREFIX,
    KIND_FIELD,
    ROW_ID_FIELD,
    SEQUENCE_FIELD,
    STORED_TRACKING_FIELDS,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField

__all__ = ["KEY_PREFIX", "KIND_FIELD", "SEQUENCE_FIELD", "data_file_fields"]

_KEY_ID_START = (2**31 - 1) // 2


def data_file_fields(
    schema: TableSchema, *, thin: bool = False, tracked: bool = False
) -> tuple[DataField, ...]:
    """The columns of a data file or changelog file of a table, in their order.

    Args:
        schema: The table's schema; without a primary key its columns are the answer.
        thin: Leave the ``_KEY_`` columns out (``data-file.thin-mode``).
        tracked: Whether the file is of rows that keep their ids, which come last.
    """
    if not schema.primary_keys:
        if not tracked:
            return schema.fields
        sequence = STORED_TRACKING_FIELDS[SEQUENCE_FIELD.name]
        return (*schema.fields, ROW_ID_FIELD, sequence)
    keys = () if thin else tuple(
        replace(key, id=_KEY_ID_START + key.id, name=KEY_PREFIX + key.name)
        for key in schema.key_fields
    )  # fmt: skip
    return (*keys, SEQUENCE_FIELD, KIND_FIELD, *schema.fields)
