"""A write ends when its user interrupts it, and leaves table and session as they were."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Event, Thread, main_thread

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        kind_of_session() == "connect", reason="Spark Connect has no jobs to be seen"
    ),
]

# Far longer than a test lasts; a task that is killed wakes up.
HOUR = "reflect('java.lang.Thread', 'sleep', CAST(3600000 AS BIGINT))"
POLL_SECONDS = 0.05
# Then a job that nobody ends is ended by the test, which fails.
PATIENCE_SECONDS = 60


@pytest.fixture
def table(lake: SparkLake) -> SparkLake:
    """A lake with the table ``db.t``, which has one row."""
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, v STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    )
    lake.catalog.table("db.t").write({"id": [1], "v": ["a"]})
    return lake


def endless(spark: SparkSession) -> DataFrame:
    """Rows that nobody waits for."""
    return spark.range(2, 4, 1, 2).selectExpr("id", f"coalesce({HOUR}, 'b') AS v")


def jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def while_it_runs(spark: SparkSession, act: Callable[[], object]) -> Callable[[], None]:
    """Does something as soon as a job runs, which must end it; to be called when it has."""
    done = Event()
    missed = Event()

    def wait() -> None:
        while not done.wait(POLL_SECONDS):
            if jobs(spark):
                act()
                break
        if not done.wait(PATIENCE_SECONDS):
            missed.set()
            spark.sparkContext.cancelAllJobs()

    thread = Thread(target=wait)
    thread.start()

    def end() -> None:
        done.set()
        thread.join()
        assert not missed.is_set()

    return end


def check_untouched(lake: SparkLake) -> None:
    """The table is as it was, nothing runs, and the session writes on."""
    table = lake.catalog.table("db.t")
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert snapshot.id == 1
    waiting, polls = Event(), round(PATIENCE_SECONDS / POLL_SECONDS)
    while jobs(lake.spark) and polls:
        waiting.wait(POLL_SECONDS)
        polls -= 1
    assert not jobs(lake.spark)
    assert not str(lake.spark.sparkContext._jsc.sc().getJobTags().mkString(","))
    lake.write(lake.spark.range(5, 6).selectExpr("id", "'c' AS v"), "db.t")
    assert rows(lake.table("db.t")) == [(1, "a"), (5, "c")]


@pytest.mark.parametrize(
    "by",
    ["tag", *(pytest.param(by, marks=pytest.mark.modes) for by in ("session", "group", "all"))],
)
def test_a_write_is_interrupted_as_sparks_own_jobs_are(table: SparkLake, by: str) -> None:
    spark = table.spark
    context = spark.sparkContext
    named = "mine"
    # A tag of Spark's session holds for a thread, and so does its name for the tag.
    tags = spark._jsparkSession.managedJobTags().get()
    spark.addTag(named)
    try:
        tag = str(tags.values().mkString(","))
        ways: dict[str, Callable[[], object]] = {
            "session": spark.interruptAll,
            "tag": lambda: context.cancelJobsWithTag(tag),
            "group": lambda: context.cancelJobGroup("group"),
            "all": context.cancelAllJobs,
        }
        context.setJobGroup("group", "a write", interruptOnCancel=True)
        end = while_it_runs(spark, ways[by])
        try:
            with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)cancel"):
                table.write(endless(spark), "db.t")
        finally:
            end()
    finally:
        spark.removeTag(named)
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)  # type: ignore[arg-type]
    check_untouched(table)


@pytest.mark.modes
def test_a_tag_that_was_taken_off_does_not_hold_for_later_writes(table: SparkLake) -> None:
    spark = table.spark
    spark.addTag("early")
    tag = str(spark._jsparkSession.managedJobTags().get().values().mkString(","))
    table.sql("INSERT INTO db.t VALUES (2, 'b')")
    spark.removeTag("early")
    met: list[str] = []

    def look() -> None:
        spark.sparkContext.cancelJobsWithTag(tag)
        met.append(tag)
        spark.interruptAll()

    end = while_it_runs(spark, look)
    try:
        with pytest.raises((PySparkException, Py4JJavaError)) as raised:
            table.write(endless(spark), "db.t")
    finally:
        end()
    assert met == [tag]
    assert tag not in str(raised.value)


@pytest.mark.parametrize("statement", ["write", pytest.param("MERGE", marks=pytest.mark.modes)])
def test_an_interrupt_of_the_program_ends_a_write(table: SparkLake, statement: str) -> None:
    spark = table.spark
    endless(spark).createOrReplaceTempView("endless")
    merge = (
        "MERGE INTO db.t USING endless s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    writes: dict[str, Callable[[], object]] = {
        "write": lambda: table.write(endless(spark), "db.t"),
        "MERGE": lambda: table.sql(merge),
    }
    write = writes[statement]
    thread = main_thread().ident
    assert thread is not None
    end = while_it_runs(spark, lambda: signal.pthread_kill(thread, signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
    finally:
        end()
        spark.catalog.dropTempView("endless")
    check_untouched(table)
