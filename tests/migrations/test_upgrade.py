"""The migrations make the tables that the catalog works with, from every revision."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.engine import open_engine
from headwater.catalog.sql.models import REVISION, VERSION_TABLE, Base
from headwater.migrations import current, newest, upgrade
from headwater.storage.errors import Invalid

VERSIONS = Path(__file__).parents[2] / "migrations" / "headwater" / "migrations" / "versions"


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    if request.param == "sqlite":
        names = iter(range(10))
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


def test_an_upgrade_is_repeatable_and_reaches_the_newest_from_every_revision(
    new_database: Callable[[], str],
) -> None:
    revisions = sorted(
        match[1]
        for path in VERSIONS.glob("*.py")
        if (match := re.search(r'^revision = "(\w+)"', path.read_text(), re.MULTILINE))
    )
    assert revisions[-1] == newest()
    for revision in revisions:
        url = new_database()
        assert upgrade(url, revision) == revision
        assert upgrade(url) == newest()
        assert upgrade(url) == newest()


def test_an_unusable_url_is_refused() -> None:
    with pytest.raises(Invalid):
        upgrade("nonsense")
