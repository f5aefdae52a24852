"""Fields whose names differ in case alone, in sessions that tell them apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spark.conftest import rows

from headwater.spark import SparkLake

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture
def strict(lake: SparkLake) -> Iterator[SparkLake]:
    """A lake in a session that minds the case of names."""
    lake.spark.conf.set("spark.sql.caseSensitive", "true")
    yield lake
    lake.spark.conf.unset("spark.sql.caseSensitive")


def test_fields_keep_their_own_values(strict: SparkLake) -> None:
    strict.sql("CREATE TABLE db.t (id INT, s STRUCT<x: BIGINT, X: BIGINT>)")
    strict.sql("INSERT INTO db.t BY NAME SELECT named_struct('X', 4, 'x', 3) AS s, 1 AS id")
    assert rows(strict.sql("SELECT id, s.x, s.X FROM db.t WHERE s.X = 4")) == [(1, 3, 4)]
    strict.sql("UPDATE db.t SET s.X = s.x + 6 WHERE id = 1")
    assert rows(strict.sql("SELECT s.x, s.X FROM db.t")) == [(3, 9)]
    strict.sql(
        "MERGE INTO db.t USING (SELECT 1 AS id, named_struct('X', 8, 'x', 7) AS s) n "
        "ON t.id = n.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(strict.sql("SELECT s.x, s.X FROM db.t")) == [(7, 8)]
