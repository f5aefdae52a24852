"""Many ask for tables and snapshots at the same time: everybody is told of what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, text

from headwater.catalog.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.bulk import MOST_AT_ONCE

TABLES = 5
ROUNDS = 8


@pytest.fixture
def tables(http: httpx.Client, sales: str, schema: dict[str, object]) -> list[str]:
    """Paths of tables, of which the odd ones have a snapshot."""
    for number in range(TABLES):
        body = {"identifier": {"database": "sales", "object": f"t{number}"}, "schema": schema}
        assert http.post(f"{sales}/tables", json=body).status_code == 200
    return [f"{sales}/tables/t{number}" for number in range(TABLES)]


def test_everybody_is_told_of_what_was_asked_for(
    http: httpx.Client,
    sales: str,
    tables: list[str],
    commit: Callable[..., httpx.Response],
) -> None:
    for number in range(1, TABLES, 2):
        commit(tables[number], 1, commitUser=f"user-{number}")
    # In the same batches: what is not there, what not every database can look for, a branch.
    odd = [f"{sales}/tables/nothing", f"{sales}/tables/n%00ul", f"{sales}/tables/t1%24branch_b"]

    def ask(path: str) -> tuple[str, httpx.Response, httpx.Response]:
        return path, http.get(path), http.get(f"{path}/snapshot")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, [*tables, *odd] * ROUNDS))
    for path, table, snapshot in answers:
        name = path.rpartition("/")[2]
        if path in odd:
            assert {table.status_code, snapshot.status_code} <= {400, 404}
            continue
        assert table.json()["name"] == name
        number = int(name[1:])
        if number % 2:
            found = snapshot.json()["snapshot"]["snapshot"]
            assert found["commitUser"] == f"user-{number}"
        else:
            assert snapshot.status_code == 404
            assert snapshot.json()["resourceType"] == "SNAPSHOT"


def test_a_change_is_told_at_once(http: httpx.Client, tables: list[str]) -> None:
    for number in range(3):
        update = {"action": "setOption", "key": "write-buffer-size", "value": f"{number + 1} mb"}
        assert http.post(tables[0], json={"changes": [update]}).status_code == 200
        found = http.get(tables[0]).json()
        assert found["schemaId"] == number + 1
        assert found["schema"]["options"]["write-buffer-size"] == f"{number + 1} mb"


def test_what_waits_for_storage_is_left_to_others(
    catalog: SqlCatalog,
    http: httpx.Client,
    tables: list[str],
    commit: Callable[..., object],
    tmp_path: Path,
) -> None:
    commit(tables[0], 1)
    table, other = Identifier("sales", "t0"), Identifier("sales", "t1")
    assert [found is None for found in catalog.bulk.latest_snapshots([table, other])] == [
        False,
        True,
    ]
    table_id = catalog.get_table(table).id
    engine = create_engine(f"sqlite:///{tmp_path}/headwater.db")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO hw_outbox (warehouse, table_id, branch, action, number, path, "
                "created_at) VALUES ('main', :id, 'main', 'snapshot', 1, '', 0)"
            ),
            {"id": table_id},
        )
    engine.dispose()
    assert catalog.bulk.latest_snapshots([table]) == [None]
    assert catalog.bulk.tables([table])[0] is not None  # it does not concern the schema
    assert http.get(f"{tables[0]}/snapshot").status_code == 200
    assert catalog.bulk.latest_snapshots([table]) != [None]


def test_as_many_as_fit_are_looked_up_at_once(catalog: SqlCatalog, tables: list[str]) -> None:
    names = [Identifier("sales", f"t{number % TABLES}") for number in range(MOST_AT_ONCE)]
    found = catalog.bulk.tables(names)
    assert [table and table.info() for table in found] == [catalog.get_table(n) for n in names]
