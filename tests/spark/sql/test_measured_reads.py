"""The files, bytes and rows that a query has read when it ran."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

from headwater.spark import SparkLake
from headwater.spark.source.read_counter import Measured

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def measured(lake: SparkLake, frame: DataFrame | None = None) -> list[Measured | None]:
    return [read.measured(frame) for read in lake.last_query]


@pytest.mark.parametrize(
    ("text", "files_and_rows"),
    [
        # Spark's own scan, which leaves a file out and applies its condition after reading.
        ("SELECT price FROM items WHERE id = 3", [(1, 10)]),
        ("SELECT count(*) FROM items", [(2, 20)]),
        # Python workers, which merge two files.
        ("SELECT name FROM orders WHERE part = '0' AND id < 9", [(2, 3)]),
        # Both of them.
        ("SELECT count(*) FROM orders", [(4, 30)]),
        ("SELECT name FROM orders o JOIN items i ON o.id = i.id AND i.id > 12", [(4, 25), (1, 10)]),
        ("SELECT id, (SELECT max(price) FROM items) FROM orders WHERE part = '1'",
         [(2, 20), (1, 10)]),
        # The same files in two places.
        ("SELECT a.price, b.day FROM items a JOIN items b ON a.id = b.id + 1", [(2, 20), (2, 20)]),
        ("SELECT price FROM items WHERE id = 3 UNION ALL SELECT price FROM items WHERE id = 4",
         [(1, 10), (1, 10)]),
        ("SELECT 1 FROM items WHERE 1 = 0", [(0, 0)]),
        ("SELECT * FROM orders$snapshots", [None]),
    ],
)  # fmt: skip
def test_what_a_query_read_is_told(
    shop: SparkLake, text: str, files_and_rows: list[tuple[int, int] | None]
) -> None:
    frame = shop.sql(text)
    frame.collect()
    found = measured(shop)
    assert [each and (each.files, each.rows) for each in found] == files_and_rows
    for read, each in zip(shop.last_query, found, strict=True):
        assert each is None or (each.files, each.bytes) == (read.files, read.bytes)
    # Once more is not twice as much.
    frame.toArrow()
    assert measured(shop) == found


def test_nothing_is_told_of_what_did_not_run(shop: SparkLake) -> None:
    frame = shop.sql("SELECT id, name FROM orders WHERE part <> '2'")
    assert measured(shop) == [None]
    # Spark runs another frame, of which this one knows nothing.
    assert frame.count() == 20
    assert measured(shop) == [None]
    counted = frame.groupBy().count()
    assert [row[0] for row in counted.collect()] == [20]
    (found,) = measured(shop, counted)
    assert found is not None
    assert (found.files, found.rows) == (3, 20)
    assert measured(shop) == [None]


def test_python_workers_tell_of_every_run(shop: SparkLake) -> None:
    frame = shop.sql("SELECT id, name FROM orders WHERE part = '0'")
    assert measured(shop) == [None]
    assert frame.count() == 10
    (found,) = measured(shop)
    assert found is not None
    assert (found.files, found.rows) == (2, 10)
