"""The Spark face: `connect` a session to a catalog, `format("headwater")`, streams, compaction."""

from headwater.spark.lake import SparkLake, connect
from headwater.spark.session import local_session

__all__ = ["SparkLake", "connect", "local_session"]
