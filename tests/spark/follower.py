"""A program that follows a table until it is killed: ``follower.py LAKE CHECKPOINT``."""

from __future__ import annotations

import sys

from headwater.spark import connect, local_session


def main(lake: str, checkpoint: str) -> None:
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
    query = (
        spark.readStream.format("headwater")
        .option("scan.mode", "from-snapshot")
        .option("scan.snapshot-id", "1")
        .load("db.source")
        .writeStream.format("headwater")
        .option("checkpointLocation", checkpoint)
        .start("db.target")
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
