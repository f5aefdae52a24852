"""The choice of what runs a SQL statement."""

import pytest
from pyspark.sql import SparkSession

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark


def test_use_chooses_a_database(spark: SparkSession, lake: SparkLake) -> None:
    assert lake.sql("USE db;").columns == []
    with pytest.raises(NotFound, match="missing"):
        lake.sql("USE DATABASE missing")
    with pytest.raises(Invalid, match="where the end of the statement is expected"):
        lake.sql("USE db now")


def test_texts_that_are_no_statement_are_refused(spark: SparkSession, lake: SparkLake) -> None:
    with pytest.raises(Invalid, match="there are 2"):
        lake.sql("USE db; USE db")
    with pytest.raises(Unsupported, match="FLY TO db"):
        lake.sql("FLY TO db")
