"""On MariaDB and MySQL a request reads a few rows, whatever the size and the planner's statistics.

The statistics stay those of empty tables while the tables grow, and the servers count what they
read: what a plan says is a guess, and some plans that look well read everything before a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, insert, select, text, update

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import open_engine
from headwater.catalog.sql.database.models import (
    Base,
    BranchRow,
    DatabaseRow,
    DroppedTableRow,
    GrantRow,
    PartitionRow,
    SchemaRow,
    SnapshotRow,
    TableRow,
    ViewRow,
)
from headwater.catalog.sql.history.commit import Offer
from headwater.migrations import upgrade
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics

SNAPSHOTS, MANY = 20_000, 3000
# A listing of all databases looks into 64 of them at once.
MOST_ROWS = 150
FAR_OFF = 9_999_999_999_999
READS = "SHOW SESSION STATUS LIKE 'Handler_read_%'"


@pytest.fixture(
    params=[
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ]
)
def mysql_or_mariadb(request: pytest.FixtureRequest) -> str:
    """A database with the catalog's tables, whose planner will not learn that they grew."""
    create: Callable[[], str] = request.getfixturevalue(f"new_{request.param}_database")
    url = create()
    upgrade(url)
    engine = open_engine(url)
    with engine.connect() as connection:
        for name in Base.metadata.tables:
            connection.execute(text(f"ALTER TABLE {name} STATS_PERSISTENT=1, STATS_AUTO_RECALC=0"))
            connection.execute(text(f"ANALYZE TABLE {name}"))
    engine.dispose()
    return url


