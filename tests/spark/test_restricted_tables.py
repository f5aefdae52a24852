"""Tables of which a server shows this session a part: read by the server, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.conftest import NewSqlite
from tests.server.restricted import (
    HIDDEN,
    PEOPLE,
    SCHEMA,
    concat,
    filter_policy,
    leaf,
    mask_policy,
    people,
)
from tests.spark.conftest import plan, rows
from tests.spark_sessions import calls_functions_here

from headwater.catalog.model.principal import Scope
from headwater.catalog.policies import PolicyType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client import Lake
from headwater.spark import SparkLake, connect
from headwater.storage.errors import Forbidden
from headwater.storage.runtime import SYSTEM_RUNTIME

pytestmark = pytest.mark.spark


@pytest.fixture
def owner(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[Lake]:
    """The catalog's owner; ada is shown two rows of EMEA, and no phones."""
    url = new_sqlite(tmp_path / "headwater.db")
    catalog = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    lake = Lake(catalog)
    lake.create_database("sales")
    options = {"query-auth.enabled": "true", "bucket": "2"}
    made = lake.create_table("sales.people", SCHEMA, primary_keys=["id"], options=options)
    made.write(people())
    plain = lake.create_table("sales.plain", SCHEMA, options={"query-auth.enabled": "true"})
    plain.write(people())
    for name in (PEOPLE, plain.identifier):
        policies = lake.catalog.policies
        policies.create(name, filter_policy("ada", leaf("EQUAL", "region", "EMEA")))
        policies.create(name, mask_policy("ada", "phone", concat("***")))
    yield lake
    lake.close()


@pytest.fixture
def ada(owner: Lake, spark: SparkSession, serve: Callable[..., str]) -> SparkLake:
    """A session of ada's."""
    catalog = owner.catalog
    assert isinstance(catalog, SqlCatalog)
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(catalog, parts={"find_token": tokens.find}, require_token=True)
    return connect(spark, address, token=tokens.create("ada", scopes=[Scope.ADMINISTER]).secret)


SHOWN = [(1, "EMEA", "***", 10), (3, "EMEA", "***", 30)]


@pytest.mark.modes
@pytest.mark.parametrize("table", ["sales.people", "sales.plain"])
def test_every_way_to_read_shows_the_same(ada: SparkLake, spark: SparkSession, table: str) -> None:
    frame = ada.table(table)
    assert rows(frame) == SHOWN
    assert "FileScan" not in plan(frame)
    assert rows(spark.read.format("headwater").load(table)) == SHOWN
    assert rows(ada.sql(f"SELECT * FROM {table}")) == SHOWN
    assert rows(ada.sql(f"SELECT count(*) FROM {table} WHERE phone = '5550101'")) == [(0,)]
    assert rows(ada.sql(f"SELECT id FROM {table} WHERE phone = '***' AND salary > 20")) == [(3,)]
    assert rows(ada.sql(f"SELECT max(salary), min(phone), count(*) FROM {table}")) == [
        (30, "***", 2)
    ]
    assert rows(ada.sql(f"SELECT id FROM {table} ORDER BY salary DESC LIMIT 1")) == [(3,)]
    assert rows(ada.sql(f"SELECT * FROM {table} VERSION AS OF 1")) == SHOWN
    assert rows(ada.table(table, ["phone"], "id = 2")) == []
    log = ada.sql(f"SELECT rowkind, id FROM sales.`{table.removeprefix('sales.')}$audit_log`")
    assert rows(log) == [("+I", 1), ("+I", 3)]
    explained = "\n".join(str(row) for row in ada.sql(f"EXPLAIN SELECT * FROM {table}").collect())
    assert "FileScan" not in explained
    assert not [value for value in HIDDEN if value in explained]


@pytest.mark.modes
def test_what_is_shown_can_be_written_elsewhere(ada: SparkLake, owner: Lake) -> None:
    owner.create_database("copies")
    ada.sql("CREATE TABLE copies.people AS SELECT * FROM sales.people")
    assert owner.table("copies.people").scan().count() == 2


@pytest.mark.modes
def test_what_needs_the_files_is_refused(ada: SparkLake, spark: SparkSession) -> None:
    for statement in (
        "DELETE FROM sales.people WHERE id = 2",
        "UPDATE sales.people SET phone = 'x' WHERE phone = '5550102'",
        "MERGE INTO sales.people t USING sales.people s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET phone = 'x'",
        "INSERT INTO sales.people SELECT * FROM sales.people",
        "SELECT * FROM sales.`people$files`",
        "SELECT * FROM sales.`people$buckets`",
        "SELECT * FROM sales.`people$binlog`",
        "CALL sys.compact(table => 'sales.people')",
    ):
        with pytest.raises(Forbidden, match="policies restrict") as caught:
            ada.sql(statement).collect()
        assert not [value for value in HIDDEN if value in str(caught.value)]
    for name, options in (
        ("sales.people", {"include-row-kind": "true"}),
        ("sales.people$binlog", {}),
        ("sales.plain", {"read.stream.maxRowsPerTrigger": "10"}),
        ("sales.plain", {"scan.bounded.watermark": "10"}),
    ):
        with pytest.raises(Exception, match="policies restrict"):
            _follow(spark, name, **options)


