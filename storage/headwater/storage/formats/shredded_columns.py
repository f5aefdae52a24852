"""The MAP columns of a file that lie there as columns of their keys, read as maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.shredded_maps.assembly import MapAssembly
from headwater.storage.shredded_maps.layout import (
    MAPPING,
    OVERFLOW,
    ColumnLayout,
    column_layout,
    column_name,
    stored_column,
)
from headwater.storage.types.data_type import DataField, MapType

__all__ = ["ShreddedColumns"]

# About so many numbers of keys are read at a time.
_BATCH_PLACES = 1 << 22


class ShreddedColumns:
    """Such columns of one file; other columns pass as they are.

    Args:
        path: The file's URI, for errors.
        metadata: The metadata of the file's columns, see
            `headwater.storage.shredded_maps.layout.column_layout`.
    """

    def __init__(self, path: str, metadata: Mapping[str, Mapping[bytes, bytes] | None]) -> None:
        self._path = path
        self._metadata = metadata
        self._layouts: dict[str, ColumnLayout | None] = {}
        self._assemblies: dict[str, MapAssembly] = {}

    def _layout(self, column: DataField) -> ColumnLayout | None:
        name = column.name
        if name not in self._layouts:
            where = f"file {self._path}: column '{name}'"
            found = column_layout(self._metadata.get(name), where)
            if found is not None:
                if not isinstance(column.type, MapType):
                    raise CorruptData(
                        f"{where} is stored by the keys of maps, but is of type {column.type}"
                    )
                self._assemblies[name] = MapAssembly(found)
            self._layouts[name] = found
        return self._layouts[name]

    def stored(self, column: DataField) -> DataField:
        """A column as the file holds it, without parts that hold nothing.

        Raises:
            CorruptData: The file's metadata of the column is malformed, or it is no MAP.
            Unsupported: The column is in a version of the form that is not known.
        """
        layout = self._layout(column)
        return column if layout is None else stored_column(column, layout.used_columns)

    def paths(self, column: DataField, stored: pa.DataType) -> list[str]:
        """The paths of the parts of a column that hold something.

        Args:
            column: The column.
            stored: Its type in the file.

        Raises:
            CorruptData: The file has no such parts; and as `stored` raises.
            Unsupported: As `stored` raises.
        """
        layout = self._layout(column)
        if layout is None:
            return [column.name]
        parts = [MAPPING, *map(column_name, layout.used_columns)]
        if layout.overflowing:
            parts.append(OVERFLOW)
        if len(parts) == 1:
            # Any that tells the type of values.
            parts.append(column_name(0) if layout.columns else OVERFLOW)
        names = {item.name for item in stored} if pa.types.is_struct(stored) else set()
        missing = [part for part in parts if part not in names]
        if missing:
            raise CorruptData(
                f"file {self._path}: column '{column.name}' holds maps by their keys, but has no "
                f"field '{missing[0]}'"
            )
        return [f"{column.name}.{part}" for part in parts]

    def batch_rows(self, columns: Sequence[DataField], rows: int) -> int:
        """Rows of a batch: fewer than `rows` where many columns make a row large."""
        layouts = [each for each in map(self._layout, columns) if each is not None]
        widest = max((each.columns for each in layouts), default=0)
        return rows if not widest else max(1, min(rows, _BATCH_PLACES // widest))

    def whole(self, array: pa.Array, column: DataField) -> pa.Array:
        """A column as maps.

        Args:
            array: The column as the file holds it; unused parts may be left out.
            column: The column.

        Raises:
            CorruptData: The rows do not hold what the file says of them.
        """
        where = f"file {self._path}: column '{column.name}'"
        if self._layout(column) is None:
            if isinstance(column.type, MapType) and pa.types.is_struct(array.type):
                raise CorruptData(
                    f"{where} holds rows instead of maps, and the file does not say how to read "
                    "them"
                )
            return array
        try:
            return self._assemblies[column.name].maps(array)
        except (ValueError, pa.ArrowException) as error:
            raise CorruptData(
                f"{where} holds maps by their keys that cannot be put together: {error}"
            ) from error
