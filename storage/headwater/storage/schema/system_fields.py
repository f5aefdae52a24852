"""The columns that Paimon keeps beside a table's own (``SpecialFields.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

__all__ = ["ROW_ID_FIELD", "SEQUENCE_FIELD", "STORED_TRACKING_FIELDS", "TRACKING_FIELDS"]

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
