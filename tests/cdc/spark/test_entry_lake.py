"""`SparkLake.cdc`: what `Lake.cdc` has, with Spark's tasks."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.cdc.spark.conftest import Shop

from headwater.cdc.service.executors import executor_findings
from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.verify import verify
from headwater.client import connect
from headwater.spark import connect as connect_spark
from headwater.spark.jobs.executor import SparkExecutor
from headwater.storage.errors import Invalid
from headwater.storage.jobs.executor import LocalExecutor

pytestmark = pytest.mark.mariadb


@pytest.mark.spark
def test_a_session_follows_a_source(spark: SparkSession, shop: Shop) -> None:
    lake = connect_spark(spark, shop.place)
    assert lake.cdc.check(**shop.options) == []
    assert lake.cdc.mysql(**shop.options, once=True).wait()
    shop.change()
    with lake.cdc.mysql(**shop.options) as pipeline:
        assert pipeline.name == "shop"
        while sum(1 for table in pipeline.status().tables.values() if table.rows) < 2:
            assert pipeline.is_running
    (status,) = lake.cdc.status()
    assert status.is_running is False
    assert not lake.cdc.resnapshot(f"{shop.source.database}.orders")
    # It moves to one process, and back.
    with connect(shop.place) as plain:
        assert plain.cdc.mysql(**shop.options, once=True).wait()
    shop.source.run("UPDATE names SET n = n + 1")
    assert lake.cdc.mysql(**shop.options, once=True).wait()
    assert {str(table.phase) for table in lake.cdc.status()[0].tables} == {"streaming"}
    parsed = PipelineOptions.parse(shop.options)
    verdicts = list(verify(lake.catalog, parsed.address(), parsed.settings(), SparkExecutor(spark)))
    assert [(verdict.is_equal, verdict.source_rows) for verdict in verdicts] == [
        (True, 300),
        (True, 858),
    ]
    assert lake.table("lake.orders").count() == 858


def test_what_only_commands_have_is_rejected_by_name(shop: Shop) -> None:
    with connect(shop.place) as lake:
        remedy = "use the lake of a Spark session: headwater.spark.connect"
        for method in (lake.cdc.mysql, lake.cdc.check):
            with pytest.raises(Invalid, match=f"option 'spark' is one of commands .*; {remedy}"):
                method(**shop.options, spark="local[2]")  # type: ignore[call-arg]
        with pytest.raises(Invalid, match="option 'metrics-port' is one of commands and files"):
            lake.cdc.mysql(**shop.options, metrics_port=9000)  # type: ignore[call-arg]
        assert lake.list_tables("lake") == []


def test_executors_that_do_not_reach_the_source_are_named(shop: Shop) -> None:
    away = PipelineOptions.parse({**shop.options, "source": "mysql://u@127.0.0.1:1"})
    (finding,) = executor_findings(LocalExecutor(), away.settings(), away.address())
    assert str(finding).startswith("executors: the source at 127.0.0.1:1 cannot be reached")
    assert str(finding).endswith("; let the executors reach the source as this process does")
    assert not executor_findings(LocalExecutor(), away.settings())
