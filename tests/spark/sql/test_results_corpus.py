"""Statements of Spark's own SQL tests: over a lake they give the rows that plain Spark gives."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.conftest import NewSqlite
from tests.spark.sql.corpus_results import FileResult, Kind, compare_file
from tests.spark.sql.spark_inputs import input_files, inputs_folder

from headwater.client.connect import DATABASE_FILE
from headwater.spark import connect

pytestmark = [pytest.mark.spark, pytest.mark.spark_corpus, pytest.mark.slow]

PARTS = 37
RESULTS = "HEADWATER_CORPUS_RESULTS"
"""The variable of the environment that names a folder for the differences of each file, as JSON."""
ANY_ROW = ("SELECT country FROM data LIMIT 1", "SELECT dept_id FROM dept LIMIT 1")
"""Parts of queries that may take any row of a table: LIMIT without an order."""


@pytest.mark.parametrize("part", range(PARTS))
def test_rows_are_those_of_plain_spark(
    spark: SparkSession, tmp_path: Path, new_sqlite: NewSqlite, part: int
) -> None:
    folder = inputs_folder()
    others: list[str] = []
    for number, path in enumerate(input_files(folder)[part::PARTS]):
        place = tmp_path / str(number)
        place.mkdir()
        new_sqlite(place / DATABASE_FILE)
        lake = connect(spark.newSession(), place)
        lake.catalog.create_database("default")
        result = compare_file(path, spark.newSession(), lake)
        _keep(str(path.relative_to(folder)), result)
        others += [
            f"{path.name}: {difference.statement}\nSpark: {difference.spark}\n"
            f"here: {difference.here}"
            for difference in result.differences
            if difference.kind in (Kind.ROWS, Kind.COLUMNS)
            and not any(query in difference.statement for query in ANY_ROW)
        ]
    assert not others, f"{len(others)} statements:\n" + "\n\n".join(others)


def _keep(name: str, result: FileResult) -> None:
    results = os.environ.get(RESULTS)
    if results is not None:
        file = Path(results, f"{name.replace('/', '__')}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"file": name, **asdict(result)}, indent=1))
