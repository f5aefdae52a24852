"""CALL sys.rescale: other numbers of buckets for rows that are there."""

from __future__ import annotations

import pytest
from tests.spark.conftest import Rows, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]

SUMS = "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'"
KEYED = f"'primary-key' = 'p,id', {SUMS}"


def buckets(lake: SparkLake, partition: str) -> set[int]:
    return {
        file.bucket
        for file in lake.catalog.table("db.r").files()
        if file.partition == f"p={partition}"
    }


def content(lake: SparkLake) -> Rows:
    return rows(lake.table("db.r"))


@pytest.mark.parametrize(
    "options",
    [
        KEYED,
        f"{KEYED}, 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'",
        "'bucket-key' = 'id'",
    ],
    ids=["keyed", "waiting", "appended"],
)
def test_partitions_get_the_buckets_that_the_option_says(lake: SparkLake, options: str) -> None:
    lake.sql(
        "CREATE TABLE db.r (id INT, n INT, p STRING) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('bucket' = '1', {options})"
    )
    for p in ("x", "y"):
        lake.sql(f"INSERT INTO db.r SELECT id, 1, '{p}' FROM range(20)")
    lake.sql("INSERT INTO db.r VALUES (1, 5, 'x')")
    lake.sql("ALTER TABLE db.r SET TBLPROPERTIES ('bucket' = '3')")
    with pytest.raises(Unsupported, match=r"SET TBLPROPERTIES \('bucket' = '5'\)"):
        lake.sql("CALL sys.rescale(table => 'db.r', bucket_num => 5)")
    with pytest.raises(Invalid, match="whole partitions"):
        lake.sql("CALL sys.rescale(table => 'db.r', where => 'id = 1')")
    assert [tuple(row) for row in lake.sql("CALL sys.rescale('db.r', 3, 'p=x')").collect()] == [
        (True,)
    ]
    assert (buckets(lake, "x"), buckets(lake, "y")) == ({0, 1, 2}, {0})
    lake.sql("CALL sys.rescale('db.r')")
    assert (buckets(lake, "x"), buckets(lake, "y")) == ({0, 1, 2}, {0, 1, 2})
    lake.sql("INSERT INTO db.r VALUES (1, 7, 'x')")
    if "write-only" in options:
        lake.compact("db.r", full=True)
    found = content(lake)
    assert sum(row[1] for row in found if isinstance(row[1], int)) == 52
    assert len(found) == (42 if "bucket-key" in options else 40)


def test_tables_without_buckets_of_a_number_are_refused(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.a (id INT, v INT)")
    with pytest.raises(Invalid, match="no fixed number of buckets"):
        lake.sql("CALL sys.rescale('db.a')")
    lake.sql(
        "CREATE TABLE db.d (id INT, v INT DEFAULT 3) TBLPROPERTIES ('bucket' = '1', "
        "'primary-key' = 'id')"
    )
    with pytest.raises(Unsupported, match="column 'v' would become its default"):
        lake.sql("CALL sys.rescale('db.d')")
