"""Columns of a frame whose names differ from the table's in case: no value of theirs is lost."""

from __future__ import annotations

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
