"""The requests that every client makes all the time are index look-ups, whatever the size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import open_engine
from headwater.catalog.sql.history.commit import Offer
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics


@contextmanager
def _recorded() -> Iterator[list[tuple[str, Any]]]:
    """Every statement that is executed, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def record(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            seen.append((statement, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", record)


def test_no_request_about_one_table_scans_any(
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: Callable[..., Snapshot],
) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    with closing(opened) as catalog, _recorded() as statements:
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        catalog.tables.alter(orders, [SetOption("write-only", "true")])
        table_id = catalog.tables.get(orders).id
        made = [snapshot(1), snapshot(2)]
        change = PartitionStatistics({"dt": "a"}, 1, 1, 1, 1, 1)
        assert catalog.snapshots.commit(orders, table_id, made[0], None, [change]).decided()
        assert catalog.snapshots.commit(orders, table_id, made[1], made[0].uuid, [change]).decided()
        catalog.snapshots.latest(orders)
        others = [Identifier("sales", f"other{number}") for number in range(3)]
        for name in others:
            catalog.tables.create(name, orders_schema)
        for taken in (True, False):
            offers = [Offer(name, None, snapshot(1), None, [change]) for name in others]
            answer = CommitAnswer.of(taken)
            assert catalog.snapshots.commits.commit_each(offers) == [answer] * len(others)
        catalog.bulk.tables([orders, orders])
        catalog.bulk.latest_snapshots([orders, orders])
        catalog.snapshots.get(orders, "1")
        catalog.snapshots.list(orders, max_results=1)
        catalog.snapshots.rollback_to_snapshot(orders, 1)
        catalog.tables.rename(orders, Identifier("sales", "renamed"))
        catalog.tables.list("sales", max_results=1)
        catalog.tables.drop(Identifier("sales", "renamed"))
    assert len(statements) > 50
    engine = open_engine(url)
    with engine.connect() as connection:
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [str(row[-1]) for row in plan]
            scans = [step for step in steps if step.startswith("SCAN")]
            assert all(step.endswith("CONSTANT ROWS") for step in scans), (statement, steps)
    engine.dispose()


@pytest.mark.parametrize("commits", [3, 30])
def test_a_commit_takes_the_same_statements_however_long_the_history(
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: Callable[..., Snapshot],
    commits: int,
) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    with closing(opened) as catalog:
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        base: str | None = None
        for number in range(1, commits + 1):
            made = snapshot(number)
            with _recorded() as statements:
                assert catalog.snapshots.commit(orders, None, made, base, []).decided()
            base = made.uuid
        assert len(statements) <= 12
