"""Format tables that Spark, with Headwater, and Paimon's Java library write and read in turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway
from pyspark.sql import Row

from headwater.spark import connect, local_session

from .conftest import TOKEN, serving
from .java_client import JavaClient

COLUMNS = (
    "i INT, s STRING, d DATE, t TIMESTAMP_NTZ, n DECIMAL(10, 2), b BIGINT, x DOUBLE, o BOOLEAN, "
    "p INT, k STRING, f DATE"
)
FIRST = (
    "(1, 'x, y', DATE'2024-01-02', TIMESTAMP_NTZ'2024-01-02 03:04:05.123456', 1.25, 2, 0.5, true, "
    "1, 'a/b', DATE'2024-02-03'), "
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, NULL, DATE'1969-01-01')"
)
SECOND = FIRST.replace("(1, ", "(3, ").replace("(2, ", "(4, ")


@pytest.mark.interop_java
def test_each_reads_what_the_other_wrote(
    java_gateways: Callable[[str], JavaGateway], java_version: str, tmp_path: Path
) -> None:
    def rows(name: str) -> list[Row]:
        return lake.sql(f"SELECT * FROM {name} ORDER BY i").collect()

    with serving(tmp_path) as service:
        java = JavaClient(java_gateways(java_version), java_version, service.uri, TOKEN, tmp_path)
        spark = local_session("format tables", cores=1, memory="1g")
        try:
            lake = connect(spark, service.uri, warehouse="main", token=TOKEN)
            lake.sql("CREATE DATABASE db")
            lake.sql("USE db")
            for file_format in ("csv", "json", "orc", "parquet"):
                columns, first, second = (
                    # Spark has moments of its own in ORC.
                    text.replace("TIMESTAMP_NTZ", "STRING" if text is COLUMNS else "")
                    if file_format == "orc"
                    else text
                    for text in (COLUMNS, FIRST, SECOND)
                )
                names = [f"{kind}_{file_format}" for kind in ("files", "first", "second")]
                how = f"USING {file_format} PARTITIONED BY (p, k, f)"
                # The codec of the bundle, which lacks the one that is the default.
                codec = "zstd" if file_format in ("orc", "parquet") else "none"
                options = f"TBLPROPERTIES ('file.compression' = '{codec}')"
                lake.sql(f"CREATE TABLE {names[0]} ({columns}) {how} {options}")
                for name, values in zip(names[1:], (first, second), strict=True):
                    lake.sql(f"CREATE TABLE {name} ({columns})")
                    lake.sql(f"INSERT INTO {name} VALUES {values}")
                lake.sql(f"INSERT INTO {names[0]} SELECT * FROM {names[1]}")
                by_java = sorted(java.read(f"db.{names[0]}").to_pylist(), key=lambda row: row["i"])
                assert by_java == [row.asDict() for row in rows(names[1])], file_format
                if java_version.startswith("1.3."):
                    continue  # It reads them alone.
                java.copy(f"db.{names[2]}", f"db.{names[0]}")
                assert rows(names[0]) == rows(names[1]) + rows(names[2]), file_format
                assert len(lake.sql(f"SHOW PARTITIONS {names[0]}").collect()) == 2
        finally:
            spark.stop()
