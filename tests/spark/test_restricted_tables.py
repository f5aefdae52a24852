"""Tables of which a server shows this session a part: read by the server, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
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

from headwater.catalog.model.principal import Scope
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
    stream = spark.readStream.format("headwater").option("include-row-kind", "true")
    with pytest.raises(Exception, match="policies restrict"):
        stream.load("sales.people").writeStream.format("noop").start().processAllAvailable()


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
