"""A catalog that a Spark session reaches, for the packages that read and write its tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from headwater.client import Lake
from headwater.spark.connection import STREAM_PATIENCE, Connection, patient_lake
from headwater.spark.counting_session import CountingSession
from headwater.spark.file_frames import FileFrames
from headwater.spark.live_rows import LiveRowsCache
from headwater.spark.session_copy import SessionCopy, narrow_sessions
from headwater.storage.jobs.executor import ParallelExecutor

__all__ = ["CatalogSession"]


@dataclass(frozen=True)
class CatalogSession:
    """A Spark session and a catalog.

    Attributes:
        spark: The session.
        connection: The catalog's address.
        catalog: The catalog without Spark.
        executor: Runs a job's tasks as Spark's.
        live_rows: The live rows of files that queries have read.
        files: Frames of the files that queries have read.
        counting: A copy of the Spark session for scans whose rows are counted.
        narrow: Copies of sessions for writes of rows that are not wide.
        explains: The mode in which statements are explained and not run; None to run them.
    """

    spark: SparkSession
    connection: Connection
    catalog: Lake
    executor: ParallelExecutor
    live_rows: LiveRowsCache = field(default_factory=lambda: LiveRowsCache(0, 1))
    files: FileFrames = field(default_factory=FileFrames)
    counting: CountingSession = field(default_factory=CountingSession)
    narrow: SessionCopy = field(default_factory=narrow_sessions)
    explains: str | None = None

    def for_stream(self) -> CatalogSession:
        """The same for a batch of a streaming query, which outlasts a restart of the server."""
        return replace(
            self,
            connection=self.connection.for_stream(),
            catalog=patient_lake(self.catalog, STREAM_PATIENCE),
        )
