"""The ids and versions of a file's rows (``DataFileRecordReader.java``)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.schema.system_fields import ROW_ID_FIELD, STORED_TRACKING_FIELDS
from headwater.storage.types.data_type import DataField

__all__ = ["TrackedRows"]


@dataclass(frozen=True)
class TrackedRows:
    """Tells the ids and versions of a file's rows.

    Attributes:
        file: The file.
        path: Its URI, for errors.
    """

    file: DataFile
    path: str

    def stored(self, name: str) -> DataField | None:
        """The file's column of ids or versions; None if it has none."""
        has_it = self.file.write_cols is not None and name in self.file.write_cols
        return STORED_TRACKING_FIELDS[name] if has_it else None

    def column(self, name: str, stored: pa.Array | None, positions: pa.Array) -> pa.Array:
        """The ids or versions of some rows.

        Args:
            name: ``_ROW_ID`` or ``_SEQUENCE_NUMBER``.
            stored: The file's column; null, or None for all rows, where its metadata tell.
            positions: The rows' positions in the file.

        Raises:
            CorruptData: A row has no id.
        """
        if stored is not None and not stored.null_count:
            return stored
        if name != ROW_ID_FIELD.name:
            told = pa.repeat(pa.scalar(self.file.max_sequence_number, pa.int64()), len(positions))
        elif self.file.first_row_id is None:
            raise CorruptData(
                f"file {self.path} has rows without ids, though its table has row tracking: they "
                "were lost when another program rewrote the rows; write the rows anew"
            )
        else:
            told = pc.add(positions, pa.scalar(self.file.first_row_id, pa.int64()))
        return told if stored is None else pc.coalesce(stored, told)
