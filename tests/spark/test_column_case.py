"""Columns of a frame whose names differ from the table's in case: no value of theirs is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def test_what_a_write_adds_takes_the_place_of_no_column(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.days (day STRING, tags ARRAY<STRING> DEFAULT ARRAY('none')) "
        "PARTITIONED BY (day)"
    )
    given = lake.spark.sql("SELECT ARRAY('web') AS TAGS, 'monday' AS day")
    with pytest.raises(Invalid, match="no column 'TAGS'"):
        lake.write(given, "db.days")
    given = lake.spark.sql("SELECT ARRAY('web') AS tags, 'tuesday' AS DAY")
    with pytest.raises(Invalid, match="no column 'DAY'"):
        lake.write(given, "db.days", mode="overwrite", partition={"day": "monday"})
    lake.write(given.drop("DAY"), "db.days", mode="overwrite", partition={"day": "monday"})
    assert rows(lake.table("db.days")) == [("monday", ["web"])]


def test_files_whose_columns_differed_in_case_alone_are_read(lake: SparkLake) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("A", pa.int32())])
    table = lake.catalog.create_table("db.t", schema)
    table.write(pa.table({"id": [1], "a": [2], "A": [3]}).cast(schema))
    lake.sql("ALTER TABLE db.t RENAME COLUMN `A` TO b")
    assert rows(lake.sql("SELECT * FROM db.t")) == [(1, 2, 3)]
    assert rows(lake.sql("SELECT id FROM db.t WHERE b = 3")) == [(1,)]
    assert rows(lake.table("db.t", columns=["a"])) == [(2,)]
