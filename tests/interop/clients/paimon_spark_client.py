"""Drives Spark with Paimon's JAR, in an environment of its own.

Requests are those of `requests_on_stdin`; the session is that of the first one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

# Those of the process that started this one are another Spark's.
for name in ("SPARK_HOME", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"):
    os.environ.pop(name, None)
os.environ["PYSPARK_PYTHON"] = sys.executable

from plain_values import plain_rows  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from requests_on_stdin import serve  # noqa: E402


def session(request: dict[str, Any]) -> SparkSession:
    catalog = "spark.sql.catalog.paimon"
    settings = {
        "spark.jars": request["jar"],
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        catalog: "org.apache.paimon.spark.SparkCatalog",
        f"{catalog}.metastore": "rest",
        f"{catalog}.uri": request["uri"],
        f"{catalog}.warehouse": request["warehouse"],
        f"{catalog}.token.provider": "bear",
        f"{catalog}.token": request["token"],
        # Else it keeps a table's columns for ten minutes, whatever others make of them.
        f"{catalog}.cache-enabled": "false",
        "spark.sql.defaultCatalog": "paimon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{request['room']}/warehouse",
        "spark.local.dir": f"{request['room']}/local",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("paimon-spark").master("local[2]")
    return builder.config(map=settings).getOrCreate()


def sql(request: dict[str, Any]) -> dict[str, Any]:
    """Run a statement; the answer has its rows."""
    return {"rows": plain_rows(session(request).sql(request["statement"]).collect())}


def follow(request: dict[str, Any]) -> dict[str, Any]:
    """Stream what there is of one table to another; the answer has the number of rows read."""
    stream = session(request).readStream.options(**request["options"]).table(request["source"])
    writer = stream.writeStream.option("checkpointLocation", request["checkpoint"])
    # Without these three the sink would take the table by its path, and commit behind the catalog.
    database, table = request["target"].split(".")
    writer = writer.options(catalog="paimon", database=database, table=table)
    properties = session(request).sql(f"SHOW TBLPROPERTIES {request['target']}").collect()
    (path,) = [row["value"] for row in properties if row["key"] == "path"]
    query = writer.format("paimon").trigger(availableNow=True).start(path)
    query.awaitTermination()
    return {"rows": sum(progress["numInputRows"] for progress in query.recentProgress)}


if __name__ == "__main__":
    serve({"sql": sql, "follow": follow})
