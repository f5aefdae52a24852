"""A program that follows a table until it is killed: ``follower.py LAKE CHECKPOINT [CONSUMER]``."""

from __future__ import annotations

import sys

from headwater.spark import connect, local_session


def main(lake: str, checkpoint: str, consumer: str | None = None) -> None:
    spark = local_session(
        "follower",
        cores=1,
        memory="512m",
        settings={
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
        },
    )
    connect(spark, lake)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    if consumer is not None:
        options |= {"consumer-id": consumer, "headwater.consumer.lease-time": "20 s"}
    query = (
        spark.readStream.format("headwater")
        .options(**options)
        .load("db.source")
        .writeStream.format("headwater")
        .option("checkpointLocation", checkpoint)
        .start("db.target")
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
