"""What planning a query costs: calls of Spark's JVM, each a fraction of a millisecond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture
def calls(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], object]], int]:
    """Counts the calls of the JVM that some work takes."""
    if kind_of_session() == "connect":
        pytest.skip("the JVM is not called")
    context: Any = spark.sparkContext
    client = context._gateway._gateway_client
    send = client.send_command

    def counted(work: Callable[[], object]) -> int:
        sent: list[str] = []

        def sending(command: str, *rest: object, **named: object) -> object:
            # Forgetting what Python has no more use for happens at any time.
            if not command.startswith("m\n"):
                sent.append(command)
            return send(command, *rest, **named)

        monkeypatch.setattr(client, "send_command", sending)
        try:
            work()
        finally:
            monkeypatch.setattr(client, "send_command", send)
        return len(sent)

    return counted


@pytest.mark.parametrize("keys", [(), ("c0",)], ids=["append", "merged"])
@pytest.mark.parametrize("what", ["c0, c1", "*"])
def test_more_columns_take_no_more_calls(
    spark: SparkSession,
    lake: SparkLake,
    calls: Callable[[Callable[[], object]], int],
    keys: tuple[str, ...],
    what: str,
) -> None:
    taken: dict[int, int] = {}
    for count in (3, 60):
        table = f"db.t{count}"
        rows = spark.range(0, 10).selectExpr(*[f"id AS c{at}" for at in range(count)])
        lake.create_table(
            table, rows.schema, primary_keys=keys, options={"bucket": "1"} if keys else {}
        )
        for _ in range(2):
            lake.write(rows.coalesce(1), table)
        text = f"SELECT {what} FROM {table} WHERE c1 < 5"
        # The placeholder relation of a table is made for its first query.
        lake.sql(text)
        taken[count] = calls(lambda text=text: lake.sql(text))  # type: ignore[misc]
    assert taken[60] == taken[3]


def test_tables_that_a_query_names_again_take_no_errors_of_spark(
    spark: SparkSession, lake: SparkLake, calls: Callable[[Callable[[], object]], int]
) -> None:
    rows = spark.range(0, 10).selectExpr("id", "id AS v")
    for name in ("one", "two"):
        lake.create_table(f"db.{name}", rows.schema)
        lake.write(rows.coalesce(1), f"db.{name}")
    once = "SELECT * FROM db.one AS a JOIN db.two AS b USING (id)"
    twice = "SELECT * FROM db.one AS a JOIN db.one AS b USING (id)"
    for text in (once, twice):
        lake.sql(text)
    assert calls(lambda: lake.sql(twice)) < calls(lambda: lake.sql(once))


def test_files_that_were_read_before_take_fewer_calls(
    spark: SparkSession, lake: SparkLake, calls: Callable[[Callable[[], object]], int]
) -> None:
    frame = spark.range(0, 10).selectExpr("id", "id AS v")
    for name in ("read", "unread"):
        lake.create_table(f"db.{name}", frame.schema)
        lake.write(frame.coalesce(1), f"db.{name}")
    lake.sql("SELECT id FROM db.read WHERE id = 3")
    lake.sql("SELECT 1 AS v FROM db.unread WHERE false")
    known = calls(lambda: lake.sql("SELECT v FROM db.read"))
    assert known < calls(lambda: lake.sql("SELECT v FROM db.unread"))
    lake.write(frame.coalesce(1), "db.read")
    assert lake.sql("SELECT v FROM db.read").count() == 20
