"""The BLOB columns of a table whose values lie in files of their own.

Source: ``BlobType.fieldsInBlobFile``, ``BlobFileContext.java``.
"""

from __future__ import annotations

from headwater.storage.errors import Unsupported
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType

__all__ = ["columns_in_blob_files", "is_plain_blob", "refuse_unwritable_blobs"]

_ELSEWHERE = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")


def is_plain_blob(data_type: DataType) -> bool:
    """True for the type BLOB itself."""
    return isinstance(data_type, AtomicType) and data_type.root is Root.BLOB


def columns_in_blob_files(schema: TableSchema) -> tuple[str, ...]:
    """The names of the columns of type BLOB, in the table's order."""
    return tuple(item.name for item in schema.fields if is_plain_blob(item.type))


def refuse_unwritable_blobs(schema: TableSchema) -> None:
    """Refuse a table some of whose BLOBs this engine would have to store otherwise.

    Raises:
        Unsupported: The table has a primary key, or an option lets a column hold descriptors.
    """
    blobs = columns_in_blob_files(schema)
    if not blobs:
        return
    if schema.primary_keys:
        raise Unsupported(
            f"column '{blobs[0]}' is of type BLOB in a table with a primary key: Headwater reads "
            "and writes BLOBs of tables with data evolution alone"
        )
    for option in _ELSEWHERE:
        if schema.options.get(option, "").strip():
            raise Unsupported(
                f"'{option}' = '{schema.options[option]}': Headwater writes the values of BLOB "
                "columns, not descriptors of values elsewhere"
            )
