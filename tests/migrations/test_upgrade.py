"""The migrations make the tables that the catalog works with, from every revision."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, Row, event, insert, inspect, select, text, update
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable
from tests.catalog.databases import DATABASES, POSTGRESQL_IN_MODES

from headwater.catalog.labels import Entity, EntityType, Label
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import TokenKind
from headwater.catalog.policies import ColumnMask, Policy
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.sealed_options import OptionKeys
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.engine import open_engine
from headwater.catalog.sql.database.models import (
    REVISION,
    VERSION_TABLE,
    Base,
    OutboxRow,
    PartitionRow,
    PlaceRow,
    SchemaRow,
    WarehouseRow,
)
from headwater.catalog.sql.database.open_database import opened_database
from headwater.client import Lake
from headwater.migrations import current, downgrade, newest, upgrade
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

VERSIONS = Path(__file__).parents[2] / "migrations" / "headwater" / "migrations" / "versions"


@pytest.fixture(params=POSTGRESQL_IN_MODES)
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    if request.param == "sqlite":
        names = count()
        return lambda: f"sqlite:///{tmp_path}/{next(names)}.db"
    found: Callable[[], str] = request.getfixturevalue(f"new_{request.param}_database")
    return found


def _shape(engine: Engine) -> dict[str, object]:
    """Everything the database says of its tables."""
    inspector = inspect(engine)
    return {
        table: (
            [
                (c["name"], str(c["type"]), c["nullable"], getattr(c["type"], "collation", None))
                for c in inspector.get_columns(table)
            ],
            inspector.get_pk_constraint(table),
            sorted(map(str, inspector.get_foreign_keys(table))),
            sorted(map(str, inspector.get_unique_constraints(table))),
            sorted(map(str, inspector.get_indexes(table))),
            inspector.get_table_options(table),
        )
        for table in inspector.get_table_names()
    }


@pytest.mark.parametrize("new_database", DATABASES, indirect=True)
def test_the_tables_are_those_of_the_models(new_database: Callable[[], str]) -> None:
    url = new_database()
    assert upgrade(url) == newest() == REVISION
    engine = open_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_catalog_that_makes_its_tables_makes_the_same(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    migrated, made = new_database(), new_database()
    upgrade(migrated)
    SqlCatalog.open(made, warehouse="main", location=str(tmp_path), create=True).close()
    shapes = []
    for url in (migrated, made):
        engine = open_engine(url)
        shapes.append(_shape(engine))
        engine.dispose()
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == len(Base.metadata.tables) + 1
    assert current(made) == newest()


@pytest.mark.modes
def test_an_upgrade_is_repeatable_and_reaches_the_newest_from_every_revision(
    new_database: Callable[[], str],
) -> None:
    revisions = _revisions()
    assert revisions[-1] == newest()
    for revision in revisions:
        url = new_database()
        assert upgrade(url, revision) == revision
        assert upgrade(url) == newest()
        assert upgrade(url) == newest()


def test_an_unusable_url_is_refused() -> None:
    with pytest.raises(Invalid):
        upgrade("nonsense")


def _revisions() -> list[str]:
    return sorted(
        match[1]
        for path in VERSIONS.glob("*.py")
        if (match := re.search(r'^revision = "(\w+)"', path.read_text(), re.MULTILINE))
    )


def _shape_of(url: str) -> dict[str, object]:
    engine = open_engine(url)
    try:
        return _shape(engine)
    finally:
        engine.dispose()


@pytest.mark.modes
def test_a_downgrade_leads_back_to_what_was_there(new_database: Callable[[], str]) -> None:
    first, *_ = revisions = _revisions()
    url = new_database()
    shapes = {}
    for revision in revisions:
        assert upgrade(url, revision) == revision
        shapes[revision] = _shape_of(url)
    for revision in reversed(revisions[:-1]):
        assert downgrade(url, revision) == revision == current(url)
        assert _shape_of(url) == shapes[revision]
    assert downgrade(url, first) == first
    # All at once.
    assert upgrade(url) == revisions[-1]
    assert _shape_of(url) == shapes[revisions[-1]]
    assert downgrade(url, first) == first
    assert _shape_of(url) == shapes[first]


ORDERS = Identifier("sales", "orders")


def test_tables_and_partitions_survive_the_way_down_and_up(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url, place = new_database(), str(tmp_path / "lake")
    columns = pa.schema([("dt", pa.string()), ("country", pa.string())])
    sizes = [
        PartitionStatistics({"dt": f"2026-01-0{day}", "country": "é/="}, 10, 100, 1, 1, 2)
        for day in range(1, 4)
    ]
    with closing(SqlCatalog.open(url, warehouse="main", location=place, create=True)) as catalog:
        catalog.databases.create("sales")
        catalog.tables.create(ORDERS, Schema.from_arrow(columns, partition_keys=["dt", "country"]))
        assert catalog.snapshots.commit(ORDERS, None, _first_snapshot(), None, sizes).decided()
        before = catalog.tables.get(ORDERS), catalog.snapshots.latest(ORDERS)
    rows = _partitions(url)
    assert len(rows) == 3
    downgrade(url, "0001")
    upgrade(url)
    assert _partitions(url) == rows
    with closing(SqlCatalog.open(url, warehouse="main", location=place)) as catalog:
        assert (catalog.tables.get(ORDERS), catalog.snapshots.latest(ORDERS)) == before


def test_places_are_claimed_for_what_there_was(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    columns = Schema.from_arrow(pa.schema([("id", pa.int64())]))
    names = {name: Identifier("sales", name) for name in ("kept", "gone", "theirs")}
    with closing(
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    ) as catalog:
        catalog.databases.create("sales")
        for name in ("kept", "gone"):
            catalog.tables.create(names[name], columns)
        theirs = replace(columns, options={"path": str(tmp_path / "theirs")})
        catalog.tables.create(names["theirs"], theirs)
        catalog.tables.drop(names["gone"])
        paths = {name: catalog.tables.get(names[name]).path for name in ("kept", "theirs")}
    before = _claimed(url)
    downgrade(url, "0002")
    assert upgrade(url) == newest()
    # The warehouse is known as soon as it is opened; that of a table that is gone is not.
    assert _claimed(url) == {
        place: (kind, "" if place.endswith("/gone/") else warehouse)
        for place, (kind, warehouse) in before.items()
        if kind != "warehouse"
    }
    with closing(
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    ) as catalog:
        assert {name: catalog.tables.get(names[name]).path for name in paths} == paths
        for inner in (f"{paths['kept']}/x", f"{tmp_path}/lake/sales.db/gone/x"):
            with pytest.raises(Invalid, match="overlaps"):
                catalog.databases.create("more", {"location": inner})
        catalog.databases.drop("sales")
        catalog.databases.create("sales")


def test_places_outside_tables_are_claimed_and_never_deleted(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """Nobody knows any more what was there first."""
    url, ext = new_database(), tmp_path / "ext"
    columns = Schema.from_arrow(pa.schema([("id", pa.int64())]))
    shared = {"data-file.external-paths": f" file://{ext}/a/,file://{ext}/b, nonsense,"}
    index = {"global-index.external-path": f"file:{ext}/a/index"}
    names = {name: Identifier("sales", name) for name in ("one", "two", "three", "theirs")}
    external = {"path": str(tmp_path / "theirs"), **index}
    with closing(
        SqlCatalog.open(
            url,
            warehouse="main",
            location=str(tmp_path / "lake"),
            create=True,
            undrop_millis=1_000_000,
        )
    ) as catalog:
        catalog.databases.create("sales")
        for name in names:
            catalog.tables.create(names[name], columns)
        kept = set(_claimed(url))
        for name in ("one", "two"):
            _set_options(url, catalog.tables.get(names[name]).id, shared)
        _set_options(url, catalog.tables.get(names["theirs"]).id, external)
        catalog.tables.drop(names["two"])
    downgrade(url, "0004")
    assert set(_claimed(url)) == kept
    assert upgrade(url) == newest()
    claims = {place: row for place, row in _claimed(url).items() if place not in kept}
    assert claims == {
        f"file://{ext}/{name}/": ("kept-data", "main") for name in ("a", "b", "a/index")
    }
    (ext / "b").mkdir(parents=True)
    (ext / "b" / "data-1.orc").write_bytes(b"x")
    with closing(
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    ) as catalog:
        other = replace(columns, options={"path": f"{ext}/b/x"})
        with pytest.raises(Invalid, match="overlaps the data files of another table"):
            catalog.tables.create(Identifier("sales", "new"), other)
        catalog.databases.drop("sales")
        catalog.dropped_tables.purge(catalog.dropped_tables.list().items[0].id)
    assert (ext / "b" / "data-1.orc").exists()
    assert not set(_claimed(url)) - kept
    assert current(url) == newest()


def _set_options(url: str, table_id: str, options: dict[str, str]) -> None:
    """Give a table options as if it was made before anybody claimed the places that they name."""
    engine = open_engine(url)
    mine = SchemaRow.table_id == table_id
    try:
        with engine.begin() as connection:
            document = json.loads(
                connection.execute(select(SchemaRow.document).where(mine)).scalar_one()
            )
            document["options"] = options
            connection.execute(update(SchemaRow).where(mine).values(document=json.dumps(document)))
    finally:
        engine.dispose()


def _claimed(url: str) -> dict[str, tuple[str, str]]:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            columns = (PlaceRow.place, PlaceRow.kind, PlaceRow.warehouse)
            return {
                row.place: (row.kind, row.warehouse) for row in connection.execute(select(*columns))
            }
    finally:
        engine.dispose()


def _first_snapshot() -> Snapshot:
    return Snapshot.from_document(
        {
            "version": 3,
            "uuid": "2b0f2d5e-1f43-4a0f-9c5b-0a2f3a8d1c11",
            "id": 1,
            "schemaId": 0,
            "baseManifestList": "manifest-list-0",
            "deltaManifestList": "manifest-list-1",
            "commitUser": "a-user",
            "commitIdentifier": 1,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000,
            "totalRecordCount": 30,
            "deltaRecordCount": 30,
        }
    )


def _partitions(url: str) -> list[Row[str, str, str, int]]:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            columns = (
                PartitionRow.sort_name,
                PartitionRow.spec_key,
                PartitionRow.spec,
                PartitionRow.record_count,
            )
            return list(connection.execute(select(*columns).order_by(PartitionRow.sort_name)))
    finally:
        engine.dispose()


def test_a_downgrade_loses_nothing_unasked(new_database: Callable[[], str]) -> None:
    url = new_database()
    upgrade(url)
    _insert(url, WarehouseRow, name="x", location="/x", options="{}", created_at=1, updated_at=1)
    before = _shape_of(url)
    with pytest.raises(Invalid, match="no place for 1 warehouses; nothing was changed"):
        downgrade(url, "0001")
    assert _shape_of(url) == before
    assert current(url) == newest()
    assert downgrade(url, "0001", discard=True) == "0001"


def test_a_downgrade_by_one_revision_keeps_policies_unless_told(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    upgrade(url)
    table = Identifier("db", "t")
    fields = (DataField(0, "v", AtomicType(Root.INT)),)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        catalog.databases.create("db")
        catalog.tables.create(table, Schema(fields, options={"query-auth.enabled": "true"}))
        catalog.policies.create(table, Policy("ada", ColumnMask("v", '{"name": "NULL"}')))
    with pytest.raises(Invalid, match="no place for 1 policies; nothing was changed"):
        downgrade(url, "0003")
    assert current(url) == newest()
    assert downgrade(url, "0003", discard=True) == "0003"
    upgrade(url)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        assert catalog.policies.list(table).items == ()


def test_a_downgrade_by_one_revision_keeps_labels_unless_told(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    upgrade(url)
    entity = Entity(EntityType.DATABASE, "db")
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        catalog.databases.create("db")
        catalog.labels.set(entity, Label("domain", "sales"))
    with pytest.raises(Invalid, match="no place for 1 labels; nothing was changed"):
        downgrade(url, "0010")
    assert current(url) == newest()
    assert downgrade(url, "0010", discard=True) == "0010"
    upgrade(url)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        assert catalog.labels.list(entity).items == ()


def test_gaps_of_histories_survive_an_earlier_revision(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    upgrade(url)
    table = Identifier("db", "t")
    fields = (DataField(0, "v", AtomicType(Root.INT)),)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        catalog.databases.create("db")
        catalog.tables.create(table, Schema(fields))
        opened = Lake(catalog).table("db.t")
        for number in range(6):
            opened.write({"v": [number]})
    _execute(url, "DELETE FROM hw_snapshots WHERE snapshot_id IN (1, 2, 4)")
    _execute(url, "UPDATE hw_branches SET forgotten_snapshot_id = 4")
    with pytest.raises(Invalid, match="the history of 1 branches for whole"):
        downgrade(url, "0011")
    assert current(url) == newest()
    assert downgrade(url, "0011", discard=True) == "0011"
    upgrade(url)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        assert catalog.snapshots.commits_of(table, "job").since == 5


def test_tokens_keep_what_they_could_do(new_database: Callable[[], str]) -> None:
    url = new_database()
    upgrade(url, "0006")
    _execute(
        url,
        "INSERT INTO hw_tokens (id, name, hash, created_at, may_manage) VALUES "
        "('1', 'plain', 'a', 1, false), ('2', 'manager', 'b', 1, true)",
    )
    upgrade(url)
    with opened_database(url) as database:
        tokens = Tokens(database, SYSTEM_RUNTIME)
        found = {token.name: token.scopes for token in tokens.list()}
        assert found == {
            "plain": {Scope.ADMINISTER},
            "manager": {Scope.ADMINISTER, Scope.MANAGE},
        }
        tokens.create("narrow", warehouses=["main"])
        Groups(database).add("analysts", "narrow")
    with pytest.raises(Invalid, match="1 tokens with limits and 1 memberships"):
        downgrade(url, "0006")
    assert downgrade(url, "0006", discard=True) == "0006"
    upgrade(url)
    with opened_database(url) as database:
        found = {token.name: token.scopes for token in Tokens(database, SYSTEM_RUNTIME).list()}
        # Without its limits a token would have opened more than it was made for.
        assert found == {
            "plain": {Scope.ADMINISTER},
            "manager": {Scope.ADMINISTER, Scope.MANAGE},
        }
        assert Groups(database).list().items == ()


def test_access_keys_are_lost_by_a_downgrade_that_is_told_so(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    upgrade(url)
    keys = OptionKeys({"k1": bytes(32)})
    with opened_database(url) as database:
        tokens = Tokens(database, SYSTEM_RUNTIME, keys)
        tokens.create("plain", scopes=[Scope.ADMINISTER])
        key = tokens.create("signing", scopes=[Scope.ADMINISTER], kind=TokenKind.DLF)
        assert tokens.find_access_key(key.info.access_key_id or "") is not None
    with pytest.raises(Invalid, match="no access keys, of which there are 1; nothing was changed"):
        downgrade(url, "0007")
    assert downgrade(url, "0007", discard=True) == "0007"
    upgrade(url)
    with opened_database(url) as database:
        # Its secret would have been a bearer token there.
        assert [token.name for token in Tokens(database, SYSTEM_RUNTIME).list()] == ["plain"]


def test_the_change_feed_begins_at_the_upgrade(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    upgrade(url)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        catalog.databases.create("before")
    assert downgrade(url, "0008") == "0008"
    upgrade(url)
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path))) as catalog:
        assert catalog.events.read().events == ()
        catalog.databases.create("after")
        (event,) = catalog.events.read().events
    assert (event.offset, event.type.value, event.subject.name) == (1, "createDatabase", "after")


def _execute(url: str, statement: str) -> None:
    engine = open_engine(url)
    try:
        with engine.begin() as connection:
            is_numeric = engine.dialect.name == "sqlite"
            words = (
                {"true": "1", "false": "0"} if is_numeric else {"true": "true", "false": "false"}
            )
            connection.execute(text(statement.format(**words)))
    finally:
        engine.dispose()


def test_a_downgrade_leaves_no_files_of_purged_tables_unasked(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    upgrade(url)
    action = {"warehouse": "main", "table_id": "t", "branch": "main", "number": 0}
    _insert(url, OutboxRow, id=1, action="drop-data", created_at=1, path="file:///x/", **action)
    with pytest.raises(Invalid, match="at 1 places outside their directories; nothing was changed"):
        downgrade(url, "0004")
    assert current(url) == newest()
    assert downgrade(url, "0004", discard=True) == "0004"


def test_a_downgrade_never_passes_over_what_an_earlier_server_would_misread(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    upgrade(url)
    action = {"warehouse": "main", "table_id": "t", "branch": "main", "number": 1, "path": ""}
    _insert(url, OutboxRow, id=1, action="snapshot", created_at=1, **action)
    assert downgrade(url, "0001") == "0001"
    upgrade(url)
    _insert(url, OutboxRow, id=2, action="other", created_at=1, **action)
    with pytest.raises(Invalid, match="storage has yet to follow 1 decisions"):
        downgrade(url, "0001", discard=True)


def _insert(url: str, model: type[Base], **values: object) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(insert(model), values)
    engine.dispose()


@pytest.mark.modes
def test_changes_at_once_wait_for_each_other(new_database: Callable[[], str]) -> None:
    url = new_database()
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(upgrade, [url] * 4)) == {newest()}
        made = _shape_of(url)
        assert len(made) == len(Base.metadata.tables) + 1
        assert set(threads.map(downgrade, [url] * 4, ["0001"] * 4)) == {"0001"}
        assert set(threads.map(upgrade, [url] * 4)) == {newest()}
    assert _shape_of(url) == made


@pytest.mark.modes
@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.modes) for way in ("up", "down")), "made"]
)
def test_a_change_of_tables_that_is_interrupted_is_finished_by_the_next(
    new_database: Callable[[], str], way: str, tmp_path: Path
) -> None:
    """Whichever statement was the last one that the database ran."""
    untouched = new_database()
    upgrade(untouched, "0001" if way == "down" else newest())
    wanted = _shape_of(untouched)

    def change(url: str) -> None:
        match way:
            case "up":
                upgrade(url)
            case "down":
                downgrade(url, "0001")
            case _:
                place = str(tmp_path / "lake")
                SqlCatalog.open(url, warehouse="main", location=place, create=True).close()

    step = 1
    while True:
        url = new_database()
        if way == "down":
            upgrade(url)
        with _interrupted_after(step) as steps, suppress(Interruption):
            change(url)
        if len(steps) < step:
            break
        change(url)
        assert _shape_of(url) == wanted, f"after step {step}: {steps[-1]}"
        step += 13 if step > 2 else 1  # one after the other would take minutes
    assert step > 10


class Interruption(BaseException):
    """As of a process that is killed: nobody handles it."""


@contextmanager
def _interrupted_after(step: int) -> Iterator[list[str]]:
    """Ends everything once the database has run so many statements that change tables."""
    seen: list[str] = []

    def watch(_: object, __: object, statement: str, *rest: object) -> None:
        if statement.lstrip().split(" ", 1)[0] in ("CREATE", "ALTER", "DROP", "INSERT", "UPDATE"):
            seen.append(statement)
            if len(seen) == step:
                raise Interruption

    event.listen(Engine, "after_cursor_execute", watch)
    try:
        yield seen
    finally:
        event.remove(Engine, "after_cursor_execute", watch)


def test_a_database_of_a_newer_version_is_left_alone(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    upgrade(url)
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    engine.dispose()
    for touch in (
        lambda: upgrade(url),
        lambda: downgrade(url, "0001"),
        lambda: SqlCatalog.open(url, warehouse="main", location=str(tmp_path)),
    ):
        with pytest.raises(Invalid, match="revision 9999, made by a newer version of Headwater"):
            touch()
    assert current(url) == "9999"


def test_a_database_of_an_older_version_has_to_be_upgraded(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_database()
    upgrade(url, "0001")
    with pytest.raises(Invalid, match="'headwater db upgrade'"):
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path))


@pytest.mark.parametrize("revision", ["0000", "base", "-1", "head", ""])
def test_a_downgrade_needs_a_revision_that_there_is(tmp_path: Path, revision: str) -> None:
    known = ", ".join(_revisions())
    with pytest.raises(Invalid, match=f"is not a revision; there are {known}"):
        downgrade(f"sqlite:///{tmp_path}/x.db", revision)


@pytest.mark.mariadb
def test_a_mariadb_server_is_not_taken_for_mysql(
    new_mariadb_database: Callable[[], str],
) -> None:
    with pytest.raises(Invalid, match="write its URL as mariadb"):
        upgrade(new_mariadb_database().replace("mariadb:", "mysql:"))


@pytest.mark.mysql
def test_a_mysql_server_is_not_taken_for_mariadb(new_mysql_database: Callable[[], str]) -> None:
    with pytest.raises(Invalid, match="write its URL as mysql"):
        upgrade(new_mysql_database().replace("mysql:", "mariadb:"))


def test_the_tables_can_be_made_on_mysql() -> None:
    for table in Base.metadata.sorted_tables:
        made = str(CreateTable(table).compile(dialect=mysql.dialect()))
        assert made.rstrip().endswith("ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_0900_bin")
