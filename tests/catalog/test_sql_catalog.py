"""What is SqlCatalog's own: its database, its warehouse, and failures on either side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, text

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import open_engine
from headwater.migrations import current, newest, upgrade
from headwater.storage.errors import (
    Conflict,
    CorruptData,
    Invalid,
    NotFound,
    Unavailable,
    Unsupported,
)
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

MakeSnapshot = Callable[..., Snapshot]


class BrokenFiles(LocalFileAccess):
    """The local disk, until it is switched off."""

    def __init__(self) -> None:
        self.is_broken = False

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if self.is_broken:
            raise Unavailable(f"cannot write {path}: no space left")
        return super().write_if_absent(path, data)


@pytest.fixture
def files() -> BrokenFiles:
    return BrokenFiles()


@pytest.fixture
def catalog(database_url: str, tmp_path: Path, files: BrokenFiles) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(
        database_url, warehouse="main", location=str(tmp_path / "lake"), create=True, files=files
    )
    with closing(opened):
        yield opened


@pytest.fixture
def table(catalog: SqlCatalog, orders: Identifier, orders_schema: Schema) -> Identifier:
    catalog.databases.create(orders.database)
    catalog.tables.create(orders, orders_schema)
    return orders


# Opening


def test_a_database_without_tables_is_refused(database_url: str, tmp_path: Path) -> None:
    assert current(database_url) is None
    with pytest.raises(Invalid, match="headwater db upgrade"):
        SqlCatalog.open(database_url, warehouse="main", location=str(tmp_path))
    if database_url.startswith("sqlite"):
        assert not Path(database_url.removeprefix("sqlite:///")).exists()


def test_a_database_of_another_revision_is_refused(database_url: str, tmp_path: Path) -> None:
    upgrade(database_url)
    engine = open_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE hw_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(Invalid, match="9999"):
        SqlCatalog.open(database_url, warehouse="main", location=str(tmp_path), create=True)


def test_what_open_creates_is_what_the_migrations_make(
    catalog: SqlCatalog, database_url: str, table: Identifier
) -> None:
    assert current(database_url) == newest()
    before = catalog.tables.get(table)
    assert upgrade(database_url) == newest()
    assert catalog.tables.get(table) == before


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///x?mode=memory&uri=true", "nonsense", ""]
)
def test_a_database_that_cannot_hold_a_catalog_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path), create=True)


def test_a_database_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="oracle"):
        SqlCatalog.open("oracle://host/x", warehouse="main", location=str(tmp_path))


@pytest.mark.postgresql
def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SqlCatalog.open(
            "postgresql://nobody@127.0.0.1:1/none", warehouse="main", location=str(tmp_path)
        )


@pytest.mark.parametrize("location", ["s3://", "s3://bucket/../x", "mailto:somebody"])
def test_a_location_that_is_none_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        SqlCatalog.open(
            f"sqlite:///{tmp_path}/x.db", warehouse="main", location=location, create=True
        )


def test_locations_have_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, spelling in enumerate(
        [
            "lake",
            "./lake/",
            f"{tmp_path}/lake",
            f"file:{tmp_path}/x/../lake",
            f"file://{tmp_path}/lake/",
        ]
    ):
        opened = SqlCatalog.open(
            f"sqlite:///{number}.db", warehouse="main", location=spelling, create=True
        )
        with closing(opened):
            assert opened.location == f"file://{tmp_path}/lake"


def test_warehouses_share_a_database_and_nothing_else(
    catalog: SqlCatalog,
    table: Identifier,
    database_url: str,
    tmp_path: Path,
    orders_schema: Schema,
    snapshot: MakeSnapshot,
) -> None:
    second = SqlCatalog.open(database_url, warehouse="second", location=str(tmp_path / "second"))
    with closing(second):
        assert list(second.databases.list().items) == []
        with pytest.raises(NotFound):
            second.tables.get(table)
        second.databases.create(table.database)
        second.tables.create(table, orders_schema)
        assert second.tables.get(table).path.startswith(f"file://{tmp_path}/second/")
        assert catalog.snapshots.commit(table, None, snapshot(1), None, []).decided()
        assert second.snapshots.latest(table) is None
        second.databases.drop(table.database)
    assert catalog.snapshots.latest(table) is not None


def test_a_directory_with_files_is_left_to_its_owner(
    catalog: SqlCatalog, tmp_path: Path, orders: Identifier, orders_schema: Schema
) -> None:
    foreign = tmp_path / "lake" / "sales.db" / "orders" / "snapshot" / "snapshot-1"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("somebody's")
    catalog.databases.create(orders.database)
    catalog.tables.create(orders, orders_schema)
    path = catalog.tables.get(orders).path
    assert path.startswith(f"file://{tmp_path}/lake/sales.db/orders-")
    assert catalog.snapshots.latest(orders) is None
    catalog.tables.drop(orders)
    assert foreign.read_text() == "somebody's"


def test_partitions_are_counted_and_a_rollback_counts_back(
    catalog: SqlCatalog, table: Identifier, database_url: str, snapshot: MakeSnapshot
) -> None:
    engine = open_engine(database_url)

    def partitions() -> dict[str, tuple[int, ...]]:
        query = "SELECT spec, record_count, file_size_in_bytes, file_count FROM hw_partitions"
        with engine.connect() as connection:
            return {row[0]: tuple(row[1:]) for row in connection.execute(text(query))}

    def change(dt: str, files: int) -> PartitionStatistics:
        return PartitionStatistics({"dt": dt}, 10 * files, 100 * files, files, 1, 2)

    made = [snapshot(1), snapshot(2), snapshot(3)]
    assert catalog.snapshots.commit(
        table, None, made[0], None, [change("a", 1), change("b", 2)]
    ).decided()
    after_one = {'{"dt": "a"}': (10, 100, 1), '{"dt": "b"}': (20, 200, 2)}
    assert partitions() == after_one
    assert catalog.snapshots.commit(table, None, made[1], made[0].uuid, [change("a", 3)]).decided()
    assert partitions() == {'{"dt": "a"}': (40, 400, 4), '{"dt": "b"}': (20, 200, 2)}
    emptied = [change("b", -2), change("c", 1)]
    assert catalog.snapshots.commit(table, None, made[2], made[1].uuid, emptied).decided()
    assert partitions() == {'{"dt": "a"}': (40, 400, 4), '{"dt": "c"}': (10, 100, 1)}
    catalog.snapshots.rollback_to_snapshot(table, 1)
    assert partitions() == after_one
    engine.dispose()


# Storage fails


def test_a_commit_that_storage_cannot_follow_is_unknown_until_it_can(
    catalog: SqlCatalog, table: Identifier, files: BrokenFiles, snapshot: MakeSnapshot
) -> None:
    offered = snapshot(1)
    files.is_broken = True
    with pytest.raises(Unavailable):
        catalog.snapshots.commit(table, None, offered, None, []).decided()
    with pytest.raises(Unavailable):
        catalog.snapshots.latest(table)
    assert len(catalog.repair().failures) == 1
    files.is_broken = False
    assert catalog.snapshots.commit(table, None, offered, None, []).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == offered


def test_a_creation_that_storage_cannot_follow_leaves_nothing(
    catalog: SqlCatalog, files: BrokenFiles, orders: Identifier, orders_schema: Schema
) -> None:
    catalog.databases.create(orders.database)
    files.is_broken = True
    with pytest.raises(Unavailable):
        catalog.tables.create(orders, orders_schema)
    assert list(catalog.tables.list(orders.database).items) == []
    files.is_broken = False
    assert catalog.repair().failures == ()
    catalog.tables.create(orders, orders_schema)
    assert catalog.tables.get(orders).schema.id == 0


def test_an_alteration_that_storage_cannot_follow_is_shown_when_it_can(
    catalog: SqlCatalog, table: Identifier, files: BrokenFiles
) -> None:
    files.is_broken = True
    with pytest.raises(Unavailable):
        catalog.tables.alter(table, [SetOption("write-only", "true")])
    with pytest.raises(Unavailable):
        catalog.tables.get(table)
    files.is_broken = False
    info = catalog.tables.get(table)
    assert info.schema.id == 1
    assert Path(info.path.removeprefix("file://"), "schema", "schema-1").exists()


def test_a_repair_goes_on_after_a_table_it_cannot_repair(
    catalog: SqlCatalog,
    table: Identifier,
    files: BrokenFiles,
    orders_schema: Schema,
    snapshot: MakeSnapshot,
) -> None:
    tables = [table, Identifier(table.database, "second"), Identifier(table.database, "third")]
    for other in tables[1:]:
        catalog.tables.create(other, orders_schema)
    paths = [Path(catalog.tables.get(name).path.removeprefix("file://")) for name in tables]
    files.is_broken = True
    for name in tables:
        with pytest.raises(Unavailable):
            catalog.snapshots.commit(name, None, snapshot(1), None, []).decided()
    files.is_broken = False
    (paths[0] / "snapshot").mkdir()
    (paths[0] / "snapshot" / "snapshot-1").write_text("somebody's")
    report = catalog.repair()
    assert report.settled == 2
    assert len(report.failures) == 1
    assert "snapshot-1" in report.failures[0]
    assert catalog.snapshots.latest(tables[2]) is not None
    # The last good one: it had none before.
    assert catalog.snapshots.latest(tables[0]) is None


def test_a_missing_latest_snapshot_is_told(
    catalog: SqlCatalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    assert catalog.snapshots.commit(table, None, snapshot(1), None, []).decided()
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"), "snapshot")
    (directory / "snapshot-1").unlink()
    with pytest.raises(CorruptData, match="snapshot-1"):
        catalog.snapshots.list(table)


# Odd values


def test_values_that_no_database_holds_are_refused(
    catalog: SqlCatalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    for odd in (
        snapshot(1, commitIdentifier=2**70),
        snapshot(1, commitUser="half \ud800 a pair"),
    ):
        with pytest.raises(Invalid, match=r"must be from|cannot hold"):
            catalog.snapshots.commit(table, None, odd, None, []).decided()
    for name in ("a\ud800b", "a\x00b"):
        with pytest.raises((Invalid, NotFound)):
            catalog.tables.get(Identifier(table.database, name))
    assert catalog.snapshots.latest(table) is None


def test_a_tag_of_a_snapshot_that_was_rolled_back_leads_nowhere(
    catalog: SqlCatalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    made = [snapshot(1), snapshot(2), snapshot(2), snapshot(3)]
    assert catalog.snapshots.commit(table, None, made[0], None, []).decided()
    assert catalog.snapshots.commit(table, None, made[1], made[0].uuid, []).decided()
    catalog.snapshots.rollback_to_snapshot(table, 1)
    assert catalog.snapshots.commit(table, None, made[2], made[0].uuid, []).decided()
    assert catalog.snapshots.commit(table, None, made[3], made[2].uuid, []).decided()
    # Another engine was late with its tag.
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"), "tag")
    directory.mkdir(exist_ok=True)
    (directory / "tag-late").write_text(made[1].to_json())
    with pytest.raises(Conflict, match="rolled back before"):
        catalog.snapshots.rollback_to_tag(table, "late")
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == made[3]
    assert catalog.repair().settled == 0


# The database fails


@contextmanager
def _at_commit(action: Callable[[Connection], None]) -> Iterator[None]:
    event.listen(Engine, "commit", action)
    try:
        yield
    finally:
        event.remove(Engine, "commit", action)


@pytest.mark.postgresql
def test_a_connection_lost_at_the_commit_is_unknown_never_a_conflict(
    new_postgresql_database: Callable[[], str],
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: MakeSnapshot,
) -> None:
    url = new_postgresql_database()
    killer = open_engine(url)

    def lose(connection: Connection) -> None:
        if connection.engine.url.database != killer.url.database or connection.engine is killer:
            return
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with killer.connect() as other:
            other.execute(text(f"SELECT pg_terminate_backend({pid}, 5000)"))

    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    with closing(opened):
        opened.databases.create(orders.database)
        opened.tables.create(orders, orders_schema)
        offered = snapshot(1)
        with _at_commit(lose), pytest.raises(Unavailable):
            opened.snapshots.commit(orders, None, offered, None, []).decided()
        assert opened.snapshots.commit(orders, None, offered, None, []).decided()
        assert opened.snapshots.get(orders, "LATEST") == offered
    killer.dispose()


def test_a_locked_sqlite_file_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.catalog.sql.database.drivers._LOCK_MILLIS", 10)
    url = f"sqlite:///{tmp_path}/x.db"
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    other = open_engine(url)
    with closing(opened):
        with other.connect() as connection:
            connection.exec_driver_sql("DELETE FROM hw_outbox")
            with pytest.raises(Unavailable, match="locked"):
                opened.databases.create("sales")
            assert list(opened.databases.list().items) == []
        opened.databases.create("sales")
    other.dispose()
