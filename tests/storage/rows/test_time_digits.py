"""Times with more digits than a table's column: they are rejected, and counted in values alone."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from headwater.storage.errors import Invalid
from headwater.storage.rows.ingest import coerce
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField, parse_type
from headwater.storage.types.local_time import utc


def coerced(values: pa.Array) -> list[object]:
    """The values in a column with four digits of a second."""
    fields = (DataField(0, "c", parse_type("TIMESTAMP(4)")),)
    schema = TableSchema(0, fields, 1, (), (), {}, None, 0)
    table = coerce(pa.table({"c": values}), schema, "db.t", utc)
    return list(table.column("c").to_pylist())


def test_what_is_below_nulls_or_beside_a_slice_does_not_count() -> None:
    numbers = np.array([7, -300, 1, 0, 200, 7], np.int64)
    valid = pa.py_buffer(np.packbits([1, 1, 0, 1, 1, 1], bitorder="little"))
    values = pa.Array.from_buffers(pa.timestamp("us"), len(numbers), [valid, pa.py_buffer(numbers)])
    assert coerced(values.slice(1, 4)) == values.slice(1, 4).to_pylist()
    for wrong, count in ((values, 2), (values.slice(1), 1), (values.slice(0, 3), 1)):
        with pytest.raises(Invalid, match=f"but {count} values are longer or more precise"):
            coerced(wrong)


def test_negative_and_large_numbers_count() -> None:
    values = pa.array([-301, -1, 2**62 + 1, -300], pa.timestamp("us"))
    with pytest.raises(Invalid, match="but 3 values are longer or more precise"):
        coerced(values)
    assert coerced(pa.array([-300], pa.timestamp("us"))) == [
        datetime(1969, 12, 31, 23, 59, 59, 999700)
    ]
