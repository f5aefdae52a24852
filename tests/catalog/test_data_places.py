"""Files of tables outside their directories go with the table, and nothing else does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from sqlalchemy import update
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import DroppedTableRow
from headwater.catalog.sql.database.open_database import opened_database
from headwater.storage.errors import HeadwaterError, Invalid, OutcomeUnknown, Unavailable
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.files.s3 import S3FileAccess
from headwater.storage.schema.change import RemoveOption, SetOption
from headwater.storage.schema.table_schema import Schema, TableSchema

DATA = "data-file.external-paths"
INDEX = "global-index.external-path"
WEEK = 7 * 24 * 3600 * 1000
ONE, TWO = Identifier("sales", "one"), Identifier("sales", "two")
SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64()), ("dt", pa.string())]))


@pytest.fixture
def database(migrated_url: str) -> Iterator[SqlDatabase]:
    with opened_database(migrated_url) as opened:
        yield opened


@pytest.fixture
def open_catalog(database: SqlDatabase, tmp_path: Path) -> Callable[..., SqlCatalog]:
    def opened(undrop: int = 0, external_locations: tuple[str, ...] | None = None) -> SqlCatalog:
        catalog = SqlCatalog.on(
            database,
            warehouse="main",
            location=str(tmp_path / "lake"),
            undrop_millis=undrop,
            external_locations=external_locations,
        )
        catalog.databases.create("sales", ignore_if_exists=True)
        return catalog

    return opened


@pytest.fixture
def catalog(open_catalog: Callable[..., SqlCatalog]) -> SqlCatalog:
    """A warehouse that deletes a dropped table at once, and may work everywhere."""
    return open_catalog()


def _schema(*data: Path, index: Path | None = None) -> Schema:
    options = {DATA: " , ".join(f"file://{place}" for place in data)}
    if index is not None:
        options[INDEX] = f"file:{index}/"
    return replace(SCHEMA, options={key: value for key, value in options.items() if value})


def _write(*places: Path) -> None:
    """Files as Paimon lays them out: no folder of the table's own is between."""
    for place in places:
        for name in (
            "dt=2026-01-01/bucket-0/data-1.orc",
            "bucket-0/0010/1001/data-2.orc",
            "index-3",
        ):
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x")


