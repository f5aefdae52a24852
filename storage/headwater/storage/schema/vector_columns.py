"""The columns of type VECTOR that lie in files of vectors alone.

Source: ``VectorType.fieldsInVectorFile``, ``VectorType.isVectorStoreFile``.
"""

from __future__ import annotations

from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import VectorType

__all__ = [
    "VECTOR_FILE_FORMAT",
    "VECTOR_MARK",
    "columns_in_vector_files",
    "is_vector_file",
    "vector_columns",
]

VECTOR_FILE_FORMAT = "vector.file.format"
VECTOR_MARK = ".vector"
"""The part of the name, before the extension, by which files of vectors alone are known."""


def vector_columns(schema: TableSchema) -> tuple[str, ...]:
    """The names of a table's columns of type VECTOR, in order."""
    return tuple(item.name for item in schema.fields if isinstance(item.type, VectorType))


def columns_in_vector_files(schema: TableSchema) -> tuple[str, ...]:
    """The names of those of them whose new values go to files of their own, in order."""
    is_apart = bool(schema.options.get(VECTOR_FILE_FORMAT, "").strip())
    return vector_columns(schema) if is_apart else ()


def is_vector_file(name: str) -> bool:
    """True for the name of a file of vectors alone."""
    return f"{VECTOR_MARK}." in name
