"""Write the BLOB values of a primary-key table to packs, and leave their places in the rows.

A value is written once: merges and compactions move only its descriptor. So packs belong to no data
file, and nothing deletes one whose commit may have happened.

Source: ``PrimaryKeyBlobExternalizer.java``, ``ManagedBlobReferenceCollector.java``.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.files.location import shown_location
from headwater.storage.formats.blob_descriptor import Descriptors, are_descriptors, descriptor
from headwater.storage.formats.blob_file import ENTRY_START, BlobFileWriter
from headwater.storage.formats.blob_references import PACK_SUFFIX, packed_references
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import arrow_mask, numpy_values

__all__ = ["BlobPacks", "PackReferences", "refuse_descriptors"]


def refuse_descriptors(storage: TableStorage, rows: pa.Table, stored: Collection[str] = ()) -> None:
    """Refuse values of BLOB columns that would be taken for the places of others.

    Args:
        storage: The table.
        rows: The rows.
        stored: The columns that hold what the table's own files say, which are left out.

    Raises:
        Invalid: A value is a descriptor.
    """
    for name in managed_blob_columns(storage.schema):
        if name in stored:
            continue
        if pc.any(are_descriptors(rows.column(name))).as_py():
            raise Invalid(
                f"table {storage.name}, column '{name}': a value is a descriptor, the place of a "
                "BLOB; read it without 'blob-as-descriptor', and write what it holds"
            )


class BlobPacks:
    """Writes the values of BLOB columns of one bucket's rows to packs.

    Each pack holds values of one column and ends at ``blob.target-file-size``.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.

    Attributes:
        paths: The packs so far.
    """

    def __init__(self, storage: TableStorage, partition: bytes, bucket: int) -> None:
        self._storage = storage
        self._columns = managed_blob_columns(storage.schema)
        self._bucket = partition, bucket
        self._prefix = ""
        self.paths: list[str] = []

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with descriptors in the place of values; all packs are finished.

        Those that retract others lose their values. A value that is a descriptor stays one.

        Args:
            rows: With ``_VALUE_KIND``.

        Raises:
            Invalid: A row retracts another, and the column must not hold null.
        """
        if not self._columns:
            return rows
        adds = (numpy_values(rows.column(KIND_FIELD.name)) & 1) == 0
        for name in self._columns:
            at = rows.schema.get_field_index(name)
            found = self._described(name, rows.column(name), adds)
            field = pa.field(name, found.type, self._storage.schema.column(name).type.nullable)
            rows = rows.set_column(at, field, found)
        return rows

    def _described(self, name: str, column: pa.Array, adds: np.ndarray) -> pa.Array:
        if not adds.all():
            if not self._storage.schema.column(name).type.nullable:
                raise Invalid(
                    f"table {self._storage.name}: column '{name}' of type BLOB is NOT NULL, and "
                    "rows that retract others hold no BLOB; make the column nullable"
                )
            column = pc.if_else(arrow_mask(adds), column, pa.scalar(None, column.type))
        is_new = pc.and_(column.is_valid(), pc.invert(pc.fill_null(are_descriptors(column), False)))
        new = np.flatnonzero(is_new.to_numpy(zero_copy_only=False))
        if not len(new):
            return column
        # A value may be as large as a file of other columns: a loop over them costs nothing.
        described = self._written([column[at].as_buffer() for at in new.tolist()])
        return pc.replace_with_mask(column, is_new, pa.array(described, column.type))

    def _written(self, values: list[pa.Buffer]) -> list[bytes]:
        """Write values; their descriptors."""
        described: list[bytes] = []
        target = self._storage.schema.table_options.blob_target_file_size
        writer: BlobFileWriter | None = None
        try:
            for value in values:
                if writer is None:
                    writer = BlobFileWriter(self._storage.files, self._next_path())
                start = writer.size + ENTRY_START
                writer.write(value)
                described.append(descriptor(shown_location(writer.path), start, value.size))
                if writer.size >= target:
                    finished, writer = writer, None
                    finished.close()
            if writer is not None:
                finished, writer = writer, None
                finished.close()
        except BaseException:
            if writer is not None:
                writer.abort()
            raise
        return described

    def _next_path(self) -> str:
        if not self.paths:
            directory = bucket_directory(self._storage, *self._bucket)
            prefix = self._storage.schema.table_options.data_file_prefix
            self._prefix = f"{directory}/{prefix}{self._storage.runtime.new_uuid()}"
        self.paths.append(f"{self._prefix}-{len(self.paths)}{PACK_SUFFIX}")
        return self.paths[-1]

    def abort(self) -> None:
        """Delete the packs; those that cannot be deleted stay, and nothing names them."""
        for path in self.paths:
            with suppress(HeadwaterError):
                self._storage.files.delete(path)
        self.paths.clear()


class PackReferences:
    """The packs that the rows of one data file refer to.

    Args:
        storage: The table.
    """

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage
        self._columns = managed_blob_columns(storage.schema)
        self._uris: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        """Take note of rows, with ``_VALUE_KIND``."""
        adds = pc.equal(pc.bit_wise_and(rows.column(KIND_FIELD.name), 1), 0)
        for name in self._columns:
            where = f"table {self._storage.name}, column '{name}'"
            for chunk in rows.column(name).filter(adds).chunks:
                self._uris.update(Descriptors.of(chunk, where).uris)

    def content(self) -> bytes:
        """The content of the file that names them."""
        return packed_references(uri for uri in self._uris if uri.endswith(PACK_SUFFIX))
