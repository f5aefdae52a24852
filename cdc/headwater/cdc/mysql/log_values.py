"""Stand-in, replaced."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.mysql.table_map import ColumnShape
from headwater.cdc.mysql.text_values import BadDates
from headwater.storage.types.data_type import to_arrow


def log_values(
    values: pa.Array, shape: ColumnShape, column: SourceColumn, bad_dates: BadDates = BadDates.FAIL
) -> pa.Array:
    wanted = to_arrow(column.type)
    if pa.types.is_boolean(wanted) and not pa.types.is_boolean(values.type):
        return pc.not_equal(values, 0)
    return pc.cast(values, wanted)
