"""System tables through the format: metadata in batches, the logs of changes as streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import data_source, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.atomic_type import AtomicType, Root

pytestmark = [pytest.mark.spark, pytest.mark.modes]

SCHEMA = "id bigint not null, v int"
# A table may have no column of the name that the logs have.
KIND = ("rowkind", "kind")


def write(lake: SparkLake, name: str, *values: tuple[int, int]) -> None:
    lake.write(lake.spark.createDataFrame(list(values), "id bigint, v int"), name)


def follow(lake: SparkLake, name: str, target: str, room: Path, **options: str) -> None:
    """Append what is new in a stream to a table."""
    stream = lake.spark.readStream.format("headwater").options(**options).load(name)
    stream = stream.withColumnRenamed(*KIND)
    writer = stream.writeStream.format("headwater").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(room)).start(target)
    query.awaitTermination()


def test_the_logs_of_changes_are_streams(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    """First the rows, then each change with its kind; both sides of an update in a binlog."""
    schema = spark.createDataFrame([], SCHEMA).schema
    options = {"bucket": "1", "changelog-producer": "lookup"}
    lake.create_table("db.t", schema, primary_keys=["id"], options=options)
    write(lake, "db.t", (1, 10), (2, 20))
    for log in ("audit_log", "binlog"):
        read = spark.read.format("headwater").load(f"db.t${log}").withColumnRenamed(*KIND)
        lake.create_table(f"db.{log}", read.schema)
        follow(lake, f"db.t${log}", f"db.{log}", tmp_path / log)
    write(lake, "db.t", (2, 21), (3, 30))
    lake.delete("db.t", where="id = 1")
    for log in ("audit_log", "binlog"):
        follow(lake, f"db.t${log}", f"db.{log}", tmp_path / log)
    assert rows(lake.table("db.audit_log")) == [
        ("+I", 1, 10),
        ("+I", 2, 20),
        ("+I", 3, 30),
        ("+U", 2, 21),
        ("-D", 1, 10),
        ("-U", 2, 20),
    ]
    assert rows(lake.table("db.binlog")) == [
        ("+I", [1], [10]),
        ("+I", [2], [20]),
        ("+I", [3], [30]),
        ("+U", [2, 2], [20, 21]),
        ("-D", [1], [10]),
    ]


@pytest.mark.parametrize(
    ("log_name", "named"),
    [("db.t$audit_log", {}), ("db.t", {"read.changelog": "true"})],
    ids=["name", "option"],
)
def test_a_log_is_followed_from_where_the_options_say(
    spark: SparkSession, lake: SparkLake, tmp_path: Path, log_name: str, named: dict[str, str]
) -> None:
    lake.create_table("db.t", spark.createDataFrame([], SCHEMA).schema)
    write(lake, "db.t", (1, 10))
    write(lake, "db.t", (2, 20), (3, 30))
    log = spark.read.format("headwater").options(**named).load(log_name).withColumnRenamed(*KIND)
    assert rows(log) == [("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30)]
    lake.create_table("db.log", log.schema)
    follow(
        lake, log_name, "db.log", tmp_path / "a",
        **{"scan.snapshot-id": "2", "where": "v > 20", **named},
    )  # fmt: skip
    assert rows(lake.table("db.log")) == [("+I", 3, 30)]


def test_other_system_tables_are_read_but_not_followed(
    spark: SparkSession, lake: SparkLake, folder: Path
) -> None:
    lake.create_table("db.t", spark.createDataFrame([], SCHEMA).schema)
    write(lake, "db.t", (1, 10))
    snapshots = spark.read.format("headwater").load("db.t$snapshots")
    assert snapshots.select("snapshot_id", "commit_kind").collect() == [(1, "APPEND")]
    tables = spark.read.format("headwater").load("sys.tables")
    assert [row["table_name"] for row in tables.collect()] == ["t"]
    source = data_source(folder, "db.t$snapshots")
    with pytest.raises(Unsupported, match=r"db\.t\$snapshots cannot be followed: .* \$audit_log"):
        source.streamReader(source.schema())
    log = data_source(folder, "db.t$binlog", where="v > 1")
    with pytest.raises(Unsupported, match="would part the two sides of an update"):
        log.streamReader(log.schema())
    chosen = data_source(folder, "db.t$audit_log", where="v > 1")
    columns = chosen.schema()
    with pytest.raises(Unsupported, match="filter the frame"):
        chosen.reader(columns)
    with pytest.raises(Unsupported, match="select its columns from the frame"):
        data_source(folder, "db.t$files", columns="level").schema()
    with pytest.raises(Unsupported, match="leave the option include-row-kind out"):
        data_source(folder, "db.t$audit_log", **{"include-row-kind": "true"}).schema()


def test_system_tables_of_a_snapshot_are_read_as_options_say(
    spark: SparkSession, lake: SparkLake, folder: Path
) -> None:
    lake.create_table("db.t", spark.createDataFrame([], SCHEMA).schema, primary_keys=["id"])
    write(lake, "db.t", (1, 10))
    write(lake, "db.t", (1, 11), (2, 20))
    lake.delete("db.t", where="id = 2")

    def read(name: str, **options: str) -> list[tuple[object, ...]]:
        return rows(spark.read.format("headwater").options(**options).load(name))

    first = {"scan.snapshot-id": "1"}
    assert [row[6] for row in read("db.t$files", **first)] == [1]
    assert read("db.t$audit_log", **first) == [("+I", 1, 10)]
    assert read("db.t", **first, **{"read.changelog": "true"}) == [("+I", 1, 10)]
    changed = read("db.t$audit_log", **{"incremental-between": "1,3"})
    assert changed == [("+I", 1, 11), ("+I", 2, 20), ("-D", 2, 20)]
    for name, options, message in (
        ("db.t$snapshots", first, "is the same at any"),
        ("db.t$files", {"incremental-between": "1,3"}, "does not tell what changed"),
        ("sys.tables", first, "is about the warehouse as it is"),
    ):
        with pytest.raises(Unsupported, match=message):
            data_source(folder, name, **options).schema()
    with pytest.raises(NotFound, match="no snapshot 9"):
        data_source(folder, "db.t$files", **{"scan.snapshot-id": "9"}).schema()
    lake.catalog.alter_table("db.t", AddColumn(("w",), AtomicType(Root.INT)))
    log = data_source(folder, "db.t$audit_log", **first)
    columns = log.schema()
    with pytest.raises(Invalid, match="as of a time when the table had other columns"):
        log.reader(columns)