def _follow(spark: SparkSession, name: str, **options: str) -> None:
    stream = spark.readStream.format("headwater").options(**options).load(name)
    stream.writeStream.format("noop").start().processAllAvailable()


class Copy:
    """What a streaming query kept of a table, by the changes that it was shown."""

    def __init__(self, spark: SparkSession, folder: Path, **options: str) -> None:
        self.held: dict[int, tuple[object, ...]] = {}
        self.batches: list[list[tuple[object, ...]]] = []
        self._spark = spark
        self._checkpoint = str(folder / "checkpoint")
        self._options = {"include-row-kind": "true", **options}

    def follow(self, table: str) -> None:
        """Follow it as far as it goes, from where the checkpoint left off."""
        reader = self._spark.readStream.format("headwater").options(**self._options)
        query = (
            reader.load(table)
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _keep(self, frame: DataFrame, _: int) -> None:
        changes = [tuple(row) for row in frame.collect()]
        self.batches.append(changes)
        for *row, kind in changes:
            if kind in ("-U", "-D"):
                assert self.held.pop(row[0]) == tuple(row)
            else:
                assert row[0] not in self.held
                self.held[row[0]] = tuple(row)


@pytest.mark.modes
@calls_functions_here
def test_a_stream_of_a_part_survives_restarts(
    ada: SparkLake, owner: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    options = {"query-auth.enabled": "true", "bucket": "2", "changelog-producer": "lookup"}
    table = owner.create_table("sales.live", SCHEMA, primary_keys=["id"], options=options)
    policies = owner.catalog.policies
    policies.create(table.identifier, filter_policy("ada", leaf("EQUAL", "region", "EMEA")))
    policies.create(table.identifier, mask_policy("ada", "phone", concat("***")))
    table.write(people())
    copy = Copy(spark, tmp_path, **{"consumer-id": "ada"})
    copy.follow("sales.live")
    assert sorted(copy.held.values()) == SHOWN
    # One comes, one goes, one is another now; and one that is not shown changes.
    moved = people().set_column(1, "region", pa.array(["APAC-SECRET", "EMEA", "EMEA", "X"]))
    table.write(moved.set_column(3, "salary", pa.array([1, 2, 31, 987654], pa.int32())))
    copy.follow("sales.live")
    assert sorted(copy.held.values()) == rows(ada.table("sales.live"))
    assert sorted(copy.held) == [2, 3]
    kinds = {row[-1] for row in copy.batches[-1]}
    assert kinds == {"-D", "+I", "-U", "+U"}
    assert not [value for value in HIDDEN if value in str(copy.batches)]
    newest = table.refresh().pointer.latest()
    assert newest is not None
    assert table.consumer("ada").next_snapshot == newest.id + 1
    policies.drop(table.identifier, PolicyType.COLUMN_MASKING, "ada", "phone")
    with pytest.raises(StreamingQueryException, match="new checkpoint"):
        copy.follow("sales.live")


@pytest.mark.modes
@calls_functions_here
def test_batches_of_a_stream_of_a_part(
    ada: SparkLake, owner: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    plain = owner.table("sales.plain")
    for number in range(4):
        plain.write(people().set_column(0, "id", pa.array([10 * number + i for i in range(4)])))
    options = {"scan.snapshot-id": "1", "read.stream.maxSnapshotsPerTrigger": "2"}
    copy = Copy(spark, tmp_path, **options, columns="id", where="phone = '***'")
    copy.follow("sales.plain")
    assert [len(each) for each in copy.batches] == [4, 4, 2]
    assert sorted(copy.held) == [0, 1, 2, 3, 10, 12, 20, 22, 30, 32]
    log = spark.readStream.format("headwater").load("sales.plain$audit_log")
    seen: list[object] = []
    query = (
        log.writeStream.foreachBatch(lambda frame, _: seen.extend(frame.collect()))
        .option("checkpointLocation", str(tmp_path / "log"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(seen) == 10
    assert not [value for value in HIDDEN if value in str(seen)]
    # A policy's end does not belong to the stream's history either.
    owner.catalog.policies.drop(plain.identifier, PolicyType.COLUMN_MASKING, "ada", "phone")
    owner.catalog.policies.drop(plain.identifier, PolicyType.ROW_FILTER, "ada")
    with pytest.raises(StreamingQueryException, match="restrict nothing now"):
        copy.follow("sales.plain")


@pytest.mark.modes
def test_tasks_read_parts(ada: SparkLake, owner: Lake) -> None:
    many = pa.table(
        {
            "id": range(100, 200),
            "region": ["EMEA", "APAC-SECRET"] * 50,
        }
    )
    owner.table("sales.people").write(many)
    frame = ada.table("sales.people", ["id"])
    assert frame.rdd.getNumPartitions() == 2
    assert rows(frame) == sorted(((number,) for number in (1, 3, *range(100, 200, 2))), key=repr)
