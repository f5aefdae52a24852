"""Headwater's Spark engine and Spark with Paimon's JAR, in turns on the tables of one server.

Each script runs on three tables: on the first by Paimon alone, on the others by both in turns, of
whom either begins. After each statement both read the same rows, schemas and snapshots of all.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headwater.client.lake import Lake

from .conftest import Service
from .paimon_spark_kinds import COLUMNS, KINDS
from .spark_engines import Engines, SparkEngine, both_engines

pytestmark = [pytest.mark.interop_java, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def engines(
    spark: SparkSession,
    service: Service,
    lake: Lake,
    tmp_path_factory: pytest.TempPathFactory,
) -> Engines:
    return both_engines(spark, service, tmp_path_factory.mktemp("paimon-spark"))


@pytest.mark.parametrize("kind", KINDS)
def test_both_change_the_rows_of_a_table_in_turns(engines: Engines, kind: str) -> None:
    tables = [f"interop.turns_{kind.replace('-', '_')}_{which}" for which in "pab"]
    alone, *shared = tables
    first, second = engines.paimon, engines.headwater
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in KINDS[kind].properties.items())
    create = f"CREATE TABLE {{t}} ({COLUMNS}) PARTITIONED BY (day) TBLPROPERTIES ({pairs})"
    script = (create, *KINDS[kind].script)
    for number, statement in enumerate(script):
        doers: tuple[SparkEngine, ...] = (first, first, second)
        if number % 2:
            doers = (first, second, first)
        for table, doer in zip(tables, doers, strict=True):
            doer.query(statement.format(t=table))
        what = f"after step {number}: {' '.join(statement.split())[:90]}"
        expected = first.query(f"SELECT * FROM {alone}")
        assert number == 0 or expected
        for table in shared:
            for engine in (first, second):
                found = engine.query(f"SELECT * FROM {table}")
                assert found == expected, f"{engine.name} reads {table} {what}"
    for table in shared:
        same(engines, f"SELECT * FROM {table} WHERE k % 2 = 0 AND day > '2026-01-01'")
        for part in ("snapshots", "schemas", "options", "files", "audit_log", "partitions"):
            query = SYSTEM[part].format(t=quoted(f"{table}${part}"))
            same(engines, query)


SYSTEM = {
    "snapshots": "SELECT * EXCEPT (commit_time) FROM {t}",
    "schemas": "SELECT schema_id, fields, partition_keys, primary_keys, comment FROM {t}",
    "options": "SELECT * FROM {t}",
    "files": (
        "SELECT partition, bucket, substring_index(file_path, '/', -1), file_format, schema_id, "
        "level, record_count, file_size_in_bytes, min_sequence_number, max_sequence_number FROM {t}"
    ),
    "audit_log": "SELECT * FROM {t}",
    "partitions": "SELECT partition, record_count, file_size_in_bytes, file_count FROM {t}",
}


def quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def same(engines: Engines, query: str) -> None:
    theirs, ours = engines.paimon.query(query), engines.headwater.query(query)
    assert ours == theirs, query