def _count(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def test_the_files_go_with_the_table(catalog: SqlCatalog, tmp_path: Path) -> None:
    """As Paimon's own test has it: with empty folders there already, and no strategy."""
    places = [tmp_path / "ext" / name for name in ("a", "b", "index")]
    (places[0] / "data").mkdir(parents=True)
    catalog.tables.create(ONE, _schema(*places[:2], index=places[2]))
    _write(*places)
    catalog.tables.drop(ONE)
    assert [place.exists() for place in places] == [False] * 3
    assert (tmp_path / "ext").exists()
    # The places can be used again at once.
    catalog.tables.create(ONE, _schema(*places[:2], index=places[2]))


def test_many_files_go(catalog: SqlCatalog, tmp_path: Path) -> None:
    """More than are listed at once."""
    place = tmp_path / "ext"
    catalog.tables.create(ONE, _schema(place))
    for bucket in range(3):
        (place / f"bucket-{bucket}").mkdir(parents=True)
        for number in range(700):
            (place / f"bucket-{bucket}" / f"data-{number}.orc").touch()
    catalog.tables.drop(ONE)
    assert not place.exists()


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_the_files_go_from_an_object_store(
    database: SqlDatabase, s3_endpoint: str, tmp_path: Path
) -> None:
    options = {"s3.endpoint": s3_endpoint, "s3.access-key": "test", "s3.secret-key": "test"}
    catalog = SqlCatalog.on(
        database,
        warehouse="main",
        location="s3a://lake/warehouse",
        storage_options=options,
        external_locations=("s3://lake/ext",),
    )
    files = S3FileAccess(options)
    catalog.databases.create("sales")
    data = {DATA: "s3://lake/ext/one,s3://lake/elsewhere", INDEX: "S3A://lake/ext/index/"}
    catalog.tables.create(ONE, replace(SCHEMA, options=data))
    for place in ("ext/one", "elsewhere", "ext/index", "ext/one-more"):
        for number in range(5):
            files.write(f"s3://lake/{place}/bucket-0/data-{number}.orc", b"x")
    catalog.tables.drop(ONE)
    left = {place: len(list(files.walk(f"s3://lake/{place}"))) for place in ("ext", "elsewhere")}
    assert left == {"ext": 5, "elsewhere": 5}


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_dropped_table_keeps_them_until_it_is_purged(
    open_catalog: Callable[..., SqlCatalog], database: SqlDatabase, tmp_path: Path
) -> None:
    catalog = open_catalog(undrop=WEEK)
    place = tmp_path / "ext"
    catalog.tables.create(ONE, _schema(place))
    _write(place)
    purges: list[Callable[[str], None]] = [
        lambda table: catalog.dropped_tables.purge(table),
        lambda _: _sweep_all(catalog, database),
    ]
    for purge in purges:
        table_id = catalog.tables.get(ONE).id
        catalog.tables.drop(ONE)
        with pytest.raises(Invalid, match="data files of another table, which may be dropped"):
            catalog.tables.create(TWO, _schema(place))
        assert _count(place) == 3
        catalog.dropped_tables.restore(table_id)
        assert catalog.tables.get(ONE).schema.options[DATA] == f"file://{place}"
        catalog.databases.drop("sales")
        assert _count(place) == 3
        purge(table_id)
        assert not place.exists()
        catalog.databases.create("sales")
        catalog.tables.create(ONE, _schema(place))
        _write(place)


def _sweep_all(catalog: SqlCatalog, database: SqlDatabase) -> None:
    past = update(DroppedTableRow).values(dropped_at=0)
    database.write(lambda connection: connection.execute(past))
    assert catalog.operation.sweep().purged == 1


def test_tables_in_folders_below_one_root_are_apart(catalog: SqlCatalog, tmp_path: Path) -> None:
    root = tmp_path / "ext"
    catalog.tables.create(ONE, _schema(root / "one"))
    catalog.tables.create(TWO, _schema(root / "two", index=root / "oneself"))
    _write(root / "one", root / "two", root / "oneself", root / "others")
    catalog.tables.drop(ONE)
    left = {name: _count(root / name) for name in ("one", "two", "oneself", "others")}
    assert left == {"one": 0, "two": 3, "oneself": 3, "others": 3}


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
@pytest.mark.parametrize("place", ["ext/a", "ext/a/b", "ext", "link/a", "ext//./a/"])
def test_no_place_is_another_tables_too(catalog: SqlCatalog, tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ext")
    catalog.tables.create(ONE, _schema(tmp_path / "ext" / "a"))
    wanted = _schema(Path(f"{tmp_path}/{place}"))
    said = rf"table sales.two: option '{DATA}': file://.* overlaps the data files of another table"
    with pytest.raises(Invalid, match=said):
        catalog.tables.create(TWO, wanted)
    assert list(catalog.tables.list("sales").items) == ["one"]
    catalog.tables.create(TWO, SCHEMA)
    changes: list[Callable[[], None]] = [
        lambda: catalog.tables.alter(TWO, [SetOption(DATA, f"file://{tmp_path}/{place}")]),
        lambda: catalog.tables.alter(TWO, [SetOption(INDEX, f"file://{tmp_path}/{place}")]),
        lambda: catalog.tables.replace(TWO, wanted),
    ]
    for change in changes:
        with pytest.raises(Invalid, match="overlaps the data files of another table"):
            change()
    external = {"path": f"{tmp_path}/{place}"}
    with pytest.raises(Invalid, match="overlaps the data files of another table"):
        catalog.tables.create(Identifier("sales", "three"), replace(SCHEMA, options=external))
    catalog.tables.drop(ONE)
    catalog.tables.alter(TWO, [SetOption(DATA, f"file://{tmp_path}/{place}")])


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_place_lies_in_no_table_database_or_other_warehouse(
    catalog: SqlCatalog, database: SqlDatabase, tmp_path: Path
) -> None:
    catalog.tables.create(ONE, SCHEMA)
    theirs = Identifier("sales", "theirs")
    catalog.tables.create(theirs, replace(SCHEMA, options={"path": f"{tmp_path}/theirs"}))
    home = tmp_path / "lake" / "sales.db"
    inner = [home / "one", home / "one" / "ext", home, home / "new", tmp_path / "lake", tmp_path]
    for place in [*inner, tmp_path / "theirs" / "ext"]:
        with pytest.raises(Invalid, match="overlaps"):
            catalog.tables.create(TWO, _schema(place))
    # Its own directory takes it along, and the warehouse has room beside its databases.
    catalog.tables.alter(ONE, [SetOption(DATA, f"file://{home}/one/ext")])
    beside = tmp_path / "lake" / "ext"
    catalog.tables.create(TWO, _schema(beside))
    with pytest.raises(Invalid, match="overlaps the data files of another table"):
        catalog.databases.create("more", {"location": str(beside / "more")})
    _write(home / "one" / "ext", beside)
    catalog.databases.drop("sales")
    assert not beside.exists()
    left = [path.name for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert left == [WAREHOUSE_MARKER]


def test_what_was_there_before_the_table_stays(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "ext"
    _write(place)
    catalog.tables.create(ONE, _schema(place))
    table_id = catalog.tables.get(ONE).id
    # Nothing is deleted of the one or the other, so they may share it.
    catalog.tables.create(TWO, _schema(place))
    with caplog.at_level(logging.WARNING):
        catalog.databases.drop("sales")
    assert _count(place) == 3
    assert f"table {table_id} is deleted, but its files at file://{place} are left" in caplog.text
    assert catalog.operation.backlog().decisions == 0


@pytest.mark.parametrize("is_taken_away", [False, True])
def test_nothing_is_deleted_where_the_server_may_not_work(
    open_catalog: Callable[..., SqlCatalog],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    is_taken_away: bool,
) -> None:
    place = tmp_path / "ext"
    before = open_catalog(external_locations=(str(tmp_path / "ext"),) if is_taken_away else ())
    before.tables.create(ONE, _schema(place))
    _write(place)
    open_catalog(external_locations=(str(tmp_path / "ext" / "deeper"),)).tables.drop(ONE)
    assert _count(place) == 3
    assert "are left" in caplog.text


def test_an_external_tables_files_stay(catalog: SqlCatalog, tmp_path: Path) -> None:
    options = {"path": f"{tmp_path}/theirs", DATA: f"file://{tmp_path}/ext"}
    catalog.tables.create(ONE, replace(SCHEMA, options=options))
    catalog.tables.alter(ONE, [SetOption(INDEX, f"file://{tmp_path}/index")])
    _write(tmp_path / "ext", tmp_path / "index")
    for place in ("ext", "index"):
        with pytest.raises(Invalid, match="overlaps"):
            catalog.tables.create(TWO, replace(SCHEMA, options={"path": f"{tmp_path}/{place}/x"}))
    catalog.tables.drop(ONE)
    assert _count(tmp_path / "ext") == _count(tmp_path / "index") == 3
    catalog.tables.create(TWO, _schema(tmp_path / "index" / "x"))


def test_a_place_that_another_engine_named_for_its_table_stays(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "ext"
    catalog.tables.create(ONE, _schema(place))
    catalog.tables.create(TWO, replace(SCHEMA, options={"path": f"{tmp_path}/theirs"}))
    _write(place)
    found = catalog.tables.get(TWO).schema
    options = {**found.options, DATA: f"file://{place}/bucket-0, not-a-place"}
    later = TableSchema.from_json(replace(found, id=1, options=options).to_json(), "schema-1")
    (tmp_path / "theirs" / "schema" / "schema-1").write_text(later.to_json())
    assert catalog.tables.get(TWO).schema.id == 1
    catalog.tables.drop(ONE)
    assert _count(place) == 3
    assert f"claims file://{place}/bucket-0, too" in caplog.text


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_every_place_that_was_ever_named_goes(catalog: SqlCatalog, tmp_path: Path) -> None:
    """Whatever the newest schema says, files of earlier snapshots and other branches lie there."""
    names = ("first", "second", "branch", "replaced")
    catalog.tables.create(ONE, _schema(tmp_path / "first"))
    catalog.tables.alter(ONE, [SetOption(DATA, f"file://{tmp_path}/second")])
    catalog.tables.alter(ONE, [RemoveOption(DATA)])
    # It is the table's own still.
    catalog.tables.alter(ONE, [SetOption(DATA, f"file://{tmp_path}/first/inner")])
    catalog.branches.create(ONE, "b")
    on_branch = Identifier("sales", "one$branch_b")
    catalog.tables.alter(on_branch, [SetOption(INDEX, f"file://{tmp_path}/branch")])
    catalog.tables.replace(ONE, _schema(tmp_path / "replaced"))
    _write(*(tmp_path / name for name in names))
    catalog.tables.drop(ONE)
    assert [(tmp_path / name).exists() for name in names] == [False] * 4


def test_a_table_that_is_registered_claims_what_it_names(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, home = tmp_path / "ext", tmp_path / "lake" / "sales.db"
    catalog.tables.create(ONE, _schema(place))
    (home / "found" / "schema").mkdir(parents=True)
    document = (home / "one" / "schema" / "schema-0").read_bytes()
    (home / "found" / "schema" / "schema-0").write_bytes(document)
    with pytest.raises(Invalid, match="overlaps the data files of another table"):
        catalog.tables.register(TWO, str(home / "found"))
    catalog.tables.drop(ONE)
    _write(place)
    catalog.tables.register(TWO, str(home / "found"))
    with pytest.raises(Invalid, match="overlaps"):
        catalog.tables.create(ONE, replace(SCHEMA, options={"path": str(place)}))
    catalog.tables.drop(TWO)
    # It had files, and nobody knows whose.
    assert _count(place) == 3
    assert "are left" in caplog.text


@pytest.mark.parametrize("text", ["ext", "../ext", "file://host/ext"])
def test_a_place_has_to_be_one(catalog: SqlCatalog, text: str) -> None:
    with pytest.raises(Invalid):
        catalog.tables.create(ONE, replace(SCHEMA, options={DATA: f"file:///x/y,{text}"}))
    catalog.tables.create(ONE, SCHEMA)
    with pytest.raises(Invalid):
        catalog.tables.alter(ONE, [SetOption(INDEX, text)])


def test_a_place_is_claimed_once_by_many_at_once(
    open_catalog: Callable[..., SqlCatalog], tmp_path: Path
) -> None:
    catalogs = [open_catalog() for _ in range(4)]
    start = Barrier(len(catalogs))

    def create(number: int) -> object:
        start.wait()
        try:
            catalogs[number].tables.create(
                Identifier("sales", f"t{number}"), _schema(tmp_path / "ext" / ("a" * number))
            )
        except HeadwaterError as error:
            return error
        return None

    with ThreadPoolExecutor(len(catalogs)) as pool:
        outcomes = list(pool.map(create, [0, 0, 1, 2]))
    assert outcomes.count(None) >= 1
    assert len(catalogs[0].tables.list("sales").items) == outcomes.count(None)


class _NothingDeleted(LocalFileAccess):
    """Storage that does not answer for now."""

    def delete_tree(self, directory: str) -> None:
        raise Unavailable(f"no answer about {directory}")


def test_what_is_deleted_late_is_not_the_next_tables(
    catalog: SqlCatalog, database: SqlDatabase, tmp_path: Path
) -> None:
    """Two servers delete at once: the later one finds the place given back."""
    place = tmp_path / "ext"
    catalog.tables.create(ONE, _schema(place))
    _write(place)
    failing = SqlCatalog.on(
        database, warehouse="main", location=catalog.location, files=_NothingDeleted()
    )
    with pytest.raises(OutcomeUnknown, match="storage has yet to follow"):
        failing.tables.drop(ONE)
    with pytest.raises(Invalid, match="overlaps"):
        catalog.tables.create(TWO, _schema(place))
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: catalog.operation.sweep().repaired, range(4)))
    assert not any(report.failures for report in reports)
    assert not place.exists()
    catalog.tables.create(TWO, _schema(place))
    _write(place)
    assert catalog.operation.sweep().repaired.settled == 0
    assert _count(place) == 3
