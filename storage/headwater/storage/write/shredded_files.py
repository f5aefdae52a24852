"""Files that hold MAP columns as columns of their keys.

Source: ``ShreddingFormatWriter.java``, ``MapSharedShreddingWritePlanFactory.java``,
``MapSharedShreddingContext.java``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.formats.file_writer import EndedByBlock, cast_column
from headwater.storage.formats.protocol import FormatWriter, WrittenFile
from headwater.storage.options import TableOptions
from headwater.storage.schema.map_layouts import shredded_maps
from headwater.storage.shredded_maps.layout import CODECS
from headwater.storage.shredded_maps.shredder import MapShredder
from headwater.storage.types.data_type import DataField, to_arrow

__all__ = ["ShreddedFiles"]

_REMEMBERED_FILES = 20
_SHARE = 0.9
# A few more columns than most files need are made if they are enough for all.
_FEW_COLUMNS = 4
_FEW_TIMES = 1.25


class ShreddedFiles:
    """The files that one writer writes, one after the other.

    The first has as many columns for keys as the options allow; later ones, as many as rows of
    those before needed.

    Args:
        options: The table's options.
        fields: The columns of the files.

    Raises:
        Invalid: An option is malformed.
    """

    def __init__(self, options: TableOptions, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._maps = shredded_maps(options, fields)
        self._widest: Mapping[str, deque[int]] = {
            name: deque(maxlen=_REMEMBERED_FILES) for name in self._maps
        }

    def start(
        self, codec: str, begin: Callable[[Sequence[DataField]], FormatWriter]
    ) -> FormatWriter:
        """Start a file.

        Args:
            codec: The codec of the keys of maps.
            begin: Starts a file with columns.

        Raises:
            Invalid: Keys cannot have the codec.
        """
        if not self._maps:
            return begin(self._fields)
        if codec not in CODECS:
            raise Invalid(
                f"column '{min(self._maps)}': maps that are stored by their keys need one of "
                f"{', '.join(CODECS)} as 'file.compression', not '{codec}'"
            )
        shredders = {
            at: MapShredder(item, self._columns(item.name), self._maps[item.name].policy)
            for at, item in enumerate(self._fields)
            if item.name in self._maps
        }
        stored = [
            shredders[at].stored if at in shredders else item
            for at, item in enumerate(self._fields)
        ]
        return _ShreddingWriter(begin(stored), shredders, codec, self._widest)

    def _columns(self, name: str) -> int:
        """The number of columns for the keys of the next file's maps."""
        most = self._maps[name].most_columns
        widest = sorted(self._widest[name])
        if not widest:
            return most
        common = widest[math.ceil(_SHARE * len(widest)) - 1]
        enough = max(common + _FEW_COLUMNS, math.ceil(common * _FEW_TIMES))
        return max(1, min(widest[-1] if widest[-1] <= enough else common, most))


class _ShreddingWriter(EndedByBlock):
    """Writes rows with maps to a file that holds them by their keys."""

    def __init__(
        self,
        file: FormatWriter,
        shredders: Mapping[int, MapShredder],
        codec: str,
        widest: Mapping[str, deque[int]],
    ) -> None:
        self._file = file
        self._shredders = shredders
        self._codec = codec
        self._widest = widest
        self._step = min(each.step for each in shredders.values())
        self._written: WrittenFile | None = None

    @property
    def path(self) -> str:
        """The file's URI."""
        return self._file.path

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        return self._file.row_count

    @property
    def size_estimate(self) -> int:
        """Roughly the bytes of the file if it were closed now."""
        return self._file.size_estimate

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append rows, as `FormatWriter.write` says."""
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        for at, shredder in self._shredders.items():
            item = shredder.column
            column = cast_column(table.column(at), to_arrow(item.type), item, self.path)
            table = table.set_column(at, table.schema.field(at).with_type(column.type), column)
        for start in range(0, table.num_rows, self._step):
            for batch in table.slice(start, self._step).to_batches():
                columns = list(batch.columns)
                for at, shredder in self._shredders.items():
                    columns[at] = shredder.shredded(columns[at])
                self._file.write(pa.Table.from_arrays(columns, names=batch.schema.names))

    def describe(self, columns: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Have the file hold metadata of these columns, as `FormatWriter.describe` says."""
        self._file.describe(columns)

    def close(self) -> WrittenFile:
        """Finish the file; it is there, durably, when this returns."""
        if self._written is None:
            layouts = {each.column.name: each.layout for each in self._shredders.values()}
            self.describe({name: each.metadata(self._codec) for name, each in layouts.items()})
            self._written = self._file.close()
            for name, layout in layouts.items():
                self._widest[name].append(layout.widest)
        return self._written

    def abort(self) -> None:
        """Give the file up; nothing of it stays."""
        self._file.abort()
