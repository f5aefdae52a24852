"""Rows picked from batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.storage.rows.gather import kept_rows


@pytest.mark.parametrize("left_out", [(), (3,), (0, 1, 4, 5, 8, 9), tuple(range(10))])
def test_rows_of_a_mask_whatever_its_share(left_out: tuple[int, ...]) -> None:
    rows = [
        {"n": n, "s": None if n == 3 else "x" * n, "l": [{"t": str(n)}] * (n % 3)}
        for n in range(12)
    ]
    batch = pa.RecordBatch.from_pylist(rows).slice(1, 10)
    keep = np.ones(10, np.bool_)
    keep[list(left_out)] = False
    kept = kept_rows(batch, keep)
    assert kept.schema == batch.schema
    assert kept.to_pylist() == [row for row, stays in zip(rows[1:11], keep, strict=True) if stays]
    assert (kept is batch) == (not left_out), "nothing is copied for nothing"
