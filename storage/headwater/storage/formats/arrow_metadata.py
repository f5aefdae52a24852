"""Metadata of columns, in an Arrow schema that a file holds under a key of its own.

Paimon says there how its columns are to be read. Source: ``FormatMetadataUtils.java``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pyarrow as pa

__all__ = ["SCHEMA_KEY", "columns_metadata", "schema_entry"]

SCHEMA_KEY = b"ARROW:schema"


def schema_entry(schema: pa.Schema, columns: Mapping[str, Mapping[bytes, bytes]]) -> bytes:
    """The value under the key.

    Args:
        schema: The file's schema.
        columns: Metadata that is added to that of columns.
    """
    fields = [
        item.with_metadata({**(item.metadata or {}), **columns.get(item.name, {})})
        for item in schema
    ]
    return base64.b64encode(pa.schema(fields).serialize().to_pybytes())


def columns_metadata(entry: bytes) -> Mapping[str, Mapping[bytes, bytes] | None]:
    """The metadata of each column in such a value; of none when it is no schema, as in Java."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(entry)))
    except (ValueError, OSError):
        return {}
    return {item.name: item.metadata for item in schema}
