"""The BLOB columns of a table whose values lie in files of their own.

Source: ``BlobType.fieldsInBlobFile``, ``BlobFileContext.java``, ``KeyValueFileWriterFactory.java``.
"""

from __future__ import annotations

from headwater.storage.errors import Unsupported
from headwater.storage.schema.option_changes import listed_names
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType

__all__ = [
    "columns_in_blob_files",
    "descriptor_columns",
    "is_plain_blob",
    "managed_blob_columns",
    "refuse_unwritable_blobs",
]

_ELSEWHERE = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")


def is_plain_blob(data_type: DataType) -> bool:
    """True for the type BLOB itself."""
    return isinstance(data_type, AtomicType) and data_type.root is Root.BLOB


def columns_in_blob_files(schema: TableSchema) -> tuple[str, ...]:
    """The names of the columns whose values are joined with the others by row ids, in order.

    They are those of type BLOB that are not of descriptors, in a table without a primary key.
    """
    return () if schema.primary_keys else _stored_columns(schema)


def managed_blob_columns(schema: TableSchema) -> tuple[str, ...]:
    """The names of the columns whose values lie in packs that rows tell the places in, in order.

    They are those of type BLOB that are not of descriptors, in a table with a primary key.
    """
    return _stored_columns(schema) if schema.primary_keys else ()


def _stored_columns(schema: TableSchema) -> tuple[str, ...]:
    elsewhere = descriptor_columns(schema)
    return tuple(
        item.name
        for item in schema.fields
        if is_plain_blob(item.type) and item.name not in elsewhere
    )


def descriptor_columns(schema: TableSchema) -> frozenset[str]:
    """The names of the columns that lie among the others and tell where their values are."""
    texts = (schema.options.get(option, "") for option in _ELSEWHERE)
    return frozenset(name for text in texts for name in listed_names(text))


def refuse_unwritable_blobs(schema: TableSchema) -> None:
    """Refuse a table some of whose BLOBs this engine would have to store otherwise.

    Raises:
        Unsupported: An option lets a column hold descriptors.
    """
    if not any(is_plain_blob(item.type) for item in schema.fields):
        return
    for option in _ELSEWHERE:
        if schema.options.get(option, "").strip():
            raise Unsupported(
                f"'{option}' = '{schema.options[option]}': Headwater writes the values of BLOB "
                "columns, not descriptors of values elsewhere"
            )