@contextmanager
def _rows_read() -> Iterator[list[tuple[int, str]]]:
    """Every statement that is executed, and how many rows it made the server read."""
    seen: list[tuple[int, str]] = []
    before: list[int] = []

    def count(cursor: Any) -> int:
        with closing(cursor.connection.cursor()) as another:
            another.execute(READS)
            return sum(int(value) for _, value in another.fetchall())

    def begin(_: Any, cursor: Any, *rest: Any) -> None:
        # To ask is to read, too: the second answer tells how much.
        first = count(cursor)
        asked = count(cursor) - first
        before.append(first + 2 * asked)

    def end(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append((count(cursor) - before.pop(), statement))

    event.listen(Engine, "before_cursor_execute", begin)
    event.listen(Engine, "after_cursor_execute", end)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", begin)
        event.remove(Engine, "after_cursor_execute", end)


def _row(connection: Connection, model: type[Base]) -> dict[str, Any]:
    """The one row that there is so far."""
    return dict(connection.execute(select(model.__table__)).mappings().one())


def _grow(connection: Connection) -> None:
    """What there is one of becomes many; the one table has nearly all of the snapshots."""
    database, table = _row(connection, DatabaseRow), _row(connection, TableRow)
    branch, schema = _row(connection, BranchRow), _row(connection, SchemaRow)
    snapshot, partition = _row(connection, SnapshotRow), _row(connection, PartitionRow)
    many = range(MANY)
    names = [f"t{n:04}" for n in many]
    owned = {"database_id": database["id"], "document": "{}", "created_at": 0, "updated_at": 0}
    grant = {"resource_type": "TABLE", "warehouse": "main", "access": "SELECT", "created_at": 0}
    dropped = {"warehouse": "main", "database": "gone", "dropped_at": FAR_OFF}
    grown: list[tuple[type[Base], list[dict[str, Any]]]] = [
        (DatabaseRow, [{**database, "id": f"d{n}", "name": f"db{n:04}"} for n in many]),
        (TableRow, [{**table, "id": n, "name": n, "path": f"{table['path']}/{n}"} for n in names]),
        (BranchRow, [{**branch, "table_id": n} for n in names]),
        (SchemaRow, [{**schema, "table_id": n} for n in names]),
        (SnapshotRow, [{**snapshot, "table_id": n} for n in names]),
        (SnapshotRow, [{**snapshot, "snapshot_id": n} for n in range(2, SNAPSHOTS)]),
        (PartitionRow, [{**partition, "spec_key": f"{n:064}", "sort_name": f"dt={n:04}",
                         "spec": f'{{"dt": "{n:04}"}}'} for n in many]),
        (ViewRow, [{**owned, "id": f"v{n}", "name": f"v{n:04}"} for n in many]),
        (GrantRow, [{**grant, "object_id": table["id"], "principal": f"p{n:04}"} for n in many]),
        (DroppedTableRow, [{**dropped, "table_id": n, "name": n} for n in names]),
    ]  # fmt: skip
    for model, rows in grown:
        connection.execute(insert(model), rows)


def test_no_statement_reads_more_than_it_needs(
    mysql_or_mariadb: str,
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: Callable[..., Snapshot],
) -> None:
    opened = SqlCatalog.open(
        mysql_or_mariadb,
        warehouse="main",
        location=str(tmp_path / "lake"),
        undrop_millis=86_400_000,
    )
    sizes = [PartitionStatistics({"dt": "a"}, 1, 1, 1, 1, 1)]
    first, last, following = snapshot(1), snapshot(SNAPSHOTS), snapshot(SNAPSHOTS + 1)
    fresh = Identifier("sales", "fresh")
    engine = open_engine(mysql_or_mariadb)
    with closing(opened) as catalog:
        catalog.databases.create("sales")
        options = {**orders_schema.options, "metastore.partitioned-table": "true"}
        catalog.tables.create(orders, replace(orders_schema, options=options))
        assert catalog.snapshots.commit(orders, None, first, None, sizes).decided()
        info = catalog.tables.get(orders)
        with engine.begin() as connection:
            _grow(connection)
            connection.execute(
                update(BranchRow)
                .where(BranchRow.table_id == info.id)
                .values(snapshot_id=SNAPSHOTS - 1)
            )
        files = tmp_path / "lake" / "sales.db" / "orders" / "snapshot"
        # A commit looks for the file of the snapshot that it follows.
        copyfile(files / "snapshot-1", files / f"snapshot-{SNAPSHOTS - 1}")
        assert catalog.snapshots.commit(orders, info.id, last, first.uuid, sizes).decided()
        target = PermissionTarget(TargetType.TABLE, *str(orders).split("."))
        requests: dict[str, Callable[[], object]] = {
            "commit": lambda: catalog.snapshots.commit(
                orders, info.id, following, last.uuid, sizes
            ).decided(),
            "replay": lambda: catalog.snapshots.commit(
                orders, None, following, last.uuid, sizes
            ).decided(),
            "lost": lambda: catalog.snapshots.commit(
                orders, None, snapshot(SNAPSHOTS + 1), last.uuid, sizes
            ).decided(),
            "table": lambda: catalog.tables.get(orders),
            "table by id": lambda: catalog.tables.get_by_id(info.id),
            "latest": lambda: catalog.snapshots.latest(orders),
            "snapshot": lambda: catalog.snapshots.get(orders, str(SNAPSHOTS)),
            "tables at once": lambda: catalog.bulk.tables([orders, orders]),
            "latest at once": lambda: catalog.bulk.latest_snapshots([orders, orders]),
            "create": lambda: catalog.tables.create(fresh, orders_schema),
            "several commits": lambda: catalog.snapshots.commits.commit_each(
                [Offer(fresh, None, snapshot(1), None, sizes)]
            ),
            "alter": lambda: catalog.tables.alter(fresh, [SetOption("write-only", "true")]),
            "drop": lambda: catalog.tables.drop(fresh),
            "tag": lambda: catalog.tags.create(orders, "v", SNAPSHOTS),
            "rollback": lambda: catalog.snapshots.rollback_to_snapshot(orders, SNAPSHOTS),
            "databases": lambda: catalog.databases.list(max_results=9, page_token="db0900").items,
            "some databases": lambda: catalog.databases.list(pattern="db1%", max_results=9).items,
            "tables": lambda: catalog.tables.list("sales", max_results=9, page_token="t0900").items,
            "tables of a type": lambda: (
                catalog.tables.list(
                    "sales", table_type="table", max_results=9, page_token="t0900"
                ).items
            ),
            "all tables": lambda: (
                catalog.tables.list_globally(max_results=9, page_token="db0900.t").items
            ),
            "all later tables": lambda: (
                catalog.tables.list_globally(max_results=9, page_token="sales.t0900").items
            ),
            "views": lambda: catalog.views.list("sales", max_results=9, page_token="v0900").items,
            "partitions": lambda: (
                catalog.partitions.list(orders, pattern="dt=09%", max_results=9).items
            ),
            "grants": lambda: (
                catalog.permissions.list(target, max_results=9, page_token="SELECT:p0900").items
            ),
            "dropped tables to purge": lambda: catalog.dropped_tables.purge_expired(),
            "decisions to repair": lambda: catalog.repair(),
        }
        answers: dict[str, object] = {}
        faults: dict[str, list[tuple[int, str]]] = {}
        for name, ask in requests.items():
            with _rows_read() as statements:
                answers[name] = ask()
            assert statements
            faults[name] = [found for found in statements if found[0] > MOST_ROWS]
    engine.dispose()
    assert {name: found for name, found in faults.items() if found} == {}
    outcomes = ("commit", "replay", "lost", "several commits", "dropped tables to purge")
    taken = CommitAnswer.of(True)
    assert [answers[name] for name in outcomes] == [True, True, False, [taken], 0]
    pages = [page for page in answers.values() if isinstance(page, tuple)]
    assert [len(page) for page in pages] == [9] * 9
