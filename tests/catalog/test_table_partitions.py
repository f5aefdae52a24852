"""A table's partitions, from the catalog or from its files; who made them; what reading costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Engine, event

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import acting_as
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import open_engine
from headwater.client import Lake
from headwater.storage.schema.table_schema import Schema

COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("hour", pa.int32())])
IN_CATALOG = {"metastore.partitioned-table": "true"}
DAILY = Identifier("sales", "daily")


@pytest.mark.parametrize("options", [{}, IN_CATALOG], ids=["files", "catalog"])
def test_the_catalog_and_the_files_say_the_same(lake: Lake, options: dict[str, str]) -> None:
    table = lake.create_table(
        "sales.orders", COLUMNS, partition_keys=["dt", "hour"], options=options
    )
    assert table.partitions() == []
    table.write({"id": [1, 2, 3], "dt": ["b", "a", "a"], "hour": [1, 10, 10]})
    table.write({"id": [4], "dt": ["a"], "hour": [10]})
    table.overwrite({"id": [5], "dt": ["c"], "hour": [2]}, partition={"dt": "c", "hour": 2})
    found = table.partitions()
    files = table.files()
    assert [(item.name, item.record_count, item.file_count) for item in found] == [
        ("dt=a/hour=10", 3, 2),
        ("dt=b/hour=1", 1, 1),
        ("dt=c/hour=2", 1, 1),
    ]
    for item in found:
        sizes = [file.file_size for file in files if file.partition == item.name]
        assert item.file_size_in_bytes == sum(sizes)


@contextmanager
def _statements() -> Iterator[list[tuple[str, Any]]]:
    seen: list[tuple[str, Any]] = []

    def record(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            seen.append((statement, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", record)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/headwater.db"


@pytest.fixture
def catalog(tmp_path: Path, url: str) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    with closing(opened) as catalog:
        catalog.databases.create("sales")
        schema = Schema.from_arrow(COLUMNS, partition_keys=["dt"], options=IN_CATALOG)
        catalog.tables.create(DAILY, schema)
        yield catalog


def test_partitions_remember_who_made_and_changed_them(catalog: SqlCatalog) -> None:
    with acting_as("ann"):
        catalog.partitions.create(DAILY, [{"dt": "a"}])
    with acting_as("ben"):
        catalog.partitions.mark_done(DAILY, [{"dt": "a"}, {"dt": "b"}])
    found = catalog.partitions.list(DAILY).items
    assert [(item.created_by, item.updated_by) for item in found] == [
        ("ann", "ben"),
        ("ben", "ben"),
    ]


def test_no_request_looks_at_partitions_it_does_not_give(catalog: SqlCatalog, url: str) -> None:
    specs = [{"dt": f"{number:05}"} for number in range(5000)]
    catalog.partitions.create(DAILY, specs)
    condition = (
        '{"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": '
        '{"index": 0, "name": "dt", "type": "STRING"}}, '
        '"function": "GREATER_OR_EQUAL", "literals": ["04990"]}'
    )
    with _statements() as statements:
        first = catalog.partitions.list(DAILY, max_results=10)
        catalog.partitions.list(DAILY, max_results=10, page_token=first.next_token)
        assert len(catalog.partitions.list(DAILY, pattern="dt=0100%").items) == 10
        assert len(catalog.partitions.list_by_filter(DAILY, condition).items) == 10
        catalog.partitions.list_by_names(DAILY, specs[:3])
        catalog.partitions.create(DAILY, specs[:3])
        catalog.partitions.mark_done(DAILY, specs[:3])
        catalog.partitions.drop(DAILY, specs[:3])
        catalog.consumers.reset(DAILY, "billing", 1)
        catalog.consumers.list(DAILY)
    engine = open_engine(url)
    with engine.connect() as connection:
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [str(row[-1]) for row in plan]
            poor = [step for step in steps if step.startswith(("SCAN", "USE TEMP"))]
            assert not poor, (statement, steps)
            if "FROM hw_partitions" in statement and "ORDER BY" in statement:
                # Rows of a narrow range, and no more than a page: each look-up reads few.
                found = connection.exec_driver_sql(statement, parameters).all()
                assert len(found) <= 11
    engine.dispose()


def test_a_filtered_page_ends_after_a_bounded_look(catalog: SqlCatalog) -> None:
    specs = [{"dt": f"{number:05}"} for number in range(11_000)]
    catalog.partitions.create(DAILY, specs)
    # Nothing tells where in the order of names these are.
    condition = (
        '{"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": '
        '{"index": 0, "name": "dt", "type": "STRING"}}, '
        '"function": "NOT_BETWEEN", "literals": ["00000", "10998"]}'
    )
    first = catalog.partitions.list_by_filter(DAILY, condition, max_results=100)
    assert (len(first.items), first.next_token is None) == (0, False)
    second = catalog.partitions.list_by_filter(
        DAILY, condition, max_results=100, page_token=first.next_token
    )
    assert [item.name for item in second.items] == ["dt=10999"]
    assert second.next_token is None
