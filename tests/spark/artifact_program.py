"""A program on Spark Connect whose server gets the package from it.

``artifact_program.py CATALOG ROOM ARCHIVE PATH``: in an empty folder ROOM it starts a server of
Spark Connect that looks for programs in PATH, sends it ARCHIVE and works on a table of the catalog.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark.sql.types as st
from tests.spark_sessions import session_of_kind

from headwater.spark import connect

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


def main(catalog: str, room: str, archive: str, path: str) -> None:
    os.environ["PATH"] = path
    with session_of_kind("connect", Path(room), SETTINGS) as spark:
        spark.addArtifacts(archive, pyfile=True)
        lake = connect(spark, catalog)
        columns = [st.StructField("id", st.LongType(), False), st.StructField("n", st.LongType())]
        options = {"bucket": "2", "write-only": "true"}
        lake.create_table("db.t", st.StructType(columns), primary_keys=["id"], options=options)
        lake.write(spark.range(0, 100, 1, 2).selectExpr("id", "0L AS n"), "db.t")
        source = spark.range(90, 110, 1, 2).selectExpr("id", "1L AS n")
        merge = lake.merge("db.t", source, on=["id"])
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        lake.compact("db.t")
        lake.sql("DELETE FROM db.t WHERE id < 10")
        assert lake.table("db.t").where("n = 1").count() == 20


if __name__ == "__main__":
    main(*sys.argv[1:])
