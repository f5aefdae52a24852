"""TPC-H's tables: as Parquet files, and as tables of a lake that hold the same rows."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark import SparkLake

__all__ = ["KEYS", "QUERIES", "TpchTables"]

KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
"""The tables and their primary keys."""

_TEXT = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
QUERIES = [
    text.strip().removesuffix(";") for text in re.split(r"^-- \d+$", _TEXT, flags=re.MULTILINE)[1:]
]
"""The 22 queries, over tables without a database's name."""

_TABLE_NAME = re.compile(rf"\b({'|'.join(KEYS)})\b")
# The items of an order stand together, as in the Parquet files: queries join and group by orders.
_BUCKET_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_NEW_KEYS = 1_000_000_000


class TpchTables:
    """TPC-H at a scale: Parquet in a folder, and tables in the database ``tpch`` of a lake.

    Args:
        spark: The session.
        lake: The lake.
        folder: An empty folder for the Parquet files.
        scale: TPC-H's scale factor: 1 is 8.7 million rows.
    """

    def __init__(self, spark: SparkSession, lake: SparkLake, folder: Path, scale: float) -> None:
        self._spark = spark
        self._lake = lake
        self._folder = folder
        self._scale = scale

    def generate(self) -> None:
        """Make the Parquet files."""
        program = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(program), "parquet", "--scale-factor", str(self._scale)]
        subprocess.run([*command, "--output-dir", str(self._folder)], check=True)
        for name in KEYS:
            self._show(name, self._folder / f"{name}.parquet")

    def load(self, *, compact: bool) -> None:
        """Write the rows to tables of the lake, which no write compacts by itself."""
        self._lake.catalog.create_database("tpch")
        for name, keys in KEYS.items():
            source = self.parquet(name)
            fields = [
                st.StructField(field.name, field.dataType, field.name not in keys)
                for field in source.schema.fields
            ]
            self._lake.create_table(
                f"tpch.{name}",
                st.StructType(fields),
                primary_keys=keys,
                options=_bucketing(name) | {"write-only": "true"},
            )
            self._lake.write(source, f"tpch.{name}")
            if compact:
                self._lake.compact(f"tpch.{name}")
        self._lake.sql("USE tpch")

    def change(self) -> None:
        """Change 5 % of the orders and their items: half updated, a quarter new, a quarter gone."""
        for name in _BUCKET_KEYS:
            key = KEYS[name][0]
            price = "o_totalprice" if name == "orders" else "l_extendedprice"
            before = self.parquet(name)
            updated = before.where(sf.col(key) % 40 == 1).withColumn(
                price, (sf.col(price) + 1).cast(before.schema[price].dataType)
            )
            new = before.where(sf.col(key) % 80 == 2).withColumn(key, sf.col(key) + _NEW_KEYS)
            gone = before.where(sf.col(key) % 80 == 3)
            kept = before.where(~_touched(key))
            self._lake.write(updated.union(new), f"tpch.{name}")
            self._lake.delete(f"tpch.{name}", keys=gone)
            place = self._folder / f"{name}-changed.parquet"
            reduce(DataFrame.union, [kept, updated, new]).write.parquet(str(place))
            self._show(name, place)

    def compact(self) -> None:
        """Compact the tables of the lake."""
        for name in KEYS:
            self._lake.compact(f"tpch.{name}")

    def parquet(self, name: str) -> DataFrame:
        """The rows that a table has now, from the Parquet files."""
        return self._spark.table(_view(name))

    def by_lake(self, query: str) -> DataFrame:
        """A query over the tables of the lake."""
        return self._lake.sql(query)

    def by_parquet(self, query: str) -> DataFrame:
        """A query over the Parquet files, in Spark alone."""
        return self._spark.sql(_TABLE_NAME.sub(lambda found: _view(found[0]), query))

    def _show(self, name: str, place: Path) -> None:
        self._spark.read.parquet(str(place)).createOrReplaceTempView(_view(name))


def _bucketing(name: str) -> dict[str, str]:
    if name not in _BUCKET_KEYS:
        return {"bucket": "1"}
    return {"bucket": "4", "bucket-key": _BUCKET_KEYS[name]}


def _view(name: str) -> str:
    return f"parquet_{name}"


def _touched(key: str) -> Column:
    return (sf.col(key) % 40 == 1) | (sf.col(key) % 80 == 3)
