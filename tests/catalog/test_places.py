"""No directory is another's: warehouses, databases and tables by any name, across warehouses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import event
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.open_database import opened_database
from headwater.migrations import upgrade
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

ORDERS = Identifier("sales", "orders")
SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))


@pytest.fixture
def database(migrated_url: str) -> Iterator[SqlDatabase]:
    with opened_database(migrated_url) as opened:
        yield opened


@pytest.fixture
def warehouses(database: SqlDatabase) -> Warehouses:
    return Warehouses(database, SYSTEM_RUNTIME)


@pytest.fixture
def catalog(database: SqlDatabase, warehouses: Warehouses, tmp_path: Path) -> SqlCatalog:
    """A warehouse ``main`` with a table."""
    return _open(database, warehouses, "main", tmp_path / "lake")


def _open(
    database: SqlDatabase, warehouses: Warehouses, name: str, place: Path, undrop: int = 0
) -> SqlCatalog:
    warehouses.claim({name: str(place)})
    catalog = SqlCatalog.on(database, warehouse=name, location=str(place), undrop_millis=undrop)
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, SCHEMA)
    return catalog


def _external(path: Path | str) -> Schema:
    return replace(SCHEMA, options={"path": str(path)})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _other_names(folder: Path, tmp_path: Path) -> list[str]:
    link = tmp_path / "a-link"
    link.symlink_to(folder.parent)
    return [
        str(folder),
        f"{folder}/",
        f"file:{folder}",
        f"FILE://{folder}",
        f"{folder.parent}/./{folder.name}",
        f"{link}/{folder.name}",
    ]


def test_a_database_lies_in_no_table_and_no_database(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = tmp_path / "lake" / "sales.db" / "orders"
    before = _files(table)
    inner = [table / "more", table / "branch" / "branch-b", tmp_path / "lake" / "sales.db" / "x"]
    for place in [*_other_names(table, tmp_path), *map(str, inner)]:
        with pytest.raises(Invalid, match=r"database more: .* overlaps the place of"):
            catalog.databases.create("more", {"location": place})
    catalog.databases.drop("sales")
    assert before
    assert not _files(table)
    # Where a table was, its deletion may come again.
    with pytest.raises(Invalid, match="overlaps the place of another table"):
        catalog.databases.create("more", {"location": str(table)})
    catalog.databases.create("sales")


def test_a_database_lies_around_no_other(catalog: SqlCatalog, tmp_path: Path) -> None:
    deep = tmp_path / "lake" / "a" / "b"
    catalog.databases.create("deep", {"location": str(deep)})
    with pytest.raises(Invalid, match="overlaps the place of a database"):
        catalog.databases.create("around", {"location": str(deep.parent)})
    catalog.databases.drop("deep")
    catalog.databases.create("around", {"location": str(deep.parent)})


def test_a_database_that_a_link_leads_out_of_the_warehouse_is_refused(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="outside the warehouse"):
        catalog.databases.create("more", {"location": str(tmp_path / "lake" / "link")})


def test_a_table_never_lies_around_a_database(catalog: SqlCatalog, tmp_path: Path) -> None:
    """Dropping the one would delete the other: renaming has moved a name, not the files."""
    catalog.databases.create("more", {"location": str(tmp_path / "lake" / "deep" / "orders" / "x")})
    more = Identifier("more", "items")
    catalog.tables.create(more, SCHEMA)
    with pytest.raises(Invalid, match="overlaps the place of a database"):
        catalog.databases.create("deep", {"location": str(tmp_path / "lake" / "deep")})
    catalog.tables.rename(ORDERS, Identifier("more", "orders"))
    catalog.tables.create(ORDERS, SCHEMA)
    catalog.tables.drop(ORDERS)
    assert _files(tmp_path / "lake" / "sales.db" / "orders")
    assert catalog.tables.get(Identifier("more", "orders")).path.endswith("sales.db/orders")


def test_an_external_table_lies_in_no_warehouse(
    catalog: SqlCatalog, database: SqlDatabase, warehouses: Warehouses, tmp_path: Path
) -> None:
    other = _open(database, warehouses, "other", tmp_path / "others" / "pond")
    table = tmp_path / "others" / "pond" / "sales.db" / "orders"
    name = Identifier("sales", "theirs")
    for place in [*_other_names(table, tmp_path), str(table / "x"), str(tmp_path / "others")]:
        with pytest.raises(Invalid, match=r"overlap"):
            catalog.tables.create(name, _external(place))
        with pytest.raises(Invalid, match=r"overlap"):
            catalog.tables.register(name, place)
    for place in _other_names(tmp_path / "lake" / "sales.db" / "new", tmp_path / "others"):
        with pytest.raises(Invalid, match="must not overlap the warehouse"):
            catalog.tables.create(name, _external(place))
    assert list(catalog.tables.list("sales").items) == ["orders"]
    other.tables.drop(ORDERS)
    # The warehouse is there, although nothing is in it any more.
    with pytest.raises(Invalid, match="overlaps"):
        catalog.tables.create(name, _external(table.parent / "new"))


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("s3://lake/x", "s3a://Lake/x/", False),
        ("s3://lake/x", "S3A://LAKE/x/y", True),
        ("s3a://lake//x/y", "s3://lake/x", True),
        ("s3://lake/x", "s3://lake/xy", False),
    ],
)
def test_external_tables_share_files_or_are_apart(
    catalog: SqlCatalog, first: str, second: str, is_refused: bool
) -> None:
    """Removing the orphan files of the one would delete the other."""
    one, two = Identifier("sales", "one"), Identifier("sales", "two")
    apart = SqlCatalog.on(
        catalog.operation.database,
        warehouse="main",
        location=catalog.location,
        external_locations=(),
    )
    apart.tables.create(one, _external(first))
    if not is_refused:
        apart.tables.create(two, _external(second))
        apart.tables.drop(one)
        apart.tables.create(one, _external(first))
        return
    with pytest.raises(Invalid, match="overlaps the place of an external table"):
        apart.tables.create(two, _external(second))
    apart.tables.drop(one)
    apart.tables.create(two, _external(second))


def test_a_dropped_table_keeps_its_place_while_it_can_be_restored(
    database: SqlDatabase, warehouses: Warehouses, tmp_path: Path
) -> None:
    catalog = _open(database, warehouses, "main", tmp_path / "lake", undrop=60_000)
    theirs = Identifier("sales", "theirs")
    catalog.tables.create(theirs, _external(tmp_path / "elsewhere"))
    before = {name: catalog.tables.get(name) for name in (ORDERS, theirs)}
    catalog.databases.drop("sales")
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, SCHEMA)
    with pytest.raises(Invalid, match="overlaps"):
        catalog.tables.create(theirs, _external(tmp_path / "elsewhere" / "x"))
    catalog.tables.drop(ORDERS)
    for name, info in before.items():
        catalog.dropped_tables.restore(info.id, name)
        assert catalog.tables.get(name).path == info.path
    catalog.tables.drop(theirs)
    catalog.dropped_tables.purge(before[theirs].id)
    catalog.tables.create(theirs, _external(tmp_path / "elsewhere" / "x"))


@pytest.mark.parametrize("place", ["lake", "lake/x", ".", "link", "link/sales.db"])
def test_no_warehouse_is_added_over_one_that_a_server_was_started_with(
    catalog: SqlCatalog, warehouses: Warehouses, tmp_path: Path, place: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    assert catalog.databases.list().items
    with pytest.raises(Invalid, match=r"warehouse 'pond': .* overlaps"):
        warehouses.add("pond", str(tmp_path / place), {})
    assert list(warehouses.list().items) == []


def test_a_warehouse_is_added_over_no_external_table(
    catalog: SqlCatalog, warehouses: Warehouses, tmp_path: Path
) -> None:
    catalog.tables.create(Identifier("sales", "theirs"), _external(tmp_path / "pond" / "t"))
    for add in (warehouses.add, lambda name, at, _: warehouses.claim({name: at})):
        with pytest.raises(Invalid, match="overlaps the place of an external table"):
            add("pond", str(tmp_path / "pond"), {})


def test_a_warehouse_that_holds_nothing_gives_way_when_a_server_starts(
    database: SqlDatabase, warehouses: Warehouses, tmp_path: Path
) -> None:
    """Such as the one of a first try with another name."""
    warehouses.claim({"main": str(tmp_path / "lake")})
    warehouses.claim({"sales": str(tmp_path / "lake")})
    catalog = SqlCatalog.on(database, warehouse="sales", location=str(tmp_path / "lake"))
    catalog.databases.create("sales")
    with pytest.raises(Invalid, match=r"warehouse 'main': .* overlaps"):
        warehouses.claim({"main": str(tmp_path / "lake")})
    # It may be moved by whoever starts the server.
    warehouses.claim({"sales": str(tmp_path / "pond")})
    warehouses.claim({"sales": str(tmp_path / "lake")})


def test_a_warehouse_that_is_removed_leaves_no_claims(
    database: SqlDatabase, warehouses: Warehouses, tmp_path: Path
) -> None:
    place = tmp_path / "lake"
    warehouses.add("lake", str(place), {})
    catalog = SqlCatalog.on(database, warehouse="lake", location=str(place), is_managed=True)
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, SCHEMA)
    catalog.databases.drop("sales")
    warehouses.remove("lake")
    warehouses.add("pond", str(place / "sales.db" / "orders"), {})
    # So does one that a server was started with, where it is not used any more.
    warehouses.claim({"main": str(tmp_path / "main")})
    warehouses.remove("main")
    warehouses.add("other", str(tmp_path / "main" / "x"), {})


def test_places_longer_than_an_index_are_told_apart(catalog: SqlCatalog, tmp_path: Path) -> None:
    deep = "/".join(["x" * 200] * 3)
    apart = SqlCatalog.on(
        catalog.operation.database,
        warehouse="main",
        location=catalog.location,
        external_locations=(),
    )
    apart.tables.create(Identifier("sales", "one"), _external(f"s3://b/{deep}/y"))
    apart.tables.create(Identifier("sales", "two"), _external(f"s3://b/{deep}/z"))
    # In the index these are all the same.
    for name in "abcdefgh":
        apart.tables.create(Identifier("sales", name), _external(f"s3://b/{deep}/{name}"))
    apart.tables.create(Identifier("sales", "below"), _external(f"s3://b/{deep}/w/1"))
    for place in (f"s3://b/{deep}", f"s3://b/{deep}/y/1", f"s3://b/{deep}/w", "s3://b"):
        with pytest.raises(Invalid, match="overlaps the place of an external table"):
            apart.tables.create(Identifier("sales", "three"), _external(place))


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_the_check_asks_the_same_whatever_there_is(catalog: SqlCatalog, tmp_path: Path) -> None:
    def statements(work: Callable[[], object]) -> int:
        seen: list[str] = []
        engine = catalog.operation.database.engine

        def watch(_: object, __: object, statement: str, *rest: object) -> None:
            seen.append(statement)

        event.listen(engine, "before_cursor_execute", watch)
        try:
            work()
        finally:
            event.remove(engine, "before_cursor_execute", watch)
        return len(seen)

    def create(number: int) -> int:
        name = Identifier("sales", f"t{number}")
        return statements(lambda: catalog.tables.create(name, SCHEMA))

    first = create(0)
    for number in range(1, 20):
        assert create(number) == first


@pytest.mark.postgresql
def test_no_statement_about_places_is_compiled_before_it_is_run(
    new_postgresql_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    with opened_database(url) as database:
        statements: list[tuple[str, Mapping[str, object]]] = []
        event.listen(
            database.engine,
            "before_cursor_execute",
            lambda _connection, _cursor, text, parameters, *_: statements.append(
                (text, parameters)
            ),
        )
        catalog = _open(database, Warehouses(database, SYSTEM_RUNTIME), "main", tmp_path / "lake")
        catalog.tables.create(Identifier("sales", "others"), _external(tmp_path / "others"))
        # Those with numbered parameters are commits', which name no places.
        run = [each for each in statements if each[0].startswith("SELECT") and "$1" not in each[0]]
        assert any("FOR UPDATE" in text for text, _ in run)
        with database.engine.connect() as connection:
            for text, parameters in run:
                plan = connection.exec_driver_sql(f"EXPLAIN ANALYZE {text}", parameters)
                assert "JIT" not in "\n".join(plan.scalars()), text
